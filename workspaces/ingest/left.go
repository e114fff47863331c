package ingest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// maxLeft bounds how many branches are made of one abandoned sandbox.
const maxLeft = 20

// SaveRemnants saves what an abandoned sandbox has, after its workspace continued without it: as separate branches, without touching the
// workspace's work since then. It makes no branch of what this server already has. On an error it may have saved nothing, and the sandbox
// must not be destroyed.
func (s *Service) SaveRemnants(ctx context.Context, pl *executors.Place) error {
	w, err := s.store.Workspace(ctx, pl.WorkspaceID)
	if fault.Is(err, fault.NotFound) {
		return nil // it is no longer visible to anybody
	}
	if err != nil {
		return err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	if err != nil {
		return err
	}
	unlock, err := s.locks.Homing.LockContext(ctx, w.ID)
	if err != nil {
		return err
	}
	defer unlock()
	b, err := s.sandboxes.OpenWith(ctx, w, pl.Run)
	if fault.CodeOf(err) == "worktree_unreadable" {
		return s.nothingLeft(ctx, w, pl, err)
	}
	if err != nil {
		return err
	}
	defer b.Close(ctx)
	t, err := snapshot.Everything(ctx, b, fmt.Sprintf("What was not committed on %s (%s)", s.machineName(ctx, pl.Kind), w.Key()))
	if err != nil {
		return err
	}
	v, err := s.sandboxes.Look(ctx, w, b)
	if err != nil {
		return err
	}
	fresh, err := s.takeLeft(ctx, p, w, b, t, v)
	if err != nil || len(fresh) == 0 {
		return err
	}
	return s.nameLeft(ctx, p, w, pl, t, fresh)
}

// left is one line of work of an abandoned sandbox.
type left struct {
	commit string
	name   string // its branch there, "" = the worktree's HEAD
}

// takeLeft fetches what this server lacks, and returns the lines of work.
func (s *Service) takeLeft(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, t sandboxgit.Captured, v sandboxgit.SandboxView) ([]left, error) {
	dirty, err := b.Git(ctx, nil, "diff-tree", "-r", "--name-only", t.Head, t.Commit)
	if err != nil {
		return nil, git.SandboxFault(err, "worktree_unreadable", "Reading the sandbox's changes")
	}
	first := left{commit: t.Head}
	if strings.TrimSpace(dirty) != "" {
		first.commit = t.Commit
	}
	all := []left{first}
	for _, name := range slices.Sorted(maps.Keys(v.Refs)) {
		if head, ok := strings.CutPrefix(name, git.HeadsPrefix); ok {
			all = append(all, left{v.Refs[name], head})
		}
	}
	for i, id := range v.Stash {
		all = append(all, left{id, "stash-" + strconv.Itoa(i+1)})
	}
	tips := make(map[string]bool)
	var fresh []left
	for _, l := range all {
		have, err := s.repo.CommitOf(ctx, p.GitDir, l.commit)
		if err != nil {
			return nil, err
		}
		if have == "" && !tips[l.commit] {
			fresh = append(fresh, l)
			tips[l.commit] = true
		}
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	was, err := s.repo.CommitOf(ctx, p.GitDir, git.HeadsPrefix+w.Branch)
	if err != nil {
		return nil, err
	}
	own, err := s.sandboxes.RefsBelow(ctx, p, sandboxgit.AgentRefs(w.ID))
	if err != nil {
		return nil, err
	}
	state := s.sandboxes.ReadSyncState(w.ID)
	known := map[string]bool{was: true, w.BaseCommit: true, state.Head: true, state.Tip: true} // do not trust the sandbox: it might name objects it may not read
	for _, m := range [...]map[string]string{own, s.sandboxes.ReadAdvertised(w.ID)} {
		for _, id := range m {
			known[id] = true
		}
	}
	var ask []string
	for _, id := range sandboxgit.FirstOf(known, sandboxgit.MaxNegatives) {
		if have, err := s.repo.CommitOf(ctx, p.GitDir, id); err == nil && have != "" {
			ask = append(ask, id)
		}
	}
	there, err := b.Has(ctx, ask)
	if err != nil {
		return nil, err
	}
	if _, err := s.sandboxes.TakePack(ctx, p, w, b, tips, there, state.Bytes); err != nil {
		return nil, err
	}
	return s.separateLeft(ctx, p, fresh)
}

// separateLeft leaves out lines of work that another one contains.
func (s *Service) separateLeft(ctx context.Context, p workspaces.Project, fresh []left) ([]left, error) {
	var out []left
	for i, l := range fresh {
		var others []string
		for j, o := range fresh {
			if j != i && o.commit != l.commit {
				others = append(others, o.commit)
			}
		}
		if len(others) > 0 {
			reached, err := s.sandboxes.ReachedFrom(ctx, p, l.commit, others)
			if err != nil {
				return nil, err
			}
			if reached {
				continue
			}
		}
		out = append(out, l)
	}
	return out[:min(len(out), maxLeft)], nil
}

// nameLeft makes a branch of each line of work, and notifies the workspace's people.
func (s *Service) nameLeft(ctx context.Context, p workspaces.Project, w workspaces.Workspace, pl *executors.Place, t sandboxgit.Captured, fresh []left) error {
	unlock, err := s.locks.Names.LockContext(ctx, p.ID)
	if err != nil {
		return err
	}
	defer unlock()
	machine := s.machineName(ctx, pl.Kind)
	prefix := w.Branch + sandboxgit.LeftMark + workspaces.PathSlug(machine)
	refs, err := s.sandboxes.RefsBelow(ctx, p, git.HeadsPrefix)
	if err != nil {
		return err
	}
	var names []string
	for _, l := range fresh {
		again, err := s.savedAlready(ctx, p, refs, prefix, l.commit)
		if err != nil {
			return err
		}
		if again { // an earlier server was stopped before it destroyed the sandbox
			continue
		}
		want := prefix
		if l.name != "" && l.name != w.Branch {
			want += "-" + workspaces.PathSlug(l.name)
		}
		name, err := s.repo.FreeBranch(ctx, p, want, "")
		if err != nil {
			return err
		}
		if err := s.repo.UpdateRefs(ctx, p.GitDir, "left on "+machine+" by "+w.Key(), git.RefCreate(git.HeadsPrefix+name, l.commit)); err != nil {
			return git.GitFault(err, fault.Conflict, "commit_transfer_failed", "Saving what was left behind")
		}
		names = append(names, name)
	}
	if len(names) == 0 {
		return nil
	}
	paths, err := s.snapshots.SnapshotPaths(ctx, p, workspaces.Snapshot{Head: t.Head, Commit: t.Commit})
	if err != nil {
		paths = nil // it is saved: the count is only for the message
	}
	what := "What had been done there"
	if n := len(paths); n > 0 {
		what += fmt.Sprintf(" (%s not committed)", git.Plural(n, "file", "files"))
	}
	where := "the branch " + names[0]
	if len(names) > 1 {
		where = "the branches " + strings.Join(names, ", ")
	}
	s.records.Note(ctx, workspaces.Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: "workspace.left_kept",
		Text: fmt.Sprintf("%s is back. %s and was not on this server is saved as %s. Merge it, or start a workspace from it.", machine, what, where),
		Data: map[string]any{"branches": names, "commit": fresh[0].commit}})
	s.records.PublishProject(ctx, p)
	s.records.PublishWorkspace(ctx, w)
	return nil
}

// savedAlready reports whether an earlier branch has the same files on the same commit.
func (s *Service) savedAlready(ctx context.Context, p workspaces.Project, refs map[string]string, prefix, commit string) (bool, error) {
	same := func(a, b string) (bool, error) {
		out, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"rev-parse", a + "^{tree}", b + "^{tree}", a + "^@", b + "^@"}})
		if err != nil {
			return false, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Comparing what was left behind")
		}
		f := strings.Fields(out)
		n := len(f) / 2
		return len(f)%2 == 0 && n > 0 && f[0] == f[1] && slices.Equal(f[2:1+n], f[1+n:]), nil
	}
	for name, id := range refs {
		if !strings.HasPrefix(name, git.HeadsPrefix+prefix) {
			continue
		}
		if id == commit {
			return true, nil
		}
		if ok, err := same(id, commit); ok || err != nil {
			return ok, err
		}
	}
	return false, nil
}

// nothingLeft allows destroying a sandbox whose worktree is not a repository. It does not when the folder cannot be read.
func (s *Service) nothingLeft(ctx context.Context, w workspaces.Workspace, pl *executors.Place, cause error) error {
	list, err := pl.Guest.List(ctx, "")
	if err == nil && len(list.Items) == 0 {
		return nil // it never received anything
	}
	s.cfg.Log.WarnContext(ctx, "what was left behind cannot be read", "workspace_id", w.ID, "sandbox_id", pl.SandboxID, "error", cause)
	return cause
}

// machineName is the display name of an executor.
func (s *Service) machineName(ctx context.Context, k executors.Kind) string {
	if c := s.records.Chooser(); c != nil {
		if caps, ok := c.Place(ctx, k); ok && caps.Name != "" {
			return caps.Name
		}
	}
	return "the machine"
}
