package overlap

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/merge"
)

// Span is a range of lines of the base's file that a change replaces, from 1. A pure insertion counts as the two lines around it.
type Span struct{ From, To int }

// Touched is one file changed in a workspace.
type Touched struct {
	Old, New string // object ids; zeros = no file
	Whole    bool   // not comparable by line: binary, added, deleted, or over the limit
	Spans    []Span // sorted
}

// Footprint is what a workspace changes, uncommitted changes included.
type Footprint struct {
	WorkspaceID string
	Base        string // the commit the work is compared with
	Tree        string // its files
	Files       map[string]Touched
}

// Rows is the storage that Trees needs.
type Rows interface {
	Workspace(ctx context.Context, id string) (workspaces.Workspace, error)
	// WorkspacesOf returns every workspace of a project that is not deleted.
	WorkspacesOf(ctx context.Context, projectID string) ([]workspaces.Workspace, error)
	Project(ctx context.Context, id string) (workspaces.Project, error)
	// WorkspacesIn returns every workspace in one of these states.
	WorkspacesIn(ctx context.Context, states ...workspaces.State) ([]workspaces.Workspace, error)
}

// Trees implements Workspaces with the projects' repositories.
type Trees struct {
	records *workspaces.Records
	repo    *git.Repo
	git     *hostgit.Git
	Rows
}

var _ Workspaces = (*Trees)(nil)

// NewTrees makes Trees.
func NewTrees(records *workspaces.Records, repo *git.Repo, rows Rows) *Trees {
	return &Trees{records: records, repo: repo, git: records.HostGit(), Rows: rows}
}

// Active returns every workspace in which work goes on.
func (s *Trees) Active(ctx context.Context) ([]workspaces.Workspace, error) {
	return s.WorkspacesIn(ctx, workspaces.Ready, workspaces.Paused)
}

// footprintMax bounds the diff text of one footprint; beyond that, whole files count.
const footprintMax = 48 << 20

// Footprint returns what the workspace's tree changes; "" = its branch's tree. known is an earlier result, which is returned again if its
// inputs are unchanged.
func (s *Trees) Footprint(ctx context.Context, w workspaces.Workspace, tree string, known Footprint) (Footprint, error) {
	p, err := s.Project(ctx, w.ProjectID)
	if err != nil {
		return Footprint{}, err
	}
	base, err := git.BaseOf(ctx, s.repo, p, w)
	if err != nil {
		return Footprint{}, err
	}
	if tree == "" {
		head, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
		if err != nil || head == "" {
			return Footprint{WorkspaceID: w.ID}, err
		}
		if tree, err = s.repo.TreeOf(ctx, p, head); err != nil {
			return Footprint{}, err
		}
	}
	if known.WorkspaceID == w.ID && known.Base == base && known.Tree == tree {
		return known, nil
	}
	f := Footprint{WorkspaceID: w.ID, Base: base, Tree: tree}
	if !git.IsCommitID(base) || !git.IsCommitID(tree) {
		return f, nil
	}
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return f, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing a workspace with its base")
	}
	defer func() { _ = scratch.Close() }()
	args := []string{"diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", "--no-ext-diff", "--no-textconv"}
	out, err := scratch.Run(ctx, hostgit.Call{Args: append(args, "--patch", "--unified=0", base, tree), Max: footprintMax})
	if errors.Is(err, hostgit.ErrTooMuch) {
		out, err = scratch.Run(ctx, hostgit.Call{Args: append(args, base, tree), Max: footprintMax})
	}
	if err != nil {
		return f, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing a workspace with its base")
	}
	f.Files, err = parseTouched(out)
	return f, err
}

