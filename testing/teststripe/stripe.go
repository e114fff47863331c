// Package teststripe is a Stripe over HTTP, for tests: it stores what it receives, bills subscriptions by its own clock, sends signed
// webhooks, serves a checkout and a portal that a browser can click through, and refuses what the real one refuses (unknown parameters,
// reused idempotency keys, usage of other times, meter events reported twice). Tests can make it fail in the ways networks and
// payment services do: before or after it handled a request.
//
// It answers in the shape of the API version 2023-10-16: https://docs.stripe.com/api?api-version=2023-10-16.
//
// Goroutines: Run delivers webhooks and ends with its context; Start runs it until the test ends.
package teststripe

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Version is the version of the API it speaks.
const Version = "2023-10-16"

// Options say what a Stripe is like. The zero Options are a good one in test mode.
type Options struct {
	Key string           // what programs must show; "" = sk_test_fake. One that begins with sk_live_ makes it live.
	Now func() time.Time // nil = time.Now. Advance adds to it.

	// DefaultPortal: somebody saved the portal's settings in the dashboard, so that sessions need no configuration.
	DefaultPortal bool
	// AfterRetries is what becomes of a subscription nobody pays for: canceled (also when empty), unpaid or past_due.
	AfterRetries string
	// MeterLag is how long a meter event takes to show in summaries, by its clock.
	MeterLag time.Duration
	Client   *http.Client // for webhooks; nil = one that gives up after ten seconds
}

// Stripe is the fake. Make it with New or Start; it is an http.Handler. Safe for concurrent use.
type Stripe struct {
	opts Options
	base string
	mux  *http.ServeMux
	live bool

	mu        sync.Mutex
	offset    time.Duration
	serial    int
	kinds     map[string]*table
	keys      map[string]*stored // by idempotency key
	calls     []Call
	faults    []*Fault
	cards     map[string]string // by customer: Good, Declined, "" = none
	meterBusy map[string]int    // calls that are under way, by customer and meter
	metered   []MeterEvent
	hooks     hooks
}

// Call is a request that was made of the API.
type Call struct {
	Method string     `json:"method"`
	Path   string     `json:"path"`
	Key    string     `json:"idempotency_key"`
	Form   url.Values `json:"form"`
	Status int        `json:"status"` // what was answered, or would have been; 0 = it is under way
	Replay bool       `json:"replay"` // the answer was a stored one
}

// obj is an object of the API.
type obj = map[string]any

// table keeps objects of a kind in the order they were made in.
type table struct {
	order []string
	by    map[string]obj
}

// stored is what was answered to an idempotency key.
type stored struct {
	request string // what was asked with it
	busy    bool
	status  int
	body    []byte
	at      int64
}

// New returns a Stripe that is reached at base.
func New(base string, o Options) *Stripe {
	o.Key = cmp.Or(o.Key, "sk_test_fake")
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Client == nil {
		o.Client = &http.Client{Timeout: 10 * time.Second, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	s := &Stripe{opts: o, base: base, mux: http.NewServeMux(), live: strings.HasPrefix(o.Key, "sk_live_") || strings.HasPrefix(o.Key, "rk_live_"),
		kinds: map[string]*table{}, keys: map[string]*stored{}, cards: map[string]string{}, meterBusy: map[string]int{}}
	s.hooks.wake = make(chan struct{}, 1)
	s.hooks.copies = 1
	s.catalog()
	s.meterRoutes()
	s.checkoutRoutes()
	s.subscriptionRoutes()
	s.invoiceRoutes()
	s.eventRoutes()
	s.controlRoutes()
	s.mux.HandleFunc("/v1/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, problem(http.StatusNotFound, "", "", fmt.Sprintf("Unrecognized request URL (%s: %s).", r.Method, r.URL.Path)).body())
	})
	return s
}

// T is what Start needs of a test.
type T interface {
	Helper()
	Cleanup(func())
	Context() context.Context
}

// Start serves a Stripe on a port of its own and delivers its webhooks until the test ends.
func Start(t T, o Options) *Stripe {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	s := New("http://"+server.Listener.Addr().String(), o)
	server.Config.Handler = s
	server.Start()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		server.CloseClientConnections()
		server.Close()
	})
	return s
}

