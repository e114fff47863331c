package rest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// PrivacyConfig is what a privacy works with.
type PrivacyConfig struct {
	Directory  *directory.Service
	Workspaces *assembly.Workspaces
	Events     *events.Bus
	Recheck    func(about string) // looks again at who is shown a workspace
	Now        func() time.Time
	Log        *slog.Logger
}

// Privacy says who sees which workspaces, and what is in them. There is one of it: it knows what this process has changed. Safe for
// concurrent use.
type Privacy struct {
	cfg          PrivacyConfig
	privacyCache privacyCache
}

// NewPrivacy makes a Privacy.
func NewPrivacy(cfg PrivacyConfig) *Privacy { return &Privacy{cfg: cfg} }

// Reread has the next event ask the database which workspaces are private.
func (p *Privacy) Reread() { p.privacyCache.lift() }

// ObjectOf is a workspace as the policy sees it, for somebody who asks. A private one whose owner has left the team is nobody's any more:
// the team's owners and admins see it, so that nothing is lost.
func (p *Privacy) ObjectOf(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) (accounts.Object, error) {
	o := accounts.Object{TeamID: w.TeamID, OwnerID: w.CreatedBy, Private: w.Private}
	if !w.Private || w.CreatedBy == actor.User.ID || !actor.RoleIn(w.TeamID).AtLeast(accounts.Admin) {
		return o, nil
	}
	owner, err := p.cfg.Directory.Actor(ctx, w.CreatedBy)
	if err != nil && !fault.Is(err, fault.NotFound) {
		return o, fmt.Errorf("reading the owner of a private workspace: %w", err)
	}
	if !owner.RoleIn(w.TeamID).Valid() {
		o.OwnerID = ""
	}
	return o, nil
}

// Within is what is in a workspace, as the policy sees it: it is as private as the workspace.
func (p *Privacy) Within(ctx context.Context, call *Call, workspaceID string) (accounts.Object, error) {
	w, err := p.cfg.Workspaces.Records.Workspace(ctx, workspaceID)
	if err != nil {
		return accounts.Object{}, err
	}
	return p.ObjectOf(ctx, call.Actor, w)
}

// Sees reports whether the call's actor may see a workspace.
func (p *Privacy) Sees(ctx context.Context, call *Call, w workspaces.Workspace) (bool, error) {
	o, err := p.ObjectOf(ctx, call.Actor, w)
	if err != nil {
		return false, err
	}
	return accounts.Can(call.Actor, accounts.ViewWorkspace, o) == nil, nil
}

// ShownTo narrows a list of workspaces to those the call's actor may see.
func ShownTo(call *Call, f workspaces.Filter) workspaces.Filter {
	f.For, f.Orphans = call.Actor.User.ID, call.Actor.RoleIn(call.Team.ID).AtLeast(accounts.Admin)
	return f
}

// Hidden returns which workspaces of the call's team its actor may not see.
func (p *Privacy) Hidden(ctx context.Context, call *Call) (map[string]bool, error) {
	return p.HiddenIn(ctx, call.Actor, call.Team.ID)
}

// HiddenIn returns which workspaces of a team somebody may not see.
func (p *Privacy) HiddenIn(ctx context.Context, actor accounts.Actor, teamID string) (map[string]bool, error) {
	all, err := p.Veiled(ctx, actor, teamID)
	out := make(map[string]bool, len(all))
	for _, w := range all {
		out[w.ID] = true
	}
	return out, err
}

// ProjectLines are those of a team's projects; workspaces that the caller may not see are not counted.
func (p *Privacy) ProjectLines(ctx context.Context, teamID string) (map[string]workspaces.ProjectLine, error) {
	lines, err := p.cfg.Workspaces.Records.ProjectLines(ctx, teamID)
	if err != nil {
		return nil, err
	}
	active, err := p.cfg.Workspaces.Records.CountActive(ctx, teamID)
	if err != nil {
		return nil, err
	}
	for id, n := range active {
		if l, ok := lines[id]; ok {
			l.Active = n
			lines[id] = l
		}
	}
	all, err := p.Veiled(ctx, CallOf(ctx).Actor, teamID)
	for _, w := range all {
		if l, ok := lines[w.ProjectID]; ok && w.DeletedAt == 0 && w.ArchivedAt == 0 {
			l.Active = max(l.Active-1, 0) // two readings, between which it may have come or gone
			lines[w.ProjectID] = l
		}
	}
	return lines, err
}

// Veiled returns the workspaces of a team that somebody may not see.
func (p *Privacy) Veiled(ctx context.Context, actor accounts.Actor, teamID string) ([]workspaces.Workspace, error) {
	all, err := p.cfg.Workspaces.Lifecycle.Private(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading which workspaces are private: %w", err)
	}
	var out []workspaces.Workspace
	for _, w := range all {
		o, err := p.ObjectOf(ctx, actor, w)
		if err != nil {
			return nil, err
		}
		if accounts.Can(actor, accounts.ViewWorkspace, o) != nil {
			out = append(out, w)
		}
	}
	return out, nil
}

