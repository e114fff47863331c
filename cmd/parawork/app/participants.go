package app

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/workspaces/ingest"
)

// participants take part in a sandbox's lifecycle. The manager calls them in this order at each step, and the order matters: a team is
// admitted before anything is made for it, commits are synced before the files that changed since, the snapshot has what was synced, the setup
// runs once everything is in place, and sessions let go of a sandbox last.
func (a *App) participants() []executors.Participant {
	ps := []executors.Participant{
		{Name: "walls", Live: a.enforceNetwork},
		{Name: "teams", Making: func(ctx context.Context, _ executors.Capabilities, s *executors.Spec) error {
			return a.suspension.Admit(ctx, s.TeamID)
		}},
		{Name: "box", Making: a.box},
	}
	if a.caches != nil {
		ps = append(ps, executors.Participant{Name: "caches", Making: a.caches.Outfit})
	}
	return append(ps,
		executors.Gated(a.gate, a.network),
		executors.Participant{Name: "commits", Arriving: a.workspaces.Transfer.Arrive, Live: func(p *executors.Place) { a.workspaces.Ingest.Awoke(p.WorkspaceID) },
			Home: a.commitsHome, Ending: func(ctx context.Context, p *executors.Place) { _ = a.commitsHome(ctx, p) }, // it is logged there
			Ended: func(r executors.Record) { a.workspaces.Ingest.SandboxEnded(r.WorkspaceID, r.Handle.ID) }, Left: a.workspaces.Ingest.SaveRemnants},
		a.meters.Participant(),
		executors.Participant{Name: "images", Making: a.sandboxes.image},
		executors.Participant{Name: "files", Arriving: a.files.Arrive, Live: a.files.Follow, Pausing: a.filesHome, Ending: a.filesHome},
		executors.Participant{Name: "snapshots", Pausing: a.keepBefore, Ending: a.keepBefore},
		executors.Participant{Name: "ignored files", Arriving: a.workspaces.Transfer.ArriveIgnored},
		executors.Participant{Name: "setup", Arriving: a.workspaces.Transfer.ArriveSetup},
		executors.Participant{Name: "tools", Making: a.agents.Outfit},
		a.languages.Participant(),
		a.artifacts.Participant(), // before the sessions let go of it
		executors.Participant{Name: "sessions", Ending: a.sessions.Leaving, Use: a.sessions.Use},
	)
}

// commitsHome fetches the commits of a sandbox that is ending or being suspended. Its error means that some were refused, and they exist
// nowhere else.
func (a *App) commitsHome(ctx context.Context, p *executors.Place) error {
	err := a.workspaces.Ingest.FetchBeforeEnd(ctx, p.WorkspaceID, p.Run)
	if err != nil {
		a.log.WarnContext(ctx, "commits of an ending or suspended sandbox could not be fetched", "workspace_id", p.WorkspaceID, "error", err)
	}
	if !ingest.Refused(err) {
		return nil
	}
	return err
}

// filesHome syncs the files of a sandbox with a disk of its own that is ending or being suspended.
func (a *App) filesHome(ctx context.Context, p *executors.Place) {
	if err := a.files.SyncToServer(ctx, p); err != nil {
		a.log.WarnContext(ctx, "files of an ending or suspended sandbox could not be synced", "workspace_id", p.WorkspaceID, "error", err)
	}
}

// keepBefore takes a snapshot of a workspace's files before its sandbox ends or is suspended, and a checkpoint for each agent that runs in it.
func (a *App) keepBefore(ctx context.Context, p *executors.Place) {
	a.workspaces.Snapshots.TakeBefore(ctx, p.WorkspaceID, "stop")
	a.checkpoints.BeforeEnd(ctx, p.WorkspaceID)
}

// box gives a sandbox that isolates what it gets of the host; before one that does not, a workspace takes back what it gave.
func (a *App) box(ctx context.Context, c executors.Capabilities, s *executors.Spec) error {
	switch {
	case manager.Trying(ctx):
		return nil
	case c.OwnDisk:
		if err := a.workspaces.Ingest.PrepareRemote(ctx, s.WorkspaceID); err != nil {
			return err
		}
		a.workspaces.Transfer.PackAhead(ctx, s.WorkspaceID, s.ID)
		return nil
	case !c.Isolated:
		return a.workspaces.Ingest.ReleaseSandbox(ctx, s.WorkspaceID)
	}
	b, err := a.workspaces.Ingest.PrepareSandbox(ctx, s.WorkspaceID)
	if err != nil {
		return err
	}
	s.MountSpec = &b
	return nil
}
