package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
)

func TestABudgetStopsAnAgentAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.admit = budget
	h.answers(func(w http.ResponseWriter, r *http.Request) { t.Error("the provider was asked") })
	for _, c := range []struct {
		path   string
		status int
		typ    string
	}{
		{"/anthropic/v1/messages", 402, "billing_error"},           // stops Claude Code at once
		{"/openai/v1/responses", 400, "invalid_request_error"},     // stops Codex at once, which tries a 402 five times
		{"/openai/v1/chat/completions", 402, "insufficient_quota"}, // clients of this API try neither again
	} {
		resp, text := h.post(c.path, ask)
		var e struct {
			Error struct{ Type, Code, Message string }
		}
		if err := json.Unmarshal([]byte(text), &e); err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != c.status || e.Error.Type != c.typ || e.Error.Message != "The team's budget of $5.00 is spent." ||
			resp.Header.Get("X-Should-Retry") != "false" || resp.Header.Get("X-Parawork-Error") != "budget_exceeded" {
			t.Errorf("%s: %d %v %s", c.path, resp.StatusCode, resp.Header, text)
		}
	}
	// However often it asks, one row a minute is stored.
	for range 5 {
		h.post("/anthropic/v1/messages", ask)
	}
	wants(t, h.row(), `402 "budget_exceeded" in 0 out 0 read 0 write 0 hour 0 reasoning 0 cost 0`)
}

func TestTokens(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, opus...) })
	again, err := h.service.Mint(h.ctx, "ses_1", h.team)
	if err != nil || again != h.token || !strings.HasPrefix(again, gateway.TokenPrefix) || len(again) < 50 {
		t.Fatalf("a resumed session has %q after %q, %v", again, h.token, err)
	}
	other, err := h.service.Mint(h.ctx, "ses_2", h.team)
	if err != nil || other == h.token {
		t.Fatal("two sessions have the same token", err)
	}
	var stored string
	if err := h.db.QueryRow(h.ctx, `SELECT token_hash FROM gateway_tokens WHERE session_id = 'ses_1' AND {team}`).Scan(&stored); err != nil || strings.Contains(stored, h.token) || len(stored) != 64 {
		t.Fatalf("stored %q, %v", stored, err)
	}
	try := func(set func(http.Header)) int {
		t.Helper()
		req := h.request(t.Context(), http.MethodPost, "/anthropic/v1/messages", ask)
		req.Header.Del("Authorization")
		set(req.Header)
		resp, _ := h.do(req)
		return resp.StatusCode
	}
	for name, c := range map[string]struct {
		set  func(http.Header)
		want int
	}{
		"as a key":       {func(h http.Header) { h.Set("X-Api-Key", other) }, 200},
		"as a bearer":    {func(h http.Header) { h.Set("Authorization", "bearer "+other) }, 200},
		"none":           {func(h http.Header) {}, 401},
		"a key of ours":  {func(h http.Header) { h.Set("Authorization", "Bearer pw_user_x") }, 401},
		"the real one":   {func(h http.Header) { h.Set("X-Api-Key", realKey) }, 401},
		"nobody's":       {func(h http.Header) { h.Set("X-Api-Key", gateway.TokenPrefix+"aaaa") }, 401},
		"too long":       {func(h http.Header) { h.Set("X-Api-Key", gateway.TokenPrefix+strings.Repeat("a", 999)) }, 401},
		"in a basic one": {func(h http.Header) { h.Set("Authorization", "Basic "+other) }, 401},
	} {
		if got := try(c.set); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
	// From another workspace's sandbox it is good for nothing.
	for from, want := range map[string]int{"ws_1": 200, "ws_2": 401} {
		req := httptest.NewRequest(http.MethodPost, "/anthropic/v1/messages", strings.NewReader(ask)).WithContext(gateway.Within(t.Context(), from))
		req.Header.Set("X-Api-Key", other)
		w := httptest.NewRecorder()
		h.service.Handler().ServeHTTP(w, req)
		if w.Code != want {
			t.Errorf("from %s: %d", from, w.Code)
		}
	}
	if err := h.service.End(h.ctx, "ses_2"); err != nil {
		t.Fatal(err)
	}
	if got := try(func(h http.Header) { h.Set("X-Api-Key", other) }); got != 401 {
		t.Errorf("after its end: %d", got)
	}
	if _, err := h.service.Mint(h.ctx, "ses_2", h.team); err != nil {
		t.Fatal(err)
	}
	if got := try(func(h http.Header) { h.Set("X-Api-Key", other) }); got != 200 {
		t.Errorf("after it was resumed: %d", got)
	}
	if _, err := h.db.Exec(h.ctx, `UPDATE sessions SET ended_at = 5 WHERE id = 'ses_2' AND {team}`); err != nil {
		t.Fatal(err)
	}
	if got := try(func(h http.Header) { h.Set("X-Api-Key", other) }); got != 401 {
		t.Errorf("after the session ended: %d", got)
	}
	// Nor does it wait for who ends the sessions of a team or a person that is suspended.
	for _, whose := range []string{`teams SET suspended_at = ? WHERE id = '` + h.team + `'`, `users SET suspended_at = ? WHERE id = '` + h.user + `'`} {
		for _, c := range []struct{ at, want int }{{5, 401}, {0, 200}} {
			if _, err := h.db.Exec(h.ctx, `UPDATE `+whose, c.at); err != nil {
				t.Fatal(err)
			}
			if got := try(func(head http.Header) { head.Set("X-Api-Key", h.token) }); got != c.want {
				t.Errorf("%s at %d: %d", whose, c.at, got)
			}
		}
	}
}