// parseTouched parses diff-tree -z --raw --patch --unified=0: an entry for each file, then their patches in the same order.
func parseTouched(out []byte) (map[string]Touched, error) {
	type entry struct {
		path  string
		heads int // number of headers of its patch
	}
	files := make(map[string]Touched)
	var order []entry
	for len(out) > 0 && out[0] == ':' {
		meta, rest, ok := bytes.Cut(out, []byte{0})
		name, rest, ok2 := bytes.Cut(rest, []byte{0})
		f := strings.Fields(string(meta))
		if !ok || !ok2 || len(f) != 5 {
			return nil, fmt.Errorf("diff-tree answered %.100q", meta)
		}
		t := Touched{Old: f[2], New: f[3]}
		e := entry{path: string(name), heads: 1}
		if strings.HasPrefix(f[4], "T") { // a file that became a link: deleted, then added
			e.heads = 2
		}
		t.Whole = f[4] != "M" || t.Old == t.New || strings.HasSuffix(f[0], "160000")
		files[e.path], order, out = t, append(order, e), rest
	}
	if len(out) == 0 { // without patches the lines are unknown
		for name, t := range files {
			t.Whole = true
			files[name] = t
		}
		return files, nil
	}
	out = out[1:] // the NUL between entries and patches
	at, left := -1, 0
	for len(out) > 0 {
		line, rest, _ := bytes.Cut(out, []byte{'\n'})
		out = rest
		switch {
		case bytes.HasPrefix(line, []byte("diff --git ")):
			if left == 0 {
				if at++; at >= len(order) {
					return nil, errors.New("diff-tree has more patches than files")
				}
				left = order[at].heads
			}
			left--
		case at < 0:
		case bytes.HasPrefix(line, []byte("@@ -")):
			if span, ok := parseSpan(string(line)); ok {
				t := files[order[at].path]
				t.Spans = append(t.Spans, span)
				files[order[at].path] = t
			}
		case bytes.HasPrefix(line, []byte("Binary files ")):
			t := files[order[at].path]
			t.Whole = true
			files[order[at].path] = t
		}
	}
	for name, t := range files { // only its mode changed
		if len(t.Spans) == 0 {
			t.Whole = true
			files[name] = t
		}
	}
	return files, nil
}

// parseSpan parses the old side of a hunk header: @@ -start,lines +…
func parseSpan(line string) (Span, bool) {
	old, _, ok := strings.Cut(strings.TrimPrefix(line, "@@ -"), " ")
	from, n, counted := strings.Cut(old, ",")
	start, err := strconv.Atoi(from)
	if !ok || err != nil {
		return Span{}, false
	}
	lines := 1
	if counted {
		if lines, err = strconv.Atoi(n); err != nil {
			return Span{}, false
		}
	}
	if lines == 0 {
		return Span{start, start + 1}, true
	}
	return Span{start, start + lines - 1}, true
}

// Meets returns the files that both change in the same place, so that only a merge can tell whether they conflict.
func (f Footprint) Meets(o Footprint) bool {
	if len(o.Files) < len(f.Files) {
		f, o = o, f
	}
	for name, a := range f.Files {
		if b, ok := o.Files[name]; ok && a.meets(b) {
			return true
		}
	}
	return underFile(f, o) || underFile(o, f)
}

func (t Touched) meets(o Touched) bool {
	switch {
	case t.New == o.New && t.Old == o.Old && !t.sameMode():
		return false // both made the same change
	case t.Whole || o.Whole || t.Old != o.Old:
		return true
	}
	for i, j := 0, 0; i < len(t.Spans) && j < len(o.Spans); {
		a, b := t.Spans[i], o.Spans[j]
		if a.From <= b.To+1 && b.From <= a.To+1 { // adjacent lines conflict, too
			return true
		}
		if a.To < b.To {
			i++
		} else {
			j++
		}
	}
	return false
}

// sameMode reports whether at most the file's mode changed.
func (t Touched) sameMode() bool { return t.Old == t.New }

// underFile reports whether o has a file where f adds a folder.
func underFile(f, o Footprint) bool {
	for name, t := range f.Files {
		if strings.Trim(t.Old, "0") != "" {
			continue
		}
		for dir := filepath.Dir(name); dir != "."; dir = filepath.Dir(dir) {
			if b, ok := o.Files[dir]; ok && strings.Trim(b.New, "0") != "" {
				return true
			}
		}
	}
	return false
}

// Collide merges one with each of the others as git would and returns the conflicts of each pair, without storing any object. It leaves out
// conflicts that arise only because one of the two is behind the base.
func (s *Trees) Collide(ctx context.Context, projectID string, one Footprint, others []Footprint) ([][]workspaces.Conflict, error) {
	found := make([][]workspaces.Conflict, len(others))
	if len(others) == 0 {
		return found, nil
	}
	p, err := s.Project(ctx, projectID)
	if err != nil {
		return nil, err
	}
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing workspaces")
	}
	defer func() { _ = scratch.Close() }()
	if err := scratch.Isolate(); err != nil {
		return nil, err
	}
	commits, err := tips(ctx, scratch, append([]Footprint{one}, others...))
	if err != nil {
		return nil, err
	}
	var pairs []string
	for i, o := range others {
		pairs = append(pairs, commits[0]+" "+commits[i+1])
		if o.Base != one.Base {
			pairs = append(pairs, commits[0]+" "+o.Base, commits[i+1]+" "+one.Base)
		}
	}
	results, err := mergeTrees(ctx, scratch, pairs)
	if err != nil {
		return nil, err
	}
	n := 0
	next := func() []workspaces.Conflict { n++; return results[n-1] }
	for i, o := range others {
		list := next()
		behind := map[string]bool{}
		if o.Base != one.Base {
			for _, c := range append(next(), next()...) {
				behind[c.Path] = true
			}
		}
		for _, c := range list {
			if !behind[c.Path] {
				found[i] = append(found[i], c)
			}
		}
	}
	return found, nil
}

