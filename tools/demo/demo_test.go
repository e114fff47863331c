package demo_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools/code"
	"github.com/parawork/parawork/tools/demo"
	"github.com/parawork/parawork/tools/sandboxes"
)

// world has sandboxes that are there at once, and code that does what a test says.
type world struct {
	*demo.Service
	place executors.Capabilities

	mu       sync.Mutex
	now      time.Time
	open     []sandboxes.Sandbox
	requests []sandboxes.Request
	confined []executors.Network
	log      bytes.Buffer
	blind    bool // a server sees no row of the other in time
	keepEnds bool // sandboxes that end are not removed: their place does not answer
	team     accounts.Team
	making   func(context.Context) error
	code     func(context.Context, code.Request, func(code.Event) error) (code.Run, error)
}

var limits = demo.Limits{Life: 10 * time.Minute, Idle: time.Minute, AtOnce: 3, PerAddress: 2, StartsPerHour: 3, RunsPerMinute: 2, RunTime: 30 * time.Second, OutputBytes: 1000,
	Sandbox: executors.Limits{MemoryMB: 512}}

func newWorld() *world {
	w := &world{now: time.Unix(1000, 0), place: executors.Capabilities{Available: true, Isolated: true, Network: true, Limits: true}}
	w.Service = w.another()
	return w
}

// another is a server on the same rows: the one of before was killed.
func (w *world) another() *demo.Service {
	return demo.New(demo.Config{Executor: "docker", Limits: limits, Key: []byte("key"), Log: slog.New(slog.NewTextHandler(&w.log, nil)), Teams: w, Sandboxes: w, Code: w, Now: func() time.Time { return w.now },
		Place: func(context.Context, executors.Kind) (executors.Capabilities, bool) { return w.place, true },
		Confine: func(_ context.Context, _, _ string, l executors.Limits, n executors.Network) error {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.confined = append(w.confined, n)
			return nil
		}})
}

func (w *world) InsertTeam(_ context.Context, t accounts.Team) (bool, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.team = t
	return true, nil
}

func (w *world) TeamByID(context.Context, string) (accounts.Team, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.team.ID == "" {
		return w.team, fault.New(fault.NotFound, "not_found", "none")
	}
	return w.team, nil
}

func (w *world) Obtain(ctx context.Context, a accounts.Actor, teamID string, r sandboxes.Request) (sandboxes.Sandbox, bool, error) {
	w.mu.Lock()
	if live := len(w.open); live >= r.Most {
		w.mu.Unlock()
		return sandboxes.Sandbox{}, false, fault.New(fault.Conflict, "sandbox_limit", "%d", live)
	}
	at := w.now.UnixMilli()
	sb := sandboxes.Sandbox{ID: fmt.Sprintf("asb_%d", len(w.requests)), TeamID: teamID, UserID: a.User.ID, Key: r.Key, CreatedAt: at, EndsAt: at + r.Idle.Milliseconds(), EndsBy: at + r.Life.Milliseconds()}
	w.requests = append(w.requests, r)
	w.open = append(w.open, sb)
	w.mu.Unlock()
	if w.making != nil {
		return sb, true, w.making(ctx)
	}
	return sb, true, nil
}

func (w *world) Open(context.Context) ([]sandboxes.Sandbox, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.blind {
		return nil, nil
	}
	return append([]sandboxes.Sandbox(nil), w.open...), nil
}

func (w *world) Get(_ context.Context, id string) (sandboxes.Sandbox, error) {
	for _, sb := range w.open {
		if sb.ID == id && sb.EndedAt == 0 {
			return sb, nil
		}
	}
	return sandboxes.Sandbox{}, fault.New(fault.NotFound, "sandbox_not_found", "none")
}

func (w *world) Use(ctx context.Context, id string) (sandboxes.Sandbox, error) { return w.Get(ctx, id) }

func (w *world) End(_ context.Context, id string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i, sb := range w.open {
		if sb.ID != id {
			continue
		}
		if w.keepEnds {
			w.open[i].EndedAt = w.now.UnixMilli()
			return errors.New("the place does not answer")
		}
		w.open = append(w.open[:i:i], w.open[i+1:]...)
	}
	return nil
}

func (w *world) Stream(ctx context.Context, r code.Request, fn func(code.Event) error) (code.Run, error) {
	if w.code == nil {
		return code.Run{ID: "code_1", State: code.OK}, nil
	}
	return w.code(ctx, r, fn)
}

func (w *world) start(t *testing.T, address string) (sandboxes.Sandbox, string) {
	t.Helper()
	sb, token, err := w.Start(t.Context(), "", address)
	if err != nil {
		t.Fatalf("from %s: %v", address, err)
	}
	return sb, token
}

func (w *world) refused(t *testing.T, address, code string) {
	t.Helper()
	_, _, err := w.Start(t.Context(), "", address)
	wants(t, err, code)
}

