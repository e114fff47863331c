package stripe

import (
	"context"
	"crypto/hmac"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// MostWebhook bounds the body of a webhook, in bytes.
const MostWebhook = 1 << 20

// tolerance is how far the time of a signature may lie in the past or the future, seconds.
const tolerance = 300

// Where an event came from.
const (
	fromWebhook = "webhook"
	fromSweep   = "sweep"
)

var (
	errSignature = fault.New(fault.Invalid, "webhook_signature", "The signature does not fit: the signing secret of this endpoint is not one of billing.stripe.webhookSecrets, or the body was changed on its way.")
	errWebhook   = fault.New(fault.Invalid, "webhook_invalid", "This is no event of the payment service.")
	errMode      = fault.New(fault.Invalid, "webhook_mode", "The event is of another mode (test or live) than this server's key.")
)

// AcceptsWebhooks reports whether webhooks are accepted: there is a key, and a secret that authenticates the sender.
func (s *Service) AcceptsWebhooks() bool { return s.Enabled() && len(s.cfg.WebhookSecrets) > 0 }

// Webhook takes what the payment service sends: body as it came, header its Stripe-Signature. When it returns nil the event is stored
// and will be handled, even if this process dies. Errors: not_found where webhooks are not accepted, webhook_signature,
// webhook_invalid, webhook_mode.
func (s *Service) Webhook(ctx context.Context, body []byte, header string) error {
	if !s.AcceptsWebhooks() {
		return fault.New(fault.NotFound, "not_found", "This server takes no webhooks of a payment service.")
	}
	if err := s.verify(body, header); err != nil {
		return err
	}
	e, err := parseEvent(body)
	if err != nil {
		return err
	}
	if e.Livemode != s.live {
		s.cfg.Log.Warn("webhook of the other mode refused", "event", e.ID, "livemode", e.Livemode, "hint", "use the endpoint and key of the same mode")
		return errMode
	}
	e.Source, e.ReceivedAt = fromWebhook, s.now()
	if err := s.inbound.add(ctx, s.cfg.Store, e); err != nil {
		return fmt.Errorf("storing an event: %w", err)
	}
	failpoint.Reach(failpoint.WebhookStored)
	s.stir()
	return nil
}

// verify checks who sent a body: one of the signatures must be made with one of our secrets, at about this time. A time in the future is
// refused like one in the past: it would be good for as long as it lies ahead.
func (s *Service) verify(body []byte, header string) error {
	var at int64
	var signatures [][]byte
	for part := range strings.SplitSeq(header, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "t":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return errSignature
			}
			at = n
		case "v1":
			if sig, err := hex.DecodeString(value); err == nil && len(signatures) < 16 {
				signatures = append(signatures, sig)
			}
		}
	}
	if now := s.cfg.Now().Unix(); at < now-tolerance || at > now+tolerance || len(signatures) == 0 {
		return errSignature
	}
	good := false
	for _, secret := range s.cfg.WebhookSecrets {
		want := webhook.ComputeSignature(time.Unix(at, 0), body, secret)
		for _, sig := range signatures {
			good = hmac.Equal(sig, want) || good
		}
	}
	if !good {
		return errSignature
	}
	return nil
}

// parseEvent reads of an event which object it is about. Nothing else of it is believed.
func parseEvent(body []byte) (Event, error) {
	var raw struct {
		ID       string `json:"id"`
		Type     string `json:"type"`
		Created  int64  `json:"created"`
		Livemode *bool  `json:"livemode"`
		Data     struct {
			Object json.RawMessage `json:"object"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &raw); err != nil || !plain(raw.ID, 128) || raw.ID == "" || !plain(raw.Type, 128) || raw.Type == "" || raw.Livemode == nil {
		return Event{}, errWebhook
	}
	e := Event{ID: raw.ID, Type: raw.Type, Livemode: *raw.Livemode, Created: raw.Created * 1000, State: EventNew}
	e.ObjectID, e.CustomerID = objectOf(raw.Data.Object)
	if !slices.Contains(Types, e.Type) {
		e.State, e.Reason = EventIgnored, "nothing depends on events of this type"
	}
	return e, nil
}

// objectOf reads the id of an event's object and its customer's: a name, or the customer written out.
func objectOf(raw json.RawMessage) (id, customerID string) {
	var o struct {
		ID       string          `json:"id"`
		Object   string          `json:"object"`
		Customer json.RawMessage `json:"customer"`
	}
	if len(raw) == 0 || json.Unmarshal(raw, &o) != nil {
		return "", ""
	}
	switch {
	case o.Object == "customer":
		customerID = o.ID
	case len(o.Customer) > 0:
		var named struct{ ID string }
		if json.Unmarshal(o.Customer, &customerID) != nil && json.Unmarshal(o.Customer, &named) == nil {
			customerID = named.ID
		}
	}
	if !plain(o.ID, 128) {
		o.ID = ""
	}
	if !plain(customerID, 128) {
		customerID = ""
	}
	return o.ID, customerID
}

// plain reports whether s is made of what ids are made of.
func plain(s string, most int) bool {
	if len(s) > most {
		return false
	}
	for i := range len(s) {
		b := s[i]
		if !(b >= 'a' && b <= 'z' || b >= 'A' && b <= 'Z' || b >= '0' && b <= '9' || b == '_' || b == '-' || b == '.') {
			return false
		}
	}
	return true
}

// Types are the events that are acted on: what an endpoint is to be sent.
var Types = []string{
	"checkout.session.completed", "checkout.session.async_payment_succeeded", "checkout.session.async_payment_failed", "checkout.session.expired",
	"customer.subscription.created", "customer.subscription.updated", "customer.subscription.deleted", "customer.subscription.paused", "customer.subscription.resumed",
	"customer.subscription.trial_will_end", "customer.subscription.pending_update_applied", "customer.subscription.pending_update_expired",
	"invoice.created", "invoice.finalized", "invoice.paid", "invoice.payment_failed", "invoice.payment_action_required", "invoice.finalization_failed",
	"invoice.marked_uncollectible", "invoice.voided",
	"customer.updated", "customer.deleted",
	"charge.dispute.created", "charge.dispute.closed", "radar.early_fraud_warning.created", "radar.early_fraud_warning.updated", "charge.refunded",
}