// privacyCacheFresh is how long a reading is used before changes by another process are looked for.
const privacyCacheFresh = 2 * time.Second

// privacyCache knows which workspaces are private, so that event sockets do not reveal to others what happens there. Changes by this
// process take effect at once. The zero value is ready; safe for concurrent use.
type privacyCache struct {
	mu    sync.Mutex
	teams map[string]*privacyCacheTeam // by id; those that nobody asks about are forgotten
}

// privacyCacheTeam is one reading of a team's private workspaces, under way or done.
type privacyCacheTeam struct {
	done chan struct{} // closed when what follows is known

	at    time.Time
	known map[string]workspaces.Workspace // private ones, by id
	err   error
}

// privacyCacheTeams is how many teams are known before those that are not asked about give way.
const privacyCacheTeams = 256

// lift forgets what is known.
func (v *privacyCache) lift() {
	v.mu.Lock()
	defer v.mu.Unlock()
	clear(v.teams)
}

// of returns a reading of a team that is fresh, or under way since the last change, for one caller to make: mine.
func (v *privacyCache) of(teamID string, now time.Time) (t *privacyCacheTeam, mine bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if t = v.teams[teamID]; t != nil && t.good(now) {
		return t, false
	}
	if len(v.teams) >= privacyCacheTeams {
		maps.DeleteFunc(v.teams, func(_ string, o *privacyCacheTeam) bool { return !o.good(now) })
	}
	if v.teams == nil {
		v.teams = make(map[string]*privacyCacheTeam)
	}
	t = &privacyCacheTeam{done: make(chan struct{})}
	v.teams[teamID] = t
	return t, true
}

// good reports whether a reading is under way, or may be believed.
func (t *privacyCacheTeam) good(now time.Time) bool {
	select {
	case <-t.done:
		return t.err == nil && now.Sub(t.at) <= privacyCacheFresh
	default:
		return true
	}
}

// privacyCacheWithin bounds one reading.
const privacyCacheWithin = 10 * time.Second

// private returns a workspace of a team when it is private. When that cannot be read, everything is. Of those who ask at the same moment
// one reads, and nobody holds a lock meanwhile.
func (p *Privacy) private(ctx context.Context, teamID, workspaceID string) (w workspaces.Workspace, hidden bool, err error) {
	t, mine := p.privacyCache.of(teamID, p.cfg.Now())
	if mine { // others wait for it too: it does not end because this caller leaves
		read, cancel := context.WithTimeout(tenant.All(context.WithoutCancel(ctx), "one privacy cache for all sockets of a team"), privacyCacheWithin)
		t.at = p.cfg.Now()
		all, err := p.cfg.Workspaces.Lifecycle.Private(read, teamID)
		cancel()
		if err != nil {
			t.err = fmt.Errorf("reading which workspaces are private: %w", err)
		}
		t.known = make(map[string]workspaces.Workspace, len(all))
		for _, w := range all {
			t.known[w.ID] = w
		}
		close(t.done)
	}
	select {
	case <-t.done:
	case <-ctx.Done():
		return w, true, context.Cause(ctx)
	}
	if t.err != nil {
		return w, true, t.err
	}
	w, hidden = t.known[workspaceID]
	return w, hidden, nil
}

// MayReceive reports whether the actor of a call may receive an event.
func (p *Privacy) MayReceive(ctx context.Context, call *Call, e events.Event) bool {
	if e.WorkspaceID == "" {
		return true
	}
	w, private, err := p.private(ctx, e.TeamID, e.WorkspaceID)
	if err != nil {
		p.cfg.Log.WarnContext(ctx, "an event is not delivered", "request_id", call.ID, "error", err)
		return false
	}
	if !private {
		return true
	}
	ok, err := p.Sees(ctx, call, w)
	return err == nil && ok
}

// SetPrivate makes a workspace private to its owner, or visible to the team again. It disconnects others who are in it at once; an event with
// nothing but the id has them reload their lists.
func (p *Privacy) SetPrivate(ctx context.Context, call *Call, workspaceID string, private bool) (workspaces.Workspace, error) {
	w, err := p.cfg.Workspaces.Lifecycle.SetPrivate(ctx, call.Actor, workspaceID, private)
	if err != nil {
		return w, err
	}
	p.privacyCache.lift()
	p.cfg.Recheck(workspaceID)
	p.cfg.Events.Publish(ctx, events.Event{Type: "workspace.updated", ID: w.ID, TeamID: w.TeamID, Version: p.cfg.Now().UnixMilli()})
	return w, nil
}
