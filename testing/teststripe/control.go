package teststripe

import (
	"cmp"
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// When a fault happens.
const (
	Before = "before" // nothing was done, and nothing is remembered: 429, 503, a connection that is cut
	Stored = "stored" // nothing was done, and the error is remembered under the idempotency key
	After  = "after"  // it was done; a Status is remembered in place of the answer, a cut or a hang loses the answer only
)

// Fault is something that goes wrong.
type Fault struct {
	Path  string `json:"path"`  // "POST /v1/customers", or how it begins; "" = every request
	Skip  int    `json:"skip"`  // so many pass first
	Times int    `json:"times"` // 0 = once, negative = from then on
	When  string `json:"when"`  // "" = Before

	Status int    `json:"status"` // 429, 500, 503, ...
	Code   string `json:"code"`   // such as lock_timeout
	Retry  string `json:"retry"`  // Stripe-Should-Retry: true, false, or not said

	Cut  bool `json:"cut"`  // the connection ends without an answer
	Half bool `json:"half"` // and with half of one
	Hang bool `json:"hang"` // no answer until the other side gives up
	HTML bool `json:"html"` // a page of some proxy's in place of the error

	wait chan struct{}
}

// Break makes something go wrong.
func (s *Stripe) Break(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addFault(&f)
}

func (s *Stripe) addFault(f *Fault) {
	if f.When == "" {
		f.When = Before
		if f.wait != nil {
			f.When = After
		}
	}
	f.Times = cmp.Or(f.Times, 1)
	s.faults = append(s.faults, f)
}

// Slow makes the next request of a path wait, while it is under way, until the returned function is called.
func (s *Stripe) Slow(path string) (release func()) {
	f := &Fault{Path: path, wait: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.addFault(f)
	return func() { close(f.wait) }
}

// Repair removes all failures.
func (s *Stripe) Repair() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// faulty is the fault a request meets.
func (s *Stripe) faulty(request string) *Fault {
	for i, f := range s.faults {
		if !strings.HasPrefix(request, f.Path) {
			continue
		}
		if f.Skip > 0 {
			f.Skip--
			continue
		}
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
			}
		}
		return f
	}
	return nil
}

func (f *Fault) body() []byte {
	kind := "An unknown error occurred"
	if f.Status == http.StatusTooManyRequests {
		kind = "Request rate limit exceeded."
	}
	p := problem(f.Status, f.Code, "", kind)
	if f.Status == http.StatusTooManyRequests && f.Code == "" {
		p.code = "rate_limit"
	}
	return p.body()
}

// misbehave answers as a fault says. body is what would have been answered, when something was done.
func (s *Stripe) misbehave(w http.ResponseWriter, r *http.Request, f *Fault, body []byte, say func(int, []byte, bool)) {
	switch {
	case f.Hang:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.Half:
		w.Header().Set("Content-Length", "1000")
		w.Write(append(body[:len(body)/2:len(body)/2], "{"...))
		panic(http.ErrAbortHandler)
	case f.HTML:
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(f.Status)
		w.Write([]byte("<html><body><h1>502 Bad Gateway</h1></body></html>"))
	default:
		if f.Retry != "" {
			w.Header().Set("Stripe-Should-Retry", f.Retry)
		}
		say(f.Status, f.body(), false)
	}
}

// controlRoutes tell it what to do over HTTP: for tests that run it as a program.
func (s *Stripe) controlRoutes() {
	say := func(w http.ResponseWriter, v any) {
		b, err := json.Marshal(v)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		writeJSON(w, http.StatusOK, b)
	}
	s.mux.HandleFunc("POST /test/advance", order(func(v struct{ Seconds int64 }) error { s.Advance(time.Duration(v.Seconds) * time.Second); return nil }))
	s.mux.HandleFunc("POST /test/break", order(func(f Fault) error { s.Break(f); return nil }))
	s.mux.HandleFunc("POST /test/repair", order(func(struct{}) error { s.Repair(); return nil }))
	s.mux.HandleFunc("POST /test/card", order(func(v struct{ Customer, Card string }) error { s.Card(v.Customer, v.Card); return nil }))
	s.mux.HandleFunc("POST /test/dispute", order(func(v struct{ Customer, Status string }) error {
		return s.Dispute(v.Customer, cmp.Or(v.Status, "needs_response"))
	}))
	s.mux.HandleFunc("POST /test/fraud", order(func(v struct{ Customer string }) error { return s.WarnOfFraud(v.Customer) }))
	s.mux.HandleFunc("POST /test/hold", order(func(struct{}) error { s.Hold(); return nil }))
	s.mux.HandleFunc("POST /test/release", order(func(v struct{ Seed int64 }) error { s.Release(v.Seed); return nil }))
	s.mux.HandleFunc("POST /test/lose", order(func(struct{}) error { s.Lose(); return nil }))
	s.mux.HandleFunc("POST /test/copies", order(func(v struct{ N int }) error { s.Copies(v.N); return nil }))
	s.mux.HandleFunc("POST /test/redeliver", order(func(v struct{ Event string }) error { s.Redeliver(v.Event); return nil }))
	s.mux.HandleFunc("GET /test/calls", func(w http.ResponseWriter, r *http.Request) { say(w, s.Calls(r.URL.Query().Get("of"))) })
	s.mux.HandleFunc("GET /test/usage", func(w http.ResponseWriter, _ *http.Request) { say(w, s.MeterEvents()) })
	s.mux.HandleFunc("GET /test/objects", func(w http.ResponseWriter, r *http.Request) { say(w, s.Objects(r.URL.Query().Get("kind"))) })
}

// Objects are all objects of a kind, such as customer or billing.meter, oldest first.
func (s *Stripe) Objects(kind string) []map[string]any {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []map[string]any{}
	for _, id := range s.table(kind).order {
		out = append(out, plain(s.table(kind).by[id]).(map[string]any))
	}
	return out
}

// order takes a JSON body.
func order[T any](fn func(T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var v T
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20))
		d.DisallowUnknownFields()
		err := d.Decode(&v)
		if err == nil {
			err = fn(v)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}
