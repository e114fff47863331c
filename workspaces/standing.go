package workspaces

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
)

// Standing says how the workspace's branch and its base stand to each other, as this server knows them: nobody's sandbox is asked or
// woken. With fetch the remote is asked first; what kept it from answering is in the warnings.
func (s *Service) Standing(ctx context.Context, workspaceID string, fetch bool) (Standing, []string, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return Standing{}, nil, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return Standing{}, nil, err
	}
	target, err := s.BranchTarget(ctx, p, w.Base)
	if err != nil {
		return Standing{}, nil, err
	}
	var warnings []string
	if fetch {
		warnings, p = s.lookAtRemote(ctx, p, target)
	}
	desk, err := s.git.Desk(ctx, s.TmpDir(), p.GitDir)
	if err != nil {
		return Standing{}, nil, GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the base")
	}
	defer func() { _ = desk.Close() }()
	m := &merger{s: s, desk: desk, p: p, w: w, target: target, brief: true}
	st := Standing{Base: target, FetchedAt: p.FetchedAt, Conflicts: []Conflict{}, UnderWay: s.underWay(p, w)}
	if st.Head, err = s.CommitOf(ctx, p.GitDir, HeadsPrefix+w.Branch); err != nil {
		return st, nil, err
	}
	if st.BaseCommit, err = m.baseTip(ctx); err != nil {
		if fault.CodeOf(err) != "base_missing" {
			return st, nil, err
		}
		warnings = append(warnings, Reason(err))
	}
	if to, err := s.PushRemote(ctx, p); err == nil {
		st.Remote = to.URL
	}
	if err := s.remoteStanding(ctx, p, w, &st); err != nil {
		return st, nil, err
	}
	if st.Head == "" || st.BaseCommit == "" {
		return st, warnings, nil
	}
	return st, warnings, m.stand(ctx, &st)
}

// lookAtRemote asks the project's remote and brings the base here up to date with it.
func (s *Service) lookAtRemote(ctx context.Context, p Project, target string) ([]string, Project) {
	if _, err := s.Fetch(ctx, &p); err != nil { // somebody asks for it: also where it was asked a moment ago
		return []string{"The remote could not be asked. " + Reason(err)}, p
	}
	return s.freshBase(ctx, &p, target), p
}

// stand compares branch and base.
func (m *merger) stand(ctx context.Context, st *Standing) error {
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
	st.UpToDate, st.Merged = st.Behind == 0, st.Ahead == 0 && m.w.MergedAt != 0
	if st.UpToDate || st.Ahead == 0 {
		return nil
	}
	var scratch MergeResult
	if _, err := m.bring(ctx, &scratch, from, st.Head, st.BaseCommit); err != nil {
		return err
	}
	if scratch.Conflicts != nil {
		st.Conflicts = scratch.Conflicts
	}
	return nil
}

// bring merges theirs into ours with from as what both began with.
func (m *merger) bring(ctx context.Context, res *MergeResult, from, ours, theirs string) (string, error) {
	all, err := m.desk.Text(ctx, "merge-base", "--all", ours, theirs)
	if err != nil && hostgit.ExitCode(err) != 1 {
		return "", MergeFault(err)
	}
	if slices.Contains(strings.Fields(all), from) {
		return m.mergeTree(ctx, res, ours, theirs)
	}
	return m.threeWay(ctx, res, from, ours, theirs)
}

// remoteStanding says what of branch and base the remote had when it was last asked.
func (s *Service) remoteStanding(ctx context.Context, p Project, w Workspace, st *Standing) error {
	there, err := s.CommitOf(ctx, p.GitDir, OriginPrefix+w.Branch)
	if err != nil {
		return err
	}
	if there != "" && st.Head != "" {
		pushed := Pushed{Branch: w.Branch, Commit: there}
		if pushed.Ahead, pushed.Behind, err = s.aheadBehind(ctx, p.GitDir, st.Head, there); err != nil {
			return GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the remote")
		}
		st.Pushed = &pushed
	}
	base, err := s.CommitOf(ctx, p.GitDir, OriginPrefix+st.Base)
	if err != nil || base == "" || st.BaseCommit == "" {
		return err
	}
	st.BaseAhead, st.BaseBehind, err = s.aheadBehind(ctx, p.GitDir, st.BaseCommit, base)
	return GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing with the remote")
}

// underWay names the merge, rebase or the like that was begun in the worktree and not ended. Only whether files of certain names are
// there is looked at; of a place with a disk of its own this server does not know.
func (s *Service) underWay(p Project, w Workspace) string {
	dir := linkedDir(p, w)
	switch {
	case s.Remote(w.ID):
		return ""
	case s.OwnGitDir(w.ID):
		dir = s.privateGit(w.ID)
	}
	if dir == "" {
		return ""
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return ""
	}
	defer root.Close()
	for _, op := range underWay {
		if _, err := root.Lstat(op.file); err == nil {
			return op.name
		}
	}
	return ""
}

// PushRemote is the project's remote, as far as something can be sent there.
func (s *Service) PushRemote(ctx context.Context, p Project) (Remote, error) {
	none := fault.New(fault.Conflict, "no_remote", "The project has no remote to push to. Give its repository a remote named origin, or add the project by its URL.")
	from := p.Source
	switch p.SourceKind {
	case SourceURL:
	case SourceRunner:
		return Remote{}, fault.New(fault.Conflict, "no_remote", "The project is a folder of a member's machine: deliver the branch there, and push from it.")
	default:
		var err error
		from, err = s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"config", "--get", "remote.origin.url"}})
		if hostgit.ExitCode(err) == 1 || err == nil && from == "" {
			return Remote{}, none
		}
		if err != nil {
			return Remote{}, GitFault(err, fault.Unavailable, "push_failed", "Reading the remote")
		}
	}
	// A folder's own hooks would run as this server: nothing is pushed to one.
	r, err := ParseRemote(from, slices.DeleteFunc(slices.Clone(s.cfg.Protocols), func(p string) bool { return p == "file" }))
	if err != nil {
		if isFolder := strings.HasPrefix(from, "/") || strings.HasPrefix(from, "file:") || strings.HasPrefix(from, "."); isFolder {
			return Remote{}, fault.New(fault.Conflict, "no_remote", "The project's remote is a folder of this server, whose hooks would run as the server. Push to it in the terminal.")
		}
		return Remote{}, err
	}
	return r, nil
}
