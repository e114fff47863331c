package git

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// HiddenRefs lists the hidden refs of a workspace: all that have its id as a part of their name.
func (s *Repo) HiddenRefs(ctx context.Context, gitDir, workspaceID string) (map[string]string, error) {
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"for-each-ref", "--format=%(objectname) %(refname)", "refs/parawork/"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Listing the hidden refs")
	}
	refs := make(map[string]string)
	for l := range strings.SplitSeq(out, "\n") {
		if id, name, ok := strings.Cut(l, " "); ok && strings.Contains(name+"/", "/"+workspaceID+"/") {
			refs[name] = id
		}
	}
	return refs, nil
}

// DropRefsOf removes every hidden ref of a workspace.
func (s *Repo) DropRefsOf(ctx context.Context, gitDir, workspaceID string) error {
	unlock, err := s.locks.Repos.LockContext(ctx, gitDir)
	if err != nil {
		return err
	}
	defer unlock()
	refs, err := s.HiddenRefs(ctx, gitDir, workspaceID)
	if err != nil || len(refs) == 0 {
		return err
	}
	var edits []RefEdit
	for _, name := range slices.Sorted(maps.Keys(refs)) {
		edits = append(edits, RefDelete(name, refs[name]))
	}
	if err := s.UpdateRefs(ctx, gitDir, "purge", edits...); err != nil {
		return GitFault(err, fault.Unavailable, "purge_failed", "Deleting the hidden refs")
	}
	return nil
}

// The server's hidden refs. They protect what a workspace needs from garbage collection, and are not branches.
func CreatingRef(workspaceID string) string { return "refs/parawork/creating/" + workspaceID }

// BaseRef is the hidden ref of the commit a workspace started from.
func BaseRef(workspaceID string) string { return "refs/parawork/base/" + workspaceID }

// TrashTree is the hidden ref of a workspace's files when it was archived or deleted.
func TrashTree(workspaceID string) string { return "refs/parawork/trash/" + workspaceID + "/tree" }

// TrashHead is the hidden ref of the commit those files were based on.
func TrashHead(workspaceID string) string { return "refs/parawork/trash/" + workspaceID + "/head" }

// TrashNested is the hidden ref of the repositories nested in those files.
func TrashNested(workspaceID string) string { return "refs/parawork/trash/" + workspaceID + "/nested" }

// HeadsPrefix is the prefix of the refs of branches.
const HeadsPrefix = "refs/heads/"

// IsCommitID reports whether h is a full object name.
func IsCommitID(h string) bool {
	if len(h) != 40 && len(h) != 64 {
		return false
	}
	return strings.Trim(h, "0123456789abcdef") == ""
}

// CommitOf returns the commit that a full ref name or object id refers to, "" when there is none.
func (s *Repo) CommitOf(ctx context.Context, gitDir, name string) (string, error) {
	if c, err := inProcess(ctx, gitDir, func(r *reader) (string, error) { return r.commitOf(ctx, name) }); err == nil {
		return c, nil
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"rev-parse", "--quiet", "--verify", "--end-of-options", name + "^{commit}"}})
	if hostgit.ExitCode(err) == 1 {
		return "", nil
	}
	if err != nil {
		return "", GitFault(err, fault.Unavailable, "repository_unreadable", "Reading "+name)
	}
	// rev-parse echoes --end-of-options on old versions.
	out = out[strings.LastIndexByte(out, '\n')+1:]
	if !IsCommitID(out) {
		return "", fmt.Errorf("rev-parse %s answered %q", name, out)
	}
	return out, nil
}

// TreeOf is the tree of a commit, or a tree itself.
func (s *Repo) TreeOf(ctx context.Context, p workspaces.Project, object string) (string, error) {
	if tree, err := inProcess(ctx, p.GitDir, func(r *reader) (string, error) { return r.treeOf(ctx, object) }); err == nil {
		return tree, nil
	}
	tree, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-parse", "--verify", "--quiet", object + "^{tree}"}})
	if err != nil {
		return "", GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a commit")
	}
	if !IsCommitID(tree) {
		err = fmt.Errorf("rev-parse answered %.100q", tree)
	}
	return tree, err
}

