package conflict

import (
	"context"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// grouping groups the conflicting paths of an index into decisions. A conflict that involves several names (both sides renamed a file, a
// file on one side and a link on the other) is several paths to git.
type grouping struct {
	b            *sandboxgit.Sandbox
	op, head     string
	all          map[string][4]git.FileEntry
	branch, base int // which stage belongs to which side

	out []OpenConflict
}

// groups fills out, by path.
func (g *grouping) groups(ctx context.Context) error {
	names := slices.Sorted(maps.Keys(g.all))
	moved, err := g.moved(ctx)
	if err != nil {
		return err
	}
	was, err := g.renamed(ctx) // by side: old names to new ones
	if err != nil {
		return err
	}
	used := make(map[string]bool)
	take := func(c OpenConflict, paths ...string) {
		c.paths, c.stages = paths, make(map[string][4]git.FileEntry)
		for _, p := range paths {
			used[p], c.stages[p] = true, g.all[p]
		}
		g.out = append(g.out, c)
	}
	for _, p := range names { // both sides renamed it differently
		st := g.all[p]
		if !st[1].Is() || st[2].Is() || st[3].Is() {
			continue
		}
		q, r := was[g.branch][p], was[g.base][p]
		if q == "" || r == "" || q == r || !g.all[q][g.branch].Is() || !g.all[r][g.base].Is() {
			continue
		}
		take(OpenConflict{Path: p, Kind: ConflictRenames, Was: side(p, st[1]), Branch: side(q, g.all[q][g.branch]), Base: side(r, g.all[r][g.base])}, p, q, r)
	}
	byReal := make(map[string][]string)
	for _, p := range names {
		if real := moved[p]; real != "" {
			byReal[real] = append(byReal[real], p)
		}
	}
	for _, real := range slices.Sorted(maps.Keys(byReal)) { // each side has something else at this name
		paths := byReal[real]
		if _, too := g.all[real]; too && !used[real] {
			paths = append([]string{real}, paths...)
		}
		c := OpenConflict{Path: real, Kind: ConflictTypes}
		for _, p := range paths {
			st := g.all[p]
			if st[1].Is() {
				c.Was = side(real, st[1])
			}
			if st[g.branch].Is() {
				c.Branch = side(real, st[g.branch])
			}
			if st[g.base].Is() {
				c.Base = side(real, st[g.base])
			}
		}
		if c.Branch == nil || c.Base == nil {
			c.Kind = ConflictFolder
		}
		take(c, paths...)
	}
	var old [4]map[string]string
	for stage, names := range was {
		old[stage] = flip(names)
	}
	for _, p := range names {
		if used[p] {
			continue
		}
		st := g.all[p]
		c := OpenConflict{Path: p, Was: side(p, st[1]), Branch: side(p, st[g.branch]), Base: side(p, st[g.base])}
		for _, who := range []int{g.branch, g.base} {
			from := old[who][p]
			if from == "" || c.Was == nil {
				continue
			}
			c.Was.Path = from
			if c.Branch == nil || c.Base == nil {
				c.Kind = ConflictRenameDelete
			}
		}
		take(c, p)
	}
	slices.SortFunc(g.out, func(a, b OpenConflict) int { return strings.Compare(a.Path, b.Path) })
	return nil
}

func side(name string, e git.FileEntry) *ConflictSide {
	if !e.Is() {
		return nil
	}
	return &ConflictSide{Path: name, Mode: e.Mode, OID: e.OID}
}

func flip(m map[string]string) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		out[v] = k
	}
	return out
}

// other is the incoming commit: in a merge the merged one, in a rebase the branch's commit being replayed. "" = git does not say.
func (g *grouping) other(ctx context.Context) string {
	ref := "MERGE_HEAD"
	if g.op == workspaces.StrategyRebase {
		ref = "REBASE_HEAD"
	}
	out, err := g.b.Git(ctx, nil, "rev-parse", "--verify", "--quiet", ref+"^{commit}")
	if out = strings.TrimSpace(out); err != nil || !git.IsCommitID(out) {
		return ""
	}
	return out
}

