package teststripe

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/parawork/parawork/internal/tasks"
)

// hooks are the webhooks on their way. All but mu's own are under Stripe's lock.
type hooks struct {
	wake    chan struct{}
	pending []delivery
	flying  int
	held    bool
	copies  int

	mu   sync.Mutex
	keys map[string][]string // by endpoint: those that sign, the newest first
}

// delivery is an event on its way to an endpoint.
type delivery struct {
	event, endpoint string
	tries           int
	due             int64 // not before, by the clock
}

func (h *hooks) secrets(endpoint, secret string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.keys == nil {
		h.keys = map[string][]string{}
	}
	h.keys[endpoint] = append([]string{secret}, h.keys[endpoint]...)
}

func (h *hooks) sign(endpoint string, at int64, body []byte) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := "t=" + strconv.FormatInt(at, 10)
	for _, secret := range h.keys[endpoint] {
		out += ",v1=" + signature(secret, at, body)
	}
	return out
}

func signature(secret string, at int64, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "%d.", at)
	mac.Write(body)
	return hex.EncodeToString(mac.Sum(nil))
}

// Sign is the value of Stripe-Signature for a body.
func Sign(secret string, at int64, body []byte) string {
	return "t=" + strconv.FormatInt(at, 10) + ",v1=" + signature(secret, at, body)
}

// knownEvents are the beginnings of the types of events.
var knownEvents = []string{"account.", "billing_portal.", "charge.", "checkout.session.", "coupon.", "credit_note.", "customer.", "entitlements.", "invoice.", "invoiceitem.", "payment_intent.", "payment_method.", "plan.", "price.", "product.",
	"promotion_code.", "radar.", "refund.", "review.", "setup_intent.", "subscription_schedule.", "tax_rate.", "test_helpers."}

func knownEvent(name string) bool {
	return slices.ContainsFunc(knownEvents, func(p string) bool { return strings.HasPrefix(name, p) && len(name) > len(p) })
}

func (s *Stripe) eventRoutes() {
	const paging = " limit# starting_after ending_before created.gte# created.gt# created.lte# created.lt#"
	s.getter("events", "event")
	s.route("GET /v1/events", "type types.* delivery_success? related_object"+paging, func(c *call) (obj, *fail) {
		types := texts(c.params, "types")
		if len(types) > 20 {
			return nil, wrong("types", "You can list at most 20 types")
		}
		span := sub(c.params, "created")
		return s.list(c, "event", func(o obj) bool {
			made := o["created"].(int64)
			done := o["pending_webhooks"].(int64) == 0
			return made > s.now()-30*day && (len(types) == 0 || slices.Contains(types, o["type"].(string))) && (!c.has("type") || o["type"] == c.str("type")) &&
				(!c.has("delivery_success") || done == (c.str("delivery_success") == "true")) &&
				made >= whole(span, "gte", 0) && made > whole(span, "gt", -1) && made <= whole(span, "lte", 1<<60) && made < whole(span, "lt", 1<<60)
		})
	})
}

// plain is a copy of an object as it is answered.
func plain(o any) any {
	b, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	var out any
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&out); err != nil {
		panic(err)
	}
	strip(out)
	return out
}

// strip takes away what is ours alone.
func strip(v any) {
	switch t := v.(type) {
	case map[string]any:
		for k, e := range t {
			if strings.HasPrefix(k, "#") {
				delete(t, k)
			} else {
				strip(e)
			}
		}
	case []any:
		for _, e := range t {
			strip(e)
		}
	}
}

func (s *Stripe) notify(kind string, o obj) { s.notifyAt(kind, o, s.now()) }

// notifyAt makes an event and sends it to the endpoints that want it.
func (s *Stripe) notifyAt(kind string, o obj, at int64) {
	e := s.make("event", "evt", obj{"type": kind, "created": at, "api_version": Version, "data": obj{"object": plain(o)}, "pending_webhooks": int64(0), "request": obj{"id": nil, "idempotency_key": nil}})
	for _, id := range s.table("webhook_endpoint").order {
		w := s.table("webhook_endpoint").by[id]
		want := w["enabled_events"].([]string)
		if w["status"] != "enabled" || !slices.Contains(want, "*") && !slices.Contains(want, kind) {
			continue
		}
		e["pending_webhooks"] = e["pending_webhooks"].(int64) + 1
		for range s.hooks.copies {
			s.hooks.pending = append(s.hooks.pending, delivery{event: e["id"].(string), endpoint: id})
		}
	}
	s.stir()
}

