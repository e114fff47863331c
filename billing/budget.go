package billing

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// Thresholds of a budget that people are notified of, in percent. At the last one, no paid sandbox starts any more.
const (
	WarnPercent = 90
	FullPercent = 100
)

// watchEvery is how often at most heartbeats have the budget looked at, ms.
const watchEvery = 30_000

// Alert is a threshold of a budget that was passed: once for each month, and again when the budget was raised in between.
type Alert struct {
	Period    string // the month, such as 2026-11
	Percent   int
	SpentNano int64
	LimitNano int64
	At        int64 // ms UTC
}

// Words returns the texts for people: what was passed, and what it means for them.
func (a Alert) Words() string {
	spent := fmt.Sprintf("%s of this server's budget of %s for paid places are spent this month", Dollars(a.SpentNano), Dollars(a.LimitNano))
	if a.Percent >= FullPercent {
		return spent + ". What runs goes on; no further paid sandbox starts or wakes until the month ends or an operator raises the budget."
	}
	return fmt.Sprintf("%s (%d %%). At 100 %% no further paid sandbox starts.", spent, a.Percent)
}

// Standing is how a budget stands.
type Standing struct {
	Budget
	SpentNano int64
	ResetsAt  int64 // ms UTC: when the month ends
}

// LeftNano is what may still be spent; 0 when the budget is overdrawn.
func (s Standing) LeftNano() int64 { return max(s.LimitNano-s.SpentNano, 0) }

// Now is the ledger's time, ms UTC.
func (l *Ledger) Now() int64 { return l.clock.Now() }

// Standing tells how the instance's budget stands now.
func (l *Ledger) Standing(ctx context.Context) (Standing, error) {
	return l.standing(ctx, l.clock.Now())
}

func (l *Ledger) standing(ctx context.Context, now int64) (Standing, error) {
	_, from, to := Month(now)
	out := Standing{ResetsAt: to}
	var err error
	if l.cfg.Budget != nil {
		if out.Budget, err = l.cfg.Budget(ctx); err != nil {
			return out, fmt.Errorf("reading the budget: %w", err)
		}
	}
	if out.SpentNano, err = l.cfg.Store.Spent(ctx, from, to); err != nil {
		return out, fmt.Errorf("reading what was spent: %w", err)
	}
	// What has run since its last heartbeat, and across a midnight that no heartbeat has seen yet.
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, o := range l.open {
		if o.startedAt >= from || o.seenAt >= from {
			out.SpentNano += max(cost(o.priceNano, now-o.startedAt)-cost(o.priceNano, o.seenAt-o.startedAt), 0)
		}
	}
	return out, nil
}

// Release notes that a sandbox that was let in did not begin after all.
func (l *Ledger) Release(ctx context.Context, sandboxID string) error {
	if l.cfg.Admit == nil {
		return nil
	}
	return l.cfg.Admit.Release(ctx, sandboxID)
}

// counts makes a usage interval count in users' hours where the price book has no price for its executor and several teams share it. It reads
// the number of teams, so it must not be called in a transaction.
func (l *Ledger) counts(ctx context.Context, s *executors.UsageInterval) (err error) {
	if l.cfg.Admit == nil || s.Metered || l.cfg.Prices != nil && l.cfg.Prices.Quote(string(s.Kind), s.CPUs, s.MemoryMB, l.clock.Now()).RowID != "" {
		return nil
	}
	s.Metered, err = l.cfg.Admit.Counts(ctx, string(s.Kind))
	return err
}

