package quota

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/tenant"
)

// State is how a team's budget stands.
type State string

// States of a budget.
const (
	OK      State = "ok"
	Warned  State = "warned"  // a threshold was passed
	Grace   State = "grace"   // it is spent, and work goes on for a little while
	Stopped State = "stopped" // it is spent: nothing paid begins
	Overage State = "overage" // it is spent, and work goes on at extra cost
)

// lastSeen is for how long after its last heartbeat a sandbox counts as running, ms: then nobody knows.
const lastSeen = 2 * minuteMs

// Standing is how a team's budget stands now. nil = no bound, or nothing to tell.
type Standing struct {
	Period        string // the month, such as 2026-11
	From          int64
	ResetsAt      int64 // when the month ends
	Now           int64
	Budget        Budget
	SandboxNano   int64 // what sandboxes cost this month
	TokensNano    int64 // what models cost, as far as it is known
	TokensUnknown int64 // answers of models whose cost nobody knows
	// TokensEstimateNano is what those may have cost, rather too much. A budget counts it, else an agent that breaks answers off would use models for nothing.
	TokensEstimateNano int64
	SpentNano          int64 // what counts in the budget
	ReservedNano       int64 // held back for starts, the first minutes of what runs, and questions to models
	RateNano           int64 // an hour, of what runs now, and of models by their last hour where they count
	LimitNano          *int64
	StopAt             *int64 // what may be spent before work is stopped: the limit, or the limit with its overage
	Percent            *int64 // of the limit, rounded down
	ExhaustedAt        *int64 // when StopAt is reached at this rate; nil = not this month
	State              State
	Running            []Running
}

// Left is what may still be spent; nil = without bound.
func (s Standing) Left() *int64 {
	if s.StopAt == nil {
		return nil
	}
	return new(max(*s.StopAt-s.SpentNano-s.ReservedNano, 0))
}

// month is a month (UTC) and a moment in it.
type month struct {
	name          string
	from, to, now int64
}

func monthOf(now int64) month {
	name, from, to := billing.Month(now)
	return month{name, from, to, now}
}

// ran is for how long of the month a sandbox has run, ms.
func (m month) ran(r Running) int64 {
	return max(min(m.now, r.SeenAt+lastSeen)-max(r.StartedAt, m.from), 0)
}

// cost is what open segments cost so far this month.
func (m month) cost(all []Running) (nano int64) {
	for _, r := range all {
		nano = plus(nano, billing.Cost(r.PriceNano, m.ran(r)))
	}
	return nano
}

// budget is a team's own, or what holds where it said nothing.
func (s *Service) budget(ctx context.Context, teamID string) (Budget, error) {
	b, ok, err := s.cfg.Store.Budget(ctx, teamID)
	if err != nil {
		return b, fmt.Errorf("reading a team's budget: %w", err)
	}
	if !ok {
		b = Budget{Thresholds: []int64{80, 90, 100}, GraceSeconds: int64(s.cfg.GraceSeconds), NotifyApp: true, NotifyMail: true, NotifyWebhooks: true}
	}
	return b, nil
}

// TeamStanding tells how a team's budget stands.
func (s *Service) TeamStanding(ctx context.Context, teamID string) (Standing, error) {
	return s.teamStanding(tenant.In(ctx, teamID), teamID, monthOf(s.cfg.Now()))
}

