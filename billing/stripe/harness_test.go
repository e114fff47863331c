package stripe_test

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stripe/stripe-go/v76/webhook"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/billing/stripe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

const (
	key     = "sk_test_abcdefghijklmnop"
	secret  = "whsec_0123456789abcdef0123456789abcdef"
	another = "whsec_fedcba9876543210fedcba9876543210"
)

// harness is the service over a database, with a clock that advances only when a test moves it.
type harness struct {
	t    testing.TB
	ctx  context.Context
	db   *store.DB
	st   *store.Stripe
	team accounts.Team
	user accounts.User
	s    *stripe.Service
	door atomic.Pointer[stripe.Service] // s, for who takes webhooks

	mu      sync.Mutex
	at      time.Time
	given   []stripe.Notice
	entries []audit.Entry
	changes int
}

// Append notes an entry of the audit.
func (h *harness) Append(_ context.Context, e audit.Entry) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(h.entries, e)
	return nil
}

func (h *harness) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *harness) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

func newHarness(t testing.TB, db *store.DB, tune ...func(*stripe.Config)) *harness {
	t.Helper()
	h := &harness{t: t, ctx: tenant.All(t.Context(), "a test"), db: db, st: store.NewStripe(db), at: time.Now().Truncate(time.Second)}
	h.user, h.team = storetest.Seed(t, db)
	h.restart(tune...)
	return h
}

// restart makes the service of a new server on the stored data.
func (h *harness) restart(tune ...func(*stripe.Config)) {
	cfg := stripe.Config{SecretKey: key, WebhookSecrets: []string{secret}, PastDueDays: 7, Store: h.st, Audit: h, Now: h.now,
		Team: func(ctx context.Context, teamID string) (stripe.Team, error) {
			t, err := store.NewAccounts(h.db).TeamByID(ctx, teamID)
			return stripe.Team{ID: t.ID, Slug: t.Slug, Name: t.Name, Email: h.user.Email}, err
		},
		Changed: func(context.Context, string) { h.mu.Lock(); h.changes++; h.mu.Unlock() },
		Notify: func(_ context.Context, n stripe.Notice) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.given = append(h.given, n)
			return nil
		}}
	for _, fn := range tune {
		fn(&cfg)
	}
	h.s = stripe.New(cfg)
	h.s.NoPauses()
	h.door.Store(h.s)
}

// sign makes the header of a webhook.
func sign(body []byte, at time.Time, secrets ...string) string {
	out := fmt.Sprintf("t=%d", at.Unix())
	for _, s := range secrets {
		out += ",v1=" + hex.EncodeToString(webhook.ComputeSignature(at, body, s))
	}
	return out
}

// eventBody is a webhook about an object.
func eventBody(id, kind string, object map[string]any) []byte {
	raw, err := json.Marshal(map[string]any{"id": id, "object": "event", "api_version": "2025-03-31.basil", "type": kind, "created": 1_760_000_000, "livemode": false,
		"data": map[string]any{"object": object}})
	if err != nil {
		panic(err)
	}
	return raw
}

// events are the stored ones by id.
func (h *harness) events() map[string]stripe.Event {
	h.t.Helper()
	out := map[string]stripe.Event{}
	for _, state := range []string{"new", "done", "failed", "ignored"} {
		all, err := h.st.EventsIn(h.ctx, state, 1000)
		if err != nil {
			h.t.Fatal(err)
		}
		for _, e := range all {
			out[e.ID] = e
		}
	}
	return out
}

func codeOf(err error) string { return fault.CodeOf(err) }