func TestWhatIsNotTaken(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *gateway.Config) { c.MaxBody = 200 })
	h.answers(func(w http.ResponseWriter, r *http.Request) { t.Error("the provider was asked " + r.URL.String()) })
	for name, c := range map[string]struct {
		method, path, body, code string
		status                   int
	}{
		"another address":    {"POST", "/anthropic/v1/files", ask, "gateway_route_not_found", 404},
		"no API":             {"POST", "/v1/messages", ask, "gateway_route_not_found", 404},
		"out of the way":     {"POST", "/anthropic/v1/../../admin", ask, "gateway_route_not_found", 404},
		"an odd model":       {"GET", "/openai/v1/models/..%2f..", "", "gateway_route_not_found", 404},
		"above the models":   {"GET", "/openai/v1/models/..", "", "gateway_route_not_found", 404},
		"a stored response":  {"GET", "/openai/v1/responses/resp_1", "", "gateway_route_not_found", 404},
		"no JSON":            {"POST", "/anthropic/v1/messages", "{", "gateway_bad_request", 400},
		"a list":             {"POST", "/anthropic/v1/messages", "[]", "gateway_bad_request", 400},
		"no model":           {"POST", "/anthropic/v1/messages", "{}", "gateway_bad_request", 400},
		"a model of spaces":  {"POST", "/anthropic/v1/messages", `{"model":"a b"}`, "gateway_bad_request", 400},
		"two models":         {"POST", "/anthropic/v1/messages", `{"model":"a","model":"b"}`, "gateway_bad_request", 400},
		"two, one in escape": {"POST", "/anthropic/v1/messages", `{"model":"a","mod\u0065l":"b"}`, "gateway_bad_request", 400},
		"in other letters":   {"POST", "/anthropic/v1/messages", `{"model":"a","Model":"b"}`, "gateway_bad_request", 400},
		"of other letters":   {"POST", "/openai/v1/responses", `{"model":"a","bac\u212Aground":true}`, "gateway_bad_request", 400},
		"a stream as number": {"POST", "/openai/v1/chat/completions", `{"model":"a","stream":1}`, "gateway_bad_request", 400},
		"background in text": {"POST", "/openai/v1/responses", `{"model":"a","background":"true"}`, "gateway_bad_request", 400},
		"in the background":  {"POST", "/openai/v1/responses", `{"model":"a","background":true}`, "gateway_background", 400},
		"too large":          {"POST", "/anthropic/v1/messages", `{"model":"a","x":"` + strings.Repeat("x", 300) + `"}`, "gateway_body_too_large", 413},
	} {
		resp, text := h.do(h.request(t.Context(), c.method, c.path, c.body))
		if resp.StatusCode != c.status || resp.Header.Get("X-Parawork-Error") != c.code {
			t.Errorf("%s: %d %s %s", name, resp.StatusCode, resp.Header.Get("X-Parawork-Error"), text)
		}
	}
	req := h.request(t.Context(), http.MethodPost, "/anthropic/v1/messages", ask)
	req.Header.Set("Content-Encoding", "gzip")
	if resp, _ := h.do(req); resp.StatusCode != 400 {
		t.Errorf("packed: %d", resp.StatusCode)
	}
	h.rows(0)
}

