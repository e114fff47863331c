package stripe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/stripe/stripe-go/v76"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
)

// markSuspended is where the disputes and warnings are named a team is held back for.
func markSuspended(teamID string) string { return "stripe.suspended." + teamID }

// review looks at the disputes and warnings of fraud that a team is held back for, and at the one an event names. A dispute that was won
// and a warning that nothing is left to do about count no more; one that was lost does, until an operator lifts it.
func (s *Service) review(ctx context.Context, e Event) error {
	a, found, err := s.cfg.Store.AccountByCustomer(ctx, e.CustomerID)
	if err != nil || !found {
		return err
	}
	for range 5 {
		if err = s.reviewOnce(ctx, e, a.TeamID); !errors.Is(err, errRead) {
			return err
		}
	}
	return err
}

// reviewOnce is review, unless another event has named something meanwhile: errRead.
func (s *Service) reviewOnce(ctx context.Context, e Event, teamID string) error {
	known, err := s.cfg.Store.Mark(ctx, markSuspended(teamID))
	if err != nil {
		return fmt.Errorf("reading what a team is suspended for: %w", err)
	}
	named := strings.Fields(known)
	if e.Type != "charge.refunded" && e.ObjectID != "" && !slices.Contains(named, e.ObjectID) {
		named = append(named, e.ObjectID)
	}
	why := ""
	var left []string
	for _, objectID := range named {
		reason, err := s.stands(ctx, objectID)
		if err != nil {
			return err
		}
		if reason != "" {
			left = append(left, objectID)
		}
		if why != ForFraud && reason != "" {
			why = reason
		}
	}
	return s.suspend(ctx, teamID, why, strings.Join(left, " "), byService(ctx), known)
}

// stands is why a dispute or warning counts, "" = it does not.
func (s *Service) stands(ctx context.Context, objectID string) (string, error) {
	if strings.HasPrefix(objectID, "issfr_") {
		p := &sdk.RadarEarlyFraudWarningParams{Params: params(ctx)}
		p.AddExpand("charge")
		w, err := s.calls.warnings.Get(objectID, p)
		if missing(err) || err == nil && (!w.Actionable || w.Charge != nil && w.Charge.Refunded) {
			return "", nil
		}
		return ForFraud, wrap("reading a warning of fraud", err)
	}
	d, err := s.calls.disputes.Get(objectID, &sdk.DisputeParams{Params: params(ctx)})
	if missing(err) || err == nil && (d.Status == sdk.DisputeStatusWon || d.Status == sdk.DisputeStatusWarningClosed) {
		return "", nil
	}
	return ForDispute, wrap("reading a dispute", err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

// suspend stores why a team is suspended, "" = it no longer is. Where known are given what is named must be one of them still: else errRead.
func (s *Service) suspend(ctx context.Context, teamID, why, named string, by context.Context, known ...string) error {
	turned := false
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		now, err := s.cfg.Store.Account(ctx, teamID)
		if turned = false; err != nil {
			return err
		}
		if have, err := s.cfg.Store.Mark(ctx, markSuspended(teamID)); err != nil {
			return err
		} else if len(known) > 0 && !slices.Contains(known, have) {
			return errRead
		}
		if err := s.cfg.Store.SetMark(ctx, markSuspended(teamID), named); err != nil || now.SuspendedFor == why {
			return err
		}
		turned = true
		if err := s.cfg.Store.Suspend(ctx, teamID, why, s.now()); err != nil {
			return err
		}
		action := "billing.suspended"
		if why == "" {
			action = "billing.suspension_lifted"
		}
		if err := s.note(audit.By(ctx, audit.SourceOf(by)), audit.Entry{Chain: teamID, Action: action, TargetKind: "team", TargetID: teamID, Data: map[string]string{"reason": why, "before": now.SuspendedFor}}); err != nil {
			return err
		}
		if why == "" {
			return nil
		}
		t, err := s.cfg.Team(ctx, teamID)
		if err != nil {
			return err
		}
		words := map[string]string{ForDispute: "A payment of this team is disputed", ForFraud: "A payment of this team is said to be a fraud"}[why]
		return s.notify(ctx, Notice{TeamID: teamID, Kind: "suspended", Operators: true, Subject: words,
			Text: fmt.Sprintf("%s (%s): no new paid sandboxes begin for it. Answer it at the payment service. When it is settled they begin again; an operator may lift it earlier under Settings > Payments.\n", words, t.Slug)})
	})
	if err != nil {
		return fmt.Errorf("storing why a team is suspended: %w", err)
	}
	if turned {
		s.changed(ctx, teamID)
	}
	return nil
}

// LiftSuspension allows a team paid sandboxes again, regardless of the reason for its suspension. For operators. Errors: not_suspended.
func (s *Service) LiftSuspension(ctx context.Context, teamID string) error {
	a, err := s.cfg.Store.Account(ctx, teamID)
	if err != nil {
		return fmt.Errorf("reading a team's account: %w", err)
	}
	if a.SuspendedFor == "" {
		return fault.New(fault.Conflict, "not_suspended", "This team is not held back.")
	}
	audit.Note(ctx, "reason", a.SuspendedFor)
	return s.suspend(ctx, teamID, "", "", ctx)
}
