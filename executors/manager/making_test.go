package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
)

// cloudHarness is a Manager over a place on another machine, with a clock the test sets.
type cloudHarness struct {
	*harness
	cloud *fake.Cloud
	clock *clock
	notes []executors.Note
	mu    sync.Mutex
	waits []time.Duration
	conf  func(*executortest.ManagerConfig)
}

func newCloudHarness(t *testing.T, conf func(*executortest.ManagerConfig)) *cloudHarness {
	h := &cloudHarness{harness: newHarness(t), clock: &clock{at: time.Now()}, conf: conf}
	h.world.Now = h.clock.Now
	h.start(fake.Knobs{})
	return h
}

// start makes the Manager of a new server over what is stored.
func (h *cloudHarness) start(k fake.Knobs) {
	h.cloud = fake.NewCloud(h.world)
	h.cloud.Set(k)
	mc := executortest.ManagerConfig{Executors: []executors.Executor{h.cloud}, Store: h.store, Workspaces: specs{team: h.team, root: h.root},
		Events: h.bus, DialTimeout: 10 * time.Second, Now: h.clock.Now, After: func(d time.Duration) <-chan time.Time {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.waits = append(h.waits, d)
			at := make(chan time.Time, 1)
			at <- h.clock.Now()
			return at
		}}
	if h.conf != nil {
		h.conf(&mc)
	}
	h.m = executortest.NewManager(mc)
	h.m.Attach(executors.Participant{Arriving: func(ctx context.Context, a executors.Arrival) error { return nil }})
}

func (h *cloudHarness) info() manager.SandboxInfo {
	h.t.Helper()
	i, err := h.m.Sandbox(h.ctx, h.ws)
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

func stepLine(steps []executors.Step) string {
	var out []string
	for _, s := range steps {
		out = append(out, s.Name+":"+string(s.State))
	}
	return strings.Join(out, " ")
}

func TestAMakingIsReportedStepByStep(t *testing.T) {
	h := newCloudHarness(t, nil)
	var during []string
	h.m.Attach(executors.Participant{Arriving: func(ctx context.Context, a executors.Arrival) error {
		during = append(during, stepLine(h.info().Steps))
		a.Say(executors.StepSend, "", 10, 100)
		before := h.bus.count()
		for done := int64(11); done < 100; done++ {
			a.Say(executors.StepSend, "Send 3 commits", done, 100)
		}
		if n := h.bus.count() - before; n != 0 {
			t.Errorf("%d events in no time", n)
		}
		h.clock.pass(300 * time.Millisecond)
		a.Say(executors.StepSend, "Send 3 commits", 99, 100)
		if n := h.bus.count() - before; n != 1 {
			t.Errorf("%d events after 300 ms", n)
		}
		s := h.info().Steps[2]
		if s.Title != "Send 3 commits" || s.Done != 99 || s.All != 100 || s.StartedAt == 0 {
			t.Errorf("while it is sent: %+v", s)
		}
		a.Say("own", "Something of its own", 0, 0)
		during = append(during, stepLine(h.last().Steps))
		return nil
	}})
	p, err := h.m.EnsureFor(h.ctx, h.ws, executors.ForExecution, "usr_1")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"create:done guest:running send:pending checkout:pending", "create:done guest:done send:done own:running checkout:pending"}
	if !slices.Equal(during, want) {
		t.Errorf("on the way: %q", during)
	}
	r := h.last()
	if got := stepLine(r.Steps); got != "create:done guest:done send:done own:done" || r.State != executors.Running {
		t.Errorf("in the end: %s, %s", got, r.State)
	}
	if r.UserID != "usr_1" || r.Purpose != executors.ForExecution || h.cloud.Specs()[0].UserID != "usr_1" {
		t.Errorf("asked for by %q for %q", r.UserID, r.Purpose)
	}
	// The strongest use counts.
	for _, use := range []executors.Purpose{executors.ForAgent, executors.ForApp} {
		if again, err := h.m.EnsureFor(h.ctx, h.ws, use, "usr_2"); err != nil || again != p {
			t.Fatalf("%v, %v", again, err)
		}
	}
	if r := h.last(); r.Purpose != executors.ForAgent || r.UserID != "usr_1" {
		t.Errorf("used by another for more: %+v", r)
	}
}

