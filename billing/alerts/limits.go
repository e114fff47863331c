package alerts

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// Running are the sandboxes that run now where time or money counts.
type Running interface {
	RunningSandboxes(ctx context.Context) ([]quota.AtWork, error)
}

// LimitsConfig is what Limits are made of.
type LimitsConfig struct {
	Running   Running
	Timelines Timelines
	People    People
	Mail      accounts.Mailer
	Events    events.Publisher
	Audit     audit.Appender
	Terminals func(workspaceID string) // tells those of a workspace that its grace changed
	Now       func() int64             // the ledger's time, ms UTC
	PublicURL string
}

// Limits notifies people of what limits of teams and users do. It is the quota.Notifier of an instance.
type Limits struct{ cfg LimitsConfig }

var _ quota.Notifier = (*Limits)(nil)

// NewLimits makes Limits.
func NewLimits(cfg LimitsConfig) *Limits { return &Limits{cfg} }

// Passed writes a threshold into the timelines of what runs, and queues the mails.
func (t *Limits) Passed(ctx context.Context, a quota.Crossing, how quota.Notify) error {
	if how.App {
		running, err := t.cfg.Running.RunningSandboxes(ctx)
		if err != nil {
			return err
		}
		for _, r := range running {
			if r.TeamID != a.TeamID || a.Scope == quota.ScopeUserHours && r.UserID != a.ScopeID {
				continue
			}
			if err := t.cfg.Timelines.Notify(ctx, r.WorkspaceID, "budget", a.Words()); err != nil {
				return fmt.Errorf("telling a workspace of a threshold: %w", err)
			}
		}
	}
	if !how.Mail || !t.cfg.Mail.Enabled() {
		return nil
	}
	team, err := t.cfg.People.TeamByID(ctx, a.TeamID)
	if err != nil {
		return fmt.Errorf("reading the team: %w", err)
	}
	members, err := t.cfg.People.Members(ctx, a.TeamID)
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
		if m.User.Email == "" || !mine && !KeepsMoney(m.Role) {
			continue
		}
		if err := t.cfg.Mail.Queue(ctx, accounts.Mail{TeamID: a.TeamID, Kind: "budget", To: m.User.Email, Subject: t.subject(a, team, whose, mine), Text: t.text(a, team, whose, mine)}); err != nil {
			return fmt.Errorf("queueing a mail about a threshold: %w", err)
		}
	}
	return nil
}

func (t *Limits) subject(a quota.Crossing, team accounts.Team, whose string, mine bool) string {
	switch {
	case mine:
		return fmt.Sprintf("%d %% of your hours in %s are used", a.Percent, team.Name)
	case a.Scope == quota.ScopeUserHours:
		return fmt.Sprintf("%d %% of %s's hours in %s are used", a.Percent, whose, team.Name)
	}
	return fmt.Sprintf("%d %% of the budget of %s are spent", a.Percent, team.Name)
}

func (t *Limits) text(a quota.Crossing, team accounts.Team, whose string, mine bool) string {
	var b strings.Builder
	if a.Scope == quota.ScopeUserHours && !mine {
		b.WriteString(whose + ": ")
	}
	b.WriteString(a.Words() + "\n")
	if u := t.cfg.PublicURL; u != "" {
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

// Alerted tells the web app of a threshold.
func (t *Limits) Alerted(ctx context.Context, a quota.Crossing) {
	what := "budget.updated"
	if a.Scope == quota.ScopeUserHours {
		what = "quota.updated"
	}
	t.cfg.Events.Publish(ctx, events.Event{Type: what, ID: a.TeamID, TeamID: a.TeamID, Version: a.At})
}

// auditWords name in the audit what limits did by themselves.
var auditWords = map[quota.GraceState]string{quota.GraceCounting: "limit.grace_began", quota.GraceStopped: "limit.sandbox_paused", quota.GraceEnded: "limit.sandbox_ended", quota.GraceLifted: "limit.lifted"}

// Turned tells the web app and terminals that a grace changed.
func (t *Limits) Turned(ctx context.Context, g quota.WorkGrace) {
	t.cfg.Events.Publish(ctx, events.Event{Type: "grace.updated", ID: g.WorkspaceID, WorkspaceID: g.WorkspaceID, TeamID: g.TeamID, Version: t.cfg.Now()})
	t.cfg.Terminals(g.WorkspaceID)
}

// Note writes down what a limit did: in the audit and, where there are words, in the workspace's timeline. A workspace that is gone has none.
func (t *Limits) Note(ctx context.Context, g quota.WorkGrace, words string) error {
	if words != "" {
		if err := t.cfg.Timelines.Notify(ctx, g.WorkspaceID, "budget", words); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("telling a workspace of its limit: %w", err)
		}
	}
	word := auditWords[g.State]
	if word == "" {
		return nil
	}
	return t.cfg.Audit.Append(ctx, audit.Entry{Chain: g.TeamID, Action: word, TargetKind: "workspace", TargetID: g.WorkspaceID,
		Data: map[string]string{"scope": g.Scope, "reason": g.Reason}})
}