// moved maps names git made up (name~label), because something else has the name, to the real names.
func (g *grouping) moved(ctx context.Context) (map[string]string, error) {
	var ask []string
	maybe := make(map[string][]string)
	for p, st := range g.all {
		if !strings.Contains(p, "~") || st[2].Is() == st[3].Is() {
			continue
		}
		for i, r := range p {
			if r == '~' && i > 0 && p[i-1] != '/' {
				maybe[p] = append(maybe[p], p[:i])
				ask = append(ask, p[:i])
			}
		}
		ask = append(ask, p)
	}
	if len(ask) == 0 {
		return nil, nil
	}
	there := make(map[string]bool)
	for _, commit := range []string{g.head, g.other(ctx)} {
		if commit == "" {
			continue
		}
		err := git.EachBatch(ask, func(some []string) error {
			out, err := g.b.Git(ctx, nil, append([]string{"ls-tree", "-z", "--name-only", "--full-tree", commit, "--"}, some...)...)
			for _, name := range git.SplitZero(out) {
				there[name] = true
			}
			return git.SandboxFault(err, "worktree_unreadable", "Reading the files of both sides")
		})
		if err != nil {
			return nil, err
		}
	}
	out := make(map[string]string)
	for p, real := range maybe {
		if there[p] {
			continue // somebody's own file with such a name
		}
		for _, r := range real {
			if there[r] {
				out[p] = r
				break
			}
		}
	}
	return out, nil
}

// renamed finds what each side has renamed, by the side's stage. It is called only where the stages do not suffice.
func (g *grouping) renamed(ctx context.Context) ([4]map[string]string, error) {
	var out [4]map[string]string
	notifies := func(st [4]git.FileEntry) bool { return st[2].Is() && st[3].Is() }
	if !slices.ContainsFunc(slices.Collect(maps.Values(g.all)), func(st [4]git.FileEntry) bool { return !notifies(st) }) {
		return out, nil
	}
	other := g.other(ctx)
	if other == "" {
		return out, nil
	}
	args := []string{"merge-base", g.head, other}
	if g.op == workspaces.StrategyRebase {
		args = []string{"rev-parse", "--verify", "--quiet", other + "^1"}
	}
	said, err := g.b.Git(ctx, nil, args...)
	from := strings.TrimSpace(said)
	if err != nil || !git.IsCommitID(from) {
		return out, nil //nolint:nilerr // without a common ancestor, names stay as they are
	}
	for stage, commit := range map[int]string{2: g.head, 3: other} {
		list, err := g.b.Git(ctx, nil, "diff-tree", "-r", "-z", "--name-status", "--find-renames", "-l", strconv.Itoa(maxRenames), "--diff-filter=R", from, commit)
		if err != nil {
			return out, git.SandboxFault(err, "worktree_unreadable", "Reading the files of both sides")
		}
		out[stage] = make(map[string]string)
		for f := git.SplitZero(list); len(f) >= 3; f = f[3:] {
			out[stage][f[1]] = f[2]
		}
	}
	return out, nil
}

// maxRenames bounds how many files are compared to detect renames, as in merges.
const maxRenames = 7000

// otherName makes up the name for the second file of a conflict, from the name of its side.
func otherName(name, base, branch string, c *OpenConflict) string {
	label := base
	if c.Base == nil {
		label = branch
	}
	label = strings.Map(func(r rune) rune {
		if r == '-' || r == '_' || r == '.' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' {
			return r
		}
		return '-'
	}, label)
	dir, file := path.Split(name)
	ext := path.Ext(file)
	if ext == file { // .env
		ext = ""
	}
	return dir + strings.TrimSuffix(file, ext) + "." + strings.Trim(label, ".") + ext
}