// RefEdit is one line of a ref transaction.
type RefEdit string

// RefCreate creates a ref that must not exist.
func RefCreate(ref, to string) RefEdit { return RefEdit("create " + ref + " " + to + "\n") }

// RefUpdate moves a ref that must be at old.
func RefUpdate(ref, to, old string) RefEdit {
	return RefEdit("update " + ref + " " + to + " " + old + "\n")
}

// RefSet creates or moves a ref, wherever it was.
func RefSet(ref, to string) RefEdit { return RefEdit("update " + ref + " " + to + "\n") }

// RefDelete deletes a ref that must be at old.
func RefDelete(ref, old string) RefEdit { return RefEdit("delete " + ref + " " + old + "\n") }

// RefDrop deletes a ref, wherever it was.
func RefDrop(ref string) RefEdit { return RefEdit("delete " + ref + "\n") }

// UpdateRefs makes the edits in one transaction. Ref names come from checked branch names and ids only.
func (s *Repo) UpdateRefs(ctx context.Context, gitDir, why string, edits ...RefEdit) error {
	var in strings.Builder
	for _, e := range edits {
		in.WriteString(string(e))
	}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Stdin: strings.NewReader(in.String()),
		Args: []string{"update-ref", "--create-reflog", "-m", "parawork: " + why, "--stdin"}})
	return err
}

// Contains reports whether commit descendant contains ancestor.
func (s *Repo) Contains(ctx context.Context, gitDir, descendant, ancestor string) (bool, error) {
	if descendant == ancestor {
		return true, nil
	}
	if f, err := inProcess(ctx, gitDir, func(r *reader) (fork, error) { return r.fork(ctx, descendant, ancestor) }); err == nil {
		return f.base == ancestor, nil
	}
	return s.git.OK(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"merge-base", "--is-ancestor", ancestor, descendant}})
}

// AheadBehind counts the commits only a has and only b has.
func (s *Repo) AheadBehind(ctx context.Context, gitDir, a, b string) (ahead, behind int, err error) {
	if a == b {
		return 0, 0, nil
	}
	if f, err := inProcess(ctx, gitDir, func(r *reader) (fork, error) { return r.fork(ctx, a, b) }); err == nil {
		return f.ahead, f.behind, nil
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"rev-list", "--left-right", "--count", a + "..." + b}})
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(out, &ahead, &behind)
	return ahead, behind, err
}

// mergeBase is the best common ancestor of two commits, "" when there is none.
func (s *Repo) mergeBase(ctx context.Context, gitDir, a, b string) (string, error) {
	if f, err := inProcess(ctx, gitDir, func(r *reader) (fork, error) { return r.fork(ctx, a, b) }); err == nil {
		return f.base, nil
	}
	base, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"merge-base", a, b}})
	if hostgit.ExitCode(err) == 1 {
		return "", nil
	}
	return base, err
}

// Worktree is one entry of git worktree list.
type Worktree struct {
	Path   string
	head   string
	branch string // full ref name; "" = detached or bare
	gone   bool   // its folder no longer exists
}

func (s *Repo) worktrees(ctx context.Context, gitDir string) ([]Worktree, error) {
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Listing worktrees")
	}
	var list []Worktree
	for block := range strings.SplitSeq(string(out), "\x00\x00") {
		var w Worktree
		bare := false
		for l := range strings.SplitSeq(block, "\x00") {
			key, val, _ := strings.Cut(l, " ")
			switch key {
			case "worktree":
				w.Path = val
			case "HEAD":
				w.head = val
			case "branch":
				w.branch = val
			case "prunable":
				w.gone = true
			case "bare":
				bare = true
			}
		}
		if w.Path != "" && !bare {
			list = append(list, w)
		}
	}
	return list, nil
}

// FetchSpec is the refspec that fetches every branch of the origin.
const FetchSpec = "+refs/heads/*:refs/remotes/origin/*"