func TestAMakingIsCancelled(t *testing.T) {
	t.Run("while it is created", func(t *testing.T) {
		h := newCloudHarness(t, nil)
		under := make(chan struct{})
		h.cloud.Set(fake.Knobs{Creating: func(ctx context.Context) { close(under); <-ctx.Done() }})
		cancelIt(t, h, under)
		if n := h.cloud.Creates(); n != 1 {
			t.Errorf("created %d times", n)
		}
	})
	t.Run("while the workspace is sent", func(t *testing.T) {
		h := newCloudHarness(t, nil)
		under := make(chan struct{})
		h.m.Attach(executors.Participant{Arriving: func(ctx context.Context, a executors.Arrival) error {
			a.Say(executors.StepSend, "", 1, 2)
			close(under)
			<-ctx.Done()
			return context.Cause(ctx)
		}})
		cancelIt(t, h, under)
	})
}

func cancelIt(t *testing.T, h *cloudHarness, under chan struct{}) {
	t.Helper()
	got := make(chan error, 1)
	go func() {
		_, err := h.m.Ensure(h.ctx, h.ws)
		got <- err
	}()
	<-under
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	if err := <-got; fault.CodeOf(err) != "sandbox_cancelled" {
		t.Errorf("the waiting caller got %v", err)
	}
	r := h.last()
	if r.State != executors.Gone || r.Reason != "Its making was cancelled." || r.EndedAt == 0 {
		t.Errorf("stored %+v", r)
	}
	if line := stepLine(r.Steps); !strings.Contains(line, "cancelled") || strings.Contains(line, "running") || strings.Contains(line, "pending") {
		t.Errorf("steps %s", line)
	}
	if all, err := h.cloud.List(h.ctx); err != nil || len(all) != 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
	h.cloud.Set(fake.Knobs{})
}

func TestACreateIsTriedThreeTimes(t *testing.T) {
	h := newCloudHarness(t, nil)
	capacity := fault.New(fault.Unavailable, "place_cannot_serve", "It has no room now.").With("reason", "capacity")
	h.cloud.Set(fake.Knobs{CreateErrs: []error{capacity, errors.New("cut")}})
	h.ensure()
	if h.cloud.Creates() != 3 || !slices.Equal(h.waits, []time.Duration{time.Second, 2 * time.Second}) {
		t.Errorf("%d creates, waits %v", h.cloud.Creates(), h.waits)
	}
	ids := h.cloud.Specs()
	if ids[0].ID != ids[1].ID || ids[1].ID != ids[2].ID {
		t.Error("each try asked for another sandbox")
	}
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	h.cloud.Set(fake.Knobs{CreateErr: capacity})
	if _, err := h.m.Ensure(h.ctx, h.ws); !errors.Is(err, capacity) {
		t.Errorf("in vain: %v", err)
	}
	if h.cloud.Creates() != 6 {
		t.Errorf("%d creates in vain", h.cloud.Creates()-3)
	}
	r := h.last()
	if r.State != executors.Failed || r.Reason != "It could not be made: It has no room now." || r.Steps[0].State != executors.StepFailed || r.Steps[0].Detail != "It has no room now." {
		t.Errorf("stored %+v", r)
	}
	h.cloud.Set(fake.Knobs{CreateErr: fault.New(fault.Unavailable, "place_cannot_serve", "No key.").With("reason", "no_key")})
	if _, err := h.m.Ensure(h.ctx, h.ws); err == nil || h.cloud.Creates() != 7 {
		t.Errorf("a refusal: %v after %d creates", err, h.cloud.Creates()-6)
	}
}