// stir wakes Run.
func (s *Stripe) stir() {
	tasks.Wake(s.hooks.wake)
}

// Hold keeps webhooks back until Release.
func (s *Stripe) Hold() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.held = true
}

// Release sends what was held: in a random order of that seed when it is not 0, and the latest first when it is negative.
func (s *Stripe) Release(seed int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.held = false
	p := s.hooks.pending
	if seed < 0 {
		slices.Reverse(p)
	} else if seed > 0 {
		r := rand.New(rand.NewPCG(uint64(seed), 0))
		r.Shuffle(len(p), func(i, j int) { p[i], p[j] = p[j], p[i] })
	}
	s.stir()
}

// Lose forgets what is on its way and was not delivered: only the list of undelivered events still knows. It returns how many.
func (s *Stripe) Lose() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.hooks.pending)
	s.hooks.pending = nil
	return n
}

// Copies is how often each further event is delivered; 1 at first.
func (s *Stripe) Copies(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.copies = n
}

// Redeliver sends an event again to every endpoint that had it; "" = all.
func (s *Stripe) Redeliver(event string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.table("event").order {
		if event == "" || event == id {
			for _, w := range s.table("webhook_endpoint").order {
				s.hooks.pending = append(s.hooks.pending, delivery{event: id, endpoint: w})
			}
		}
	}
	s.stir()
}

// Roll gives an endpoint a second secret, as in a rotation: both sign from then on.
func (s *Stripe) Roll(endpoint string) string {
	secret := "whsec_" + random(16)
	s.hooks.secrets(endpoint, secret)
	return secret
}

// Idle says whether no webhook is on its way that could be delivered now.
func (s *Stripe) Idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hooks.flying == 0 && !slices.ContainsFunc(s.hooks.pending, func(d delivery) bool { return d.due <= s.now() })
}

// Run delivers webhooks, several at a time and so in no order, until ctx ends. What fails is tried again an hour later by its clock.
func (s *Stripe) Run(ctx context.Context) {
	var all sync.WaitGroup
	defer all.Wait()
	turns := make(chan struct{}, 8)
	for {
		s.mu.Lock()
		var now []delivery
		if !s.hooks.held {
			var later []delivery
			for _, d := range s.hooks.pending {
				if d.due <= s.now() {
					now = append(now, d)
				} else {
					later = append(later, d)
				}
			}
			s.hooks.pending = later
			s.hooks.flying += len(now)
		}
		s.mu.Unlock()
		for _, d := range now {
			all.Go(func() {
				select {
				case turns <- struct{}{}:
					defer func() { <-turns }()
				case <-ctx.Done():
				}
				s.deliver(ctx, d)
			})
		}
		select {
		case <-s.hooks.wake:
		case <-ctx.Done():
			return
		}
	}
}

// deliver sends one event.
func (s *Stripe) deliver(ctx context.Context, d delivery) {
	s.mu.Lock()
	w, e := s.table("webhook_endpoint").by[d.endpoint], s.table("event").by[d.event]
	var body []byte
	at := s.opts.Now().Unix() // a signature's time is the world's, whatever the clock of the bills says
	if w != nil && e != nil {
		body, _ = json.Marshal(plain(e))
	}
	s.mu.Unlock()
	ok := false
	if body != nil {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, w["url"].(string), bytes.NewReader(body))
		if err == nil {
			r.Header.Set("Content-Type", "application/json; charset=utf-8")
			r.Header.Set("User-Agent", "Stripe/1.0 (+https://stripe.com/docs/webhooks)")
			r.Header.Set("Stripe-Signature", s.hooks.sign(d.endpoint, at, body))
			if resp, err := s.opts.Client.Do(r); err == nil {
				io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
				resp.Body.Close()
				ok = resp.StatusCode >= 200 && resp.StatusCode < 300
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hooks.flying--
	if w == nil || e == nil {
		return
	}
	done := "#done " + d.endpoint
	if ok && e[done] == nil {
		e[done] = true
		e["pending_webhooks"] = max(0, e["pending_webhooks"].(int64)-1)
	}
	if d.tries++; !ok && d.tries <= 16 && e[done] == nil {
		d.due = s.now() + 3600
		s.hooks.pending = append(s.hooks.pending, d)
	}
}
