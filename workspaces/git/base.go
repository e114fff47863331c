package git

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// CheckBase checks the shape of a base a person named.
func (s *Repo) CheckBase(ctx context.Context, base string) error {
	name := base
	for _, prefix := range [...]string{HeadsPrefix, "refs/remotes/"} {
		name = strings.TrimPrefix(name, prefix)
	}
	if strings.HasPrefix(name, "refs/") {
		return fault.New(fault.Invalid, "base_invalid", "A base is a branch, such as main or origin/main.")
	}
	return s.CheckBranch(ctx, name)
}

// ExactBase reports whether base names one ref in full: it is then taken as it is, without asking the remote.
func ExactBase(base string) bool { return strings.HasPrefix(base, "refs/") }

// ResolveBase returns the commit a new workspace starts from, and what to tell about it. For a cloned project the local
// branch is kept in step with the remote's; where they have parted the person must say which one is meant.
func (s *Repo) ResolveBase(ctx context.Context, p workspaces.Project, base string) (commit, note string, err error) {
	if ExactBase(base) {
		commit, err = s.CommitOf(ctx, p.GitDir, base)
		return s.foundBase(p, base, commit, err)
	}
	local, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+base)
	if err != nil {
		return "", "", err
	}
	if !p.Cloned() {
		if local == "" {
			local, err = s.CommitOf(ctx, p.GitDir, "refs/remotes/"+base)
		}
		return s.foundBase(p, base, local, err)
	}
	remote, err := s.CommitOf(ctx, p.GitDir, "refs/remotes/origin/"+base)
	if err != nil {
		return "", "", err
	}
	switch {
	case local == "" && remote == "":
		commit, err = s.CommitOf(ctx, p.GitDir, "refs/remotes/"+base)
		return s.foundBase(p, base, commit, err)
	case remote == "":
		return local, "The remote has no branch " + base + ": it is used as it is here.", nil
	}
	ahead, behind, err := s.StepBase(ctx, p, base)
	if err != nil {
		return "", "", err
	}
	switch {
	case ahead > 0 && behind > 0:
		return "", "", fault.New(fault.Conflict, "base_diverged",
			"%s here has %d commits the remote has not, and lacks %d of its. Start from origin/%s (the remote's) or from refs/heads/%s (as it is here).",
			base, ahead, behind, base, base).With("ahead", ahead).With("behind", behind)
	case ahead > 0:
		return local, Plural(ahead, "commit is", "commits are") + " here that the remote has not.", nil
	}
	return remote, "", nil
}

func (s *Repo) foundBase(p workspaces.Project, base, commit string, err error) (string, string, error) {
	if err == nil && commit == "" {
		err = fault.New(fault.Invalid, "base_missing", "The project %q has no branch %q. Choose one of its branches.", p.Name, base)
	}
	return commit, "", err
}

// StepBase makes or fast-forwards the local branch of a cloned project to the remote's, and says how far they differ after
// that. A branch that is checked out somewhere is not moved under whoever works there.
func (s *Repo) StepBase(ctx context.Context, p workspaces.Project, base string) (ahead, behind int, err error) {
	unlock, err := s.locks.Repos.LockContext(ctx, p.GitDir)
	if err != nil {
		return 0, 0, err
	}
	defer unlock()
	local, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+base)
	if err != nil {
		return 0, 0, err
	}
	remote, err := s.CommitOf(ctx, p.GitDir, "refs/remotes/origin/"+base)
	if err != nil || remote == "" {
		return 0, 0, err
	}
	if local == "" {
		err = s.UpdateRefs(ctx, p.GitDir, "follow origin/"+base, RefCreate(HeadsPrefix+base, remote))
		return 0, 0, GitFault(err, fault.Conflict, "base_blocked", "Making the branch "+base)
	}
	if ahead, behind, err = s.AheadBehind(ctx, p.GitDir, local, remote); err != nil {
		return 0, 0, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing "+base+" with the remote")
	}
	if ahead > 0 || behind == 0 {
		return ahead, behind, nil
	}
	at, err := s.CheckedOut(ctx, p.GitDir, HeadsPrefix+base)
	if err != nil || at != nil {
		return 0, behind, err
	}
	if err := s.UpdateRefs(ctx, p.GitDir, "follow origin/"+base, RefUpdate(HeadsPrefix+base, remote, local)); err != nil {
		return 0, behind, GitFault(err, fault.Conflict, "base_moved", "Bringing "+base+" up to date")
	}
	return 0, 0, nil
}

// CheckedOut returns the worktree that has the ref checked out, nil when none has.
func (s *Repo) CheckedOut(ctx context.Context, gitDir, ref string) (*Worktree, error) {
	list, err := s.worktrees(ctx, gitDir)
	if err != nil {
		return nil, err
	}
	for _, w := range list {
		if w.branch == ref && !w.gone {
			return &w, nil
		}
	}
	return nil, nil
}

// BranchTarget returns the local branch work based on base is merged into.
func (s *Repo) BranchTarget(ctx context.Context, p workspaces.Project, base string) (string, error) {
	if name, ok := strings.CutPrefix(base, HeadsPrefix); ok {
		return name, nil
	}
	remoteName, isRemote := strings.CutPrefix(base, "refs/remotes/")
	if !isRemote {
		c, err := s.CommitOf(ctx, p.GitDir, HeadsPrefix+base)
		if err != nil || c != "" {
			return base, err
		}
		if c, err = s.CommitOf(ctx, p.GitDir, "refs/remotes/"+base); err != nil || c == "" {
			return base, err
		}
		remoteName = base
	}
	out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"remote"}})
	if err != nil {
		return "", GitFault(err, fault.Unavailable, "repository_unreadable", "Reading the remotes")
	}
	best := ""
	for r := range strings.SplitSeq(out, "\n") {
		if r != "" && strings.HasPrefix(remoteName, r+"/") && len(r) > len(best) {
			best = r
		}
	}
	return strings.TrimPrefix(remoteName, best+"/"), nil
}
