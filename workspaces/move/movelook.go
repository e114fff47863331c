package move

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/ingest"
	"github.com/parawork/parawork/workspaces/sandboxgit"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/transfer"
)

// Keepers is an optional ability of Places that have places with a disk of their own.
type Keepers interface {
	// OnlyThere says how many files the workspace's sandbox alone holds, because they are too large or of a kind that is not brought home.
	OnlyThere(ctx context.Context, workspaceID string) (int64, error)
}

// liveBox is openBox for a sandbox that lives; nil where none does, and none is made or woken.
func (s *Service) liveBox(ctx context.Context, w workspaces.Workspace) (*sandboxgit.Sandbox, error) {
	places, _, err := s.records.Connected()
	if err != nil {
		return nil, err
	}
	if a := s.records.RemoteSandboxes(); !places.Live(w.ID) || a != nil && !a.Awake(w.ID) {
		return nil, nil
	}
	run := places.RunInSandbox
	if live, is := places.(ingest.LiveRunner); is {
		run = live.RunLive
	}
	b, err := s.sandboxes.OpenWith(ctx, w, func(ctx context.Context, c executors.SandboxCommand) (executors.SandboxResult, error) {
		return run(ctx, w.ID, c)
	})
	if fault.CodeOf(err) == "sandbox_not_live" {
		return nil, nil
	}
	return b, err
}

// leavesGit reports whether a move to another place leaves the git dir that the workspace's agents work with: commits, what is staged and
// other refs come along, and nothing else of it does.
func (s *Service) leavesGit(w workspaces.Workspace, to executors.Capabilities) bool {
	return s.sandboxes.Remote(w.ID) || s.sandboxes.OwnGitDir(w.ID) && (!to.Isolated || to.OwnDisk)
}

// unfinished refuses to leave a git dir in which a merge, a rebase or the like is under way: what git noted of it would be lost, and the next
// commit would be one of half a merge. A sandbox that does not live is not asked: it is looked at again before it is left.
func (s *Service) unfinished(ctx context.Context, w workspaces.Workspace, to executors.Capabilities) error {
	if !s.leavesGit(w, to) {
		return nil
	}
	b, err := s.liveBox(ctx, w)
	if err != nil || b == nil {
		return err
	}
	return b.Idle(ctx)
}

// staysBehind refuses to leave a sandbox that alone holds files, in the words of who would refuse its end later.
func (s *Service) staysBehind(ctx context.Context, w workspaces.Workspace) error {
	places, _, err := s.records.Connected()
	if err != nil || !s.sandboxes.Remote(w.ID) {
		return err
	}
	k, ok := places.(Keepers)
	if !ok {
		return nil
	}
	n, err := k.OnlyThere(ctx, w.ID)
	if err != nil || n == 0 {
		return err
	}
	return fault.New(fault.Conflict, "sandbox_not_home", "%s in the sandbox alone, too large or of a kind that is not brought home. Move or remove what is listed as not synced, or have git ignore it if it may be lost.",
		git.Plural(int(n), "file is", "files are")).With("not_synced", n)
}

