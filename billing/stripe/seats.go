package stripe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/id"
)

// countSeats has the paid seats follow the members: as many as there are, and no fewer than were bought ahead for the present period.
func (s *Service) countSeats(ctx context.Context) error {
	all, err := s.cfg.Store.SeatCounts(ctx)
	if err != nil {
		return fmt.Errorf("comparing seats with members: %w", err)
	}
	for _, c := range all {
		if !holds(c.Status) || c.Status == Incomplete || c.SubscriptionID == "" {
			continue
		}
		want, err := s.seatsOf(ctx, c)
		if err != nil {
			return err
		}
		if want == c.Seats {
			continue
		}
		if err := s.wishSeats(ctx, c, want); err != nil {
			return err
		}
	}
	return nil
}

// seatsOf is how many seats a team is to pay.
func (s *Service) seatsOf(ctx context.Context, c SeatCount) (int64, error) {
	want := max(c.Members, 1)
	last, found, err := s.cfg.Store.LastPaid(ctx, c.TeamID)
	if err != nil {
		return 0, fmt.Errorf("reading a team's checkouts: %w", err)
	}
	// The period begins when the payment is made, a little before we note that the checkout is done.
	if found && last.EndedAt >= c.PeriodStart && s.now() < c.PeriodEnd {
		want = max(want, last.Seats)
	}
	// It is paid before we note that: what was asked for and is there stays until then.
	open, err := s.cfg.Store.OpenCheckouts(ctx, c.TeamID)
	if err != nil {
		return 0, fmt.Errorf("reading a team's checkouts: %w", err)
	}
	for _, o := range open {
		if o.CreatedAt+openFor.Milliseconds() >= c.PeriodStart && s.now() < c.PeriodEnd {
			want = max(want, min(o.Seats, c.Seats))
		}
	}
	return want, nil
}

// wanted is how many seats a team is to pay now.
func (s *Service) wanted(ctx context.Context, teamID string) (int64, error) {
	a, err := s.cfg.Store.Account(ctx, teamID)
	if err != nil {
		return 0, fmt.Errorf("reading a team's account: %w", err)
	}
	members, err := s.cfg.Store.CountMembers(ctx, teamID)
	if err != nil {
		return 0, fmt.Errorf("counting members: %w", err)
	}
	return s.seatsOf(ctx, SeatCount{a, members})
}

// wishSeats puts it into the outbox that a subscription is to have so many seats, unless that is what waits there. A newer wish takes the
// place of an older one. What was given up is wished for again after a day, or when an operator says so.
func (s *Service) wishSeats(ctx context.Context, c SeatCount, want int64) error {
	queued := false
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		queued = false
		pending, err := s.cfg.Store.PendingOutgoing(ctx, c.TeamID, outSeats)
		if err != nil {
			return err
		}
		for _, row := range pending {
			var body seatsBody
			if json.Unmarshal([]byte(row.Payload), &body) == nil && body.Quantity == want && body.Subscription == c.SubscriptionID {
				return nil
			}
			// The wish changes; under its old key the service may have the old one already.
			raw, err := json.Marshal(seatsBody{Subscription: c.SubscriptionID, Quantity: want, Key: id.New(row.ID)})
			if err != nil {
				return fmt.Errorf("packing a row of the outbox: %w", err)
			}
			row.Payload, row.TryAt, row.CreatedAt = string(raw), s.now(), s.now()
			queued = true
			return s.cfg.Store.SaveOutgoing(ctx, row)
		}
		last, found, err := s.cfg.Store.LastOutgoing(ctx, c.TeamID, outSeats)
		if err != nil {
			return err
		}
		var body seatsBody
		if found && last.State == OutboxFailed && s.now() < last.TryAt+dayMs && json.Unmarshal([]byte(last.Payload), &body) == nil && body.Quantity == want && body.Subscription == c.SubscriptionID {
			return nil // it was refused, and operators were notified
		}
		queued = true
		_, err = s.queue(ctx, c.TeamID, outSeats, s.now(), seatsBody{Subscription: c.SubscriptionID, Quantity: want})
		return err
	})
	if err != nil {
		return fmt.Errorf("noting a number of seats: %w", err)
	}
	if queued {
		s.stir()
	}
	return nil
}

// sendSeats sets a subscription's seats. The service charges or credits the rest of the period automatically.
func (s *Service) sendSeats(ctx context.Context, row *Outgoing) error {
	var body seatsBody
	if err := json.Unmarshal([]byte(row.Payload), &body); err != nil {
		return fmt.Errorf("reading a row of the outbox: %w", err)
	}
	sub, err := s.calls.subscriptions.Get(body.Subscription, &sdk.SubscriptionParams{Params: params(ctx)})
	if err != nil {
		return fmt.Errorf("reading a subscription: %w", err)
	}
	byID, err := s.plansByPrice(ctx)
	if err != nil {
		return err
	}
	item := seatItem(sub, byID)
	if item != nil && holds(string(sub.Status)) && item.Quantity != body.Quantity {
		// Who joined may have left again while this waited: what is there is right then.
		still, err := s.wanted(ctx, row.TeamID)
		if err != nil {
			return err
		}
		if still == item.Quantity {
			body.Quantity = still
		}
	}
	if item != nil && holds(string(sub.Status)) && item.Quantity != body.Quantity {
		key := row.ID
		if body.Key != "" {
			key = body.Key
		}
		if _, err := s.calls.items.Update(item.ID, &sdk.SubscriptionItemParams{Params: keyedParams(ctx, key), Quantity: sdk.Int64(body.Quantity),
			ProrationBehavior: sdk.String("create_prorations")}); err != nil {
			return fmt.Errorf("setting seats: %w", err)
		}
	}
	failpoint.Reach(failpoint.SeatsSet)
	row.State, row.Reason, row.SentAt = OutboxSent, "", s.now()
	row.Attempts++
	if item != nil {
		row.ResultID = item.ID
	}
	if err := s.keepRow(ctx, *row, nil); err != nil {
		return err
	}
	if sub.Customer != nil {
		if _, err := s.SyncCustomer(ctx, sub.Customer.ID); err != nil && !errors.Is(err, errNotOurs) {
			s.cfg.Log.Info("seats of a team set; the next sync shows them", "team_id", row.TeamID, "error", err)
		}
	}
	return nil
}
