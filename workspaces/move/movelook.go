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

// Keepers is an optional ability of Places whose executors have their own disk.
type Keepers interface {
	// OnlyThere returns how many files only the workspace's sandbox has, because they are too large or of a type that is not synced.
	OnlyThere(ctx context.Context, workspaceID string) (int64, error)
}

// liveBox opens the workspace's sandbox if it is live; nil if it is not. It neither creates nor wakes one.
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

// leavesGit reports whether a move to another executor leaves the git dir of the workspace's agents: commits, staged changes and other refs
// come along, but nothing else of it does.
func (s *Service) leavesGit(w workspaces.Workspace, to executors.Capabilities) bool {
	return s.sandboxes.Remote(w.ID) || s.sandboxes.OwnGitDir(w.ID) && (!to.Isolated || to.OwnDisk)
}

// unfinished rejects leaving a git dir with a merge, a rebase or the like in progress: its state would be lost, and the next commit would
// be one of half a merge. It does not check a sandbox that is not live: that is checked again before leaving it.
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

// staysBehind rejects leaving a sandbox that is the only one to have certain files, with the same message as ending it later would give.
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
	return fault.New(fault.Conflict, "sandbox_not_synced", "%s in the sandbox only, too large or of a type that is not synced. Move or remove what is listed as not synced, or have git ignore it if it may be lost.",
		git.Plural(int(n), "file is", "files are")).With("not_synced", n)
}

// ignoredLeft lists the ignored files of a workspace that would not come along, folders with a slash; nil when no sandbox can be asked now.
// along are files that do.
func (s *Service) ignoredLeft(ctx context.Context, b *sandboxgit.Sandbox, along func(name string) bool) []string {
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

// ignoredWords are a plan's text about ignored files. others says that the plan lists some already.
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

// planChosen returns which of the ignored files that the project selects come along to or from a sandbox with its own disk: as its sandbox
// has them, else as they were last synced to this server.
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

// lackKey is the key of a trial's finding.
func lackKey(workspaceID, kind string) string { return workspaceID + " " + kind }

// planSessions returns what happens to the running sessions, given what a trial of the executor found.
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

// programsFor are the programs that the running sessions need in the target. asked are those sessions.
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

// noteLacks records what a trial found, and stops a move if its plan did not say that an agent cannot be resumed: nothing was stopped yet.
// Requested again, the move continues without that agent.
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
	return fault.New(fault.Conflict, "agent_missing_at_target", "%s. Nothing was stopped: the workspace runs where it was. Move it again to go without the agent.", strings.TrimSuffix(news, "."))
}