func (s *Service) teamStanding(ctx context.Context, teamID string, m month) (Standing, error) {
	out := Standing{Period: m.name, From: m.from, ResetsAt: m.to, Now: m.now}
	var err error
	if out.Budget, err = s.budget(ctx, teamID); err != nil {
		return out, err
	}
	if out.Running, err = s.cfg.Store.Running(ctx, teamID); err != nil {
		return out, fmt.Errorf("reading what runs: %w", err)
	}
	closed, err := s.cfg.Store.Closed(ctx, teamID, m.from, m.to)
	if err != nil {
		return out, fmt.Errorf("reading what was spent: %w", err)
	}
	out.SandboxNano = plus(closed, m.cost(out.Running))
	for _, r := range out.Running {
		out.RateNano = plus(out.RateNano, r.PriceNano)
	}
	if s.cfg.Tokens != nil {
		if out.TokensNano, out.TokensUnknown, out.TokensEstimateNano, err = s.cfg.Tokens(ctx, teamID, m.from, m.to); err != nil {
			return out, fmt.Errorf("reading what models cost: %w", err)
		}
	}
	out.SpentNano = out.SandboxNano
	if out.Budget.CountTokens {
		out.SpentNano = plus(plus(out.SpentNano, out.TokensNano), out.TokensEstimateNano)
		if s.cfg.Tokens != nil {
			lately, _, guessed, err := s.cfg.Tokens(ctx, teamID, m.now-hourMs, m.now+1)
			if err != nil {
				return out, fmt.Errorf("reading what models cost lately: %w", err)
			}
			out.RateNano = plus(plus(out.RateNano, lately), guessed)
		}
	}
	held, err := s.cfg.Store.Reservations(ctx, m.now)
	if err != nil {
		return out, fmt.Errorf("reading what is held back: %w", err)
	}
	out.ReservedNano = s.heldFor(teamID, m, out.Running, held, "")
	if out.Budget.CountTokens {
		open, _, err := s.cfg.Store.ModelHolds(ctx, teamID, m.from, m.now)
		if err != nil {
			return out, fmt.Errorf("reading what is held back for models: %w", err)
		}
		out.ReservedNano = plus(out.ReservedNano, open)
	}
	out.LimitNano, out.StopAt = out.Budget.LimitNano, out.Budget.StopAt()
	counting := false
	if out.LimitNano != nil {
		if counting, err = s.cfg.Store.Counting(ctx, teamID); err != nil {
			return out, fmt.Errorf("reading whether work goes on by a grace: %w", err)
		}
		out.Percent = new(percent(out.SpentNano, *out.LimitNano))
	}
	out.State = out.state(counting)
	if out.StopAt != nil {
		out.ExhaustedAt = m.exhausted(*out.StopAt-out.SpentNano, out.RateNano)
	}
	return out, nil
}

func (s Standing) state(counting bool) State {
	switch {
	case s.LimitNano == nil:
		return OK
	case s.StopAt != nil && s.SpentNano >= *s.StopAt && counting:
		return Grace
	case s.StopAt != nil && s.SpentNano >= *s.StopAt:
		return Stopped
	case s.SpentNano >= *s.LimitNano:
		return Overage
	case len(s.Budget.Thresholds) > 0 && *s.Percent >= s.Budget.Thresholds[0]:
		return Warned
	}
	return OK
}

// exhausted is when an amount is used up at a rate an hour; nil = not this month.
func (m month) exhausted(left, rate int64) *int64 {
	if left <= 0 {
		return new(m.now)
	}
	if rate <= 0 {
		return nil
	}
	hi, lo := bits.Mul64(uint64(left), hourMs)
	if hi >= uint64(rate) {
		return nil
	}
	ms, _ := bits.Div64(hi, lo, uint64(rate))
	if ms >= uint64(m.to-m.now) {
		return nil
	}
	return new(m.now + int64(ms))
}

// percent is a share, rounded down. Of nothing, everything is used.
func percent(used, limit int64) int64 {
	if limit <= 0 {
		return 100
	}
	if used > (1<<63-1)/100 {
		return used / max(limit/100, 1)
	}
	return used * 100 / limit
}

// UserStanding is how a user's quota stands in a team now.
type UserStanding struct {
	UserID      string
	Period      string
	ResetsAt    int64
	Quota       Quota
	Plan        Plan
	ByHand      ByHand
	UsedMs      int64 // metered time this month, of all their sandboxes
	LimitMs     *int64
	ReservedMs  int64 // held back for starts
	Running     int64 // sandboxes of metered executors, including starts
	Percent     *int64
	ExhaustedAt *int64
}

