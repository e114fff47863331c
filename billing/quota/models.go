package quota

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// ModelHold is what is held back for a question to a model that is under way.
type ModelHold struct {
	RequestID string
	TeamID    string
	CostNano  int64
	CreatedAt int64
	ExpiresAt int64
}

// CodeHeld is the code of a refusal that is over as soon as other questions are answered: what they may cost is held back.
const CodeHeld = "budget_reserved"

const (
	// sumFresh is for how long the sum of what a team's models cost this month is believed: adding it up for each question would cost more
	// the more was asked.
	sumFresh = 2 * time.Second
	// settledFor is for how long a settled hold still counts, ms: longer than a sum is believed that may not have it yet, with what the
	// clocks of several servers may differ by.
	settledFor = int64(sumFresh/time.Millisecond) + 5000
	// heldAgain is after how long a question that others are in the way of is worth trying again, ms.
	heldAgain = 2000
)

// monthSum is what a team's models cost this month, as it was read a moment ago.
type monthSum struct {
	at      time.Time // before it was read
	from    int64
	nano    int64 // with estimates
	unbound bool  // no budget of the team counts models
}

// HoldModel lets a question to a model through and holds back what it may cost at most until SettleModel: decided and written in
// one transaction, so that of many questions at once no more are let in than the budget pays for. It counts for two minutes (Pending) unless
// it is renewed, so that what a dead server held back is given back. held is false where no budget counts the question; then nothing is to
// be settled. Errors: budget_exceeded; budget_reserved, which is worth trying again.
func (s *Service) HoldModel(ctx context.Context, teamID, requestID string, most func(ctx context.Context) (nano int64, err error)) (held bool, err error) {
	ctx = tenant.In(ctx, teamID)
	m := monthOf(s.cfg.Now())
	sum, err := s.monthSum(ctx, teamID, m)
	if err != nil || sum.unbound {
		return false, err
	}
	mostNano, err := most(ctx)
	if err != nil {
		return false, err
	}
	unlock, err := s.models.LockContext(ctx, teamID)
	if err != nil {
		return false, err
	}
	defer unlock()
	if sum, err = s.monthSum(ctx, teamID, m); err != nil { // it may have been long until it was our turn
		return false, err
	}
	err = s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		held = false
		st, err := s.money(ctx, teamID, m, sum, "", mostNano)
		if err != nil || !st.CountTokens || st.Stop == nil {
			return err
		}
		if err := st.refuseModel(mostNano); err != nil || mostNano <= 0 {
			return err
		}
		held = true
		return s.cfg.Store.HoldModel(ctx, ModelHold{RequestID: requestID, TeamID: teamID, CostNano: mostNano, CreatedAt: m.now, ExpiresAt: m.now + s.cfg.Pending.Milliseconds()})
	})
	if err != nil {
		return false, err
	}
	return held, nil
}

// RenewModel has what is held back for a question count for another two minutes (Pending): somebody is at it.
func (s *Service) RenewModel(ctx context.Context, teamID, requestID string) error {
	if err := s.cfg.Store.RenewModel(tenant.In(ctx, teamID), requestID, s.cfg.Now()+s.cfg.Pending.Milliseconds()); err != nil {
		return fmt.Errorf("holding on to what a question may cost: %w", err)
	}
	return nil
}

// SettleModel ends what was held back for a question: what it cost is in the team's requests from here on.
func (s *Service) SettleModel(ctx context.Context, teamID, requestID string, costNano int64) error {
	if err := s.cfg.Store.SettleModel(tenant.In(ctx, teamID), requestID, costNano, s.cfg.Now()+settledFor); err != nil {
		return fmt.Errorf("settling what a question cost: %w", err)
	}
	return nil
}