// A key goes to whom it is for, and to nobody else.
func TestAKeyIsNotSentToTheOtherProvider(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) { t.Error("asked " + r.URL.String()) })
	for _, c := range []struct {
		a    gateway.Account
		path string
	}{
		{gateway.Account{Provider: "openai", Key: "sk-proj-1"}, "/anthropic/v1/messages"},
		{gateway.Account{Provider: "anthropic", Key: "sk-ant-1"}, "/openai/v1/responses"},
		{gateway.Account{Key: "sk-ant-1"}, "/openai/v1/chat/completions"},
		{gateway.Account{Key: "sk-1"}, "/anthropic/v1/messages"},
	} {
		h.use(func(a *gateway.Account) { *a = c.a })
		if resp, text := h.post(c.path, ask); resp.StatusCode != 400 || resp.Header.Get("X-Parawork-Error") != "gateway_wrong_api" {
			t.Errorf("%+v: %d %s", c, resp.StatusCode, text)
		}
	}
	refused := newHarness(t, func(c *gateway.Config) {
		c.Check = func(string) error { return fault.New(fault.Invalid, "url_not_public", "Not there.") }
	})
	refused.answers(func(w http.ResponseWriter, r *http.Request) { t.Error("asked " + r.URL.String()) })
	if resp, text := refused.post("/anthropic/v1/messages", ask); resp.StatusCode != 400 || !strings.Contains(text, "Not there.") {
		t.Errorf("an address that is not public: %d %s", resp.StatusCode, text)
	}
}

func TestOnlyAllowedModels(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, opus...) })
	set := func(team string, limits ...gateway.Limit) {
		t.Helper()
		if err := h.service.SetLimits(h.ctx, team, "u", limits); err != nil {
			t.Fatal(err)
		}
	}
	try := func(model string) int {
		t.Helper()
		resp, text := h.post("/anthropic/v1/messages", `{"model":"`+model+`","stream":true}`)
		if resp.StatusCode != 200 && (resp.StatusCode != 400 || resp.Header.Get("X-Parawork-Error") != "model_not_allowed" || !strings.Contains(text, model)) {
			t.Errorf("%s: %d %s", model, resp.StatusCode, text)
		}
		return resp.StatusCode
	}
	set(h.team, gateway.Limit{Model: "*"}, gateway.Limit{Model: "claude-*", Allowed: true}, gateway.Limit{Model: "claude-opus-4-8"})
	for model, want := range map[string]int{"gpt-5.5": 400, "claude-haiku-4-5": 200, "claude-opus-4-8": 400, "claude-opus-4-8-20260401": 400, "claude-opus-4-7": 200} {
		if got := try(model); got != want {
			t.Errorf("%s: %d, not %d", model, got, want)
		}
	}
	// Nor by another way of writing it, or beside the one that answers.
	for _, body := range []string{
		`{"model":"Claude-Opus-4-8","stream":true}`,
		`{"model":"claude-haiku-4-5","stream":true,"tools":[{"name":"x"},{"type":"advisor_20260301","name":"advisor","model":"claude-opus-4-8"}]}`,
		`{"model":"claude-haiku-4-5","stream":true,"models":["claude-opus-4-7","claude-opus-4-8"]}`,
		`{"model":"claude-haiku-4-5","stream":true,"fallbacks":[{"model":"claude-opus-4-8"}]}`,
	} {
		if resp, text := h.post("/anthropic/v1/messages", body); resp.StatusCode != 400 || resp.Header.Get("X-Parawork-Error") != "model_not_allowed" {
			t.Errorf("%s: %d %s", body, resp.StatusCode, text)
		}
	}
	if resp, text := h.post("/anthropic/v1/messages", `{"model":"claude-haiku-4-5","stream":true,"tools":[{"type":"advisor_20260301","model":"claude-opus-4-7"}]}`); resp.StatusCode != 200 {
		t.Errorf("an allowed one beside: %d %s", resp.StatusCode, text)
	}
	set(h.team, gateway.Limit{Model: "claude-opus-4-8"})
	if got := try("CLAUDE-opus-4-8-20260401"); got != 400 {
		t.Errorf("in other letters: %d", got)
	}
	set(h.team)
	if got := try("gpt-5.5"); got != 200 {
		t.Errorf("without rules: %d", got)
	}
	all, _ := h.service.Limits(h.ctx, h.team)
	if len(all) != 0 {
		t.Errorf("rules are left: %+v", all)
	}
}

