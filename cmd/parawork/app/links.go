package app

import (
	"context"
	"log/slog"
	"net"
	"sync/atomic"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/inbox"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/toolrelay"
	"github.com/parawork/parawork/store/noticestore"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// link connects two services after both were made, because one of them was made from the other.
type link struct {
	why  string // no constructor can be given it
	join func()
}

// links are all of them, in order. Prefer a constructor argument: each entry here is a cycle in the design, and a test counts them.
func (a *App) links() []link {
	return []link{
		{"the server, machines and suspensions are made of accounts, and are to ask anew who may be connected when an account changes",
			func() { a.later.access.Store(&access{a.front, a.machines}) }},
		{"sessions and commands are given secrets, and hide those that are entered while they run",
			func() { a.later.masks.Store(&runningMasks{a.sessions, a.commands}) }},
		{"the inbox is put together of what people wait for everywhere, some of which notifies people",
			func() {
				a.later.inbox.Store(new(inbox.New(inbox.Config{Sessions: a.sessions, Limits: a.enforcer, Reviews: a.reviews, Workspaces: a.workspaces, Directory: a.directory,
					Happened: noticestore.New(a.db), Machines: a.machines.Machines, Now: a.clock.Now})))
			}},
		{"tools use sessions and workspaces, which ask them: for agents' configuration, and when something begins or ends", func() { a.later.toolbox.Store(a.toolbox) }},
		{"the gate asks what a sandbox may reach, and is notified when that changes", func() { a.later.network.Store(a.sandboxes.network) }},
		{"limits tell terminals of a grace, and terminals show how long it lasts",
			func() { a.later.graces.Store(&graces{a.enforcer, a.clock.Now}) }},
		{"limits follow what may be used, which is looked up while work is held to its limits", func() { a.quota.OnChanged(a.enforcer.Changed) }},
		{"a workspace whose sandbox cannot be made is moved, which makes its sandbox elsewhere", func() { a.places.UseFallback(a.moves.FallBack) }},
		{"whoever has a say in a sandbox's life uses sandboxes", func() { a.places.Attach(a.participants()...) }},
		{"sandboxes on a machine are looked at when it comes, goes or says something, and are reached through it", a.followMachines},
		{"workspaces use sandboxes, sessions, their files, reviews and checks, all of which are about workspaces", a.joinWorkspaces},
	}
}

// followMachines has the sandboxes on machines be looked at whenever one of them comes, goes, or says that something changed there. It is a call
// and no event of the bus, which may lose some: a machine that leaves must be left.
func (a *App) followMachines() {
	kind := func(m machines.Machine) executors.Kind { return executors.Runner.Of(m.ID) }
	a.machines.Follow(func(m machines.Machine) {
		a.places.Look(kind(m))
		if m.Lost() {
			a.notify.Look(m.TeamID)
		}
	}, func(m machines.Machine, e wire.Event) {
		if e.Type == wire.EventLeaving && e.Remove {
			a.places.EvictSoon(kind(m))
			return
		}
		a.places.Look(kind(m))
	})
}

// joinWorkspaces gives workspaces what they use.
func (a *App) joinWorkspaces() {
	seen := watcher{a.files}
	a.workspaces.Join(assembly.Peers{Places: workspaceSandboxes{a.chosen(), a.sandboxes.people, a.logOf("workspaces")}, Sessions: a.sessions.ForWorkspaces(), Files: a.files, Watcher: seen, Sandboxed: seen, Gate: a.checks, Reviewed: a.reviews.Seen,
		Snapped: func(workspaceID string, sn snapshot.Snap) {
			if sn.Kind == snapshot.SnapTurn {
				a.checks.AfterTurn(workspaceID)
			}
		}})
}

// later is what parts are made with in place of what is made of them: each forwards to it from the moment a link was made. Until then nothing runs.
type later struct {
	access  atomic.Pointer[access]
	masks   atomic.Pointer[runningMasks]
	inbox   atomic.Pointer[inbox.Feed]
	network atomic.Pointer[network.Service]
	graces  atomic.Pointer[graces]
	toolbox atomic.Pointer[toolbox]
}

// access is who is connected with what accounts give.
type access struct {
	front    *front
	machines *machines.Service
}

// agentTools says how an agent in a workspace reaches the tools.
func (l *later) agentTools(ctx context.Context, w workspaces.Workspace) (agents.Tools, error) {
	return l.toolbox.Load().forAgent(ctx, w)
}

// userChanged has asked anew what a user may still do, after it became less.
func (l *later) userChanged(userID string) {
	a := l.access.Load()
	a.front.suspension.Poke()
	a.front.server.Recheck(userID)
	a.machines.Recheck(tenant.All(context.Background(), "machines of one person, in all their teams"), userID)
}

// linkEnded has asked anew who watches by a link.
func (l *later) linkEnded(linkID string) { l.access.Load().front.server.Recheck(linkID) }

// ServeTools serves a connection of an agent to the tools.
func (l *later) ServeTools(ctx context.Context, of toolrelay.Session, use guest.ToolUse, conn net.Conn) {
	t := l.toolbox.Load()
	if use != guest.UseAgent {
		t.relayed.ServeTools(ctx, of, use, conn)
		return
	}
	if err := t.agent.Serve(ctx, of, conn); err != nil && ctx.Err() == nil {
		slog.DebugContext(ctx, "a terminal of the agent ended", "session_id", of.ID, "error", err)
	}
}

// Give and InterruptSession are those of Parawork's own agent.
func (l *later) Give(ctx context.Context, p prompt.Prompt, again bool) (bool, error) {
	return l.toolbox.Load().agent.Give(ctx, p, again)
}

// InterruptSession stops the turn of a session's agent.
func (l *later) InterruptSession(ctx context.Context, sessionID string) error {
	return l.toolbox.Load().agent.InterruptSession(ctx, sessionID)
}

// runningMasks are what hides secrets in what runs.
type runningMasks struct {
	sessions *sessions.Service
	commands *command.Commands
}

// mask hides a secret in whatever runs.
func (l *later) mask(k secrets.Secret, masks []string) {
	m := l.masks.Load()
	m.sessions.Masks.Mask(k, masks)
	m.commands.Mask(func(c command.Command) bool {
		return k.TeamID != "" && c.TeamID == k.TeamID || k.UserID != "" && c.ActorID == k.UserID
	}, masks)
}

// Items are what waits for people in a team now.
func (l *later) Items(ctx context.Context, teamID string) ([]notify.Item, error) {
	return l.inbox.Load().Items(ctx, teamID)
}

// Prompted, Compacting and Handover are those of checkpoints.
func (l *later) Prompted(s sessions.Session, prompt string) {
	l.toolbox.Load().checkpoints.Prompted(s, prompt)
}

// Compacting notes that an agent is about to compact its conversation.
func (l *later) Compacting(s sessions.Session) { l.toolbox.Load().checkpoints.Compacting(s) }

// Handover returns how to go on with an ended session.
func (l *later) Handover(ctx context.Context, old sessions.Session) (string, error) {
	return l.toolbox.Load().checkpoints.Handover(ctx, old)
}

func (l *later) refused(r executors.Refusal) { l.network.Load().Refused(r) }

func (l *later) reached(r executors.Reach) { l.network.Load().Reached(r) }

// graces are what terminals show of limits.
type graces struct {
	enforcer *quota.Enforcer
	now      func() int64
}

// grace is what terminals show of a workspace that reached a limit.
func (l *later) grace(workspaceID string) (sessions.Grace, bool) {
	of := l.graces.Load()
	g, ok := of.enforcer.Grace(workspaceID)
	if !ok {
		return sessions.Grace{}, false
	}
	out := sessions.Grace{Scope: g.Scope, State: string(g.State), EndsAt: g.EndsAt, Reason: g.Reason}
	if g.State == quota.GraceCounting {
		out.LeftMs = max(g.EndsAt-of.now(), 0)
	}
	return out, true
}
