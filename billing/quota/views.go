package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/internal/tenant"
)

var _ Standings = (*Service)(nil)

// hourThresholds are the percentages of their hours that people are notified of.
var hourThresholds = [...]int{80, 90, 100}

// unbound stands for no limit. Nothing reaches it, so that alerts of an earlier limit are sent again when there is a limit again.
const unbound = 1<<63 - 1

// TeamView is the state of a team's limits, for enforcing them on running work.
func (s *Service) TeamView(ctx context.Context, teamID string) (TeamView, error) {
	ctx = tenant.In(ctx, teamID)
	st, err := s.TeamStanding(ctx, teamID)
	if err != nil {
		return TeamView{}, err
	}
	b := st.Budget
	out := TeamView{Notify: Notify{App: b.NotifyApp, Mail: b.NotifyMail, Webhooks: b.NotifyWebhooks}}
	grace := time.Duration(b.GraceSeconds) * time.Second
	if st.LimitNano == nil {
		out.Levels = append(out.Levels, Level{Scope: ScopeTeamBudget, ScopeID: teamID, TeamID: teamID, Used: st.SpentNano, Limit: unbound, Goes: true})
	} else {
		l := Level{Scope: ScopeTeamBudget, ScopeID: teamID, TeamID: teamID, Used: st.SpentNano, Limit: *st.LimitNano, Notify: out.Notify, Grace: grace, Goes: b.Overage}
		for _, p := range b.Thresholds {
			l.Thresholds = append(l.Thresholds, int(p))
		}
		if !b.Overage && st.ExhaustedAt != nil {
			l.ExhaustedAt = *st.ExhaustedAt
		}
		out.Levels = append(out.Levels, l)
		if b.Overage && b.OverageCapNano != nil {
			over := Level{Scope: ScopeTeamOverage, ScopeID: teamID, TeamID: teamID, Used: max(st.SpentNano-*st.LimitNano, 0), Limit: *b.OverageCapNano,
				Thresholds: l.Thresholds, Notify: out.Notify, Grace: grace}
			if st.ExhaustedAt != nil {
				over.ExhaustedAt = *st.ExhaustedAt
			}
			// A cap of nothing beyond a budget that is not spent yet is not reached.
			if st.SpentNano >= *st.LimitNano {
				out.Levels = append(out.Levels, over)
			}
		}
	}
	out.Halt, err = s.halt(ctx, teamID, grace)
	return out, err
}

// halt returns what stops all paid work of a team, regardless of its usage.
func (s *Service) halt(ctx context.Context, teamID string, grace time.Duration) (*Halt, error) {
	k, err := s.KillSwitch(ctx)
	if err != nil {
		return nil, err
	}
	if k.On && k.Stop {
		words := "An operator has stopped all paid sandboxes of this server."
		if k.Reason != "" {
			words = "An operator has stopped all paid sandboxes of this server: " + k.Reason
			if last := words[len(words)-1]; last != '.' && last != '!' && last != '?' {
				words += "."
			}
		}
		return &Halt{Scope: ScopeKillSwitch, Reason: words, Grace: grace}, nil
	}
	t, err := s.cfg.Store.TeamPlan(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading a team's plan: %w", err)
	}
	if t.Overdue(s.cfg.Now(), int64(s.cfg.PastDueDays)) {
		return &Halt{Scope: ScopePastDue, Reason: "The team's payment has been due since " + day(t.PastDueSince) + ".", Grace: grace}, nil
	}
	return nil, nil
}

// UserView is the state of a user's limits in a team, for enforcing them on running work.
func (s *Service) UserView(ctx context.Context, teamID, userID string) (UserView, error) {
	ctx = tenant.In(ctx, teamID)
	st, err := s.UserStanding(ctx, teamID, userID)
	if err != nil {
		return UserView{}, err
	}
	b, err := s.budget(ctx, teamID)
	if err != nil {
		return UserView{}, err
	}
	out := UserView{SessionMinutes: st.Quota.SessionMinutes, Grace: time.Duration(b.GraceSeconds) * time.Second}
	if st.LimitMs == nil {
		out.Hours = &Level{Scope: ScopeUserHours, ScopeID: userID, TeamID: teamID, Used: st.UsedMs, Limit: unbound, Goes: true}
		return out, nil
	}
	h := Level{Scope: ScopeUserHours, ScopeID: userID, TeamID: teamID, Used: st.UsedMs, Limit: *st.LimitMs, Thresholds: hourThresholds[:], Grace: out.Grace,
		Notify: Notify{App: b.NotifyApp, Mail: b.NotifyMail, Webhooks: b.NotifyWebhooks}}
	if st.ExhaustedAt != nil {
		h.ExhaustedAt = *st.ExhaustedAt
	}
	out.Hours = &h
	return out, nil
}
