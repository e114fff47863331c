package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// yard has one machine, which answers as its handler says.
type yard struct {
	mu      sync.Mutex
	machine Machine
	revoked bool
	cut     bool
	handler http.Handler
	signed  []string // method, path and body of every command
	orders  []wire.Order
}

func newYard() *yard {
	return &yard{machine: Machine{ID: "rnr_1", TeamID: "team_1", UserID: "ann", UserName: "Ann", Name: "Work Laptop", Online: true, Hello: wire.Hello{Version: 1,
		Available: true, Mode: wire.Docker, Boundary: "container", OS: "linux", Arch: "amd64", Release: "Debian 12", Access: wire.Full, Share: "owner"}}}
}

func (y *yard) Machines(_ context.Context, team string) []Machine {
	if team != "" && team != "team_1" {
		return nil
	}
	return []Machine{y.machine}
}

func (y *yard) Machine(_ context.Context, id string) (Machine, bool) {
	return y.machine, id == "rnr_1" && !y.revoked
}

func (y *yard) Link(string) (Link, bool) { return y, y.machine.Online && !y.revoked }

func (y *yard) Sign(_ context.Context, id string, r *http.Request, body []byte) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.signed = append(y.signed, id+" "+r.Method+" "+r.URL.Path+" "+string(body))
	y.orders = append(y.orders, wire.OrderOf(r.Context()))
	r.Header.Set(wire.CommandHeader, "signed")
	return nil
}

func (y *yard) UserName(_ context.Context, id string) string { return strings.ToUpper(id) }

func (y *yard) RoundTrip(r *http.Request) (*http.Response, error) {
	if y.cut {
		return nil, errors.New("cut")
	}
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	y.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func (y *yard) Stream(context.Context, string, http.Header) (net.Conn, error) {
	a, b := net.Pipe()
	_ = b.Close()
	return a, nil
}

func (y *yard) Done() <-chan struct{} { return nil }
func (y *yard) Reason() string        { return "" }

func (y *yard) member(t *testing.T) executors.Executor {
	t.Helper()
	at := time.Date(2026, 3, 4, 15, 0, 0, 0, time.UTC)
	e, ok := New(Config{Machines: y, Now: func() time.Time { return at }}).Member(context.Background(), "runner:rnr_1")
	if !ok {
		t.Fatal("there is no such machine")
	}
	return e
}

// says answers every question with one status and text.
func says(status int, text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	})
}