// Afford refuses what may not begin, and what the budget has no money for. What was begun goes on.
func (l *Ledger) Afford(ctx context.Context, s executors.UsageInterval) error {
	if l.cfg.Admit != nil {
		if err := l.counts(ctx, &s); err != nil {
			return err
		}
		return l.cfg.Admit.Admit(ctx, s)
	}
	if s.PriceNano <= 0 {
		return nil
	}
	st, err := l.Standing(ctx)
	if err != nil {
		return err
	}
	if !st.Limited || st.SpentNano < st.LimitNano {
		return nil
	}
	resets := time.UnixMilli(st.ResetsAt).UTC().Format("2 January")
	return fault.New(fault.Quota, "budget_exceeded",
		"This server's budget for paid places is spent: %s of %s this month, and this sandbox would cost %s an hour. Use a place on this server, ask an operator to raise the budget, or wait until %s.",
		Dollars(st.SpentNano), Dollars(st.LimitNano), Dollars(s.PriceNano), resets).
		With("scope", "instance_budget").With("ways", []string{executors.FreePlace, "upgrade"}).With("place", string(s.Kind)).With("unit", "nano_usd").
		With("used", st.SpentNano).With("limit", st.LimitNano).With("needed", s.PriceNano).With("price_nano_per_hour", s.PriceNano).With("resets_at", st.ResetsAt)
}

// reached is the highest threshold that was passed, 0 = none.
func (s Standing) reached() (percent int) {
	for _, p := range [...]int{WarnPercent, FullPercent} {
		if s.Limited && s.SpentNano >= shareOf(s.LimitNano, p) {
			percent = p
		}
	}
	return percent
}

// Passed returns the threshold of this month's budget that is passed now, nil while none is.
func (l *Ledger) Passed(ctx context.Context) (*Alert, error) {
	now := l.clock.Now()
	st, err := l.standing(ctx, now)
	if err != nil || st.reached() == 0 {
		return nil, err
	}
	period, _, _ := Month(now)
	return &Alert{Period: period, Percent: st.reached(), SpentNano: st.SpentNano, LimitNano: st.LimitNano, At: now}, nil
}

// watch notifies people once when the budget passes a threshold.
func (l *Ledger) watch(ctx context.Context, now int64) {
	last := l.alertAt.Load()
	if now-last < watchEvery && last != 0 || !l.alertAt.CompareAndSwap(last, now) {
		return
	}
	st, err := l.standing(ctx, now)
	if err != nil {
		l.cfg.Log.Warn("budget not read", "error", err)
		return
	}
	if !st.Limited {
		return
	}
	period, _, _ := Month(now)
	reached := st.reached()
	// A raised budget notifies again when it is passed again.
	if err := l.cfg.Store.DropAlerts(ctx, period, reached); err != nil {
		l.cfg.Log.Warn("budget alerts not read", "error", err)
		return
	}
	if reached == 0 {
		return
	}
	a := Alert{Period: period, Percent: reached, SpentNano: st.SpentNano, LimitNano: st.LimitNano, At: now}
	fresh := false
	err = l.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) { // together: a server that dies in between tells it at its next look
		if fresh, err = l.cfg.Store.NoteAlert(ctx, a); err != nil || !fresh || l.cfg.Notify == nil {
			return err
		}
		return l.cfg.Notify(ctx, a)
	})
	if err != nil {
		l.cfg.Log.Warn("budget alert not stored", "error", err)
		return
	}
	if !fresh {
		return
	}
	l.cfg.Log.Warn("budget for paid executors nearly or fully spent", "percent", reached, "spent", Dollars(st.SpentNano), "limit", Dollars(st.LimitNano))
	if l.cfg.Events != nil {
		teams, err := l.cfg.Store.TeamsRunning(ctx)
		if err != nil {
			l.cfg.Log.Warn("teams with paid sandboxes not read", "error", err)
		}
		for _, team := range teams {
			l.cfg.Events.Publish(ctx, events.Event{Type: "budget.updated", ID: period, TeamID: team, Version: now})
		}
	}
}

// shareOf is percent of an amount, rounded up: it is reached when that much is spent.
func shareOf(nano int64, percent int) int64 {
	return nano/100*int64(percent) + (nano%100*int64(percent)+99)/100
}
