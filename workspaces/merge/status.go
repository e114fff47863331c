package merge

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// Status compares the workspace's branch with its base, as this server knows them: it asks and wakes no sandbox. With fetch it asks the
// remote first; a failure of that becomes a warning.
func (s *Service) Status(ctx context.Context, workspaceID string, fetch bool) (workspaces.BranchStatus, []string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return workspaces.BranchStatus{}, nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return workspaces.BranchStatus{}, nil, err
	}
	target, err := s.repo.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return workspaces.BranchStatus{}, nil, err
	}
	var warnings []string
	if fetch {
		warnings, p = s.lookAtRemote(ctx, p, target)
	}
	scratch, err := s.git.Scratch(ctx, s.records.TmpDir(), p.GitDir)
	if err != nil {
		return workspaces.BranchStatus{}, nil, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the base")
	}
	defer func() { _ = scratch.Close() }()
	m := &merger{s: s, scratch: scratch, p: p, Workspace: w, Target: target, brief: true}
	st := workspaces.BranchStatus{Base: target, FetchedAt: p.FetchedAt, Conflicts: []workspaces.Conflict{}, UnderWay: s.underWay(p, w)}
	if st.Head, err = s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch); err != nil {
		return st, nil, err
	}
	if st.BaseCommit, err = m.BaseTip(ctx); err != nil {
		if fault.CodeOf(err) != "base_missing" {
			return st, nil, err
		}
		warnings = append(warnings, git.Reason(err))
	}
	if to, err := s.PushRemote(ctx, p); err == nil {
		st.Remote = to.URL
	}
	if err := s.remoteStatus(ctx, p, w, &st); err != nil {
		return st, nil, err
	}
	if st.Head == "" || st.BaseCommit == "" {
		return st, warnings, nil
	}
	return st, warnings, m.stand(ctx, &st)
}

// lookAtRemote fetches from the project's remote and fast-forwards the local base.
func (s *Service) lookAtRemote(ctx context.Context, p workspaces.Project, target string) ([]string, workspaces.Project) {
	if _, err := s.ingest.Fetch(ctx, &p); err != nil { // somebody asks: fetch even if the last fetch is recent
		return []string{"The remote could not be reached. " + git.Reason(err)}, p
	}
	return s.freshBase(ctx, &p, target), p
}

// stand compares branch and base.
func (m *merger) stand(ctx context.Context, st *workspaces.BranchStatus) error {
	from, err := m.from(ctx, st.BaseCommit, st.Head)
	if fault.CodeOf(err) == "unrelated" {
		return nil
	}
	if err != nil {
		return err
	}
	if st.Ahead, err = m.count(ctx, st.Head, "^"+st.BaseCommit, "^"+from); err != nil {
		return err
	}
	if st.Behind, err = m.count(ctx, st.BaseCommit, "^"+st.Head); err != nil {
		return err
	}
	st.UpToDate, st.Merged = st.Behind == 0, st.Ahead == 0 && m.Workspace.MergedAt != 0
	if st.UpToDate || st.Ahead == 0 {
		return nil
	}
	var scratch workspaces.MergeResult
	if _, err := m.bring(ctx, &scratch, from, st.Head, st.BaseCommit); err != nil {
		return err
	}
	if scratch.Conflicts != nil {
		st.Conflicts = scratch.Conflicts
	}
	return nil
}

// bring merges theirs into ours with from as the common base.
func (m *merger) bring(ctx context.Context, res *workspaces.MergeResult, from, ours, theirs string) (string, error) {
	all, err := m.scratch.Text(ctx, "merge-base", "--all", ours, theirs)
	if err != nil && hostgit.ExitCode(err) != 1 {
		return "", MergeFault(err)
	}
	if slices.Contains(strings.Fields(all), from) {
		return m.mergeTree(ctx, res, ours, theirs)
	}
	return m.threeWay(ctx, res, from, ours, theirs)
}

// remoteStatus compares branch and base with the remote as of the last fetch.
func (s *Service) remoteStatus(ctx context.Context, p workspaces.Project, w workspaces.Workspace, st *workspaces.BranchStatus) error {
	there, err := s.repo.CommitOf(ctx, p.GitDir, git.OriginPrefix+w.Branch)
	if err != nil {
		return err
	}
	if there != "" && st.Head != "" {
		pushed := workspaces.Pushed{Branch: w.Branch, Commit: there}
		if pushed.Ahead, pushed.Behind, err = s.repo.AheadBehind(ctx, p.GitDir, st.Head, there); err != nil {
			return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the remote")
		}
		st.Pushed = &pushed
	}
	base, err := s.repo.CommitOf(ctx, p.GitDir, git.OriginPrefix+st.Base)
	if err != nil || base == "" || st.BaseCommit == "" {
		return err
	}
	st.BaseAhead, st.BaseBehind, err = s.repo.AheadBehind(ctx, p.GitDir, st.BaseCommit, base)
	return git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the remote")
}

// underWay names the unfinished merge, rebase or the like in the worktree. It only checks for files of certain names; for a sandbox with
// its own disk this server does not know.
func (s *Service) underWay(p workspaces.Project, w workspaces.Workspace) string {
	dir := git.LinkedDir(p, w)
	switch {
	case s.sandboxes.Remote(w.ID):
		return ""
	case s.sandboxes.OwnGitDir(w.ID):
		dir = s.sandboxes.PrivateGit(w.ID)
	}
	if dir == "" {
		return ""
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	for _, op := range sandboxgit.UnderWay {
		if _, err := root.Lstat(op.File); err == nil {
			return op.Name
		}
	}
	return ""
}

// PushRemote is the project's remote, if it accepts pushes.
func (s *Service) PushRemote(ctx context.Context, p workspaces.Project) (git.Remote, error) {
	none := fault.New(fault.Conflict, "no_remote", "The project has no remote to push to. Give its repository a remote named origin, or add the project by its URL.")
	from := p.Source
	switch p.SourceKind {
	case workspaces.SourceURL:
	case workspaces.SourceRunner:
		return git.Remote{}, fault.New(fault.Conflict, "no_remote", "The project is a folder of a member's machine: deliver the branch there, and push from it.")
	default:
		var err error
		from, err = s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"config", "--get", "remote.origin.url"}})
		if hostgit.ExitCode(err) == 1 || err == nil && from == "" {
			return git.Remote{}, none
		}
		if err != nil {
			return git.Remote{}, git.GitFault(err, fault.Unavailable, "push_failed", "Reading the remote")
		}
	}
	// Pushing to a folder would run its hooks as this server, so it is not allowed.
	r, err := git.ParseRemote(from, slices.DeleteFunc(slices.Clone(s.cfg.Protocols), func(p string) bool { return p == "file" }))
	if err != nil {
		if isFolder := strings.HasPrefix(from, "/") || strings.HasPrefix(from, "file:") || strings.HasPrefix(from, "."); isFolder {
			return git.Remote{}, fault.New(fault.Conflict, "no_remote", "The project's remote is a folder of this server, whose hooks would run as the server. Push to it in the terminal.")
		}
		return git.Remote{}, err
	}
	return r, nil
}
