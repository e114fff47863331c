package stripe

import (
	"context"
	"fmt"
	"time"
)

// States of a subscription (docs.stripe.com/api/subscriptions/object, status).
const (
	Active            = "active"
	Trialing          = "trialing"
	PastDue           = "past_due"
	Unpaid            = "unpaid"
	Paused            = "paused" // a trial ended without a way to pay
	Incomplete        = "incomplete"
	IncompleteExpired = "incomplete_expired"
	Canceled          = "canceled"
)

// rank orders states by what they give.
func rank(status string) int {
	switch status {
	case Active:
		return 7
	case Trialing:
		return 6
	case PastDue:
		return 5
	case Unpaid:
		return 4
	case Paused:
		return 3
	case Incomplete:
		return 2
	case Canceled:
		return 1
	}
	return 0
}

// holds reports whether there is a subscription that the team may still pay or change: it is managed in the portal, and no other is begun
// beside it.
func holds(status string) bool { return rank(status) >= rank(Incomplete) }

// Paying reports whether the team has the plan it pays for: while it is paid or tried, and for days after a payment failed.
func (a Account) Paying(now int64, days int) bool {
	switch a.Status {
	case Active, Trialing:
		return true
	case PastDue:
		return now < a.graceEnd(days)
	}
	return false
}

// graceEnd is when a team whose payment failed loses its plan.
func (a Account) graceEnd(days int) int64 { return a.PastDueSince + int64(days)*dayMs }

// choose sets the plan that follows from how an account stands. What an operator gave stays.
func (s *Service) choose(a *Account, plans []Plan) {
	if a.PlanSource == FromOperator {
		return
	}
	a.PlanID, a.PlanSource = "", ""
	if !a.Paying(s.now(), s.cfg.PastDueDays) {
		return
	}
	for _, p := range plans {
		if p.ID == a.PaidPlanID {
			a.PlanID, a.PlanSource = p.ID, FromStripe
			return
		}
	}
	s.cfg.Log.Error("team pays for a plan that no longer exists: it has the default plan", "team_id", a.TeamID, "plan", a.PaidPlanID)
}

// PastDueState says since when a team owes money and for how long it keeps its plan.
type PastDueState struct {
	Since    int64
	EndsAt   int64 // when the plan is taken back
	DaysLeft int64 // begun days, 0 = it has been
}

// Owing is how a team stands that owes money; nil when it does not.
func (s *Service) Owing(a Account) *PastDueState {
	if a.PastDueSince == 0 {
		return nil
	}
	end := a.graceEnd(s.cfg.PastDueDays)
	if a.Status == Unpaid {
		end = min(end, s.now()) // the service has given up, whatever we would still wait
	}
	return &PastDueState{Since: a.PastDueSince, EndsAt: end, DaysLeft: max((end-s.now()+dayMs-1)/dayMs, 0)}
}

// notifyPastDue tells the team's owners that a payment failed.
func (s *Service) notifyPastDue(ctx context.Context, a Account, plans []Plan) error {
	until := time.UnixMilli(a.graceEnd(s.cfg.PastDueDays)).UTC().Format("2 January 2006")
	return s.notify(ctx, Notice{TeamID: a.TeamID, Kind: "past_due", Subject: "A payment for Parawork failed",
		Text: fmt.Sprintf("The payment for your team's plan %s failed. The team keeps the plan until %s (UTC); then it has the plan of this server for teams that do not pay.\n\nPay, or change how you pay, under Settings > Billing.\n", nameOf(plans, a.PaidPlanID), until)})
}

// expire takes the plan back from teams whose payment has been due for too long. It needs nothing of the payment service.
func (s *Service) expire(ctx context.Context) error {
	all, err := s.cfg.Store.Accounts(ctx)
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	var plans []Plan
	for _, a := range all {
		if a.Status != PastDue || a.PlanSource != FromStripe || a.Paying(s.now(), s.cfg.PastDueDays) {
			continue
		}
		if plans == nil {
			if plans, err = s.cfg.Store.Plans(ctx); err != nil {
				return fmt.Errorf("reading plans: %w", err)
			}
		}
		if err := s.takeBack(ctx, a, plans); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) takeBack(ctx context.Context, a Account, plans []Plan) error {
	took := false
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		now, err := s.cfg.Store.Account(ctx, a.TeamID)
		if took = false; err != nil || now.SyncedAt != a.SyncedAt {
			return err
		}
		after := now
		after.UpdatedAt = s.now()
		s.choose(&after, plans)
		if after.PlanID == now.PlanID {
			return nil
		}
		took = true
		if err := s.cfg.Store.SaveAccount(ctx, after); err != nil {
			return err
		}
		if err := s.notePlan(ctx, now, after, plans); err != nil {
			return err
		}
		return s.notify(ctx, Notice{TeamID: a.TeamID, Kind: "past_due_ended", Subject: "Your team's plan in Parawork has ended",
			Text: fmt.Sprintf("The payment for the plan %s was not made in time, and the plan has ended. Nothing is deleted. Pay under Settings > Billing to have it back.\n", nameOf(plans, a.PaidPlanID))})
	})
	if err != nil {
		return fmt.Errorf("taking a plan back: %w", err)
	}
	if took {
		s.changed(ctx, a.TeamID)
	}
	return nil
}
