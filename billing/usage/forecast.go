package usage

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/billing"
)

// forecastDays is how many whole days a forecast rests on at most.
const forecastDays = 7

// forecast says what the month will come to: what it has come to, and for the rest of it the mean of the last whole days. Where there
// is none yet, each day is taken to be as today has been so far.
func (s *Service) forecast(ctx context.Context, teamID string) (Forecast, error) {
	now := s.now()
	period, from, to := billing.Month(now)
	out := Forecast{Period: period, EndsAt: to, Basis: BasisNone}
	spent, err := s.whole(ctx, teamID, from, to)
	if err != nil {
		return out, err
	}
	out.CostNano, out.TokensCostNano = spent.CostNano, spent.TokensCostNano
	first, err := s.store.FirstUse(ctx, teamID)
	if err != nil {
		return out, fmt.Errorf("reading since when there is use: %w", err)
	}
	if first == 0 {
		return out, nil
	}
	today := now - now%dayMs
	since := max(first-first%dayMs, today-forecastDays*dayMs)
	till := today
	out.Basis = BasisWeek
	out.Days = int((today - since) / dayMs)
	switch {
	case out.Days <= 0:
		since, till, out.Basis, out.Days = max(today, first), now, BasisToday, 0
	case out.Days < forecastDays:
		out.Basis = BasisFewer
	}
	past, err := s.whole(ctx, teamID, since, till)
	if err != nil {
		return out, err
	}
	if past.CostNano == 0 && past.TokensCostNano == 0 {
		out.Basis = BasisNone
	}
	span := till - since
	if out.Basis == BasisToday {
		span = dayMs // nobody works around the clock: today's use so far is a day's, or the first minute would promise a fortune
	}
	out.CostNano += project(past.CostNano, span, to-now)
	out.TokensCostNano += project(past.TokensCostNano, span, to-now)
	return out, nil
}

// project is what an amount of one span comes to in another.
func project(nano, span, rest int64) int64 {
	hourly := nano / span * hourMs
	if over := nano % span; over > 0 {
		hourly += over * hourMs / span // over < span: about 6e8 * 4e6, which fits
	}
	return billing.Cost(hourly, rest)
}

// whole is what a time came to.
func (s *Service) whole(ctx context.Context, teamID string, from, to int64) (Amounts, error) {
	var out Amounts
	q := Query{TeamID: teamID, From: from, To: to, Group: ByExecutor}
	sums, err := s.sums(ctx, q)
	if err != nil {
		return out, err
	}
	tokens, err := s.store.TokenSums(ctx, teamID, ByDay, from, to)
	if err != nil {
		return out, fmt.Errorf("reading what models cost: %w", err)
	}
	for _, all := range []map[string]Amounts{sums, tokens} {
		for _, a := range all {
			out.Add(a)
		}
	}
	return out, nil
}
