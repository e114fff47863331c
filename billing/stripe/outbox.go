package stripe

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Kinds of rows of the outbox.
const (
	outCustomer = "customer"
	outSeats    = "seats"
)

// keyGood is for how long the service surely remembers an idempotency key (24 h), less an hour.
const keyGood = 23 * time.Hour

// customerBody is what a customer is made of.
type customerBody struct {
	Name  string `json:"name"`
	Email string `json:"email"`
	Slug  string `json:"slug"`
	// Key is the idempotency key of the next attempt where it is not the row's id: the service keeps an answer of 5xx under a key.
	Key string `json:"key,omitempty"`
}

// seatsBody is how many seats a subscription is to have.
type seatsBody struct {
	Subscription string `json:"subscription"`
	Quantity     int64  `json:"quantity"`
	Key          string `json:"key,omitempty"`
}

// customer returns the team's customer at the payment service, and makes it first where there is none. The wish is stored before the
// service is asked, so that no crash makes a second one.
func (s *Service) customer(ctx context.Context, teamID string) (string, error) {
	var row Outgoing
	var have string
	mine := false
	until := s.now() + claimFor.Milliseconds()
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		mine = false
		a, err := s.cfg.Store.Account(ctx, teamID)
		if have = a.CustomerID; err != nil || have != "" {
			return err
		}
		pending, err := s.cfg.Store.PendingOutgoing(ctx, teamID, outCustomer)
		if err != nil {
			return err
		}
		if len(pending) > 0 {
			row = pending[0]
			return nil
		}
		t, err := s.cfg.Team(ctx, teamID)
		if err != nil {
			return err
		}
		mine = true // from the start, so that the worker leaves it to us
		row, err = s.queue(ctx, teamID, outCustomer, until, customerBody{Name: t.Name, Email: t.Email, Slug: t.Slug})
		return err
	})
	if err != nil {
		return "", fmt.Errorf("preparing a customer: %w", err)
	}
	if have != "" {
		return have, nil
	}
	failpoint.Reach(failpoint.CustomerQueued)
	if !mine {
		if mine, err = s.cfg.Store.ClaimOutgoing(ctx, row, until); err != nil {
			return "", fmt.Errorf("claiming a row of the outbox: %w", err)
		}
	}
	if !mine {
		return "", fault.New(fault.Conflict, "payments_busy", "This team is being registered with the payment service just now. Try again in a moment.")
	}
	row.TryAt = until
	if err := s.send(ctx, &row); err != nil {
		return "", s.asked("making a customer", err)
	}
	a, err := s.cfg.Store.Account(ctx, teamID)
	if err != nil {
		return "", fmt.Errorf("reading a team's account: %w", err)
	}
	return a.CustomerID, nil
}

// queue stores a row of the outbox that is due at a time, as part of the transaction in ctx.
func (s *Service) queue(ctx context.Context, teamID, kind string, due int64, body any) (Outgoing, error) {
	raw, err := json.Marshal(body)
	if err != nil {
		return Outgoing{}, fmt.Errorf("packing a row of the outbox: %w", err)
	}
	row := Outgoing{ID: id.New("obx"), TeamID: teamID, Kind: kind, Payload: string(raw), State: OutboxPending, TryAt: due, CreatedAt: s.now()}
	_, err = s.cfg.Store.AddOutgoing(ctx, row)
	return row, err
}

// empty sends what is due. next is when something else will be, 0 = nothing is known of.
func (s *Service) empty(ctx context.Context) (next int64, done int, err error) {
	due, next, err := s.cfg.Store.DueOutgoing(ctx, s.now(), 50)
	if err != nil {
		return 0, 0, fmt.Errorf("reading the outbox: %w", err)
	}
	for _, row := range due {
		if ctx.Err() != nil {
			break
		}
		until := s.now() + claimFor.Milliseconds()
		ok, err := s.cfg.Store.ClaimOutgoing(ctx, row, until)
		if err != nil {
			return 0, done, fmt.Errorf("claiming a row of the outbox: %w", err)
		}
		if ok {
			row.TryAt = until
			done++
			_ = s.send(ctx, &row) // stored in the row, and logged
		}
	}
	return next, done, nil
}

