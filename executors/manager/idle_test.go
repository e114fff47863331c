package manager_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/guest"
)

// clock is a clock a test sets.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func TestAnIdleSandboxIsEndedAndMadeAgain(t *testing.T) {
	h := newHarness(t)
	watch := &clock{at: time.Now()}
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store, Workspaces: specs{team: h.team, root: h.root},
		Events: h.bus, Now: watch.Now, IdleAfter: func(k executors.Kind, _ executors.Purpose) time.Duration {
			if k != fake.Kind {
				t.Errorf("asked for %q", k)
			}
			return 30 * time.Minute
		}})
	looking := true
	h.m.Attach(executors.Participant{Use: func(id string) executors.Use {
		if looking && id == h.ws {
			return executors.Use{Viewers: 1}
		}
		return executors.Use{}
	}})
	var home []string
	h.m.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) {
		again, err := h.m.Ensure(ctx, h.ws) // what git does through RunInSandbox
		if err != nil || again != p {
			t.Errorf("before the end: %v, %v", again, err)
		}
		select {
		case <-p.Ending():
			t.Error("its end has begun already")
		default:
		}
		home = append(home, p.SandboxID)
	}})
	p := h.ensure()
	sleep := guest.ProcessSpec{ID: "busy", Argv: []string{"sleep", "1000"}, Cwd: h.root}
	if _, err := p.Guest.Start(h.ctx, sleep); err != nil {
		t.Fatal(err)
	}
	lives := func(why string) {
		t.Helper()
		watch.pass(31 * time.Minute)
		h.m.CheckHealth(h.ctx)
		if got, ok := h.m.Live(h.ws); !ok || got != p {
			t.Fatalf("ended although %s", why)
		}
	}
	lives("a process runs and somebody looks")
	if _, err := p.Guest.Stop(h.ctx, "busy", 0); err != nil {
		t.Fatal(err)
	}
	lives("somebody looks")
	looking = false
	h.m.CheckHealth(h.ctx) // idle from now on
	watch.pass(29 * time.Minute)
	h.m.CheckHealth(h.ctx)
	if _, err := p.Run(h.ctx, executors.SandboxCommand{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	watch.pass(29 * time.Minute)
	h.m.CheckHealth(h.ctx)
	watch.pass(29 * time.Minute)
	h.m.CheckHealth(h.ctx)
	if _, ok := h.m.Live(h.ws); !ok {
		t.Fatal("ended although it was used in between")
	}
	watch.pass(2 * time.Minute)
	h.m.CheckHealth(h.ctx)
	h.ended(p)
	if r := h.last(); r.State != executors.Gone || r.Reason != "Stopped after 30 idle minutes; starts again when needed." {
		t.Errorf("stored %+v", r)
	}
	if len(home) != 1 || home[0] != p.SandboxID {
		t.Errorf("synced: %v", home)
	}
	if next := h.ensure(); next.SandboxID == p.SandboxID {
		t.Error("the ended one came back")
	}
}

func TestWhoAsksForAPlaceThatIsBeingEndedGetsTheNextOne(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	got := make(chan *executors.Place, 1)
	h.m.Attach(executors.Participant{Ending: func(context.Context, *executors.Place) {
		go func() {
			next, err := h.m.Ensure(h.ctx, h.ws)
			if err != nil {
				t.Error(err)
			}
			got <- next
		}()
		select {
		case <-got:
			t.Error("somebody was given a place that is about to end")
		case <-time.After(20 * time.Millisecond): // that nobody gets it cannot be waited for
		}
	}})
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	if next := <-got; next == nil || next.SandboxID == p.SandboxID {
		t.Errorf("got %+v", next)
	}
}