// tips makes a commit of each footprint's files on its base. Fixed parents and times make it reproducible.
func tips(ctx context.Context, scratch *hostgit.Scratch, list []Footprint) ([]string, error) {
	var names strings.Builder
	for i, f := range list {
		name := filepath.Join(scratch.Dir(), fmt.Sprintf("tip-%d", i))
		text := fmt.Sprintf("tree %s\nparent %s\nauthor Parawork <parawork@localhost> 1 +0000\ncommitter Parawork <parawork@localhost> 1 +0000\n\nparawork: one side\n", f.Tree, f.Base)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return nil, err
		}
		names.WriteString(name + "\n")
	}
	out, err := scratch.Run(ctx, hostgit.Call{Args: []string{"hash-object", "-t", "commit", "-w", "--no-filters", "--stdin-paths"}, Stdin: strings.NewReader(names.String())})
	if err != nil {
		return nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing workspaces")
	}
	ids := strings.Fields(string(out))
	if len(ids) != len(list) {
		return nil, fmt.Errorf("hash-object named %d commits instead of %d", len(ids), len(list))
	}
	return ids, nil
}

// mergeTrees merges pairs of commits and returns the conflicts of each. It returns none for a pair that cannot be merged at all, because
// the two are unrelated or objects are missing.
func mergeTrees(ctx context.Context, scratch *hostgit.Scratch, pairs []string) ([][]workspaces.Conflict, error) {
	out, err := scratch.Run(ctx, hostgit.Call{Args: []string{"merge-tree", "--write-tree", "--stdin", "-z"}, Stdin: strings.NewReader(strings.Join(pairs, "\n") + "\n")})
	if err == nil {
		return parseMerges(string(out), len(pairs))
	}
	if hostgit.ExitCode(err) < 0 || ctx.Err() != nil {
		return nil, merge.MergeFault(err)
	}
	found := make([][]workspaces.Conflict, len(pairs))
	for i, pair := range pairs {
		a, b, _ := strings.Cut(pair, " ")
		out, err := scratch.Run(ctx, hostgit.Call{Args: []string{"merge-tree", "--write-tree", "-z", "--messages", a, b}})
		if hostgit.ExitCode(err) == 1 {
			_, rest, _ := strings.Cut(string(out), "\x00")
			found[i] = git.ParseConflicts(rest)
		} else if err != nil && hostgit.ExitCode(err) < 0 {
			return nil, merge.MergeFault(err)
		}
	}
	return found, nil
}

// parseMerges parses the output of merge-tree --stdin -z for each pair: 1 and a tree when it merges, else 0, a tree, the paths with their
// stages, an empty entry and messages; an empty entry ends it.
func parseMerges(out string, n int) ([][]workspaces.Conflict, error) {
	found := make([][]workspaces.Conflict, 0, n)
	f := strings.Split(out, "\x00")
	for len(found) < n {
		if len(f) < 3 || f[0] != "0" && f[0] != "1" || !git.IsCommitID(f[1]) {
			return nil, fmt.Errorf("merge-tree answered something else after %d merges", len(found))
		}
		clean := f[0] == "1"
		f = f[2:]
		i := 0
		if !clean {
			for i < len(f) && f[i] != "" { // paths
				i++
			}
			for i++; i < len(f) && f[i] != ""; { // messages: how many paths, these, kind, text
				k, err := strconv.Atoi(f[i])
				if err != nil || k < 0 {
					return nil, fmt.Errorf("merge-tree answered %.100q", f[i])
				}
				i += k + 3
			}
		}
		var list []workspaces.Conflict
		if !clean {
			list = git.ParseConflicts(strings.Join(f[:min(i, len(f))], "\x00"))
		}
		found = append(found, list)
		f = f[min(i+1, len(f)):]
	}
	return found, nil
}