// monthSum reads what a team's models cost this month, or believes what it read a moment ago.
func (s *Service) monthSum(ctx context.Context, teamID string, m month) (monthSum, error) {
	s.mu.Lock()
	have, ok := s.sums[teamID]
	sequence := s.sequence
	s.mu.Unlock()
	at := time.Now() // before it is read: what is settled from here on is still among the holds
	if ok && have.from == m.from && at.Sub(have.at) < sumFresh {
		return have, nil
	}
	out := monthSum{at: at, from: m.from}
	b, err := s.budget(ctx, teamID)
	if err != nil {
		return out, err
	}
	if out.unbound = s.cfg.Tokens == nil || !b.CountTokens || b.StopAt() == nil; !out.unbound {
		nano, _, estimate, err := s.cfg.Tokens(ctx, teamID, m.from, m.to)
		if err != nil {
			return out, fmt.Errorf("reading what models cost: %w", err)
		}
		out.nano = plus(nano, estimate)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sequence == sequence {
		if len(s.sums) >= mostSums {
			clear(s.sums)
		}
		s.sums[teamID] = out
	}
	return out, nil
}

// mostSums bounds how many teams' sums are cached.
const mostSums = 10_000

// money is the state of a team's budget, for the check whether something more fits.
type money struct {
	Budget
	Stop     *int64 // what may be spent; nil = without bound
	Spent    int64
	Reserved int64
	ResetsAt int64
}

// money reads how a team's budget stands, in the transaction of ctx: what is closed, what runs and what is held back (but for one sandbox) as
// it is now, what models cost as a sum says that was read a moment ago, and what was settled since. Where needs, which somebody wants to spend,
// would not fit, models are added up anew: the sum may hold what was settled already.
func (s *Service) money(ctx context.Context, teamID string, m month, sum monthSum, but string, needs int64) (out money, err error) {
	if out.Budget, err = s.budget(ctx, teamID); err != nil {
		return out, err
	}
	out.Stop, out.ResetsAt = out.Budget.StopAt(), m.to
	if out.Stop == nil {
		return out, nil
	}
	running, err := s.cfg.Store.Running(ctx, teamID)
	if err != nil {
		return out, fmt.Errorf("reading what runs: %w", err)
	}
	closed, err := s.cfg.Store.Closed(ctx, teamID, m.from, m.to)
	if err != nil {
		return out, fmt.Errorf("reading what was spent: %w", err)
	}
	starts, err := s.cfg.Store.Reservations(ctx, m.now)
	if err != nil {
		return out, fmt.Errorf("reading what is held back: %w", err)
	}
	out.Spent, out.Reserved = plus(closed, m.cost(running)), s.heldFor(teamID, m, running, starts, but)
	if !out.CountTokens || s.cfg.Tokens == nil {
		return out, nil
	}
	open, settled, err := s.cfg.Store.ModelHolds(ctx, teamID, m.from, m.now)
	if err != nil {
		return out, fmt.Errorf("reading what is held back for models: %w", err)
	}
	models := plus(sum.nano, settled)
	full := settled > 0 && plus(plus(plus(out.Spent, models), plus(out.Reserved, open)), needs) >= *out.Stop
	if full || sum.unbound || time.Since(sum.at) > 2*sumFresh { // the database kept us waiting: what was settled since may be among the holds no more
		nano, _, estimate, err := s.cfg.Tokens(ctx, teamID, m.from, m.to)
		if err != nil {
			return out, fmt.Errorf("reading what models cost: %w", err)
		}
		models = plus(nano, estimate)
	}
	out.Spent, out.Reserved = plus(out.Spent, models), plus(out.Reserved, open)
	return out, nil
}

// heldFor is what is held back for a team's sandboxes but one: for those that begin, and for the first minutes (Lease) of those that run.
// What began a moment ago has cost next to nothing yet: without that, one start after the other would be let in for the same money.
func (s *Service) heldFor(teamID string, m month, running []Running, starts []Reservation, but string) (nano int64) {
	for _, r := range starts {
		if r.TeamID == teamID && r.SandboxID != but {
			nano = plus(nano, r.CostNano)
		}
	}
	for _, r := range running {
		if r.TeamID == teamID && r.SandboxID != but {
			nano = plus(nano, s.aheadOf(r, m))
		}
	}
	return nano
}

// aheadOf is what the rest of a running sandbox's first minutes costs.
func (s *Service) aheadOf(r Running, m month) int64 {
	return billing.Cost(r.PriceNano, s.cfg.Lease.Milliseconds()-max(m.now-r.StartedAt, 0))
}

// refuseModel refuses a question that may cost more than there is.
func (st money) refuseModel(most int64) error {
	figures := func(f *fault.Error) error {
		return f.With("scope", "team_budget").With("used", st.Spent).With("reserved", st.Reserved).With("limit", *st.Stop).With("needed", most).
			With("unit", "nano_usd").With("resets_at", st.ResetsAt)
	}
	switch {
	case st.Spent >= *st.Stop:
		return figures(fault.New(fault.Quota, "budget_exceeded", "The team's budget is spent: %s of %s this month, models included. An admin of the team can raise it; else it goes on on %s.",
			billing.Dollars(st.Spent), billing.Dollars(*st.Stop), day(st.ResetsAt)))
	case plus(st.Spent, most) > *st.Stop:
		return figures(fault.New(fault.Quota, "budget_exceeded",
			"The team's budget has %s left this month, and this question may cost up to %s. Ask for a shorter answer (max_tokens) or a cheaper model, or have an admin of the team raise the budget; else it goes on on %s.",
			billing.Dollars(*st.Stop-st.Spent), billing.Dollars(most), day(st.ResetsAt)))
	case plus(plus(st.Spent, st.Reserved), most) > *st.Stop:
		return figures(fault.New(fault.RateLimited, CodeHeld,
			"The team's budget has %s left this month, of which %s are held back for what is under way, and this question may cost up to %s. It goes on once others have ended.",
			billing.Dollars(*st.Stop-st.Spent), billing.Dollars(st.Reserved), billing.Dollars(most)).With("retry_after_ms", int64(heldAgain)))
	}
	return nil
}