// send makes one attempt at a claimed row and stores how it went.
func (s *Service) send(ctx context.Context, row *Outgoing) error {
	var err error
	switch row.Kind {
	case outCustomer:
		err = s.sendCustomer(ctx, row)
	case outSeats:
		err = s.sendSeats(ctx, row)
	default:
		row.State, row.Reason = OutboxFailed, "this version does not know what it is"
	}
	if ctx.Err() != nil && err != nil {
		row.TryAt = s.now()
		s.keepRow(ctx, *row, nil)
		return err
	}
	if row.State == OutboxSent {
		return err // stored together with what came of it
	}
	row.Attempts++
	if err != nil {
		wait, more := pause(row.Attempts)
		row.Reason, row.TryAt = said(err), s.now()+wait.Milliseconds()
		switch {
		case !more || settled(err):
			row.State = OutboxFailed
		case stored(err) || s.now()-row.CreatedAt > keyGood.Milliseconds():
			rekey(row)
		}
	}
	s.cfg.Log.Warn("call to the payment service failed", "kind", row.Kind, "row", row.ID, "team_id", row.TeamID, "state", row.State, "attempts", row.Attempts, "reason", row.Reason)
	s.keepRow(ctx, *row, nil)
	return err
}

// rekey gives a row another idempotency key: under the old one the service would repeat the same failure, or has forgotten it.
func rekey(row *Outgoing) {
	var body map[string]any
	if json.Unmarshal([]byte(row.Payload), &body) != nil {
		return
	}
	body["key"] = fmt.Sprintf("%s-%d", row.ID, row.Attempts)
	if raw, err := json.Marshal(body); err == nil {
		row.Payload = string(raw)
	}
}

// keepRow stores a row, together with what also does.
func (s *Service) keepRow(ctx context.Context, row Outgoing, also func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if also != nil {
			if err := also(ctx); err != nil {
				return err
			}
		}
		if err := s.cfg.Store.SaveOutgoing(ctx, row); err != nil || row.State != OutboxFailed {
			return err
		}
		if err := s.note(byService(ctx), audit.Entry{Chain: audit.Instance, Action: "billing.outbox_failed", TargetKind: "outbox", TargetID: row.ID, TargetName: row.Kind, Result: audit.Failed,
			Data: map[string]string{"team": row.TeamID, "reason": row.Reason}}); err != nil {
			return err
		}
		return s.notify(ctx, Notice{Kind: "outbox_failed", Operators: true, Subject: "Parawork could not tell the payment service something",
			Text: fmt.Sprintf("%s for team %s is given up: %s.\nLook at Settings > Payments.\n", row.Kind, row.TeamID, row.Reason)})
	})
	if err != nil {
		s.cfg.Log.Warn("outbox row not stored", "row", row.ID, "error", err)
	}
	return err
}

// sendCustomer makes a customer, or finds the one of an earlier attempt whose answer was lost.
func (s *Service) sendCustomer(ctx context.Context, row *Outgoing) error {
	var body customerBody
	if err := json.Unmarshal([]byte(row.Payload), &body); err != nil {
		return fmt.Errorf("reading a row of the outbox: %w", err)
	}
	ours, err := s.Instance(ctx)
	if err != nil {
		return err
	}
	key, made := row.ID, (*sdk.Customer)(nil)
	if body.Key != "" {
		key = body.Key
		if made, err = s.lostCustomer(ctx, *row, body, ours); err != nil {
			return err
		}
	}
	if made == nil {
		p := &sdk.CustomerParams{Params: keyedParams(ctx, key), Name: sdk.String(body.Name), Email: sdk.String(body.Email), Description: sdk.String("Parawork team " + body.Slug)}
		p.AddMetadata(metaTeam, row.TeamID)
		p.AddMetadata(metaInstance, ours)
		if made, err = s.calls.customers.New(p); err != nil {
			return fmt.Errorf("making a customer: %w", err)
		}
	}
	failpoint.Reach(failpoint.CustomerMade)
	row.State, row.Reason, row.ResultID, row.SentAt = OutboxSent, "", made.ID, s.now()
	row.Attempts++
	return s.keepRow(ctx, *row, func(ctx context.Context) error {
		ok, err := s.cfg.Store.BindCustomer(ctx, row.TeamID, made.ID, s.now())
		if err == nil && !ok {
			s.cfg.Log.Error("team has a customer at the payment service already: this one is superfluous", "team_id", row.TeamID, "customer", made.ID)
		}
		return err
	})
}

// lostCustomer looks for a customer an earlier attempt of the row made, among those with the same address that were made since.
func (s *Service) lostCustomer(ctx context.Context, row Outgoing, body customerBody, ours string) (*sdk.Customer, error) {
	all := s.calls.customers.List(&sdk.CustomerListParams{ListParams: listParams(ctx), Email: sdk.String(body.Email),
		CreatedRange: &sdk.RangeQueryParams{GreaterThanOrEqual: row.CreatedAt/1000 - 3600}})
	for all.Next() {
		if c := all.Customer(); c.Metadata[metaTeam] == row.TeamID && c.Metadata[metaInstance] == ours {
			return c, nil
		}
	}
	if err := all.Err(); err != nil {
		return nil, fmt.Errorf("looking for a customer: %w", err)
	}
	return nil, nil
}