// UserStanding tells how a user's quota stands in a team.
func (s *Service) UserStanding(ctx context.Context, teamID, userID string) (UserStanding, error) {
	ctx = tenant.In(ctx, teamID)
	q, plan, err := s.Effective(ctx, teamID, userID)
	if err != nil {
		return UserStanding{}, err
	}
	out, err := s.userStanding(ctx, teamID, userID, q, plan, monthOf(s.cfg.Now()), "")
	if err == nil && userID != "" {
		if out.ByHand, err = s.cfg.Store.UserByHand(ctx, teamID, userID); err != nil {
			err = fmt.Errorf("reading a user's quota: %w", err)
		}
	}
	return out, err
}

// userStanding leaves out a sandbox that is asked for.
func (s *Service) userStanding(ctx context.Context, teamID, userID string, q Quota, plan Plan, m month, but string) (UserStanding, error) {
	closed, err := s.cfg.Store.ClosedHoursOf(ctx, teamID, userID, m.from, m.to)
	if err != nil {
		return UserStanding{}, fmt.Errorf("reading how long a user's sandboxes ran: %w", err)
	}
	running, err := s.cfg.Store.Running(ctx, teamID)
	if err != nil {
		return UserStanding{}, fmt.Errorf("reading what runs: %w", err)
	}
	held, err := s.cfg.Store.Reservations(ctx, m.now)
	if err != nil {
		return UserStanding{}, fmt.Errorf("reading what is held back: %w", err)
	}
	return stand(teamID, userID, q, plan, m, closed, running, held, but), nil
}

// stand puts together how a user stands.
func stand(teamID, userID string, q Quota, plan Plan, m month, closed int64, running []Running, held []Reservation, but string) UserStanding {
	out := UserStanding{UserID: userID, Period: m.name, ResetsAt: m.to, Quota: q, Plan: plan, UsedMs: closed}
	at := int64(0) // running now, for the rate
	for _, r := range running {
		if r.UserID == userID && r.Metered && r.SandboxID != but {
			out.UsedMs += m.ran(r)
			at++
		}
	}
	out.Running = at
	for _, r := range held {
		if r.TeamID == teamID && r.UserID == userID && r.HoursMs > 0 && r.SandboxID != but {
			out.ReservedMs += r.HoursMs
			out.Running++
		}
	}
	if q.HoursMonth == nil {
		return out
	}
	out.LimitMs = new(*q.HoursMonth * hourMs)
	out.Percent = new(percent(out.UsedMs, *out.LimitMs))
	out.ExhaustedAt = m.exhausted(*out.LimitMs-out.UsedMs, at*hourMs)
	return out
}

// TeamStandings are all members', with what was said of them by hand.
func (s *Service) TeamStandings(ctx context.Context, teamID string) ([]UserStanding, []Member, Plan, error) {
	m := monthOf(s.cfg.Now())
	plan, _, err := s.PlanOf(ctx, teamID)
	if err != nil {
		return nil, nil, plan, err
	}
	members, err := s.cfg.Store.Members(ctx, teamID)
	if err != nil {
		return nil, nil, plan, fmt.Errorf("reading the team's members: %w", err)
	}
	hands, err1 := s.cfg.Store.ByHand(ctx, teamID)
	closed, err2 := s.cfg.Store.ClosedHours(ctx, teamID, m.from, m.to)
	running, err3 := s.cfg.Store.Running(ctx, teamID)
	held, err4 := s.cfg.Store.Reservations(ctx, m.now)
	if err := errors.Join(err1, err2, err3, err4); err != nil {
		return nil, nil, plan, fmt.Errorf("reading the team's quotas: %w", err)
	}
	out := make([]UserStanding, len(members))
	for i, u := range members {
		out[i] = stand(teamID, u.UserID, plan.Quota.over(hands[u.UserID]), plan, m, closed[u.UserID], running, held, "")
		out[i].ByHand = hands[u.UserID]
	}
	return out, members, plan, nil
}

// day writes the day (UTC) of a time.
func day(ms int64) string { return time.UnixMilli(ms).UTC().Format("2 January") }
