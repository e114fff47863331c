package server

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/watch"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/images"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// finder returns how what an operation is about is found.
type finder func(s *Server) find

// find returns what a path names, and puts what it read into the call.
type find func(ctx context.Context, c echo.Context, call *rest.Call) (accounts.Object, error)

// byID finds with read what the id in the path names.
func byID(read func(ctx context.Context, call *rest.Call, id string) (accounts.Object, error)) find {
	return func(ctx context.Context, c echo.Context, call *rest.Call) (accounts.Object, error) {
		id, err := rest.PathID(c)
		if err != nil {
			return accounts.Object{}, err
		}
		return read(ctx, call, id)
	}
}

// inTeam finds what belongs to a team as a whole: read reads it, teamOf says whose it is.
func inTeam[T any](read func(context.Context, string) (T, error), teamOf func(*rest.Call, T) string) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
		v, err := read(ctx, id)
		if err != nil {
			return accounts.Object{}, err
		}
		return accounts.InTeam(teamOf(call, v)), nil
	})
}

// inWorkspace finds what belongs to a workspace, and is as private as that: read reads it, workspaceOf says to which.
func inWorkspace[T any](s *Server, read func(context.Context, string) (T, error), workspaceOf func(*rest.Call, T) string) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
		v, err := read(ctx, id)
		if err != nil {
			return accounts.Object{}, err
		}
		return s.Within(ctx, call, workspaceOf(call, v))
	})
}

func byTeam(*Server) find {
	return func(_ context.Context, c echo.Context, call *rest.Call) (accounts.Object, error) {
		t, ok := call.Actor.TeamBySlug(c.Param("team"))
		if !ok {
			return accounts.Object{}, rest.ErrNotFound
		}
		return accounts.InTeam(t.ID), nil
	}
}

func byProject(s *Server) find {
	return inTeam(s.cfg.Workspaces.Records.Project, func(call *rest.Call, p workspaces.Project) string { call.Project = p; return p.TeamID })
}

func byInvite(s *Server) find {
	return inTeam(s.cfg.Directory.Invite, func(_ *rest.Call, i accounts.Invite) string { return i.TeamID })
}

func byWebhook(s *Server) find {
	return inTeam(s.cfg.Notify.Webhook, func(_ *rest.Call, w notify.Webhook) string { return w.TeamID })
}

func byImageBuild(s *Server) find {
	return inTeam(s.cfg.Images.Get, func(_ *rest.Call, b images.Build) string { return b.TeamID })
}

func byRunnerToken(s *Server) find {
	return inTeam(s.cfg.Machines.Token, func(_ *rest.Call, t machines.Token) string { return t.TeamID })
}

func byWorkspace(s *Server) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (o accounts.Object, err error) {
		if call.Workspace, err = s.cfg.Workspaces.Records.Workspace(ctx, id); err != nil {
			return o, err
		}
		return s.ObjectOf(ctx, call.Actor, call.Workspace)
	})
}

func bySession(s *Server) find {
	return inWorkspace(s, s.cfg.Sessions.Get, func(call *rest.Call, v sessions.Session) string { call.Session = v; return v.WorkspaceID })
}

func byCommand(s *Server) find {
	return inWorkspace(s, s.cfg.Commands.Command, func(call *rest.Call, c command.Command) string { call.Command = c; return c.WorkspaceID })
}

func byCodeRun(s *Server) find {
	return inWorkspace(s, s.cfg.Code.Get, func(call *rest.Call, r code.Run) string { call.CodeRun = r; return r.WorkspaceID })
}

// bySandbox finds a sandbox without a repository, for its user alone, with its workspace.
func bySandbox(s *Server) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (o accounts.Object, err error) {
		if o, err = sandbox(ctx, s, call, id); err != nil {
			return o, err
		}
		if call.Workspace, err = s.cfg.Workspaces.Records.Workspace(ctx, call.Sandbox.WorkspaceID); fault.Is(err, fault.NotFound) {
			err = nil // it is being made
		}
		return o, err
	})
}

// byManagedSandbox is bySandbox, also for the team's owners and admins.
func byManagedSandbox(s *Server) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
		o, err := sandbox(ctx, s, call, id)
		if call.Actor.RoleIn(o.TeamID).AtLeast(accounts.Admin) {
			o.OwnerID = ""
		}
		return o, err
	})
}