// memory is a store of rules alone, for tests in which time does not pass by itself.
type memory struct {
	gateway.Store
	limits []gateway.Limit
}

func (m memory) Grant(context.Context, string) (gateway.Grant, error) {
	return gateway.Grant{SessionID: "s", TeamID: "t", WorkspaceID: "w"}, nil
}
func (m memory) Limits(context.Context, string) ([]gateway.Limit, error) { return m.limits, nil }

type noMeter struct{}

func (noMeter) Settle(context.Context, tokens.Request) (int64, error) { return 0, nil }
func (noMeter) Most(context.Context, tokens.Ask) (int64, error)       { return 0, nil }
func (noMeter) Begin(context.Context, tokens.Request) error           { return nil }
func (noMeter) Record(context.Context, tokens.Request) error          { return nil }

// still answers without a network.
type still func(*http.Request) string

func (f still) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(f(r))), Request: r}, nil
}

func TestAMinutesBoundHoldsBackAndThenRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := func(v int64) *int64 { return &v }
		s := gateway.New(gateway.Config{Meter: noMeter{}, Key: []byte("k"), Store: memory{limits: []gateway.Limit{{TeamID: "t", Model: "claude-*", Allowed: true, RequestsMinute: n(2)},
			{Model: "gpt-*", Allowed: true, TokensMinute: n(100)}}},
			Account: func(context.Context, gateway.Grant) (gateway.Account, error) {
				return gateway.Account{BaseURL: "http://up.example", Key: "k"}, nil
			},
			Client: &http.Client{Transport: still(func(*http.Request) string {
				return `{"type":"message","usage":{"input_tokens":90,"output_tokens":10,"cache_read_input_tokens":5000}}`
			})}})
		post := func(model string) (int, time.Duration, string) {
			req := httptest.NewRequest(http.MethodPost, "/anthropic/v1/messages", strings.NewReader(`{"model":"`+model+`"}`))
			req.Header.Set("X-Api-Key", s.Token("s"))
			w := httptest.NewRecorder()
			began := time.Now()
			s.Handler().ServeHTTP(w, req)
			return w.Code, time.Since(began), w.Header().Get("Retry-After")
		}
		for i, want := range []time.Duration{0, 0, time.Minute} {
			if code, took, _ := post("claude-x"); code != 200 || took > want || took < want-time.Second {
				t.Errorf("request %d: %d after %v", i, code, took)
			}
		}
		// Three more wait for one place... and the last of them longer than anybody should.
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[int]int{}
		for range 4 {
			wg.Go(func() {
				code, _, after := post("claude-x")
				mu.Lock()
				defer mu.Unlock()
				got[code]++
				if code == 429 && after == "" {
					t.Error("a refusal does not say when to come again")
				}
			})
		}
		wg.Wait()
		if got[200] != 3 || got[429] != 1 {
			t.Errorf("of four at once: %v", got)
		}
		// Tokens count once they are known; those from a cache do not.
		if code, took, _ := post("gpt-y"); code != 200 || took != 0 {
			t.Errorf("the first: %d after %v", code, took)
		}
		if code, took, _ := post("gpt-y"); code != 200 || took < 58*time.Second || took > time.Minute {
			t.Errorf("the next: %d after %v", code, took)
		}
		if code, took, _ := post("other"); code != 200 || took != 0 {
			t.Errorf("a model without a rule: %d after %v", code, took)
		}
	})
}

func TestNoMoreThanSoManyAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	release := make(chan struct{})
	var once sync.Once
	defer once.Do(func() { close(release) })
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		<-release
		sse(w, opus...)
	})
	codes := make(chan int, 80)
	var wg sync.WaitGroup
	for range 65 {
		wg.Go(func() {
			resp, _ := h.post("/anthropic/v1/messages", ask)
			codes <- resp.StatusCode
		})
	}
	select {
	case got := <-codes:
		if got != 429 {
			t.Errorf("the one too many: %d", got)
		}
	case <-time.After(patience):
		t.Error("all are let in")
	}
	once.Do(func() { close(release) })
	wg.Wait()
	close(codes)
	for got := range codes {
		if got != 200 {
			t.Errorf("one of the others: %d", got)
		}
	}
}

