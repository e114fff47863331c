package git

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// A bundle contains this part of a repository's history: the commits of the workspace and of its base down to where all of them meet, so
// that merge-base, the log of the branch and a rebase onto the base give the same results in the sandbox as on the server. Below that the
// history is shallow.

// maxDepth is how many commits further down a bundle may go for branches, its own or merged ones, that left the base before the workspace's
// did. Older ones are sent too, but their history is cut where it meets commits that are not sent.
const maxDepth = 500

// History is a part of a repository's history.
type History struct {
	Tips    []string // its tips: commits, tags, and blobs that only an index refers to
	Shallow []string // its shallow commits: their parents are not included
}

// CutHistory determines which part of the history the commits main need, and includes others with it.
func (s *Repo) CutHistory(ctx context.Context, p workspaces.Project, main, others []string) (History, error) {
	main, others = Unique(main), Unique(others)
	floor, err := s.Meet(ctx, p, main)
	if err != nil {
		return History{}, err
	}
	h := History{Tips: Unique(slices.Concat(main, others, floor))}
	least, err := s.countBetween(ctx, p, h.Tips, floor)
	if err != nil {
		return History{}, err
	}
	for low := slices.Concat(main, others); ; { // first the workspace's own, then those cut off elsewhere than at the floor
		if h.Shallow, err = s.Boundary(ctx, p, h.Tips, floor); err != nil || len(floor) == 0 {
			return h, err
		}
		lower, err := s.Meet(ctx, p, Unique(slices.Concat(low, floor, h.Shallow)))
		if err != nil || len(lower) == 0 || slices.Equal(Unique(lower), Unique(floor)) {
			return h, err
		}
		n, err := s.countBetween(ctx, p, h.Tips, lower)
		if err != nil {
			return h, err
		}
		if n > least+maxDepth {
			return h, nil
		}
		floor, low = lower, nil
		h.Tips = Unique(slices.Concat(h.Tips, floor))
	}
}

// Meet returns the merge base of all commits, none if there is none.
func (s *Repo) Meet(ctx context.Context, p workspaces.Project, commits []string) ([]string, error) {
	if len(commits) == 1 {
		return commits, nil
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: append([]string{"merge-base", "--octopus", "--all"}, commits...)})
	if hostgit.ExitCode(err) == 1 {
		return nil, nil
	}
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing the workspace's branches")
	}
	return strings.Fields(out), nil
}

// countBetween counts the commits that from has and to lacks.
func (s *Repo) countBetween(ctx context.Context, p workspaces.Project, from, to []string) (int, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: Revs(from, to), Args: []string{"rev-list", "--count", "--stdin"}})
	if err != nil {
		return 0, GitFault(err, fault.Unavailable, "repository_unreadable", "Counting commits")
	}
	return strconv.Atoi(out)
}

// Revs is the input of rev-list --stdin for these without those.
func Revs(these, not []string) *strings.Reader {
	var b strings.Builder
	for _, id := range these {
		b.WriteString(id + "\n")
	}
	for _, id := range not {
		b.WriteString("^" + id + "\n")
	}
	return strings.NewReader(b.String())
}

// Boundary returns the shallow commits for a history of tips above floor: the floor, parents of commits above it, and the repository's own
// shallow commits.
func (s *Repo) Boundary(ctx context.Context, p workspaces.Project, tips, floor []string) (shallow []string, err error) {
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: Revs(tips, floor), Max: 256 << 20, Args: []string{"rev-list", "--boundary", "--stdin"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the history")
	}
	own := s.OwnShallow(p)
	for l := range strings.Lines(string(out)) {
		l = strings.TrimSpace(l)
		if id, ok := strings.CutPrefix(l, "-"); ok {
			shallow = append(shallow, id)
		} else if own[l] {
			shallow = append(shallow, l)
		}
	}
	return Unique(append(shallow, floor...)), nil
}

// OwnShallow are the shallow commits of the repository itself.
func (s *Repo) OwnShallow(p workspaces.Project) map[string]bool {
	cut := make(map[string]bool)
	b, err := os.ReadFile(filepath.Join(p.GitDir, "shallow"))
	if err != nil {
		return cut
	}
	for id := range strings.FieldsSeq(string(b)) {
		cut[id] = true
	}
	return cut
}

// Unique returns the list sorted and without repeats.
func Unique(ids []string) []string {
	ids = slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return id == "" })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// PackHistory writes packs with their indexes into dir. have are commits the receiver has: objects of their trees are left out.
func (s *Repo) PackHistory(ctx context.Context, p workspaces.Project, dir string, h History, have []string, say func(done, all int64)) error {
	var ask strings.Builder
	for _, id := range Unique(append(slices.Clone(have), h.Shallow...)) { // the receiver may lack ancestors of what it has
		ask.WriteString("--shallow " + id + "\n")
	}
	for _, id := range Unique(append(slices.Clone(h.Tips), h.Shallow...)) {
		ask.WriteString(id + "\n")
	}
	if len(have) > 0 {
		ask.WriteString("--not\n" + strings.Join(Unique(have), "\n") + "\n")
	}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(ask.String()), Timeout: s.cfg.StepTimeout, Passing: true,
		Config:   []string{"pack.packSizeLimit=0", "pack.island=", "core.compression=1"},
		Args:     []string{"pack-objects", "--revs", "--delta-base-offset", "--no-use-bitmap-index", "--progress", filepath.Join(dir, "pack")},
		Progress: func(line string) { SayPercent(line, say) }})
	return GitFault(err, fault.Unavailable, "bundle_failed", "Packing the repository")
}

