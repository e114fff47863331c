package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
)

// buildEnforcer makes what holds running work to its limits.
func (h *house) buildEnforcer() {
	kept := store.NewEnforce(h.db)
	h.enforcer = quota.NewEnforcer(quota.EnforcerConfig{Store: kept, Standings: h.quota, Places: heldPlaces{h}, Teller: limitTeller{h, kept}, Now: h.ledger.Now,
		Log: h.log.With("room", "enforce")})
	h.quota.OnChanged(h.enforcer.Changed)
}

// heldPlaces are the sandboxes as limits see them.
type heldPlaces struct{ h *house }

func (p heldPlaces) Hold(ctx context.Context, workspaceID, sandboxID, reason string) (bool, error) {
	paused, err := p.h.places.Hold(ctx, workspaceID, sandboxID, reason)
	if errors.Is(err, executors.ErrGone) {
		return false, quota.ErrElsewhere
	}
	return paused, err
}

func (p heldPlaces) Paused(workspaceID string) (string, bool) { return p.h.places.Held(workspaceID) }

func (p heldPlaces) Wake(ctx context.Context, workspaceID string) error {
	return p.h.places.Unhold(ctx, workspaceID)
}

// terminalGrace is what terminals show of a grace.
func (h *house) terminalGrace(workspaceID string) (sessions.Grace, bool) {
	g, ok := h.enforcer.Grace(workspaceID)
	if !ok {
		return sessions.Grace{}, false
	}
	out := sessions.Grace{Scope: g.Scope, State: string(g.State), EndsAt: g.EndsAt, Reason: g.Reason}
	if g.State == quota.GraceCounting {
		out.LeftMs = max(g.EndsAt-h.ledger.Now(), 0)
	}
	return out, true
}

// limitTeller tells people what limits do.
type limitTeller struct {
	h    *house
	kept *store.Enforce
}

// keepsMoney reports whether somebody looks after a team's money.
func keepsMoney(r accounts.Role) bool { return r == accounts.Owner || r == accounts.Admin }

// Passed writes a threshold into the timelines of what runs, and queues the mails.
func (t limitTeller) Passed(ctx context.Context, a quota.Crossing, how quota.Tell) error {
	if how.App {
		running, err := t.kept.RunningSandboxes(ctx)
		if err != nil {
			return err
		}
		for _, r := range running {
			if r.TeamID != a.TeamID || a.Scope == quota.ScopeUserHours && r.UserID != a.ScopeID {
				continue
			}
			if err := t.h.workspaces.Tell(ctx, r.WorkspaceID, "budget", a.Words()); err != nil {
				return fmt.Errorf("telling a workspace of a threshold: %w", err)
			}
		}
	}
	if !how.Mail || !t.h.mail.Enabled() {
		return nil
	}
	team, err := t.h.directory.TeamByID(ctx, a.TeamID)
	if err != nil {
		return fmt.Errorf("reading the team: %w", err)
	}
	members, err := t.h.directory.Members(ctx, a.TeamID)
	if err != nil {
		return fmt.Errorf("reading members: %w", err)
	}
	whose := ""
	for _, m := range members {
		if m.User.ID == a.ScopeID {
			whose = m.User.Name
		}
	}
	for _, m := range members {
		mine := a.Scope == quota.ScopeUserHours && m.User.ID == a.ScopeID
		if m.User.Email == "" || !mine && !keepsMoney(m.Role) {
			continue
		}
		if err := t.h.mail.Queue(ctx, accounts.Mail{TeamID: a.TeamID, Kind: "budget", To: m.User.Email, Subject: t.subject(a, team, whose, mine), Text: t.text(a, team, whose, mine)}); err != nil {
			return fmt.Errorf("queueing a mail about a threshold: %w", err)
		}
	}
	return nil
}

func (t limitTeller) subject(a quota.Crossing, team accounts.Team, whose string, mine bool) string {
	switch {
	case mine:
		return fmt.Sprintf("%d %% of your hours in %s are used", a.Percent, team.Name)
	case a.Scope == quota.ScopeUserHours:
		return fmt.Sprintf("%d %% of %s's hours in %s are used", a.Percent, whose, team.Name)
	}
	return fmt.Sprintf("%d %% of the budget of %s are spent", a.Percent, team.Name)
}

func (t limitTeller) text(a quota.Crossing, team accounts.Team, whose string, mine bool) string {
	var b strings.Builder
	if a.Scope == quota.ScopeUserHours && !mine {
		b.WriteString(whose + ": ")
	}
	b.WriteString(a.Words() + "\n")
	if u := t.h.cfg.Server.PublicURL; u != "" {
		section := "budget"
		if a.Scope == quota.ScopeUserHours {
			section = "quotas"
			if mine {
				section = "usage"
			}
		}
		b.WriteString("\n" + u + "/" + team.Slug + "/settings/" + section + "\n")
	}
	return b.String()
}

// Heard tells the web app of a threshold.
func (t limitTeller) Heard(ctx context.Context, a quota.Crossing) {
	what := "budget.updated"
	if a.Scope == quota.ScopeUserHours {
		what = "quota.updated"
	}
	t.h.publisher.Publish(ctx, events.Event{Type: what, ID: a.TeamID, TeamID: a.TeamID, Version: a.At})
}

// auditWords name in the audit what limits did by themselves.
var auditWords = map[quota.GraceState]string{quota.GraceCounting: "limit.grace_began", quota.GraceStopped: "limit.sandbox_paused", quota.GraceEnded: "limit.sandbox_ended", quota.GraceLifted: "limit.lifted"}

// Turned tells the web app and terminals that a grace changed.
func (t limitTeller) Turned(ctx context.Context, g quota.WorkGrace) {
	t.h.publisher.Publish(ctx, events.Event{Type: "grace.updated", ID: g.WorkspaceID, WorkspaceID: g.WorkspaceID, TeamID: g.TeamID, Version: t.h.ledger.Now()})
	t.h.sessions.Turned(g.WorkspaceID)
}

// Note writes down what a limit did: in the audit and, where there are words, in the workspace's timeline. A workspace that is gone has none.
func (t limitTeller) Note(ctx context.Context, g quota.WorkGrace, words string) error {
	if words != "" {
		if err := t.h.workspaces.Tell(ctx, g.WorkspaceID, "budget", words); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("telling a workspace of its limit: %w", err)
		}
	}
	word := auditWords[g.State]
	if word == "" {
		return nil
	}
	return t.h.audit.Append(ctx, audit.Entry{Chain: g.TeamID, Action: word, TargetKind: "workspace", TargetID: g.WorkspaceID,
		Data: map[string]string{"scope": g.Scope, "reason": g.Reason}})
}
