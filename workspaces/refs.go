package workspaces

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// Hidden refs of ours. They keep what a workspace needs from being collected, and are no branches.
func creatingRef(workspaceID string) string { return "refs/parawork/creating/" + workspaceID }
func BaseRef(workspaceID string) string     { return "refs/parawork/base/" + workspaceID }
func trashTree(workspaceID string) string   { return "refs/parawork/trash/" + workspaceID + "/tree" }
func trashHead(workspaceID string) string   { return "refs/parawork/trash/" + workspaceID + "/head" }
func trashNested(workspaceID string) string { return "refs/parawork/trash/" + workspaceID + "/nested" }

const HeadsPrefix = "refs/heads/"

// IsCommitID reports whether h is a full object name.
func IsCommitID(h string) bool {
	if len(h) != 40 && len(h) != 64 {
		return false
	}
	return strings.Trim(h, "0123456789abcdef") == ""
}

// CommitOf returns the commit a full ref name or object name stands for, "" when there is none.
func (s *Service) CommitOf(ctx context.Context, gitDir, name string) (string, error) {
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

// RefEdit is one line of a ref transaction.
type RefEdit string

func refCreate(ref, to string) RefEdit { return RefEdit("create " + ref + " " + to + "\n") }
func refUpdate(ref, to, old string) RefEdit {
	return RefEdit("update " + ref + " " + to + " " + old + "\n")
}
func RefSet(ref, to string) RefEdit     { return RefEdit("update " + ref + " " + to + "\n") }
func refDelete(ref, old string) RefEdit { return RefEdit("delete " + ref + " " + old + "\n") }
func refDrop(ref string) RefEdit        { return RefEdit("delete " + ref + "\n") }

// UpdateRefs makes the edits all or none. Ref names come from checked branch names and ids only.
func (s *Service) UpdateRefs(ctx context.Context, gitDir, why string, edits ...RefEdit) error {
	var in strings.Builder
	for _, e := range edits {
		in.WriteString(string(e))
	}
	_, err := s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Stdin: strings.NewReader(in.String()),
		Args: []string{"update-ref", "--create-reflog", "-m", "parawork: " + why, "--stdin"}})
	return err
}

// contains reports whether commit descendant contains ancestor.
func (s *Service) contains(ctx context.Context, gitDir, descendant, ancestor string) (bool, error) {
	if descendant == ancestor {
		return true, nil
	}
	return s.git.OK(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"merge-base", "--is-ancestor", ancestor, descendant}})
}

// aheadBehind counts the commits only a has and only b has.
func (s *Service) aheadBehind(ctx context.Context, gitDir, a, b string) (ahead, behind int, err error) {
	if a == b {
		return 0, 0, nil
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"rev-list", "--left-right", "--count", a + "..." + b}})
	if err != nil {
		return 0, 0, err
	}
	_, err = fmt.Sscan(out, &ahead, &behind)
	return ahead, behind, err
}

// worktree is one entry of git worktree list.
type worktree struct {
	path   string
	head   string
	branch string // full ref name; "" = detached or bare
	gone   bool   // its folder no longer exists
}

func (s *Service) worktrees(ctx context.Context, gitDir string) ([]worktree, error) {
	out, err := s.git.Run(ctx, hostgit.Call{GitDir: gitDir, Args: []string{"worktree", "list", "--porcelain", "-z"}})
	if err != nil {
		return nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Listing worktrees")
	}
	var list []worktree
	for _, block := range strings.Split(string(out), "\x00\x00") {
		var w worktree
		bare := false
		for _, l := range strings.Split(block, "\x00") {
			key, val, _ := strings.Cut(l, " ")
			switch key {
			case "worktree":
				w.path = val
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
		if w.path != "" && !bare {
			list = append(list, w)
		}
	}
	return list, nil
}

// fetchSpec has every branch of the origin followed.
const fetchSpec = "+refs/heads/*:refs/remotes/origin/*"
