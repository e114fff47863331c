package git

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
)

// CheckBase checks the syntax of a base that a user named.
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

// ExactBase reports whether base is a full ref name: it is then used without asking the remote.
func ExactBase(base string) bool { return strings.HasPrefix(base, "refs/") }

// ResolveBase returns the commit a new workspace starts from, and notes for the user. In a cloned project it fast-forwards the local branch
// to the remote's; when they have diverged, the user must choose one.
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
		return local, "The remote has no branch " + base + ": the local one is used.", nil
	}
	ahead, behind, err := s.StepBase(ctx, p, base)
	if err != nil {
		return "", "", err
	}
	switch {
	case ahead > 0 && behind > 0:
		return "", "", fault.New(fault.Conflict, "base_diverged",
			"The local %s has %d commits that the remote lacks, and lacks %d of the remote's. Start from origin/%s (the remote's) or from refs/heads/%s (the local one).",
			base, ahead, behind, base, base).With("ahead", ahead).With("behind", behind)
	case ahead > 0:
		return local, Plural(ahead, "commit is", "commits are") + " here that the remote has not.", nil
	}
	return remote, "", nil
}

// LookUpBase returns the commit that a base names here, the local branch before the remote's. Unlike ResolveBase it moves nothing.
func (s *Repo) LookUpBase(ctx context.Context, p workspaces.Project, base string) (commit string, err error) {
	names := []string{HeadsPrefix + base, "refs/remotes/" + base, "refs/remotes/origin/" + base}
	if ExactBase(base) {
		names = []string{base}
	}
	for _, name := range names {
		if commit, err = s.CommitOf(ctx, p.GitDir, name); err != nil || commit != "" {
			break
		}
	}
	commit, _, err = s.foundBase(p, base, commit, err)
	return commit, err
}

func (s *Repo) foundBase(p workspaces.Project, base, commit string, err error) (string, string, error) {
	if err == nil && commit == "" {
		err = fault.New(fault.Invalid, "base_missing", "The project %q has no branch %q. Choose one of its branches.", p.Name, base)
	}
	return commit, "", err
}

// StepBase creates the local branch of a cloned project or fast-forwards it to the remote's, and returns how far they differ after that. It
// does not move a branch that is checked out somewhere.
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

// CheckedOut returns the worktree that has the ref checked out, nil when there is none.
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

// BranchTarget returns the local branch that work based on base merges into.
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