// Base is where it is reached: what billing.stripe.apiBase is set to.
func (s *Stripe) Base() string { return s.base }

// Key is the secret key that is accepted.
func (s *Stripe) Key() string { return s.opts.Key }

// ServeHTTP implements http.Handler.
func (s *Stripe) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.mux.ServeHTTP(w, r) }

// Calls returns the requests of a method and path, such as "POST /v1/customers"; "" = all.
func (s *Stripe) Calls(of string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []Call
	for _, c := range s.calls {
		if of == "" || of == c.Method+" "+c.Path {
			out = append(out, c)
		}
	}
	return out
}

// now is the time by its clock, in seconds. With s.mu held.
func (s *Stripe) now() int64 { return s.opts.Now().Add(s.offset).Unix() }

// Now is the time by its clock.
func (s *Stripe) Now() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.opts.Now().Add(s.offset)
}

// Advance puts its clock forward and does what is due by then: trials end, periods turn, drafts become invoices, payments are tried again.
func (s *Stripe) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.offset += d
	s.settle()
	s.stir()
}

// table returns the objects of a kind.
func (s *Stripe) table(kind string) *table {
	t := s.kinds[kind]
	if t == nil {
		t = &table{by: map[string]obj{}}
		s.kinds[kind] = t
	}
	return t
}

// make stores a new object of a kind; prefix begins its id.
func (s *Stripe) make(kind, prefix string, o obj) obj {
	s.serial++
	id := fmt.Sprintf("%s_%06d%s", prefix, s.serial, random(6))
	o["id"], o["object"], o["livemode"] = id, kind, s.live
	if _, ok := o["created"]; !ok {
		o["created"] = s.now()
	}
	t := s.table(kind)
	t.order, t.by[id] = append(t.order, id), o
	return o
}

// get returns an object, or says that there is none.
func (s *Stripe) get(kind, id string) (obj, *fail) {
	if o := s.table(kind).by[id]; o != nil {
		return o, nil
	}
	return nil, missing(kind, id)
}

// list answers a list: the newest first, a page of them.
func (s *Stripe) list(c *call, kind string, keep func(o obj) bool) (obj, *fail) {
	t := s.table(kind)
	var ids []string
	for _, id := range t.order {
		if keep == nil || keep(t.by[id]) {
			ids = append(ids, id)
		}
	}
	slices.Reverse(ids)
	limit := int(c.num("limit", 10))
	if limit < 1 || limit > 100 {
		return nil, problem(http.StatusBadRequest, "parameter_invalid_integer", "limit", "limit must be between 1 and 100")
	}
	var more bool
	if after := c.str("starting_after"); after != "" {
		i := slices.Index(ids, after)
		if i < 0 {
			return nil, missing(kind, after)
		}
		ids = ids[i+1:]
	}
	if before := c.str("ending_before"); before != "" { // the page that lies just before it
		i := slices.Index(ids, before)
		if i < 0 {
			return nil, missing(kind, before)
		}
		ids = ids[:i]
		more = len(ids) > limit
		ids = ids[max(0, len(ids)-limit):]
	} else {
		more = len(ids) > limit
		ids = ids[:min(len(ids), limit)]
	}
	data := make([]any, 0, len(ids))
	for _, id := range ids {
		data = append(data, t.by[id])
	}
	return obj{"object": "list", "url": c.r.URL.Path, "has_more": more, "data": data}, nil
}

func random(n int) string {
	b := make([]byte, n)
	rand.Read(b)
	return hex.EncodeToString(b)
}

func writeJSON(w http.ResponseWriter, status int, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(body)
}