func capsOf(t *testing.T, y *yard) executors.Capabilities {
	t.Helper()
	c, err := y.member(t).Capabilities(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAMachineIsAPlaceAsItSays(t *testing.T) {
	y := newYard()
	c := capsOf(t, y)
	if c.Kind != "runner:rnr_1" || c.Name != "Work Laptop" || !c.Available || !c.OwnDisk || c.Boundary != executors.ContainerBoundary || c.PriceNano != 0 || c.SharedHome || c.Away {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(c.Brief, "container") || !strings.Contains(c.Brief, "Debian 12 on amd64") {
		t.Errorf("agents read %q", c.Brief)
	}
	y.machine.Hello.Mode, y.machine.Hello.Boundary = wire.Direct, "microvm" // a boast
	if c := capsOf(t, y); c.Boundary != executors.NoBoundary || c.Isolated || !c.SharedHome || !strings.Contains(c.Brief, "WITHOUT any isolation") {
		t.Errorf("%+v", c)
	}
	y.machine.Hello.Mode = wire.Bubblewrap
	if c := capsOf(t, y); c.Boundary != executors.ProcessBoundary {
		t.Errorf("%+v", c)
	}
	y.machine.Leaving = true
	if c := capsOf(t, y); c.Available || c.Away || !strings.Contains(c.Reason, "goes") {
		t.Errorf("%+v", c)
	}
	y.machine.Leaving = false
	y.machine.Hello.Access = wire.ReadOnly
	if c := capsOf(t, y); c.Available || !strings.Contains(c.Reason, "read_only") {
		t.Errorf("%+v", c)
	}
	y.machine.Hello.Version = 99
	if c := capsOf(t, y); c.Available || !strings.Contains(c.Cure, "update") {
		t.Errorf("%+v", c)
	}
	y.machine.Online, y.machine.OfflineAt = false, time.Date(2026, 3, 4, 14, 2, 0, 0, time.UTC).UnixMilli()
	if c := capsOf(t, y); c.Available || !c.Away || c.Reason != "offline since 14:02 UTC" || c.AwaySince != y.machine.OfflineAt {
		t.Errorf("%+v", c)
	}
	y.machine.OfflineAt = time.Date(2026, 3, 3, 14, 2, 0, 0, time.UTC).UnixMilli()
	if c := capsOf(t, y); c.Reason != "offline since 3 Mar 2026, 14:02 UTC" {
		t.Errorf("%+v", c)
	}
}

func lines(items ...wire.Progress) string {
	var b strings.Builder
	for _, p := range items {
		j, _ := json.Marshal(p)
		b.Write(append(j, '\n'))
	}
	return b.String()
}

func TestAMakingIsFollowedAndAskedForSomebody(t *testing.T) {
	y := newYard()
	y.handler = says(200, lines(wire.Progress{Step: "image", Title: "Fetching\nthe image", Done: 1, All: 2}, wire.Progress{Sandbox: &wire.Sandbox{ID: "sbx_1", State: wire.Running, Token: "secret"}}))
	var steps []string
	ctx := executors.WithProgress(executors.As(context.Background(), executors.ForAgent, "ann"), func(_ context.Context, step, title, _ string, done, all int64) {
		steps = append(steps, fmt.Sprint(step, " ", title, " ", done, " ", all))
	})
	sb, err := y.member(t).Create(ctx, executors.Spec{Root: t.TempDir(), ID: "sbx_1", TeamID: "team_1", WorkspaceID: "ws_1", Key: "PW-1", Inside: "/work/my-project", UserID: "ann",
		Limits: executors.Limits{CPUs: 2}, Folder: "/home/ann/code"})
	if err != nil || sb.Token() != "secret" || sb.Handle().Kind != "runner:rnr_1" {
		t.Fatalf("%+v, %v", sb, err)
	}
	if !slices.Contains(steps, "image Fetching the image 1 2") {
		t.Errorf("steps: %q", steps)
	}
	var asked wire.Make
	if err := json.Unmarshal([]byte(strings.TrimPrefix(y.signed[0], "rnr_1 POST /v1/sandboxes ")), &asked); err != nil || asked.Slug != "my-project" || asked.Key != "PW-1" ||
		asked.Folder != "/home/ann/code" || asked.Limits.CPUs != 2 {
		t.Errorf("asked for %+v, %v", asked, err)
	}
	if y.orders[0] != (wire.Order{UserID: "ann", User: "ANN", Purpose: "agent"}) {
		t.Errorf("for %+v", y.orders[0])
	}
	pipe, err := sb.Dial(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/v1/processes", bytes.NewReader(nil))
	if err := pipe.(interface {
		Sign(*http.Request, []byte) error
	}).Sign(r, []byte("{}")); err != nil || y.signed[len(y.signed)-1] != "rnr_1 POST /v1/sandboxes/sbx_1/pipe/v1/processes {}" {
		t.Errorf("over the pipe: %v, %v", y.signed, err)
	}
}

// TestAMachineThatLies is refused, and what was asked of it is taken back.
func TestAMachineThatLies(t *testing.T) {
	long := strings.Repeat("x", maxLine+1)
	for name, text := range map[string]string{
		"another id":     lines(wire.Progress{Sandbox: &wire.Sandbox{ID: "sbx_2", State: wire.Running, Token: "t"}}),
		"no token":       lines(wire.Progress{Sandbox: &wire.Sandbox{ID: "sbx_1", State: wire.Running}}),
		"a state":        lines(wire.Progress{Sandbox: &wire.Sandbox{ID: "sbx_1", State: "happy", Token: "t"}}),
		"a long token":   lines(wire.Progress{Sandbox: &wire.Sandbox{ID: "sbx_1", State: wire.Running, Token: long[:300]}}),
		"a long line":    long,
		"no JSON":        "hello\n",
		"silence":        "",
		"many lines":     strings.Repeat("{}\n", maxLines+1),
		"a strange kind": lines(wire.Progress{Error: &wire.Error{Kind: "unauthorized", Code: "signed_out", Message: "Sign in again."}}),
		"a strange code": lines(wire.Progress{Error: &wire.Error{Kind: "invalid", Code: "<script>", Message: "So."}}),
	} {
		y := newYard()
		y.handler = says(200, text)
		_, err := y.member(t).Create(context.Background(), executors.Spec{Root: t.TempDir(), ID: "sbx_1", Inside: "/work/p"})
		if !fault.Is(err, fault.Unavailable) {
			t.Errorf("%s: %v", name, err)
		}
		if last := y.signed[len(y.signed)-1]; last != "rnr_1 DELETE /v1/sandboxes/sbx_1 " {
			t.Errorf("%s: it is not taken back: %q", name, last)
		}
	}
}

func TestAMachineThatRefusesSaysWhy(t *testing.T) {
	y := newYard()
	y.handler = says(409, `{"kind":"conflict","code":"runner_full","message":"It has as many sandboxes as its owner allows.","details":{"reason":"capacity","secret":"x"}}`)
	_, err := y.member(t).Create(context.Background(), executors.Spec{Root: t.TempDir(), ID: "sbx_1"})
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != "runner_full" || f.Details["reason"] != "capacity" || f.Details["secret"] != nil {
		t.Errorf("%v", err)
	}
}

func TestWhatIsGoneAndWhatIsOnlyOutOfReach(t *testing.T) {
	y := newYard()
	h := executors.Handle{Kind: "runner:rnr_1", ID: "sbx_1"}
	ctx := context.Background()
	y.handler = says(404, `{"kind":"not_found","code":"sandbox_not_found","message":"There is no such sandbox."}`)
	if _, err := y.member(t).Recover(ctx, h); !errors.Is(err, executors.ErrGone) {
		t.Errorf("one that is gone: %v", err)
	}
	y.handler = says(200, `{"id":"sbx_1","state":"gone","reason":"Its owner stopped it."}`)
	if _, err := y.member(t).Recover(ctx, h); !errors.Is(err, executors.ErrGone) || !strings.Contains(err.Error(), "Its owner stopped it.") {
		t.Errorf("one that was ended: %v", err)
	}
	y.handler = says(200, `{"id":"sbx_1","state":"running","token":"t"}`)
	sb, err := y.member(t).Recover(ctx, h)
	if err != nil {
		t.Fatal(err)
	}
	y.cut = true
	if _, err := y.member(t).Recover(ctx, h); errors.Is(err, executors.ErrGone) || fault.CodeOf(err) != "runner_connection_lost" {
		t.Errorf("a cut connection: %v", err)
	}
	y.machine.Online = false
	e := y.member(t)
	_, lerr := e.List(ctx)
	_, cerr := e.Create(ctx, executors.Spec{Root: t.TempDir(), ID: "sbx_2"})
	_, rerr := e.Recover(ctx, h)
	_, derr := sb.Dial(ctx)
	for name, err := range map[string]error{"Recover": rerr, "List": lerr, "Create": cerr, "Dial": derr, "Destroy": sb.Destroy(ctx)} {
		if errors.Is(err, executors.ErrGone) || fault.CodeOf(err) != wire.CodeOffline || !strings.Contains(err.Error(), "Work Laptop is offline") {
			t.Errorf("%s while it is offline: %v", name, err)
		}
	}
	y.revoked = true
	if err := sb.Destroy(ctx); errors.Is(err, executors.ErrGone) || fault.CodeOf(err) != "runner_not_found" {
		t.Errorf("of a revoked machine: %v", err)
	}
}

func TestAFloodOfSandboxes(t *testing.T) {
	y := newYard()
	var items []wire.Sandbox
	for i := range maxSandboxes + 50 {
		items = append(items, wire.Sandbox{ID: fmt.Sprint("sbx_", i)})
	}
	items[3].ID = "../../etc"
	b, _ := json.Marshal(map[string]any{"items": items})
	y.handler = says(200, string(b))
	all, err := y.member(t).List(context.Background())
	if err != nil || len(all) != maxSandboxes || slices.ContainsFunc(all, func(h executors.Handle) bool { return strings.Contains(h.ID, "..") || h.Kind != "runner:rnr_1" }) {
		t.Errorf("%d, %v", len(all), err)
	}
	y.handler = says(200, strings.Repeat(" ", maxAnswer+10))
	if _, err := y.member(t).List(context.Background()); fault.CodeOf(err) != "runner_wrong_answer" {
		t.Errorf("%v", err)
	}
}

// Over expensive pipes, everything goes over one.
func TestPipesThatAreDear(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		`{"id":"sbx_1","state":"running","token":"t"}`:                 false,
		`{"id":"sbx_1","state":"running","token":"t","one_pipe":true}`: true,
	} {
		y := newYard()
		y.handler = says(200, text)
		sb, err := y.member(t).Recover(t.Context(), executors.Handle{Kind: "runner:rnr_1", ID: "sbx_1"})
		if err != nil {
			t.Fatal(err)
		}
		if n, ok := sb.(executors.SinglePipe); !ok || n.OnePipe() != want {
			t.Errorf("%s: narrow %v", text, !want)
		}
	}
}