// leftIgnored names what git ignores in a workspace and would not come along, folders with a slash; nil where nobody can be asked now. along
// are files that do.
func (s *Service) leftIgnored(ctx context.Context, b *sandboxgit.Sandbox, along func(name string) bool) []string {
	if b == nil {
		return nil
	}
	out, err := b.Git(ctx, nil, "ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
	if err != nil {
		s.cfg.Log.InfoContext(ctx, "what is ignored could not be listed for the plan of a move", "workspace_id", b.Workspace.ID, "error", err)
		return nil
	}
	return slices.DeleteFunc(git.SplitZero(out), along)
}

// ignoredWords are what a plan says of ignored files. others says that it told of some already.
func ignoredWords(names []string, others bool) string {
	switch {
	case len(names) == 0 && others:
		return "Other files that git ignores, such as installed packages and build results"
	case len(names) == 0:
		return "Files that git ignores, such as installed packages and build results"
	case others:
		return "Other files that git ignores: " + git.SomeNames(git.EncodePaths(names))
	}
	return "Files that git ignores: " + git.SomeNames(git.EncodePaths(names))
}

// planChosen says which of the ignored files that the project keeps come along to or from a place with a disk of its own: as its sandbox has
// them, else as they came to this server last.
func (s *Service) planChosen(ctx context.Context, p workspaces.Project, w workspaces.Workspace, b *sandboxgit.Sandbox, lost bool) (transfer.ChosenFiles, error) {
	switch {
	case len(p.KeepIgnored) == 0:
		return transfer.ChosenFiles{}, nil
	case s.sandboxes.Remote(w.ID) && b != nil && !lost:
		return s.transfer.ChosenRemote(ctx, p, w, b)
	case s.sandboxes.Remote(w.ID):
		commit, err := s.repo.CommitOf(ctx, p.GitDir, snapshot.RemoteIgnoredRef(w.ID))
		if err != nil {
			return transfer.ChosenFiles{}, err
		}
		if commit != "" {
			var c transfer.ChosenFiles
			files, err := s.snapshots.IgnoredFiles(ctx, p, w.ID, commit)
			for _, f := range files {
				c.Take(transfer.ChosenFile{Name: f.Path, Size: f.Size})
			}
			return c, err
		}
	}
	head, err := s.sandboxes.LocalHead(ctx, p, w)
	if err != nil {
		return transfer.ChosenFiles{}, err
	}
	return s.transfer.ChosenLocal(ctx, p, w, head, false)
}

// lackKey is what a trial's finding is kept under.
func lackKey(workspaceID, kind string) string { return workspaceID + " " + kind }

// planSessions says what becomes of the sessions that run, with what a trial of the place found.
func (s *Service) planSessions(ctx context.Context, movers workspaces.Movers, w workspaces.Workspace, from, to executors.Capabilities) ([]workspaces.MovedSession, error) {
	plan, err := movers.MovePlan(ctx, w.ID, from, to)
	s.movings.mu.Lock()
	defer s.movings.mu.Unlock()
	found, tried := s.movings.lacks[lackKey(w.ID, string(to.Kind))]
	for i := range plan {
		m := &plan[i]
		if m.Program == "" || m.How == workspaces.MoveWaits || !tried {
			continue
		}
		lacking, looked := found[m.Program]
		switch {
		case lacking:
			m.How, m.Busy, m.Reason = workspaces.MoveWaits, false, m.Lacking
		case looked:
			m.Reason = ""
		}
	}
	return plan, err
}

// programsFor are the programs that the sessions which run need in the place a workspace goes to. asked are the sessions.
func (s *Service) programsFor(ctx context.Context, w workspaces.Workspace, m workspaces.Moving) (asked []workspaces.MovedSession, programs []string, err error) {
	_, sessions, err := s.records.Connected()
	if err != nil {
		return nil, nil, err
	}
	movers, ok := sessions.(workspaces.Movers)
	if !ok {
		return nil, nil, nil
	}
	c := s.records.Chooser()
	from, _ := c.Place(ctx, executors.Kind(m.From))
	to, _ := c.Place(ctx, executors.Kind(m.To))
	if asked, err = s.planSessions(ctx, movers, w, from, to); err != nil {
		return nil, nil, err
	}
	for _, one := range asked {
		if one.Program != "" && !slices.Contains(programs, one.Program) {
			programs = append(programs, one.Program)
		}
	}
	return asked, programs, nil
}

// noteLacks remembers what a trial found, and stops a move of which its plan did not say that an agent cannot go on: nothing was stopped yet.
// Asked for again, it goes on without.
func (s *Service) noteLacks(w workspaces.Workspace, m workspaces.Moving, asked []workspaces.MovedSession, lacks []string) error {
	found := make(map[string]bool)
	news := ""
	for _, one := range asked {
		if one.Program == "" {
			continue
		}
		found[one.Program] = slices.Contains(lacks, one.Program)
		if found[one.Program] && one.How != workspaces.MoveWaits && news == "" {
			news = one.Lacking
		}
	}
	s.movings.mu.Lock()
	defer s.movings.mu.Unlock()
	if len(found) > 0 {
		s.movings.lacks[lackKey(w.ID, m.To)] = found
	}
	if news == "" {
		return nil
	}
	return fault.New(fault.Conflict, "agent_not_there", "%s. Nothing was stopped: it works on where it is. Move it again to go without the agent.", strings.TrimSuffix(news, "."))
}