// wants checks a refusal and that it says how long to wait.
func wants(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Fatalf("%v, want %s", err, code)
	}
	f := err.(*fault.Error)
	if ms, _ := f.Details["retry_after_ms"].(int64); ms < 1000 {
		t.Errorf("%s does not say how long to wait: %v", code, f.Details)
	}
}

func TestTheTokenAloneOpensASandbox(t *testing.T) {
	w := newWorld()
	mine, token := w.start(t, "192.0.2.1")
	other, others := w.start(t, "192.0.2.2")
	for _, try := range []struct{ token, id string }{{others, mine.ID}, {token, other.ID}, {"", mine.ID}, {mine.Key, mine.ID}, {strings.ToLower(token), mine.ID}, {token, "asb_none"}} {
		if _, err := w.Run(t.Context(), try.token, try.id, code.Python, "1", nil); fault.CodeOf(err) != "demo_sandbox_ended" {
			t.Errorf("%q runs code in %s: %v", try.token, try.id, err)
		}
		if err := w.Service.End(t.Context(), try.token, try.id); fault.CodeOf(err) != "demo_sandbox_ended" {
			t.Errorf("%q ends %s: %v", try.token, try.id, err)
		}
	}
	if len(w.open) != 2 {
		t.Errorf("%d sandboxes are left", len(w.open))
	}
}

func TestAVisitorIsConfined(t *testing.T) {
	w := newWorld()
	sb, token := w.start(t, "192.0.2.1")
	if len(w.confined) != 1 || w.confined[0].Mode != executors.NetworkNone || w.team.ID != accounts.DemoTeamID || sb.TeamID != accounts.DemoTeamID {
		t.Errorf("network %v, team %v of %v", w.confined, w.team, sb)
	}
	if r := w.requests[0]; r.Purpose != executors.ForExecution || r.Executor != "docker" || r.Life != limits.Life || r.Network == nil || r.Network.Mode != executors.NetworkNone || strings.Contains(r.Key, "192.0.2.1") || strings.Contains(r.Key, token) {
		t.Errorf("asked for %+v", r)
	}
	if again, same, err := w.Start(t.Context(), token, "198.51.100.9"); err != nil || again.ID != sb.ID || same != token {
		t.Errorf("the token finds %v %v", again.ID, err)
	}
	able := w.place
	for _, c := range []executors.Capabilities{{}, {Available: true, Isolated: true, Limits: true}, {Available: true, Network: true, Limits: true}, {Available: true, Isolated: true, Network: true}, {Isolated: true, Network: true, Limits: true}} {
		w.place = c
		w.refused(t, "192.0.2.3", "demo_unavailable")
	}
	w.place = able
	w.start(t, "192.0.2.3") // what the server could not do counted for nobody
}

func TestLimitsOfStarts(t *testing.T) {
	w := newWorld()
	_, first := w.start(t, "2001:db8:1:2::1")
	w.start(t, "2001:db8:1:2:ffff::2")
	w.refused(t, "2001:db8:1:2::3", "demo_address_sandboxes")
	w.Service = w.another() // kept over a kill -9
	w.refused(t, "2001:db8:1:2::3", "demo_address_sandboxes")
	w.start(t, "2001:db8:1:3::1")
	w.refused(t, "192.0.2.1", "demo_full")
	if sb, ok, _ := w.Find(t.Context(), first); !ok || w.Service.End(t.Context(), first, sb.ID) != nil {
		t.Fatal("the visitor's own was not ended")
	}
	for range limits.StartsPerHour {
		sb, token := w.start(t, "::ffff:192.0.2.1")
		if err := w.Service.End(t.Context(), token, sb.ID); err != nil {
			t.Fatal(err)
		}
	}
	w.refused(t, "192.0.2.1", "demo_starts_limit")
	w.now = w.now.Add(time.Hour / time.Duration(limits.StartsPerHour))
	w.start(t, "192.0.2.1")
}

// Who asks without end while the demo cannot be used does not fill the log.
func TestTheLogOfADemoThatCannotBeUsed(t *testing.T) {
	w := newWorld()
	w.place.Available = false
	for range 10 {
		w.refused(t, "192.0.2.1", "demo_unavailable")
	}
	if n := strings.Count(w.log.String(), "\n"); n != 1 {
		t.Errorf("%d lines: %s", n, w.log.String())
	}
}

// What has ended counts until its place has removed it, and opens nothing.
func TestASandboxThatCannotBeRemovedIsStillOne(t *testing.T) {
	w := newWorld()
	w.keepEnds = true
	for i := range limits.AtOnce {
		sb, token := w.start(t, fmt.Sprintf("192.0.2.%d", i))
		_ = w.Service.End(t.Context(), token, sb.ID)
		if _, ok, err := w.Find(t.Context(), token); ok || err != nil {
			t.Errorf("the token of a sandbox that has ended finds it: %v", err)
		}
	}
	w.refused(t, "192.0.2.9", "demo_full")
}

