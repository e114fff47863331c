package stripe

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	sdk "github.com/stripe/stripe-go/v76"
)

const (
	lookAgain   = 10 * time.Second // webhooks wake the worker at once; this is for what others stored
	sweepEach   = 30 * time.Second // seats, and payments that have been due for too long
	missedEach  = time.Hour        // events that were not delivered
	syncEach    = 6 * time.Hour    // every team that pays
	keepMissed  = 29 * 24 * time.Hour
	lookBack    = 4 * 24 * time.Hour // the service tries to deliver an event for three days
	typesAtOnce = 20                 // as many as the service takes in one question
)

const (
	markMissed = "stripe.missed_events_at"
	markSynced = "stripe.synced_all_at"
)

// Run works until ctx ends. Without a key there is nothing to do but to wait.
func (s *Service) Run(ctx context.Context) error {
	if !s.Enabled() {
		<-ctx.Done()
		return nil
	}
	// What a server that was killed had in hand is taken up at once. Another one that works on it does no harm: each call has its key.
	if err := s.cfg.Store.Release(ctx, s.now()); err != nil && ctx.Err() == nil {
		s.cfg.Log.Warn("deliveries of an earlier server wait until their claims expire", "error", err)
	}
	var all sync.WaitGroup
	all.Go(func() { s.work(ctx) })
	all.Go(func() { s.sweep(ctx) })
	all.Wait()
	return nil
}

// work acts on events and empties the outbox.
func (s *Service) work(ctx context.Context) {
	for ctx.Err() == nil {
		next, events, err := s.actOnEvents(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("events of the payment service not read", "error", err)
		}
		later, sent, err := s.empty(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("outbox of the payment service not read", "error", err)
		}
		if events+sent > 0 {
			continue
		}
		wait := lookAgain
		for _, at := range []int64{next, later} {
			if at > 0 {
				wait = min(wait, max(time.Duration(at-s.now())*time.Millisecond, 50*time.Millisecond))
			}
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-t.C:
		}
		t.Stop()
	}
}

// sweep does the work that no event triggers: once at start, then periodically.
func (s *Service) sweep(ctx context.Context) {
	tick := time.NewTicker(sweepEach)
	defer tick.Stop()
	for {
		s.sweepOnce(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

func (s *Service) sweepOnce(ctx context.Context) {
	warn := func(what string, err error) {
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn(what, "error", err)
		}
	}
	warn("teams whose payment is due were not looked at", s.expire(ctx))
	warn("seats were not compared with members", s.countSeats(ctx))
	warn("events that were not delivered were not looked for", s.inTurn(ctx, markMissed, missedEach, s.fetchMissed))
	warn("teams that pay were not synchronised", s.inTurn(ctx, markSynced, syncEach, s.syncAll))
}

// inTurn does something that is due once in a while, also across restarts; the mark says when it was done last.
func (s *Service) inTurn(ctx context.Context, mark string, each time.Duration, do func(ctx context.Context, last int64) error) error {
	text, err := s.cfg.Store.Mark(ctx, mark)
	if err != nil {
		return fmt.Errorf("reading when it was done: %w", err)
	}
	last, _ := strconv.ParseInt(text, 10, 64) // what is no time has not been done
	began := s.now()
	if last <= began && began-last < each.Milliseconds() {
		return nil
	}
	if err := do(ctx, last); err != nil {
		return err
	}
	return s.cfg.Store.SetMark(ctx, mark, strconv.FormatInt(began, 10))
}

// fetchMissed takes up events that no webhook brought: they are among those the service could not deliver.
func (s *Service) fetchMissed(ctx context.Context, last int64) error {
	now := s.now()
	from := max(last-lookBack.Milliseconds(), now-keepMissed.Milliseconds())
	for i := 0; i < len(Types); i += typesAtOnce {
		p := &sdk.EventListParams{ListParams: listParams(ctx), DeliverySuccess: sdk.Bool(false), CreatedRange: &sdk.RangeQueryParams{GreaterThanOrEqual: from / 1000}}
		for _, t := range Types[i:min(i+typesAtOnce, len(Types))] {
			p.Types = append(p.Types, sdk.String(t))
		}
		var found []Event
		list := s.calls.events.List(p)
		for list.Next() {
			e := list.Event()
			if e.Data == nil || e.Livemode != s.live {
				continue
			}
			row := Event{ID: e.ID, Type: string(e.Type), Livemode: e.Livemode, Created: e.Created * 1000, ReceivedAt: now, Source: fromSweep, State: EventNew}
			row.ObjectID, row.CustomerID = objectOf(e.Data.Raw)
			found = append(found, row)
		}
		if err := list.Err(); err != nil {
			return fmt.Errorf("listing events: %w", err)
		}
		if len(found) == 0 {
			continue
		}
		if err := s.cfg.Store.AddEvents(ctx, found); err != nil {
			return fmt.Errorf("storing events: %w", err)
		}
	}
	s.stir()
	before := now - keepEvents.Milliseconds()
	if err := s.cfg.Store.DropEvents(ctx, before); err != nil {
		return fmt.Errorf("forgetting old events: %w", err)
	}
	if err := s.cfg.Store.DropOutgoing(ctx, before); err != nil {
		return fmt.Errorf("forgetting what was sent: %w", err)
	}
	return nil
}

// mostFailures is after how many teams in a row that could not be read the service is taken to be down.
const mostFailures = 3

// syncAll reads every team that has a customer. One that cannot be read does not keep the others from it.
func (s *Service) syncAll(ctx context.Context, _ int64) error {
	all, err := s.cfg.Store.Accounts(ctx)
	if err != nil {
		return fmt.Errorf("reading accounts: %w", err)
	}
	failed := 0 // in a row
	for _, a := range all {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		_, err := s.SyncCustomer(ctx, a.CustomerID)
		if err == nil || errors.Is(err, errNotOurs) {
			failed = 0
			continue
		}
		if !settled(err) {
			failed++
		}
		if failed == min(mostFailures, len(all)) {
			return fmt.Errorf("team %s: %w", a.TeamID, err)
		}
		s.cfg.Log.Warn("paying team not synchronised", "team_id", a.TeamID, "reason", said(err))
	}
	return nil
}