func TestTheSmallestSizeThatDoesIsTaken(t *testing.T) {
	h := newCloudHarness(t, nil)
	sizes := []executors.Size{
		{CPUs: 1, MemoryMB: 1024, PriceNano: 66_600_000, Available: true},
		{CPUs: 2, MemoryMB: 2048, PriceNano: 133_200_000, Available: true, Default: true},
		{CPUs: 4, MemoryMB: 4096, PriceNano: 266_400_000, Available: true},
		{CPUs: 8, MemoryMB: 8192, PriceNano: 532_800_000, Reason: "its template is not built", Cure: "Build it."},
	}
	h.cloud.Set(fake.Knobs{Sizes: sizes})
	asked := executors.Limits{}
	h.m.Attach(executors.Participant{Making: func(_ context.Context, _ executors.Capabilities, s *executors.Spec) error {
		s.Limits = asked
		return nil
	}})
	for _, c := range []struct {
		asks executors.Limits
		cpus int
		code string
	}{
		{executors.Limits{}, 2, ""},
		{executors.Limits{CPUs: 0.5}, 1, ""},
		{executors.Limits{CPUs: 1, MemoryMB: 3000}, 4, ""},
		{executors.Limits{CPUs: 8}, 0, "size_unavailable"},
		{executors.Limits{CPUs: 16}, 0, "size_unknown"},
	} {
		asked = c.asks
		_, err := h.m.Ensure(h.ctx, h.ws)
		if fault.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c.asks, err)
			continue
		}
		if err == nil {
			if r := h.last(); r.CPUs != c.cpus || r.PriceNano != sizes[map[int]int{1: 0, 2: 1, 4: 2}[c.cpus]].PriceNano {
				t.Errorf("%+v: %+v", c.asks, r)
			}
		}
		if err := h.m.Destroy(h.ctx, h.ws); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.m.CheckSize(h.ctx, h.team, h.cloud.Kind(), executors.Limits{CPUs: 3, MemoryMB: 3072}); fault.CodeOf(err) != "size_unknown" ||
		!strings.Contains(err.Error(), "1 core, 1 GiB; 2 cores, 2 GiB") {
		t.Errorf("a size there is not: %v", err)
	}
	if err := h.m.CheckSize(h.ctx, h.team, h.cloud.Kind(), executors.Limits{CPUs: 8, MemoryMB: 8192}); fault.CodeOf(err) != "size_unavailable" {
		t.Errorf("a size without a template: %v", err)
	}
	if err := h.m.CheckSize(h.ctx, h.team, h.cloud.Kind(), executors.Limits{CPUs: 2, MemoryMB: 2048}); err != nil {
		t.Error(err)
	}
}

func TestWhatWasBeingMadeWhenTheServerDiedIsNotTakenForWhole(t *testing.T) {
	h := newCloudHarness(t, nil)
	var died bool
	h.m.Attach(executors.Participant{Arriving: func(ctx context.Context, a executors.Arrival) error {
		a.Say(executors.StepSend, "", 1, 2)
		died = true
		h.start(fake.Knobs{}) // another server, while this one is in the middle
		if err := h.m.Recover(h.ctx); err != nil {
			t.Error(err)
		}
		return errors.New("the old server is no more")
	}})
	if _, err := h.m.Ensure(h.ctx, h.ws); err == nil || !died {
		t.Fatalf("made: %v", err)
	}
	if _, ok := h.m.Live(h.ws); ok {
		t.Error("a sandbox without its worktree is live")
	}
	if r := h.last(); r.State != executors.Gone || r.Reason != "The server stopped while it was being made." || stepLine(r.Steps) != "create:done guest:done send:failed checkout:cancelled" {
		t.Errorf("stored %+v", r)
	}
	if all, _ := h.cloud.List(h.ctx); len(all) != 0 {
		t.Errorf("left behind: %v", all)
	}
}