// A token whose sandbox's time is over starts another one, though nobody has ended that yet.
func TestASandboxPastItsTimeIsNotGivenOut(t *testing.T) {
	w := newWorld()
	sb, token := w.start(t, "192.0.2.1")
	w.now = w.now.Add(limits.Life)
	if again, other, err := w.Start(t.Context(), token, "192.0.2.1"); err != nil || again.ID == sb.ID || other == token {
		t.Errorf("%+v, %v", again, err)
	}
}

// Who has addresses without end cannot keep the server busy with starts and ends.
func TestStartsOfManyAddresses(t *testing.T) {
	w := newWorld()
	n := 0
	for ; n < 100; n++ {
		sb, token, err := w.Start(t.Context(), "", fmt.Sprintf("2001:db8:0:%d::1", n))
		if err != nil {
			wants(t, err, "demo_full")
			break
		}
		if err := w.Service.End(t.Context(), token, sb.ID); err != nil {
			t.Fatal(err)
		}
	}
	if n != 2*limits.AtOnce {
		t.Errorf("%d starts at once", n)
	}
	w.now = w.now.Add(time.Minute)
	w.start(t, "2001:db8:0:ffff::1")
}

// Two servers that count at the same time have the rows decide.
func TestTwoServersHaveOneLimit(t *testing.T) {
	w := newWorld()
	w.blind = true
	for i := range limits.AtOnce {
		w.start(t, fmt.Sprintf("192.0.2.%d", i))
	}
	w.Service = w.another()
	w.refused(t, "192.0.2.9", "demo_full")
}

func TestAnOperatorStopsTheDemo(t *testing.T) {
	w := newWorld()
	sb, token := w.start(t, "192.0.2.1")
	w.team.SuspendedAt = 1
	w.refused(t, "192.0.2.2", "demo_unavailable")
	_, err := w.Run(t.Context(), token, sb.ID, code.Python, "1", nil)
	wants(t, err, "demo_unavailable")
}

// Requests at once do not get past a limit between the count and the row.
func TestStartsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.making = func(context.Context) error { time.Sleep(time.Second); return nil }
		var all sync.WaitGroup
		for i := range 20 {
			all.Go(func() { _, _, _ = w.Start(t.Context(), "", fmt.Sprintf("192.0.2.%d", i)) })
		}
		all.Wait()
		if len(w.open) > limits.AtOnce {
			t.Errorf("%d sandboxes, at most %d", len(w.open), limits.AtOnce)
		}
	})
}

// Who leaves while their sandbox is made takes nobody's place.
func TestAVisitorWhoLeftHoldsNothing(t *testing.T) {
	w := newWorld()
	ctx, leave := context.WithCancel(t.Context())
	w.making = func(ctx context.Context) error { leave(); return context.Cause(ctx) }
	if _, _, err := w.Start(ctx, "", "192.0.2.1"); err == nil || len(w.open) != 0 {
		t.Errorf("%v, %d sandboxes are left", err, len(w.open))
	}
}

func TestLimitsOfRuns(t *testing.T) {
	w := newWorld()
	sb, token := w.start(t, "192.0.2.1")
	run := func(text string) (code.Run, error) { return w.Run(t.Context(), token, sb.ID, code.Python, text, nil) }
	w.code = func(_ context.Context, r code.Request, fn func(code.Event) error) (code.Run, error) {
		if r.TimeoutMs != limits.RunTime.Milliseconds() || r.TeamID != accounts.DemoTeamID {
			t.Errorf("ran %+v", r)
		}
		_, err := run("at the same time")
		wants(t, err, "demo_run_active")
		for range 100 {
			if err := fn(code.Event{Output: &code.Output{Type: "stdout", Text: strings.Repeat("x", 100)}}); err != nil {
				return code.Run{ID: "code_1", State: code.Interrupted}, err
			}
		}
		t.Error("it printed without end")
		return code.Run{}, nil
	}
	if r, err := run("print"); err != nil || r.State != code.Interrupted || !r.Truncated || r.Cause == "" {
		t.Errorf("too much output: %+v %v", r, err)
	}
	w.code = nil
	if _, err := run("1"); err != nil {
		t.Fatal(err)
	}
	_, err := run("1")
	wants(t, err, "demo_runs_limit")
	w.now = w.now.Add(time.Minute)
	if _, err := run(strings.Repeat("x", 1<<20)); fault.CodeOf(err) != "demo_code_too_long" {
		t.Errorf("code without end: %v", err)
	}
	w.now = w.now.Add(limits.Life)
	if _, err := run("1"); fault.CodeOf(err) != "demo_sandbox_ended" {
		t.Errorf("after its time: %v", err)
	}
}

// A run ends with its sandbox's time, whatever it does.
func TestARunEndsWithItsSandbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		sb, token := w.start(t, "192.0.2.1")
		w.now = w.now.Add(limits.Life - time.Second)
		w.code = func(ctx context.Context, _ code.Request, _ func(code.Event) error) (code.Run, error) {
			<-ctx.Done()
			return code.Run{}, context.Cause(ctx)
		}
		began := time.Now()
		if _, err := w.Run(t.Context(), token, sb.ID, code.Shell, "sleep 1000", nil); err == nil || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