func sandbox(ctx context.Context, s *Server, call *rest.Call, id string) (o accounts.Object, err error) {
	if call.Sandbox, err = s.cfg.Sandboxes.Get(ctx, id); fault.Is(err, fault.NotFound) {
		return o, rest.ErrNotFound // as for somebody else's
	}
	return accounts.Object{TeamID: call.Sandbox.TeamID, OwnerID: call.Sandbox.UserID, Private: true}, err
}

// bySubagent finds a subagent by where it was asked for: a sibling workspace that was made private later hides itself, not what is known here.
func bySubagent(s *Server) find {
	return inWorkspace(s, s.cfg.Subagents.Get, func(_ *rest.Call, a subagents.Subagent) string { return a.FromWorkspaceID })
}

func bySnapshot(s *Server) find {
	return inWorkspace(s, s.cfg.Workspaces.Snapshots.SnapshotByID, func(call *rest.Call, v snapshot.Snap) string { call.Snapshot = v; return v.WorkspaceID })
}

func byCheckpoint(s *Server) find {
	return inWorkspace(s, s.cfg.Checkpoints.Get, func(call *rest.Call, c checkpoints.Checkpoint) string { call.Checkpoint = c; return c.WorkspaceID })
}

func byWatchLink(s *Server) find {
	return inWorkspace(s, s.cfg.Watch.Link, func(call *rest.Call, l watch.Link) string { call.Link = l; return l.WorkspaceID })
}

func byConflict(s *Server) find {
	return inWorkspace(s, s.cfg.Files.Conflict, func(_ *rest.Call, c filesync.Conflict) string { return c.WorkspaceID })
}

func byCheckRun(s *Server) find {
	return inWorkspace(s, s.cfg.Checks.Get, func(_ *rest.Call, r checks.Run) string { return r.WorkspaceID })
}

// byPrompt finds a prompt by its session, which says in which sandbox it is typed.
func byPrompt(s *Server) find {
	session := func(ctx context.Context, id string) (sessions.Session, error) {
		p, err := s.cfg.Sessions.Queue.Prompt(ctx, id)
		if err != nil {
			return sessions.Session{}, err
		}
		return s.cfg.Sessions.Get(ctx, p.SessionID)
	}
	return inWorkspace(s, session, func(call *rest.Call, v sessions.Session) string { call.Session = v; return v.WorkspaceID })
}

// byAutomation finds an automation, which its whole team sees.
func byAutomation(s *Server) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
		a, err := s.cfg.Automations.Get(ctx, id)
		call.Automation = a
		return accounts.InTeam(a.TeamID), err
	})
}

// byJob finds a job, which is as private as the workspace it works in.
func byJob(s *Server) find {
	return byID(func(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
		j, err := s.cfg.Jobs.Get(ctx, id)
		if err != nil {
			return accounts.Object{}, err
		}
		call.Job = j
		if w, err := s.cfg.Workspaces.Records.Workspace(ctx, j.WorkspaceID); err == nil {
			return s.ObjectOf(ctx, call.Actor, w)
		} else if !fault.Is(err, fault.NotFound) {
			return accounts.Object{}, err
		}
		// It is not made yet, or it is gone, and may have been private.
		return accounts.Object{TeamID: j.TeamID, OwnerID: j.CreatedBy, Private: j.Private() || j.StartedAt != 0}, nil
	})
}

func byThread(s *Server) find {
	return inWorkspace(s, s.ops.ThreadWorkspace, func(_ *rest.Call, workspaceID string) string { return workspaceID })
}

// Of these not everybody in the team may know.

func byReview(s *Server) find    { return byID(s.ops.ByReview) }
func byComment(s *Server) find   { return byID(s.ops.ByComment) }
func byRun(s *Server) find       { return byID(s.ops.ByRun) }
func byTask(s *Server) find      { return byID(s.ops.ByTask) }
func byMemory(s *Server) find    { return byID(s.ops.ByMemory) }
func bySkill(s *Server) find     { return byID(s.ops.BySkill) }
func byRule(s *Server) find      { return byID(s.ops.ByPermissionRule) }
func byRunner(s *Server) find    { return byID(s.ops.ByRunner) }
func byInboxItem(s *Server) find { return byID(s.ops.ByInboxItem) }

func byArtifact(s *Server) find     { return byID(s.ops.ByArtifact) }
func byArtifactLink(s *Server) find { return byID(s.ops.ByArtifactLink) }
