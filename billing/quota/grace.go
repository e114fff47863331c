package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/billing"
)

// GraceState says how far work is that reached a limit.
type GraceState string

// States of a grace period. GraceStopped and GraceEnded differ in how the work continues: the server wakes a paused sandbox, and people
// start an ended one again.
const (
	GraceCounting GraceState = "counting" // it goes on until EndsAt
	GraceStopping GraceState = "stopping" // its files are copied to the server, then it is paused
	GraceStopped  GraceState = "stopped"  // it is paused, and the server resumes it once the limit allows it
	GraceEnded    GraceState = "ended"    // its executor cannot pause: the sandbox was ended, and its files are on the server
	GraceLifted   GraceState = "lifted"   // over
)

// WorkGrace is work that goes on for a little while after its limit, and what became of it. Times are ms UTC of the ledger.
type WorkGrace struct {
	ID          string
	TeamID      string
	WorkspaceID string
	UserID      string // who asked for the sandbox; "" = the server
	Scope       string
	ScopeID     string
	Period      string // the month, such as 2026-11; "" = of no month
	State       GraceState
	Reason      string // in words, a sentence: which limit
	BeganAt     int64
	EndsAt      int64
	EndedAt     int64
}

// Words say what happens, or happened, and why, without the time that is left: that runs.
func (g WorkGrace) Words() string {
	switch g.State {
	case GraceCounting:
		return g.Reason + " The sandbox will be paused soon."
	case GraceStopping:
		return g.Reason + " The server copies the sandbox's files, then pauses the sandbox."
	case GraceEnded:
		return g.Reason + " The sandbox was ended; its files are saved on the server."
	case GraceStopped:
		return g.Reason + " The sandbox is paused with everything in it." + goesOn(g.Scope)
	}
	return g.Reason
}

// goesOn says when stopped work continues.
func goesOn(scope string) string {
	switch scope {
	case ScopeSessionMinutes:
		return " Wake it to go on."
	case ScopeKillSwitch:
		return " It goes on by itself when an operator allows it."
	case ScopePastDue:
		return " It goes on by itself when the team has paid."
	}
	return " It goes on by itself when the limit is raised or the month ends."
}

// due returns the time left of a grace period.
func (g WorkGrace) due(now int64) time.Duration {
	return time.Duration(max(g.EndsAt-now, 0)) * time.Millisecond
}

// Grace returns what holds for a workspace now; false when nothing does. Safe for concurrent use.
func (e *Enforcer) Grace(workspaceID string) (WorkGrace, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	g, ok := e.graces[workspaceID]
	return g, ok
}

// GraceByID returns an open grace; false when there is none such.
func (e *Enforcer) GraceByID(id string) (WorkGrace, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range e.graces {
		if g.ID == id {
			return g, true
		}
	}
	return WorkGrace{}, false
}

// Graces returns the open graces of a team.
func (e *Enforcer) Graces(teamID string) []WorkGrace {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []WorkGrace
	for _, g := range e.graces {
		if g.TeamID == teamID {
			out = append(out, g)
		}
	}
	return out
}

// News returns what a team's members should know besides the grace periods of its workspaces: the thresholds that were passed in the last
// hour, each with those below it that were passed with it.
func (e *Enforcer) News(ctx context.Context, teamID string) ([]Crossing, error) {
	now := e.cfg.Now()
	period, _, _ := billing.Month(now)
	all, err := e.cfg.Store.Alerts(ctx, teamID, period)
	if err != nil {
		return nil, fmt.Errorf("reading which thresholds a team has passed: %w", err)
	}
	type once struct {
		scope, of string
		at        int64
	}
	seen := make(map[once]bool)
	var out []Crossing
	for _, a := range all { // the highest of those that were noted together comes first
		k := once{a.Scope, a.ScopeID, a.At}
		if now-a.At > time.Hour.Milliseconds() || seen[k] {
			continue
		}
		seen[k] = true
		out = append(out, a)
	}
	return out, nil
}

// Notifies returns the channels through which a team is notified. Until the team's budget was read, that is all of them.
func (e *Enforcer) Notifies(teamID string) Notify {
	e.mu.Lock()
	defer e.mu.Unlock()
	if t, ok := e.notifies[teamID]; ok {
		return t
	}
	return Notify{App: true, Mail: true, Webhooks: true}
}

// put stores a change of a grace period, with a text for the workspace's timeline where there is one, and publishes it.
func (e *Enforcer) put(ctx context.Context, g WorkGrace, words string) error {
	err := e.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if err := e.cfg.Store.UpdateGrace(ctx, g); err != nil {
			return err
		}
		return e.cfg.Notifier.Note(ctx, g, words)
	})
	if err != nil {
		return fmt.Errorf("storing the grace of workspace %s: %w", g.WorkspaceID, err)
	}
	e.keep(ctx, g)
	return nil
}

// keep has what is in memory say what is stored, and tells it.
func (e *Enforcer) keep(ctx context.Context, g WorkGrace) {
	e.mu.Lock()
	if g.State == GraceLifted {
		delete(e.graces, g.WorkspaceID)
		delete(e.stops, g.WorkspaceID)
	} else {
		e.graces[g.WorkspaceID] = g
	}
	e.mu.Unlock()
	e.cfg.Notifier.Turned(ctx, g)
}

// lift ends a grace. words, where there are any, go into the workspace's timeline.
func (e *Enforcer) lift(ctx context.Context, g WorkGrace, now int64, words string) error {
	g.State, g.EndedAt = GraceLifted, now
	return e.put(ctx, g, words)
}
