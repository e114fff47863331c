package notify

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// State of a delivery.
type State string

// States of a delivery.
const (
	Pending   State = "pending"
	Delivered State = "delivered"
	GivenUp   State = "given_up" // tried as often as it makes sense
	Dropped   State = "dropped"  // not needed any more
)

// Delivery is one message on its way to one webhook, one browser or one address.
type Delivery struct {
	ID, TeamID     string
	WebhookID      string // or
	SubscriptionID string // or
	SecretID       string // the address
	ItemID, Kind   string
	Body           string
	State          State
	Attempts       int
	NextAt         int64 // ms UTC: not before
	Status         int   // HTTP status of the last answer, 0 = none
	Error          string
	DurationMs     int64
	CreatedAt      int64
	DoneAt         int64
}

// waits are the pauses between attempts; after the last it is given up.
var waits = []time.Duration{10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour, 6 * time.Hour, 12 * time.Hour}

const (
	claimFor  = 2 * time.Minute // nobody else tries a delivery meanwhile
	atOnce    = 8               // deliveries under way
	lookAgain = time.Minute     // at the outbox without news
	brokenFor = 3 * 24 * time.Hour
)

// deliverLoop tries what is due until ctx ends.
func (s *Service) deliverLoop(ctx context.Context) {
	slots := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for ctx.Err() == nil {
		now := s.now()
		due, next, err := s.cfg.Store.Due(ctx, now, 64)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("outbox not read", "error", err)
		}
		for _, d := range due {
			mine, err := s.cfg.Store.Claim(ctx, d.ID, now, now+claimFor.Milliseconds())
			if err != nil || !mine {
				continue
			}
			select {
			case slots <- struct{}{}:
			case <-ctx.Done():
				return
			}
			all.Go(func() {
				defer func() { <-slots }()
				s.try(ctx, d)
			})
		}
		if len(due) > 0 {
			continue
		}
		wait := lookAgain
		if next > 0 {
			wait = min(wait, max(time.Duration(next-s.now())*time.Millisecond, 10*time.Millisecond))
		}
		t := time.NewTimer(wait)
		select {
		case <-ctx.Done():
		case <-s.post:
		case <-t.C:
		}
		t.Stop()
	}
}

// try makes one attempt and stores how it went.
func (s *Service) try(ctx context.Context, d Delivery) {
	began := s.cfg.Now()
	var end outcome
	switch {
	case d.WebhookID != "":
		end = s.tryWebhook(ctx, d)
	case d.SecretID != "":
		end = s.tryAddress(ctx, d)
	default:
		end = s.tryPush(ctx, d)
	}
	if ctx.Err() != nil && end.state != Delivered {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		d.NextAt = s.now() // the next server goes on at once
		if err := s.cfg.Store.UpdateDelivery(ctx, d); err != nil {
			s.cfg.Log.WarnContext(ctx, "interrupted delivery not rescheduled", "delivery_id", d.ID, "error", err)
		}
		return
	}
	d.Attempts++
	d.Status, d.Error, d.DurationMs = end.status, cut(end.err, 300), s.cfg.Now().Sub(began).Milliseconds()
	d.State = end.state
	if d.State == Pending {
		if d.Attempts > len(waits) {
			d.State = GivenUp
		} else {
			wait := max(waits[d.Attempts-1], min(end.after, 24*time.Hour))
			d.NextAt = s.cfg.Now().Add(wait + time.Duration(rand.Int64N(int64(wait)/10+1))).UnixMilli()
		}
	}
	if d.State != Pending {
		d.DoneAt = s.now()
	}
	if err := s.finish(context.WithoutCancel(ctx), d); err != nil {
		s.cfg.Log.Warn("delivery not stored", "delivery_id", d.ID, "error", err)
	}
}

// outcome is how an attempt went. Pending: again later.
type outcome struct {
	state  State
	status int
	err    string
	after  time.Duration // not before
}

func (s *Service) tryWebhook(ctx context.Context, d Delivery) outcome {
	w, err := s.cfg.Store.Webhook(ctx, d.WebhookID)
	switch {
	case fault.Is(err, fault.NotFound):
		return outcome{state: Dropped, err: "the webhook was deleted"}
	case err != nil:
		return outcome{state: Pending, err: "the webhook could not be read"}
	case !w.Enabled:
		return outcome{state: Dropped, err: "the webhook is switched off"}
	}
	end := s.sendTo(ctx, w, d)
	s.health(ctx, w, end)
	return end
}

// sendTo posts one delivery to a webhook.
func (s *Service) sendTo(ctx context.Context, w Webhook, d Delivery) outcome {
	address, key, err := s.open(ctx, w)
	if err != nil {
		return unreadable(err)
	}
	return s.send(ctx, sealed{address, key}, d)
}

// unreadable is the outcome where the address could not be read.
func unreadable(err error) outcome {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return outcome{state: GivenUp, err: f.Message}
	}
	return outcome{state: Pending, err: "its address could not be read"}
}

