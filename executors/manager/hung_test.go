package manager_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
)

// hanging is a place whose sandboxes named "hung" do not answer: their search ends when told, or with its context.
type hanging struct {
	executors.Executor
	asked    atomic.Int32
	responds atomic.Bool
	freed    chan struct{}
	broken   atomic.Bool // all fail at once
}

func (e *hanging) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if e.broken.Load() {
		return nil, errors.New("no line now")
	}
	if len(h.ID) < 4 || h.ID[:4] != "hung" {
		return e.Executor.Recover(ctx, h)
	}
	e.asked.Add(1)
	if e.responds.Load() {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	<-e.freed
	return nil, errors.New("it did not answer")
}

const hungSandboxes = 40

// hangs gives the harness so many open sandboxes that hang, of workspaces looked at before its own.
func (h *harness) hangs(cfg func(*executortest.ManagerConfig)) *hanging {
	h.t.Helper()
	var project, user string
	must(h.t, h.db.QueryRow(h.ctx, `SELECT project_id, created_by FROM workspaces WHERE id = ?`, h.ws).Scan(&project, &user))
	for i := range hungSandboxes {
		ws := fmt.Sprintf("aa_%03d", i)
		_, err := h.db.Exec(h.ctx, `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by,
			created_at, updated_at) VALUES (?, ?, ?, ?, 'w', 'b', 'main', 'fake', 'ready', ?, 1, 1)`, ws, h.team, project, i+2, user)
		must(h.t, err)
		must(h.t, h.store.InsertSandbox(h.ctx, executors.Record{Handle: executors.Handle{ID: fmt.Sprintf("hung_%03d", i), Kind: fake.Kind, Version: 1},
			TeamID: h.team, WorkspaceID: ws, State: executors.Running, StartedAt: 1}))
	}
	ex := &hanging{Executor: fake.New(h.world), freed: make(chan struct{})}
	mc := executortest.ManagerConfig{Executors: []executors.Executor{ex}, Store: h.store, Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, After: soon}
	if cfg != nil {
		cfg(&mc)
	}
	h.m = executortest.NewManager(mc)
	return ex
}

// Sandboxes that hang keep nobody else's from being found again, however many they are.
func TestSandboxesThatHangHarmOnlyThemselves(t *testing.T) {
	h := newHarness(t)
	id := h.ensure().SandboxID
	ex := h.hangs(nil)
	ex.broken.Store(true)
	must(t, h.m.Recover(h.ctx))
	if h.m.UnreachableSandbox(h.ws) != id {
		t.Fatal("it was found, or given up")
	}
	ex.broken.Store(false)
	ctx, cancel := context.WithCancel(h.ctx)
	var wg sync.WaitGroup
	wg.Go(func() { _ = h.m.Run(ctx) })
	defer wg.Wait()
	defer cancel()
	defer close(ex.freed)
	waitFor(t, "the sandbox that answers is found while the others hang", func() bool {
		p, ok := h.m.Live(h.ws)
		return ok && p.SandboxID == id
	})
}

// The server's start does not wait for them: those that had no turn stay open and are looked for afterwards.
func TestRecoverDoesNotWaitForSandboxesThatHang(t *testing.T) {
	h := newHarness(t)
	ex := h.hangs(func(c *executortest.ManagerConfig) { c.DialTimeout = 50 * time.Millisecond })
	ex.responds.Store(true)
	must(t, h.m.Recover(h.ctx))
	if n := ex.asked.Load(); n >= hungSandboxes {
		t.Errorf("%d sandboxes were waited for one after the other", n)
	}
	for i := range hungSandboxes {
		if h.m.UnreachableSandbox(fmt.Sprintf("aa_%03d", i)) == "" {
			t.Errorf("sandbox %d was given up", i)
		}
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}
