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
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// harness is a Manager over the real store and a fake world.
type harness struct {
	t     *testing.T
	ctx   context.Context
	db    *store.DB
	store *store.Executors
	world *fake.World
	ex    *fake.Executor
	team  string
	ws    string
	root  string
	bus   *recorder
	m     *executortest.Managed
}

// recorder keeps the events published.
type recorder struct {
	mu  sync.Mutex
	all []events.Event
}

func (r *recorder) Publish(_ context.Context, e events.Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, e)
}

func (r *recorder) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.all)
}

// specs answers the same place for every workspace.
type specs struct {
	team, root string
	kind       executors.Kind
	user       string // whose the workspace is
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s specs) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: s.team, WorkspaceID: workspaceID, UserID: s.user, Root: s.root}, s.kind, nil
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	h := &harness{t: t, ctx: ctx, db: db, store: store.NewExecutors(db), world: fake.NewWorld(t.TempDir(), nil), team: team.ID,
		ws: id.New("ws"), root: executortest.GitRoot(t), bus: &recorder{}}
	t.Cleanup(h.world.Close)
	project := id.New("prj")
	if _, err := db.Exec(ctx, `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
		VALUES (?, ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`, project, team.ID, user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by,
		created_at, updated_at) VALUES (?, ?, ?, 1, 'w', 'b', 'main', 'fake', 'ready', ?, 1, 1)`, h.ws, team.ID, project, user.ID); err != nil {
		t.Fatal(err)
	}
	h.restart()
	return h
}

// restart makes the Manager of a new server over what is stored.
func (h *harness) restart() {
	h.ex = fake.New(h.world)
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store,
		Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, DialTimeout: 5 * time.Second, After: soon})
}

// soon is a clock for which the waits between two tries are over at once.
func soon(d time.Duration) <-chan time.Time {
	if d > 2*time.Second {
		return time.After(d)
	}
	at := make(chan time.Time, 1)
	at <- time.Now()
	return at
}

func (h *harness) ensure() *executors.Place {
	h.t.Helper()
	p, err := h.m.Ensure(h.ctx, h.ws)
	if err != nil {
		h.t.Fatalf("Ensure: %v", err)
	}
	return p
}

func (h *harness) last() executors.Record {
	h.t.Helper()
	r, err := h.store.LastSandbox(h.ctx, h.ws)
	if err != nil {
		h.t.Fatalf("LastSandbox: %v", err)
	}
	return r
}

func (h *harness) ended(p *executors.Place) {
	h.t.Helper()
	select {
	case <-p.Done():
	case <-h.ctx.Done():
		h.t.Fatal("the place did not end")
	}
}

func TestConcurrentEnsureJoins(t *testing.T) {
	h := newHarness(t)
	h.ex.Set(fake.Knobs{CreateDelay: 50 * time.Millisecond})
	var reported []*executors.Place
	h.m.Attach(executors.Participant{Live: func(p *executors.Place) { reported = append(reported, p) }})
	places := make([]*executors.Place, 20)
	var wg sync.WaitGroup
	for i := range places {
		wg.Go(func() {
			p, err := h.m.Ensure(h.ctx, h.ws)
			if err != nil {
				t.Errorf("Ensure: %v", err)
			}
			places[i] = p
		})
	}
	wg.Wait()
	for _, p := range places {
		if p != places[0] {
			t.Error("two places")
		}
	}
	if n := h.ex.Creates(); n != 1 {
		t.Errorf("%d sandboxes were made", n)
	}
	if len(reported) != 1 || reported[0] != places[0] {
		t.Errorf("notified of %d places", len(reported))
	}
	if p, ok := h.m.Live(h.ws); !ok || p != places[0] || p.Hello.SandboxID != p.SandboxID || p.TeamID != h.team {
		t.Errorf("Live: %+v, %v", p, ok)
	}
	r := h.last()
	if r.State != executors.Running || r.Handle.Version == 0 || r.HealthAt == 0 {
		t.Errorf("stored %+v", r)
	}
}

func TestACallerWhoLeavesDoesNotStopTheMaking(t *testing.T) {
	h := newHarness(t)
	h.ex.Set(fake.Knobs{CreateDelay: 200 * time.Millisecond})
	ctx, cancel := context.WithTimeout(h.ctx, 10*time.Millisecond)
	defer cancel()
	if _, err := h.m.Ensure(ctx, h.ws); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Ensure: %v", err)
	}
	h.ensure()
	if n := h.ex.Creates(); n != 1 {
		t.Errorf("%d sandboxes were made", n)
	}
}

// runRecorder looks into the store while a sandbox is made.
type runRecorder struct {
	executors.Executor
	seen func()
}

func (w runRecorder) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	w.seen()
	return w.Executor.Create(ctx, s)
}

func TestRowIsStoredBeforeTheSandboxIsMade(t *testing.T) {
	h := newHarness(t)
	var seen []executors.Record
	m := executortest.NewManager(executortest.ManagerConfig{Store: h.store, Workspaces: specs{team: h.team, root: h.root},
		Executors: []executors.Executor{runRecorder{h.ex, func() {
			seen, _ = h.store.OpenSandboxes(h.ctx)
		}}}})
	p, err := m.Ensure(h.ctx, h.ws)
	if err != nil {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].State != executors.Starting || seen[0].Handle.ID != p.SandboxID {
		t.Errorf("stored meanwhile: %+v", seen)
	}
}

func TestCreateThatFails(t *testing.T) {
	h := newHarness(t)
	h.ex.Set(fake.Knobs{CreateErr: errors.New("no room")})
	if _, err := h.m.Ensure(h.ctx, h.ws); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Ensure: %v", err)
	}
	if r := h.last(); r.State != executors.Failed || r.EndedAt == 0 || !strings.Contains(r.Reason, "no room") {
		t.Errorf("stored %+v", r)
	}
	h.ex.Set(fake.Knobs{})
	h.ensure()
}

func TestGuestThatLiesOrCannotBeDialedIsNotTaken(t *testing.T) {
	h := newHarness(t)
	for name, k := range map[string]fake.Knobs{"liar": {Liar: true}, "dial": {DialErr: errors.New("no line")}} {
		h.ex.Set(k)
		if _, err := h.m.Ensure(h.ctx, h.ws); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if r := h.last(); r.State != executors.Failed || r.EndedAt == 0 {
			t.Errorf("%s: stored %+v", name, r)
		}
		if list, err := h.ex.List(h.ctx); err != nil || len(list) != 0 {
			t.Errorf("%s: left behind: %+v, %v", name, list, err)
		}
	}
	h.ex.Set(fake.Knobs{})
	h.ensure()
}

func TestRecoverFindsAndCloses(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.restart()
	var reported int
	h.m.Attach(executors.Participant{Live: func(*executors.Place) { reported++ }})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	got, ok := h.m.Live(h.ws)
	if !ok || got.SandboxID != p.SandboxID || reported != 1 {
		t.Fatalf("Live after a restart: %+v, %v, told %d", got, ok, reported)
	}
	if again := h.ensure(); again != got {
		t.Error("Ensure made another place")
	}

	h.world.Vanish(p.SandboxID)
	h.restart()
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if r := h.last(); r.State != executors.Gone || r.EndedAt == 0 || r.Reason == "" {
		t.Errorf("stored %+v", r)
	}
	if again := h.ensure(); again.SandboxID == p.SandboxID {
		t.Error("the gone sandbox came back")
	}
}

func TestRecoverKeepsWhatCannotBeReached(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.restart()
	h.ex.Set(fake.Knobs{RecoverErr: errors.New("no line now")})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok := h.m.Live(h.ws); ok {
		t.Fatal("it is live")
	}
	if _, err := h.m.Ensure(h.ctx, h.ws); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Ensure: %v", err)
	}
	if r := h.last(); r.EndedAt != 0 || r.Handle.ID != p.SandboxID || !strings.Contains(r.Reason, "no line now") {
		t.Errorf("stored %+v", r)
	}
	h.ex.Set(fake.Knobs{})
	h.m.CheckHealth(h.ctx)
	if r := h.last(); r.Reason != "" {
		t.Errorf("stored %+v", r)
	}
	if got, ok := h.m.Live(h.ws); !ok || got.SandboxID != p.SandboxID {
		t.Errorf("the health check did not find it again: %+v, %v", got, ok)
	}
}

// unwritten is a store that reads and does not write.
type unwritten struct{ manager.Store }

func (unwritten) UpdateSandbox(context.Context, executors.Record) error {
	return fault.New(fault.DiskFull, "disk_full", "The disk of the database is full.")
}

// A disk that is full when the server starts takes no sandbox away.
func TestRecoverOnAFullDisk(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{fake.New(h.world)}, Store: unwritten{h.store},
		Workspaces: specs{team: h.team, root: h.root}, Events: h.bus, DialTimeout: 5 * time.Second})
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if got, ok := h.m.Live(h.ws); !ok || got.SandboxID != p.SandboxID {
		t.Errorf("Live on a full disk: %+v, %v", got, ok)
	}
}

func TestServerThatDiedWhileMaking(t *testing.T) {
	h := newHarness(t)
	made := executors.Record{Handle: executors.Handle{Kind: fake.Kind, ID: "sbx_made"}, TeamID: h.team, WorkspaceID: h.ws,
		State: executors.Starting, StartedAt: 1}
	if err := h.store.InsertSandbox(h.ctx, made); err != nil {
		t.Fatal(err)
	}
	if _, err := h.ex.Create(h.ctx, executors.Spec{ID: "sbx_made", TeamID: h.team, WorkspaceID: h.ws, Root: h.root}); err != nil {
		t.Fatal(err)
	}
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if p, ok := h.m.Live(h.ws); !ok || p.SandboxID != "sbx_made" {
		t.Errorf("the sandbox whose handle was not stored is lost: %+v", p)
	}
	if r := h.last(); r.State != executors.Running || r.Handle.Version == 0 {
		t.Errorf("stored %+v", r)
	}
}

func TestEnsureFindsAnOpenRowItDidNotKnow(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.restart() // and no Recover
	if again := h.ensure(); again.SandboxID != p.SandboxID {
		t.Errorf("another sandbox: %s", again.SandboxID)
	}
}

func TestHealthCheckEndsWhatIsGone(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.m.CheckHealth(h.ctx)
	if _, ok := h.m.Live(h.ws); !ok {
		t.Fatal("a healthy place was ended")
	}
	before := h.bus.count()
	h.world.Vanish(p.SandboxID)
	if err := h.m.Check(h.ctx, h.ws); !errors.Is(err, executors.ErrGone) {
		t.Errorf("Check: %v", err)
	}
	h.ended(p)
	if p.Reason() == "" || h.bus.count() == before {
		t.Errorf("reason %q, %d events", p.Reason(), h.bus.count()-before)
	}
	if r := h.last(); r.State != executors.Gone || r.EndedAt == 0 {
		t.Errorf("stored %+v", r)
	}
	h.ensure()
}

// Who cannot dial the guest any more need not wait for the next health check.
func TestFailedDialIsLookedIntoAtOnce(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	go func() { done <- h.m.Run(ctx) }()
	h.world.Vanish(p.SandboxID)
	for range 2 { // the first question may be the one that notices the cut
		if _, err := p.Guest.Stats(h.ctx); err == nil {
			t.Error("a guest that is gone answers")
		}
	}
	h.ended(p)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestSilentSandboxIsNotEnded(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	p.Guest.Close()
	for range 3 {
		if err := h.m.Check(h.ctx, h.ws); err == nil || errors.Is(err, executors.ErrGone) {
			t.Errorf("Check: %v", err)
		}
	}
	if r := h.last(); r.EndedAt != 0 || r.Reason == "" {
		t.Errorf("stored %+v", r)
	}
}

func TestDestroyIsIdempotent(t *testing.T) {
	h := newHarness(t)
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatalf("Destroy without a sandbox: %v", err)
	}
	p := h.ensure()
	for range 2 {
		if err := h.m.Destroy(h.ctx, h.ws); err != nil {
			t.Fatalf("Destroy: %v", err)
		}
	}
	h.ended(p)
	if r := h.last(); r.State != executors.Gone || r.EndedAt == 0 {
		t.Errorf("stored %+v", r)
	}
	if list, err := h.ex.List(h.ctx); err != nil || len(list) != 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}
}

func TestDestroyThatFailsIsTriedAgain(t *testing.T) {
	h := newHarness(t)
	p := h.ensure()
	h.ex.Set(fake.Knobs{DestroyErr: errors.New("stuck")})
	if err := h.m.Destroy(h.ctx, h.ws); !fault.Is(err, fault.Unavailable) {
		t.Errorf("Destroy: %v", err)
	}
	h.ended(p)
	if r := h.last(); r.State != executors.Stopping || r.EndedAt != 0 {
		t.Errorf("stored %+v", r)
	}
	h.ex.Set(fake.Knobs{})
	h.m.CheckHealth(h.ctx)
	if r := h.last(); r.State != executors.Gone || r.EndedAt == 0 {
		t.Errorf("stored %+v", r)
	}
	if list, err := h.ex.List(h.ctx); err != nil || len(list) != 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}
	if p := h.ensure(); p.SandboxID == "" {
		t.Error("no new place")
	}
}

func TestDestroyAfterARestartWithoutRecover(t *testing.T) {
	h := newHarness(t)
	h.ensure()
	h.restart()
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	if r := h.last(); r.State != executors.Gone {
		t.Errorf("stored %+v", r)
	}
	if list, err := h.ex.List(h.ctx); err != nil || len(list) != 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}
}

// A sandbox without a row is somebody's: the database came back older. What ended by its row, was made ahead of time or only to try a place
// is nobody's.
func TestReaperEndsNothingTheDatabaseHasForgotten(t *testing.T) {
	h := newHarness(t)
	ended := h.ensure()
	if err := h.m.Destroy(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	p := h.ensure()
	for _, id := range []string{ended.SandboxID, "sbx_forgotten", "wrm_forgotten", "try_forgotten"} {
		if _, err := h.ex.Create(h.ctx, executors.Spec{ID: id, Root: h.root}); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		h.m.Reap(h.ctx)
	}
	list, err := h.ex.List(h.ctx)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, l := range list {
		ids = append(ids, l.ID)
	}
	slices.Sort(ids)
	want := []string{p.SandboxID, "sbx_forgotten"}
	slices.Sort(want)
	if !slices.Equal(ids, want) {
		t.Errorf("there are %v, want %v", ids, want)
	}
	strangers, err := manager.Strangers(h.ctx, h.ex, func(ctx context.Context, id string) (bool, error) {
		_, err := h.store.Sandbox(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		return true, err
	})
	if err != nil || len(strangers) != 1 || strangers[0].ID != "sbx_forgotten" {
		t.Errorf("listed are %v, %v", strangers, err)
	}
}

func TestHealthAndReaperFollowTheClock(t *testing.T) {
	h := newHarness(t)
	ticks := make(chan time.Time)
	waits := make(chan time.Duration, 16)
	m := executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store,
		Workspaces: specs{team: h.team, root: h.root}, After: func(d time.Duration) <-chan time.Time {
			waits <- d
			if d == 15*time.Second {
				return ticks
			}
			return nil
		}})
	p, err := m.Ensure(h.ctx, h.ws)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(h.ctx)
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	h.world.Vanish(p.SandboxID)
	ticks <- time.Time{}
	h.ended(p)
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestChoice(t *testing.T) {
	h := newHarness(t)
	strong, weak := fake.New(h.world), fake.New(h.world)
	strong.Set(fake.Knobs{Kind: "strong"})
	weak.Set(fake.Knobs{Kind: "weak"})
	newManager := func(kind executors.Kind) *executortest.Managed {
		return executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{weak, strong}, Store: h.store,
			Order: []executors.Kind{"not-built", "strong", "weak"}, Workspaces: specs{team: h.team, root: h.root, kind: kind}})
	}
	choose := func(kind executors.Kind) (executors.Kind, error) {
		m := newManager(kind)
		p, err := m.Ensure(h.ctx, h.ws)
		if err != nil {
			return "", err
		}
		defer func() {
			if err := m.Destroy(h.ctx, h.ws); err != nil {
				t.Error(err)
			}
		}()
		return p.Kind, nil
	}
	for _, test := range []struct{ ask, want executors.Kind }{{"", "strong"}, {executors.Auto, "strong"}, {"weak", "weak"}} {
		if got, err := choose(test.ask); err != nil || got != test.want {
			t.Errorf("asked for %q: %q, %v", test.ask, got, err)
		}
	}
	if _, err := choose("other"); fault.CodeOf(err) != "executor_unknown" {
		t.Errorf("an unknown kind: %v", err)
	}
	strong.Set(fake.Knobs{Kind: "strong", Unavailable: "the kernel forbids it"})
	if got, err := choose(""); err != nil || got != "weak" {
		t.Errorf("without the strongest: %q, %v", got, err)
	}
	if _, err := choose("strong"); !fault.Is(err, fault.Unavailable) || !strings.Contains(err.Error(), "the kernel forbids it") ||
		!strings.Contains(err.Error(), "Turn the knob.") {
		t.Errorf("a kind that is not available: %v", err)
	}
	weak.Set(fake.Knobs{Kind: "weak", Unavailable: "switched off"})
	if _, err := choose(""); fault.CodeOf(err) != "no_executor" || !strings.Contains(err.Error(), "switched off") {
		t.Errorf("without any: %v", err)
	}
	caps := newManager("").Capabilities(h.ctx)
	if len(caps) != 2 || caps[0].Kind != "strong" || caps[1].Kind != "weak" || caps[0].Available {
		t.Errorf("Capabilities: %+v", caps)
	}
}
