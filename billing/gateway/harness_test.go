package gateway_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("database/sql.(*DB).connectionOpener"))
}

const realKey = "sk-ant-api03-the-real-key-nobody-sees"

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// harness is the gateway between an agent and a provider that answers as a test says.
type harness struct {
	t       *testing.T
	ctx     context.Context
	db      *store.DB
	team    string
	user    string
	cfg     gateway.Config
	service *gateway.Service
	meter   *tokens.Meter
	door    *httptest.Server
	token   string

	mu      sync.Mutex
	account gateway.Account
	admit   func() error
	seen    []*http.Request // what the provider was asked
	bodies  []string
	answer  http.HandlerFunc
}

func newHarness(t *testing.T, tune ...func(*gateway.Config)) *harness {
	t.Helper()
	h := &harness{t: t, db: storetest.SQLite(t)}
	user, team := storetest.Seed(t, h.db)
	h.user, h.team, h.ctx = user.ID, team.ID, tenant.In(t.Context(), team.ID)
	exec := func(query string, args ...any) {
		t.Helper()
		if _, err := h.db.Exec(h.ctx, query, args...); err != nil {
			t.Fatal(err)
		}
	}
	exec(`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('prj_1', {team?}, 'p', 'sample', '', '', 'ready', ?, 1)`, team.ID, user.ID)
	exec(`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
		VALUES ('ws_1', {team?}, 'prj_1', 1, 'w', 'b', 'main', 'local', 'ready', ?, 1, 1)`, team.ID, user.ID)
	for _, id := range []string{"ses_1", "ses_2"} {
		exec(`INSERT INTO sessions (id, team_id, workspace_id, agent, state, state_at, cols, rows, created_by, started_at, account_id)
			VALUES (?, {team?}, 'ws_1', 'claude-code', 'working', 1, 80, 24, ?, 1, 'acc_1')`, id, team.ID, user.ID)
	}
	provider := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		h.mu.Lock()
		h.seen, h.bodies = append(h.seen, r), append(h.bodies, string(body))
		answer := h.answer
		h.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(provider.Close)
	h.account = gateway.Account{ID: "acc_1", BaseURL: provider.URL, Key: realKey}
	h.meter = tokens.New(tokens.Config{Store: store.NewTokens(h.db)})
	if err := h.meter.Seed(h.ctx); err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	t.Cleanup(client.CloseIdleConnections)
	cfg := gateway.Config{Store: store.NewGateway(h.db), Meter: h.meter, Client: client, Key: make([]byte, 32), Backoff: []time.Duration{time.Millisecond, time.Millisecond},
		Account: func(context.Context, gateway.Grant) (gateway.Account, error) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.account, nil
		},
		Budget: refusing{h}}
	h.cfg = cfg
	h.again(tune...)
	return h
}

// again has the gateway served anew, with another configuration.
func (h *harness) again(tune ...func(*gateway.Config)) {
	h.t.Helper()
	for _, f := range tune {
		f(&h.cfg)
	}
	h.service = gateway.New(h.cfg)
	h.door = httptest.NewServer(h.service.Handler())
	h.t.Cleanup(h.door.Close)
	var err error
	if h.token, err = h.service.Mint(h.ctx, "ses_1", h.team); err != nil {
		h.t.Fatal(err)
	}
}

// refusing is a budget that holds nothing back, and refuses what a test says.
type refusing struct{ h *harness }

func (r refusing) HoldModel(context.Context, string, string, func(context.Context) (int64, error)) (bool, error) {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	if r.h.admit == nil {
		return false, nil
	}
	return false, r.h.admit()
}

func (refusing) RenewModel(context.Context, string, string) error { return nil }

func (refusing) SettleModel(context.Context, string, string, int64) error { return nil }

func (h *harness) answers(f http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.answer = f
}

// use sets the account.
func (h *harness) use(change func(*gateway.Account)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	change(&h.account)
}

