package executortest

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/id"
)

// beat is how often the ledger hears which sandboxes run.
const beat = time.Minute

// hour has a server end one sandbox of two while the service is down, and be killed then. The server that starts an hour later ends it, and leaves
// the other alone. The ledger is right to one heartbeat.
func hour(t *testing.T, f *faulty) {
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	l := &clockLedger{now: now, runs: make(map[string]*ledgerRun)}
	store, dir, root := &MemStore{}, t.TempDir(), f.Root(t)
	server := func() (*Managed, executors.Executor) {
		ex := f.Executor(t, dir, now)
		return NewManager(ManagerConfig{Executors: []executors.Executor{ex}, Store: store, Workspaces: oneRoot{ex.Kind(), root}, Events: noEvents{}, Ledger: l, Now: now,
			DialTimeout: 10 * time.Second}), ex
	}
	beats := func(m *Managed) {
		m.CheckHealth(f.ctx)
		m.Metering.Beat(f.ctx, beat, func() map[string]bool { return nil })
	}
	m, ex := server()
	t.Cleanup(func() { f.endAll(ex) })
	if err := m.Recover(f.ctx); err != nil {
		t.Fatal(err)
	}
	stays, goes := id.New("ws"), id.New("ws")
	var handles []executors.Handle
	for _, ws := range []string{stays, goes} {
		if _, err := m.Ensure(f.ctx, ws); err != nil {
			t.Fatalf("Ensure: %v", err)
		}
		r, err := store.LastSandbox(f.ctx, ws)
		if err != nil {
			t.Fatal(err)
		}
		handles = append(handles, r.Handle)
	}
	sb, err := ex.Recover(f.ctx, handles[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.box(sb).write("kept", "kept\n", client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	both := len(f.Left())
	beats(m)
	f.Down()
	if err := m.Destroy(f.ctx, goes); err == nil {
		t.Error("a sandbox was ended although its service is down")
	}
	f.Heal()

	ahead.Add(int64(time.Hour))
	next, ex2 := server() // the other one was killed
	ex = ex2
	if err := next.Recover(f.ctx); err != nil {
		t.Fatalf("Recover: %v", err)
	}
	beats(next)
	next.Reap(f.ctx)
	eventually(t, "one sandbox is left", func() bool { return 2*len(f.Left()) == both })
	f.kept(ex, handles[0])
	if r := l.run(handles[1].ID); r == nil || r.ended.IsZero() || now().Sub(r.ended).Abs() > beat {
		t.Errorf("the ledger has the sandbox that was ended as %+v, at %s", r, now())
	}
	if r := l.run(handles[0].ID); r == nil || !r.ended.IsZero() || now().Sub(r.seen) > beat {
		t.Errorf("the ledger has the sandbox that runs as %+v, at %s", r, now())
	}
	if err := next.Destroy(f.ctx, stays); err != nil {
		t.Errorf("Destroy: %v", err)
	}
	if r := l.run(handles[0].ID); r == nil || r.ended.IsZero() || now().Sub(r.ended).Abs() > beat {
		t.Errorf("the ledger has the sandbox that was ended last as %+v, at %s", r, now())
	}
}

// oneRoot is the same place for every workspace.
type oneRoot struct {
	kind executors.Kind
	root string
}

// Spec is of the one folder.
func (o oneRoot) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: "team_1", WorkspaceID: workspaceID, UserID: "usr_1", Root: o.root}, o.kind, nil
}

type noEvents struct{}

// Publish tells nobody.
func (noEvents) Publish(context.Context, events.Event) {}

// clockLedger keeps when sandboxes ran, by the rules of the real ledger.
type clockLedger struct {
	now  func() time.Time
	mu   sync.Mutex
	runs map[string]*ledgerRun // the latest of each sandbox
}

type ledgerRun struct{ seen, ended time.Time }

func (l *clockLedger) run(sandboxID string) *ledgerRun {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runs[sandboxID]
}

// Afford takes everything.
func (*clockLedger) Afford(context.Context, executors.UsageInterval) error { return nil }

// Release has nothing to give back.
func (*clockLedger) Release(context.Context, string) error { return nil }

// Began opens an interval.
func (l *clockLedger) Began(_ context.Context, s executors.UsageInterval) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.runs[s.SandboxID]; r == nil || !r.ended.IsZero() {
		l.runs[s.SandboxID] = &ledgerRun{seen: l.now()}
	} else {
		r.seen = l.now()
	}
	return nil
}

// Beat says who runs.
func (l *clockLedger) Beat(_ context.Context, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range ids {
		if r := l.runs[id]; r != nil && r.ended.IsZero() {
			r.seen = l.now()
		}
	}
	return nil
}

// Stopped closes an interval.
func (l *clockLedger) Stopped(_ context.Context, s executors.UsageInterval, at int64, by executors.StopSource) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.runs[s.SandboxID]
	if r == nil || !r.ended.IsZero() {
		return nil
	}
	switch {
	case by == executors.ByHeartbeat:
		r.ended = r.seen
	case at > 0:
		r.ended = time.UnixMilli(at)
	default:
		r.ended = l.now()
	}
	if r.ended.Before(r.seen) {
		r.ended = r.seen
	}
	return nil
}

// Settle ends what nobody names.
func (l *clockLedger) Settle(_ context.Context, ids []string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := make(map[string]bool, len(ids))
	for _, id := range ids {
		known[id] = true
	}
	for id, r := range l.runs {
		if !known[id] && r.ended.IsZero() {
			r.ended = r.seen
		}
	}
	return nil
}