// counted is git's progress, such as "Compressing objects:  12% (1200/10000)".
var counted = regexp.MustCompile(`^(Compressing|Writing) objects: .*\((\d+)/(\d+)\)`)

// SayPercent calls say with the two numbers of a line of git's progress: done, of all.
func SayPercent(line string, say func(done, all int64)) {
	if m := counted.FindStringSubmatch(line); m != nil && say != nil {
		done, _ := strconv.ParseInt(m[2], 10, 64)
		all, _ := strconv.ParseInt(m[3], 10, 64)
		say(done, all)
	}
}

// Typed returns which of the named objects exist, and their types.
func (s *Repo) Typed(ctx context.Context, p workspaces.Project, ids []string) (map[string]string, error) {
	types := make(map[string]string)
	if len(ids) == 0 {
		return types, nil
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Stdin: strings.NewReader(strings.Join(ids, "\n") + "\n"), Args: []string{"cat-file", "--batch-check=%(objectname) %(objecttype)"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the repository")
	}
	for l := range strings.Lines(out) {
		if id, kind, ok := strings.Cut(strings.TrimSpace(l), " "); ok && kind != "missing" {
			types[id] = kind
		}
	}
	return types, nil
}

var objectName = regexp.MustCompile(`\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b`)

// Bounds of reading an operation in progress.
const (
	MaxOperationFile = 1 << 20
	maxOperationTips = 2_000
)

// OperationTips are the commits that a merge, a rebase or the like in progress names in a git dir, besides its refs.
func (s *Repo) OperationTips(ctx context.Context, p workspaces.Project, gitDir string) ([]string, error) {
	found := make(map[string]bool)
	root, err := os.OpenRoot(gitDir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (name == "objects" || name == "logs" || name == "info") {
			return fs.SkipDir
		}
		if fi, err := d.Info(); err != nil || !fi.Mode().IsRegular() || fi.Size() > MaxOperationFile || name == "packed-refs" || name == "config" || name == "shallow" {
			return err
		}
		b, err := root.ReadFile(name)
		for _, id := range objectName.FindAllString(string(b), maxOperationTips) {
			found[id] = true
		}
		return err
	})
	if err != nil || len(found) == 0 || len(found) > maxOperationTips {
		return nil, err
	}
	types, err := s.Typed(ctx, p, slices.Sorted(maps.Keys(found)))
	maps.DeleteFunc(types, func(_, kind string) bool { return kind != "commit" })
	return slices.Sorted(maps.Keys(types)), err
}

// Peeled returns the commits that names refer to; a tag of something else is left out.
func (s *Repo) Peeled(ctx context.Context, p workspaces.Project, ids []string) ([]string, error) {
	types, err := s.Typed(ctx, p, ids)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, id := range ids {
		switch types[id] {
		case "commit":
			out = append(out, id)
		case "tag":
			c, err := s.CommitOf(ctx, p.GitDir, id)
			if err != nil {
				continue // a tag of a file
			}
			out = append(out, c)
		}
	}
	return out, nil
}

// StagedIn lists how the index of a git dir differs from head, in the format of update-index --index-info, the objects it names, and
// whether it has conflicts.
func (s *Repo) StagedIn(ctx context.Context, gitDir, head string) (info string, blobs []string, conflicts bool, err error) {
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Max: 256 << 20, Args: []string{"diff-index", "--cached", "--raw", "-z", "--no-renames", "--no-abbrev", "--ignore-submodules=all", head}})
	if err != nil {
		return "", nil, false, GitFault(err, fault.Unavailable, "worktree_unreadable", "Reading what is staged")
	}
	var b strings.Builder
	f := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	for ; len(f) >= 2; f = f[2:] {
		m := strings.Fields(strings.TrimPrefix(f[0], ":"))
		if len(m) != 5 || !IsCommitID(m[3]) {
			return "", nil, false, fmt.Errorf("diff-index answered %q", f[0])
		}
		if m[4] == "U" {
			conflicts = true
		} else if m[4] == "D" {
			fmt.Fprintf(&b, "0 %s\t%s\x00", strings.Repeat("0", len(m[3])), f[1])
		} else {
			fmt.Fprintf(&b, "%s %s\t%s\x00", m[1], m[3], f[1])
			if m[1] != "160000" {
				blobs = append(blobs, m[3])
			}
		}
	}
	if !conflicts {
		return b.String(), blobs, false, nil
	}
	out, err = s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Max: 256 << 20, Args: []string{"ls-files", "-u", "-z"}})
	if err != nil {
		return "", nil, true, GitFault(err, fault.Unavailable, "worktree_unreadable", "Reading what is staged")
	}
	seen := make(map[string]bool)
	for e := range strings.SplitSeq(strings.TrimSuffix(string(out), "\x00"), "\x00") {
		meta, name, ok := strings.Cut(e, "\t")
		m := strings.Fields(meta)
		if !ok || len(m) != 3 || !IsCommitID(m[1]) {
			continue
		}
		if !seen[name] {
			seen[name] = true
			fmt.Fprintf(&b, "0 %s\t%s\x00", strings.Repeat("0", len(m[1])), name)
		}
		fmt.Fprintf(&b, "%s %s %s\t%s\x00", m[0], m[1], m[2], name)
		blobs = append(blobs, m[1])
	}
	return b.String(), blobs, true, nil
}