// A request whose body never arrives gives back its slot and its memory.
func TestARequestThatDoesNotCome(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *gateway.Config) { c.BodyTakes = 50 * time.Millisecond })
	h.answers(func(w http.ResponseWriter, r *http.Request) { t.Error("the provider was asked") })
	conn, err := net.Dial("tcp", h.door.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetReadDeadline(time.Now().Add(patience))
	fmt.Fprintf(conn, "POST /anthropic/v1/messages HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Length: %d\r\n\r\n{", h.token, 1<<20)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 504 || resp.Header.Get("X-Parawork-Error") != "gateway_body_timeout" {
		t.Errorf("%d %v", resp.StatusCode, resp.Header)
	}
	h.rows(0)
}

// deadlines remembers until when a request must have come, and whether what is written must be read in time.
type deadlines struct {
	*httptest.ResponseRecorder
	until []time.Time
	// bounded: from here on what is written must be read in time; free: something was written before.
	bounded, free bool
}

func (d *deadlines) SetWriteDeadline(time.Time) error {
	d.bounded = true
	return nil
}

func (d *deadlines) Write(p []byte) (int, error) {
	d.free = d.free || !d.bounded
	return d.ResponseRecorder.Write(p)
}

func (d *deadlines) Flush() {
	d.free = d.free || !d.bounded
	d.ResponseRecorder.Flush()
}

// A guest that does not read holds nothing up for ever: not the head of an answer, nor what is refused.
func TestWhoDoesNotReadIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for name, c := range map[string]struct {
		answer http.HandlerFunc
		token  string
		code   int
	}{
		"a stream": {func(w http.ResponseWriter, r *http.Request) { sse(w, opus...) }, h.token, 200},
		"an error": {func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(500) }, h.token, 500},
		"nobody":   {func(w http.ResponseWriter, r *http.Request) { panic(http.ErrAbortHandler) }, h.token, 503},
		"refused":  {func(w http.ResponseWriter, r *http.Request) {}, "x", 401},
	} {
		h.answers(c.answer)
		req := httptest.NewRequest(http.MethodPost, "/anthropic/v1/messages", strings.NewReader(ask))
		req.Header.Set("X-Api-Key", c.token)
		w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		h.service.Handler().ServeHTTP(w, req)
		if w.Code != c.code || w.free || !w.bounded {
			t.Errorf("%s: %d, written without a bound: %v", name, w.Code, w.free || !w.bounded)
		}
	}
}

func (d *deadlines) SetReadDeadline(at time.Time) error {
	d.until = append(d.until, at)
	return nil
}

// An answer may take longer than its request.
func TestARequestThatCameIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) { sse(w, opus...) })
	req := httptest.NewRequest(http.MethodPost, "/anthropic/v1/messages", strings.NewReader(ask))
	req.Header.Set("X-Api-Key", h.token)
	w := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	h.service.Handler().ServeHTTP(w, req)
	if w.Code != 200 || len(w.until) != 2 || w.until[0].IsZero() || !w.until[1].IsZero() {
		t.Errorf("%d, until %v", w.Code, w.until)
	}
}

func TestUnpackedWhateverTheProviderSends(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answers(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept-Encoding") != "identity" {
			t.Errorf("asked for %q", r.Header.Get("Accept-Encoding"))
		}
		w.Header().Set("Content-Encoding", "gzip")
		var b bytes.Buffer
		pack(&b, `{"type":"message","usage":{"input_tokens":1,"output_tokens":1}}`)
		_, _ = w.Write(b.Bytes())
	})
	if resp, text := h.post("/anthropic/v1/messages", `{"model":"claude-opus-4-8"}`); resp.Header.Get("Content-Encoding") != "" || !strings.HasPrefix(text, `{"type"`) {
		t.Errorf("the agent was given %q", text)
	}
	wants(t, h.row(), fmt.Sprintf(`200 "" in 1 out 1 read ? write ? hour ? reasoning ? cost %d`, 30_000))
}