// send posts one delivery.
func (s *Service) send(ctx context.Context, to sealed, d Delivery) outcome {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to.URL, strings.NewReader(d.Body))
	if err != nil {
		return outcome{state: GivenUp, err: "the address cannot be used"}
	}
	stamp := strconv.FormatInt(s.cfg.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "Parawork/"+s.cfg.Version)
	req.Header.Set("Parawork-Delivery", d.ID)
	req.Header.Set("Parawork-Event", d.Kind)
	req.Header.Set("Parawork-Signature", "t="+stamp+",v1="+Sign(to.Key, stamp, d.Body))
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		if errors.Is(err, egress.ErrRefused) {
			return outcome{state: GivenUp, err: egress.Words(err)}
		}
		return outcome{state: Pending, err: egress.Words(err)}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 16<<10)
	return judge(resp)
}

// judge says what an answer means.
func judge(resp *http.Response) outcome {
	o := outcome{status: resp.StatusCode}
	switch c := resp.StatusCode; {
	case c >= 200 && c < 300:
		o.state = Delivered
	case c == http.StatusGone:
		o.state, o.err = GivenUp, "it answered 410: gone"
	case c == http.StatusTooManyRequests || c == http.StatusRequestTimeout || c >= 500:
		o.state, o.err = Pending, fmt.Sprintf("it answered %d", c)
		if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
			o.after = time.Duration(n) * time.Second
		}
	case c >= 300 && c < 400:
		o.state, o.err = Pending, fmt.Sprintf("it answered %d: redirects are not followed, enter the address they lead to", c)
	default:
		o.state, o.err = Pending, fmt.Sprintf("it answered %d", c)
	}
	return o
}

// health notes on a webhook whether deliveries arrive. One that is gone, or has failed for days, is switched off and says why.
func (s *Service) health(ctx context.Context, w Webhook, end outcome) {
	if ctx.Err() != nil {
		return
	}
	was := w
	switch {
	case end.state == Delivered:
		w.FailedAt = 0
	case end.status == http.StatusGone:
		w.Enabled, w.Why = false, "It answered 410: the address is gone for good."
	case w.FailedAt == 0:
		w.FailedAt = s.now()
	case s.now()-w.FailedAt > brokenFor.Milliseconds():
		w.Enabled, w.Why = false, "Nothing arrived for three days: "+end.err+"."
	}
	if was.FailedAt == w.FailedAt && was.Enabled == w.Enabled {
		return
	}
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		now, err := s.cfg.Store.Webhook(ctx, w.ID)
		if err != nil || now.UpdatedAt != was.UpdatedAt { // changed by a person meanwhile: what they said holds
			return err
		}
		return s.cfg.Store.UpdateWebhook(ctx, w)
	})
	if err != nil && !fault.Is(err, fault.NotFound) {
		s.cfg.Log.Warn("state of a webhook not stored", "webhook_id", w.ID, "error", err)
	}
}

// Sign returns the signature of a body sent at a time (seconds since 1970): HMAC-SHA256 of "<time>.<body>", in hex.
func Sign(key, stamp, body string) string {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(stamp + "." + body))
	return hex.EncodeToString(m.Sum(nil))
}

// TestWebhook sends a message right now and says how it went.
func (s *Service) TestWebhook(ctx context.Context, webhookID, teamSlug, teamName string) (Delivery, error) {
	w, err := s.cfg.Store.Webhook(ctx, webhookID)
	if err != nil {
		return Delivery{}, err
	}
	now := s.now()
	it := Item{ID: id.New("ntc"), Kind: Ping, TeamID: w.TeamID, TeamSlug: teamSlug, TeamName: teamName}
	body, err := s.hookBody(w, it, now)
	if err != nil {
		return Delivery{}, err
	}
	d := Delivery{ID: id.New("dlv"), TeamID: w.TeamID, WebhookID: w.ID, ItemID: it.ID, Kind: Ping, Body: body, State: GivenUp, Attempts: 1, CreatedAt: now}
	began := s.cfg.Now()
	end := s.sendTo(ctx, w, d)
	if end.state == Delivered {
		d.State = Delivered
	}
	d.Status, d.Error, d.DurationMs, d.DoneAt = end.status, end.err, s.cfg.Now().Sub(began).Milliseconds(), s.now()
	return d, s.cfg.Store.InsertDelivery(ctx, d)
}

// Redeliver tries a delivery once more, now. Errors: delivery_pending.
func (s *Service) Redeliver(ctx context.Context, webhookID, deliveryID string) (Delivery, error) {
	d, err := s.cfg.Store.Delivery(ctx, deliveryID)
	if err != nil || d.WebhookID != webhookID {
		return Delivery{}, fault.New(fault.NotFound, "not_found", "There is no such delivery.")
	}
	if d.State == Pending {
		return Delivery{}, fault.New(fault.Conflict, "delivery_pending", "It is still on its way: the server will try again.")
	}
	again := Delivery{ID: id.New("dlv"), TeamID: d.TeamID, WebhookID: d.WebhookID, ItemID: d.ItemID, Kind: d.Kind, Body: d.Body, State: Pending, NextAt: s.now(), CreatedAt: s.now()}
	if err := s.cfg.Store.InsertDelivery(ctx, again); err != nil {
		return Delivery{}, err
	}
	poke(s.post)
	return again, nil
}