// request makes one as an agent does.
func (h *harness) request(ctx context.Context, method, path, body string) *http.Request {
	h.t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, h.door.URL+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+h.token)
	req.Header.Set("Content-Type", "application/json")
	return req
}

// post asks and reads the whole answer.
func (h *harness) post(path, body string) (*http.Response, string) {
	h.t.Helper()
	return h.do(h.request(h.t.Context(), http.MethodPost, path, body))
}

func (h *harness) do(req *http.Request) (*http.Response, string) {
	h.t.Helper()
	resp, err := h.door.Client().Do(req)
	if err != nil {
		h.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		text = append(text, "<cut>"...)
	}
	return resp, string(text)
}

// asked is what the provider was asked, and with what bodies.
func (h *harness) asked() ([]*http.Request, []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.seen), slices.Clone(h.bodies)
}

// rows returns the stored rows, newest first; it waits until so many are complete.
func (h *harness) rows(n int) []tokens.Request {
	h.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		all, _, err := h.meter.Requests(h.ctx, tokens.Filter{TeamID: h.team}, page.Page{Limit: 200})
		if err != nil {
			h.t.Fatal(err)
		}
		if len(all) == n && !slices.ContainsFunc(all, func(r tokens.Request) bool { return r.Error == tokens.ErrUnderWay }) {
			return all
		}
		if time.Now().After(deadline) {
			h.t.Fatalf("%d requests are kept, not %d: %+v", len(all), n, all)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (h *harness) row() tokens.Request {
	h.t.Helper()
	return h.rows(1)[0]
}

// sse writes events as a provider streams them.
func sse(w http.ResponseWriter, events ...string) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range events {
		if strings.HasPrefix(e, "{") {
			var b bytes.Buffer
			fmt.Fprintf(&b, "data: %s\n\n", e)
			e = b.String()
		}
		_, _ = io.WriteString(w, e)
		_ = http.NewResponseController(w).Flush()
	}
}

const ask = `{"model":"claude-opus-4-8","stream":true,"messages":[]}`

// opus is a whole streamed answer: 100 in, 20 read, 8 and 4 written, 7 out.
var opus = []string{
	`{"type":"message_start","message":{"id":"msg_1","model":"claude-opus-4-8","usage":{"input_tokens":100,"output_tokens":1,"cache_read_input_tokens":20,"cache_creation_input_tokens":12,"cache_creation":{"ephemeral_5m_input_tokens":8,"ephemeral_1h_input_tokens":4},"service_tier":"standard"}}}`,
	"event: ping\ndata: {\"type\": \"ping\"}\n\n",
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi \"usage\":{\"input_tokens\":9}"}}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`,
	`{"type":"message_stop"}`,
}

// opusCost is its cost: 100 x 5 + 7 x 25 + 20 x 0.5 + 8 x 6.25 + 4 x 10 USD for a million.
const opusCost = 500_000 + 175_000 + 10_000 + 50_000 + 40_000

func wants(t *testing.T, r tokens.Request, want string) {
	t.Helper()
	n := func(v *int64) string {
		if v == nil {
			return "?"
		}
		return fmt.Sprint(*v)
	}
	got := fmt.Sprintf("%d %q in %s out %s read %s write %s hour %s reasoning %s cost %s", r.Status, r.Error, n(r.Input), n(r.Output), n(r.CacheRead), n(r.CacheWrite),
		n(r.CacheWriteHour), n(r.Reasoning), n(r.CostNano))
	if got != want {
		t.Errorf("kept\n\t%s, not\n\t%s", got, want)
	}
}

// budget is what a quota's room says.
func budget() error {
	return fault.New(fault.Quota, "budget_exceeded", "The team's budget of $5.00 is spent.")
}

func pack(w io.Writer, text string) {
	z := gzip.NewWriter(w)
	_, _ = io.WriteString(z, text)
	_ = z.Close()
}
