package app

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
)

// participants are who has a say in a sandbox's life. They are called in this order at each of its turns, and the order matters: a team is
// admitted before anything is made for it, commits come home before the files that changed since, a snapshot is taken of what came home, a setup
// runs once everything is there, and sessions let go of a sandbox last.
func (h *App) participants() []executors.Participant {
	ps := []executors.Participant{
		{Name: "e2b", Live: h.e2bFound},
		{Name: "teams", Making: func(ctx context.Context, _ executors.Capabilities, s *executors.Spec) error {
			return h.suspension.Admit(ctx, s.TeamID)
		}},
		{Name: "box", Making: h.box},
	}
	if h.caches != nil {
		ps = append(ps, executors.Participant{Name: "caches", Making: h.caches.Outfit})
	}
	return append(ps,
		executors.Gated(h.gate, h.network),
		executors.Participant{Name: "commits", Arriving: h.workspaces.Arrive, Live: func(p *executors.Place) { h.workspaces.Awoke(p.WorkspaceID) },
			Home: h.commitsHome, Ending: func(ctx context.Context, p *executors.Place) { _ = h.commitsHome(ctx, p) }, // it is logged there
			Ended: func(r executors.Record) { h.workspaces.SandboxEnded(r.WorkspaceID, r.Handle.ID) }, Left: h.workspaces.KeepLeft},
		h.meters.Participant(),
		executors.Participant{Name: "images", Making: h.image},
		executors.Participant{Name: "files", Arriving: h.files.Arrive, Live: h.files.Follow, Pausing: h.filesHome, Ending: h.filesHome},
		executors.Participant{Name: "snapshots", Pausing: h.keepBefore, Ending: h.keepBefore},
		executors.Participant{Name: "ignored files", Arriving: h.workspaces.ArriveIgnored},
		executors.Participant{Name: "setup", Arriving: h.workspaces.ArriveSetup},
		executors.Participant{Name: "tools", Making: h.agents.Outfit},
		executors.Participant{Name: "sessions", Ending: h.sessions.Leaving, Use: h.sessions.Use},
	)
}

// commitsHome brings the commits of a place home that ends or stands still. Its error says that some were refused, which exist nowhere else.
func (h *App) commitsHome(ctx context.Context, p *executors.Place) error {
	err := h.workspaces.TakeLeave(ctx, p.WorkspaceID, p.Run)
	if err != nil {
		h.log.WarnContext(ctx, "a sandbox that ends or stands still has commits that could not be brought home", "workspace_id", p.WorkspaceID, "error", err)
	}
	if !workspaces.Refused(err) {
		return nil
	}
	return err
}

// filesHome brings the files of a place with a disk of its own home, which ends or stands still.
func (h *App) filesHome(ctx context.Context, p *executors.Place) {
	if err := h.files.BringHome(ctx, p); err != nil {
		h.log.WarnContext(ctx, "a sandbox that ends or stands still has files that could not be brought home", "workspace_id", p.WorkspaceID, "error", err)
	}
}

// keepBefore keeps a version of a workspace's files before its sandbox ends or stands still.
func (h *App) keepBefore(ctx context.Context, p *executors.Place) {
	h.workspaces.KeepBefore(ctx, p.WorkspaceID, "stop")
}
