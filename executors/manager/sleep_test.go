package manager_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// sleeper is a cloudHarness whose sandboxes sleep: after 30 idle minutes, 10 where they served commands only.
type sleeper struct {
	*cloudHarness
	use     executors.Use
	home    []string // what was synced, by the hook that did it
	pausing func(ctx context.Context, p *executors.Place)
	ledger  *ledger
}

func newSleeper(t *testing.T) *sleeper {
	s := &sleeper{ledger: newLedger()}
	s.cloudHarness = newCloudHarness(t, func(mc *executortest.ManagerConfig) {
		mc.IdleAfter = func(_ executors.Kind, p executors.Purpose) time.Duration {
			if p == executors.ForExecution {
				return 10 * time.Minute
			}
			return 30 * time.Minute
		}
		mc.Notify = func(_ context.Context, n executors.Note) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notes = append(s.notes, n)
		}
		mc.Ledger = s.ledger
	})
	s.restart(fake.Knobs{})
	return s
}

// restart makes another server over what there is; the old one is dead.
func (s *sleeper) restart(k fake.Knobs) {
	s.start(k)
	s.m.Attach(executors.Participant{Use: func(id string) executors.Use {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.use
	}})
	s.m.Attach(executors.Participant{Pausing: func(ctx context.Context, p *executors.Place) {
		if _, err := p.Guest.Stats(ctx); err != nil {
			s.t.Errorf("before it sleeps its guest does not answer: %v", err)
		}
		s.home = append(s.home, "pausing")
		if s.pausing != nil {
			s.pausing(ctx, p)
		}
	}})
	s.m.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) {
		if _, err := p.Guest.Stats(ctx); err != nil {
			s.t.Errorf("before it ends its guest does not answer: %v", err)
		}
		s.home = append(s.home, "ending")
	}})
}

func (s *sleeper) uses(u executors.Use) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.use = u
}

func (s *sleeper) reported() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, n := range s.notes {
		out = append(out, n.Kind)
	}
	return out
}

// fallAsleep lets the sandbox be idle for long.
func (s *sleeper) fallAsleep(p *executors.Place) {
	s.t.Helper()
	s.m.CheckHealth(s.ctx)
	s.clock.pass(31 * time.Minute)
	s.m.CheckHealth(s.ctx)
	if !p.Asleep() || !s.world.Still(p.SandboxID) {
		s.t.Fatalf("it does not sleep: %+v", s.last())
	}
}

func (s *sleeper) runs(p *executors.Place, want int) {
	s.t.Helper()
	if n := s.world.Runs(p.SandboxID); n != want {
		s.t.Errorf("%d runs, want %d", n, want)
	}
}

func TestAnIdleSandboxSleepsAndWakesWhenItIsNeeded(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	if _, err := p.Guest.Start(s.ctx, guest.ProcessSpec{ID: "agent", Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	s.fallAsleep(p)
	r := s.last()
	if r.State != executors.Paused || r.PausedFor != executors.ByIdle || r.Reason != "Asleep after 30 idle minutes. It wakes when you type." || r.HealthAt != s.clock.Now().UnixMilli() {
		t.Errorf("stored %+v", r)
	}
	if !slices.Equal(s.home, []string{"pausing"}) || !slices.Equal(s.reported(), []string{"sandbox.asleep"}) || s.ledger.by(p.SandboxID) != executors.ByServer {
		t.Errorf("home %v, told %v, ledger %q", s.home, s.reported(), s.ledger.by(p.SandboxID))
	}
	// To look at it is no reason to wake it.
	if i := s.info(); i.State != executors.Paused || i.PausedFor != executors.ByIdle || i.PausedAt == 0 || i.LeaseUntil != 0 {
		t.Errorf("shown as %+v", i)
	}
	if why, paused := s.m.Paused(s.ws); !paused || why != r.Reason || !s.m.WakesItself(s.ws) {
		t.Errorf("paused %v for %q", paused, why)
	}
	if _, ok := s.m.LiveAwake(s.ws); ok {
		t.Error("it is said to be awake")
	}
	if _, err := p.Guest.Stats(s.ctx); fault.CodeOf(err) != "workspace_paused" {
		t.Errorf("asked, its guest said %v", err)
	}
	s.clock.pass(8 * time.Hour)
	s.m.CheckHealth(s.ctx)
	s.runs(p, 1)
	awake := p.Awake()
	select {
	case <-awake:
		t.Error("awake in its sleep")
	default:
	}
	again, err := s.m.EnsureFor(s.ctx, s.ws, executors.ForAgent, "usr_1")
	if err != nil || again != p {
		t.Fatalf("woken: %v, %v", again, err)
	}
	select {
	case <-awake:
	default:
		t.Error("the waiting caller was not notified that it is awake")
	}
	if proc, err := p.Guest.Process(s.ctx, "agent"); err != nil || proc.State != guest.Running {
		t.Errorf("what ran in it: %+v, %v", proc, err)
	}
	s.runs(p, 2)
	if r := s.last(); r.State != executors.Running || r.Reason != "" || r.PausedFor != "" {
		t.Errorf("stored as woken: %+v", r)
	}
}

func TestASandboxThatIsUsedDoesNotSleep(t *testing.T) {
	s := newSleeper(t)
	p, err := s.m.EnsureFor(s.ctx, s.ws, executors.ForExecution, "usr_1")
	if err != nil {
		t.Fatal(err)
	}
	stays := func(why string, u executors.Use, d time.Duration) {
		t.Helper()
		s.uses(u)
		s.clock.pass(d)
		s.m.CheckHealth(s.ctx)
		if p.Asleep() {
			t.Fatalf("it sleeps although %s", why)
		}
	}
	stays("an agent works", executors.Use{Sessions: 1, Working: true}, time.Hour)
	stays("somebody looks", executors.Use{Sessions: 1, Viewers: 1}, time.Hour)
	stays("something was printed 9 minutes ago", executors.Use{Sessions: 1, LastAt: s.clock.Now().UnixMilli()}, 9*time.Minute)
	stays("a command came", executors.Use{}, 0)
	if _, err := p.Run(s.ctx, executors.SandboxCommand{Argv: []string{"true"}}); err != nil {
		t.Fatal(err)
	}
	stays("a command ended 9 minutes ago", executors.Use{}, 0)
	stays("a command ended 9 minutes ago", executors.Use{}, 9*time.Minute)
	if at := s.info().IdleAt; at != s.clock.Now().Add(time.Minute).UnixMilli() {
		t.Errorf("it says it sleeps in %d ms", at-s.clock.Now().UnixMilli())
	}
	s.clock.pass(time.Minute)
	s.m.CheckHealth(s.ctx)
	if !p.Asleep() {
		t.Error("it does not sleep after 10 minutes without a command")
	}
	if _, err := s.m.EnsureFor(s.ctx, s.ws, executors.ForAgent, "usr_1"); err != nil {
		t.Fatal(err)
	}
	s.m.CheckHealth(s.ctx)
	stays("it is an agent's by now", executors.Use{Sessions: 1}, 29*time.Minute)
}

func TestWhoComesAsASandboxFallsAsleepKeepsItAwake(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	s.pausing = func(context.Context, *executors.Place) { s.uses(executors.Use{LastAt: s.clock.Now().UnixMilli()}) }
	s.m.CheckHealth(s.ctx)
	s.clock.pass(31 * time.Minute)
	s.m.CheckHealth(s.ctx)
	if p.Asleep() || s.last().State != executors.Running {
		t.Errorf("it sleeps although somebody typed while files were synced: %+v", s.last())
	}
	s.runs(p, 1)
}

func TestASandboxThatAPersonPausedWaitsForAPerson(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	s.fallAsleep(p)
	since := s.last().HealthAt
	s.clock.pass(time.Minute)
	if err := s.m.Pause(s.ctx, s.ws, "It was paused by Ana."); err != nil {
		t.Fatal(err)
	}
	if r := s.last(); r.PausedFor != executors.ByPerson || r.Reason != "It was paused by Ana." || r.HealthAt != since {
		t.Errorf("stored %+v", r)
	}
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "workspace_paused" || !strings.Contains(err.Error(), "Ana") {
		t.Errorf("it was given: %v", err)
	}
	if s.m.WakesItself(s.ws) {
		t.Error("it is said to wake by itself")
	}
	s.restart(fake.Knobs{})
	if err := s.m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "workspace_paused" {
		t.Errorf("it was given after a restart: %v", err)
	}
	s.runs(p, 1)
	if err := s.m.Wake(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	s.ensure()
	s.runs(p, 2)
}

func TestASleepingSandboxIsNotWokenByARestart(t *testing.T) {
	s := newSleeper(t)
	old := s.ensure()
	if _, err := old.Guest.Start(s.ctx, guest.ProcessSpec{ID: "agent", Argv: []string{"sleep", "1000"}}); err != nil {
		t.Fatal(err)
	}
	s.fallAsleep(old)
	s.restart(fake.Knobs{})
	var live []*executors.Place
	s.m.Attach(executors.Participant{Live: func(p *executors.Place) { live = append(live, p) }})
	if err := s.m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	p, ok := s.m.Live(s.ws)
	if !ok || p.SandboxID != old.SandboxID || !p.Asleep() || !p.OwnDisk || len(live) != 1 || s.m.UnreachableSandbox(s.ws) != "" {
		t.Fatalf("after the restart: %+v", p)
	}
	s.m.CheckHealth(s.ctx)
	if i := s.info(); i.State != executors.Paused || i.PausedFor != executors.ByIdle {
		t.Errorf("shown as %+v", i)
	}
	s.runs(p, 1)
	if again := s.ensure(); again != p {
		t.Error("another place")
	}
	if proc, err := p.Guest.Process(s.ctx, "agent"); err != nil || proc.State != guest.Running {
		t.Errorf("what ran in it: %+v, %v", proc, err)
	}
	s.runs(p, 2)
	s.fallAsleep(p)
	s.restart(fake.Knobs{})
	if err := s.m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	// A sandbox that ends syncs its files, although nobody had woken it.
	s.home = nil
	if err := s.m.Destroy(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	if all, _ := s.cloud.List(s.ctx); len(all) != 0 || !slices.Equal(s.home, []string{"pausing", "ending"}) {
		t.Errorf("left behind %v, synced by %v", all, s.home)
	}
}

func TestASleepingSandboxIsNotWokenByTheSearchForIt(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	s.fallAsleep(p)
	s.restart(fake.Knobs{AsleepErr: errors.New("its place does not answer")})
	if err := s.m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	if s.m.UnreachableSandbox(s.ws) != p.SandboxID {
		t.Fatal("it is taken for known")
	}
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "sandbox_unreachable" {
		t.Errorf("it was given: %v", err)
	}
	s.cloud.Set(fake.Knobs{})
	s.m.CheckHealth(s.ctx)
	if again, ok := s.m.Live(s.ws); !ok || !again.Asleep() || !s.m.WakesItself(s.ws) {
		t.Errorf("found as %+v", s.last())
	}
	s.runs(p, 1)
	s.restart(fake.Knobs{AsleepErr: errors.New("its place does not answer")})
	if err := s.m.Recover(s.ctx); err != nil {
		t.Fatal(err)
	}
	s.cloud.Set(fake.Knobs{})
	s.ensure()
	s.runs(p, 2)
}

func TestWhatItsPlacePausedIsFoundOut(t *testing.T) {
	for _, c := range []struct {
		name    string
		working bool
		away    bool // it happened while the server was
	}{{"quiet", false, false}, {"at work", true, false}, {"quiet, away", false, true}, {"at work, away", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			s := newSleeper(t)
			p := s.ensure()
			s.uses(executors.Use{Sessions: 1, Working: c.working, Viewers: 1})
			s.world.Expire(p.SandboxID)
			if c.away {
				s.restart(fake.Knobs{})
				if err := s.m.Recover(s.ctx); err != nil {
					t.Fatal(err)
				}
				p, _ = s.m.Live(s.ws)
				ctx, end := context.WithCancel(s.ctx)
				ran := make(chan error, 1)
				go func() { ran <- s.m.Run(ctx) }()
				if c.working {
					select { // a server that ends wakes nothing more
					case <-p.Awake():
					case <-s.ctx.Done():
						t.Fatal("an agent worked in it, and nobody woke it")
					}
				}
				end()
				if err := <-ran; err != nil {
					t.Fatal(err)
				}
			} else {
				s.m.CheckHealth(s.ctx)
			}
			if !c.working {
				if r := s.last(); r.State != executors.Paused || r.PausedFor != executors.ByLease || !strings.HasPrefix(r.Reason, "Asleep: its place paused it") {
					t.Errorf("stored %+v", r)
				}
				s.runs(p, 1)
				return
			}
			select {
			case <-p.Awake():
			case <-s.ctx.Done():
				t.Fatal("an agent worked in it, and nobody woke it")
			}
			s.ensure()
			s.runs(p, 2)
			if !slices.Contains(s.reported(), "sandbox.renewed") {
				t.Errorf("told %v", s.reported())
			}
		})
	}
}

func TestALeaseIsExtendedAtHalf(t *testing.T) {
	s := newSleeper(t)
	s.restart(fake.Knobs{Lease: 10 * time.Minute})
	s.uses(executors.Use{Sessions: 1, Working: true})
	p := s.ensure()
	first := s.last().LeaseUntil
	if first != s.clock.Now().Add(10*time.Minute).UnixMilli() {
		t.Fatalf("lease until %d", first)
	}
	s.clock.pass(3 * time.Minute)
	s.m.CheckHealth(s.ctx)
	if s.last().LeaseUntil != first {
		t.Error("extended after 3 of 10 minutes")
	}
	for range 20 {
		s.clock.pass(3 * time.Minute)
		s.m.CheckHealth(s.ctx)
	}
	if p.Asleep() || s.info().LeaseUntil <= s.clock.Now().UnixMilli() {
		t.Errorf("after an hour of use: %+v", s.info())
	}
	s.runs(p, 1)
	s.clock.pass(11 * time.Minute) // a server that is dead extends nothing
	if !s.world.Still(p.SandboxID) {
		t.Error("it lives on without a server")
	}
}

func TestARunThatEndsIsRenewed(t *testing.T) {
	for _, c := range []struct {
		name  string
		use   executors.Use
		after time.Duration // into the run of an hour, at which it is looked at
		runs  int
		for_  executors.PausedFor
	}{
		{"long before", executors.Use{Sessions: 1, Viewers: 1}, 50 * time.Minute, 1, ""},
		{"a quiet session", executors.Use{Sessions: 1, Viewers: 1}, 55 * time.Minute, 2, ""},
		{"an agent at work", executors.Use{Sessions: 1, Working: true}, 55 * time.Minute, 1, ""},
		{"an agent at work in the last moment", executors.Use{Sessions: 1, Working: true}, 59 * time.Minute, 2, ""},
		{"nobody", executors.Use{Viewers: 1}, 55 * time.Minute, 1, executors.ByCeiling},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSleeper(t)
			s.restart(fake.Knobs{Run: time.Hour, Lease: 2 * time.Hour})
			s.uses(c.use)
			p := s.ensure()
			if s.last().RunEndsAt != s.clock.Now().Add(time.Hour).UnixMilli() {
				t.Fatalf("its run ends at %d", s.last().RunEndsAt)
			}
			s.clock.pass(c.after)
			s.m.CheckHealth(s.ctx)
			s.runs(p, c.runs)
			if r := s.last(); r.PausedFor != c.for_ {
				t.Errorf("stored %+v", r)
			}
			if c.runs == 2 && (!slices.Equal(s.home, []string{"pausing"}) || !slices.Equal(s.reported(), []string{"sandbox.renewed"}) ||
				s.last().RunEndsAt != s.clock.Now().Add(time.Hour).UnixMilli()) {
				t.Errorf("home %v, told %v, stored %+v", s.home, s.reported(), s.last())
			}
			if c.for_ != "" {
				s.ensure()
				s.runs(p, 2)
			}
		})
	}
}

func TestWithoutMoneyARunThatEndsLeavesTheWorkSaved(t *testing.T) {
	s := newSleeper(t)
	s.restart(fake.Knobs{Run: time.Hour, Lease: 2 * time.Hour, PriceNano: 100})
	s.uses(executors.Use{Sessions: 1, Working: true})
	p := s.ensure()
	s.ledger.refuse = fault.New(fault.Quota, "budget_reached", "The budget of this month is used up.")
	s.clock.pass(59 * time.Minute)
	s.m.CheckHealth(s.ctx)
	r := s.last()
	if r.State != executors.Paused || r.PausedFor != executors.ByLimit || r.Reason != "Your work is saved. The budget of this month is used up." {
		t.Errorf("stored %+v", r)
	}
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "workspace_paused" {
		t.Errorf("it was given: %v", err)
	}
	if err := s.m.Wake(s.ctx, s.ws); fault.CodeOf(err) != "budget_reached" {
		t.Errorf("it was woken: %v", err)
	}
	s.ledger.refuse = nil
	if err := s.m.Wake(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
	s.runs(p, 2)
}

func TestUnsyncedWorkIsReported(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if _, err := s.db.Exec(s.ctx, `INSERT INTO sync_states (workspace_id, team_id, sandbox_id, state, pending, synced_at) VALUES (?, ?, ?, 'behind', 3, ?)`,
		s.ws, s.team, p.SandboxID, at.UnixMilli()); err != nil {
		t.Fatal(err)
	}
	s.fallAsleep(p)
	if r := s.last(); !strings.HasSuffix(r.Reason, "3 files are not on the server yet: the sandbox keeps them.") {
		t.Errorf("asleep for %q", r.Reason)
	}
	// And what was lost when the place lost the sandbox.
	s.world.Vanish(p.SandboxID)
	next := s.ensure()
	if next.SandboxID == p.SandboxID {
		t.Fatal("the lost one came back")
	}
	select {
	case <-p.Done():
	default:
		t.Error("who waited for its end was not notified")
	}
	if !strings.Contains(p.Reason(), "Its files were last synced to the server at 2026-01-02 03:04:05 UTC; what was written after that is lost.") {
		t.Errorf("lost: %q", p.Reason())
	}
	if !slices.Contains(s.reported(), "sandbox.lost") {
		t.Errorf("told %v", s.reported())
	}
}

func TestASandboxThatDiedSinceItWasLastSeenIsNotHandedOut(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	s.world.Vanish(p.SandboxID)
	s.clock.pass(31 * time.Second)
	if next := s.ensure(); next.SandboxID == p.SandboxID {
		t.Error("a dead sandbox was handed out")
	}
	p = s.ensure()
	s.world.Expire(p.SandboxID)
	s.clock.pass(31 * time.Second)
	if again := s.ensure(); again != p {
		t.Error("a sandbox that slept was left behind")
	}
	s.runs(p, 2)
}

func TestASandboxThatCannotBeWokenIsTriedAgain(t *testing.T) {
	s := newSleeper(t)
	p := s.ensure()
	s.fallAsleep(p)
	s.cloud.Set(fake.Knobs{ResumeErr: errors.New("no capacity")})
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "wake_failed" {
		t.Errorf("woken: %v", err)
	}
	if r := s.last(); r.State != executors.Paused || r.PausedFor != executors.ByIdle {
		t.Errorf("stored %+v", r)
	}
	s.cloud.Set(fake.Knobs{ResumeErr: fault.New(fault.Unavailable, "place_cannot_serve", "E2B has no room.").With("reason", "capacity")})
	if _, err := s.m.Ensure(s.ctx, s.ws); fault.CodeOf(err) != "place_cannot_serve" {
		t.Errorf("woken where there is no room: %v", err)
	}
	s.cloud.Set(fake.Knobs{PauseErr: errors.New("not now")})
	s.ensure()
	s.m.CheckHealth(s.ctx)
	s.clock.pass(31 * time.Minute)
	s.m.CheckHealth(s.ctx)
	if r := s.last(); p.Asleep() || r.State != executors.Running || r.Reason != "" {
		t.Errorf("a pause that failed left %+v", r)
	}
	if _, err := p.Guest.Stats(s.ctx); err != nil {
		t.Error(err)
	}
}

func TestASandboxIsNotEndedWhileSomethingIsThereAlone(t *testing.T) {
	s := newSleeper(t)
	s.kept(0, "synced", 0)
	s.ensure()
	s.kept(7, "behind", 0)
	if err := s.m.Destroy(s.ctx, s.ws); fault.CodeOf(err) != "sandbox_not_synced" || !strings.Contains(err.Error(), "7 changed files are not on the server yet") {
		t.Fatalf("with files on their way: %v", err)
	}
	if _, live := s.m.Live(s.ws); !live || len(s.home) != 1 {
		t.Errorf("after it was refused: live %v, synced %q", live, s.home)
	}
	s.kept(0, "synced", 2)
	if err := s.m.Destroy(s.ctx, s.ws); fault.CodeOf(err) != "sandbox_not_synced" || !strings.Contains(err.Error(), "2 files are only in the sandbox") {
		t.Fatalf("with files that do not come: %v", err)
	}
	if err := s.m.Destroy(executors.Discard(s.ctx), s.ws); err != nil {
		t.Fatal(err)
	}
	if _, live := s.m.Live(s.ws); live {
		t.Error("given up, and it lives")
	}
	// A suspended sandbox whose work is synced is ended without being asked.
	s.kept(0, "synced", 0)
	s.ensure()
	if err := s.m.Pause(s.ctx, s.ws, "It was paused."); err != nil {
		t.Fatal(err)
	}
	s.home = nil
	if err := s.m.Destroy(s.ctx, s.ws); err != nil || slices.Contains(s.home, "pausing") {
		t.Errorf("suspended and synced: %v, synced %q", err, s.home)
	}
}

// What alone a sandbox holds of commits keeps it as files do, asleep or awake.
func TestASandboxIsNotEndedWhileItsCommitsAreThereAlone(t *testing.T) {
	s := newSleeper(t)
	s.kept(0, "synced", 0)
	s.ensure()
	only := fault.New(fault.Conflict, "commits_refused", "Its commits were refused.")
	s.m.Attach(executors.Participant{Home: func(context.Context, *executors.Place) error {
		if only == nil {
			return nil
		}
		return only
	}})
	refused := func(when string) {
		t.Helper()
		if err := s.m.Destroy(s.ctx, s.ws); fault.CodeOf(err) != "sandbox_not_synced" || !strings.Contains(err.Error(), "Its commits were refused.") {
			t.Fatalf("%s: %v", when, err)
		}
		if _, live := s.m.Live(s.ws); !live {
			t.Fatalf("%s: it was ended", when)
		}
	}
	refused("awake")
	if err := s.m.Pause(s.ctx, s.ws, "It was paused."); err != nil {
		t.Fatal(err)
	}
	refused("asleep")
	only = nil
	if err := s.m.Destroy(s.ctx, s.ws); err != nil {
		t.Fatal(err)
	}
}

// kept says how far the workspace's files are synced.
func (s *sleeper) kept(pending int, state string, left int) {
	s.t.Helper()
	for _, q := range []string{`DELETE FROM sync_states`, `DELETE FROM synced_files`} {
		if _, err := s.db.Exec(s.ctx, q); err != nil {
			s.t.Fatal(err)
		}
	}
	if _, err := s.db.Exec(s.ctx, `INSERT INTO sync_states (workspace_id, team_id, sandbox_id, state, pending, synced_at) VALUES (?, ?, '', ?, ?, 1)`, s.ws, s.team, state, pending); err != nil {
		s.t.Fatal(err)
	}
	for i := range left {
		if _, err := s.db.Exec(s.ctx, `INSERT INTO synced_files (team_id, workspace_id, path, hash, state, synced_at) VALUES (?, ?, ?, '', 'too_large', 1)`, s.team, s.ws, []byte{byte('a' + i)}); err != nil {
			s.t.Fatal(err)
		}
	}
}

func TestAPlaceThatCannotBeReachedKeepsNobody(t *testing.T) {
	s := newSleeper(t)
	s.kept(0, "synced", 0)
	s.ensure()
	s.kept(3, "behind", 0)
	if err := s.m.Leave(s.ctx, s.ws); fault.CodeOf(err) != "sandbox_not_synced" {
		t.Fatalf("while it can be reached: %v", err)
	}
	s.cloud.Set(fake.Knobs{Unavailable: "the provider is down", DestroyErr: errors.New("no answer"), RecoverErr: errors.New("no answer")})
	s.m.Reprobe()
	s.clock.pass(time.Minute)
	if err := s.m.Leave(s.ctx, s.ws); err != nil {
		t.Fatalf("while it cannot: %v", err)
	}
	if r := s.last(); r.EndedAt == 0 || !strings.Contains(r.Reason, "left behind") {
		t.Errorf("it is stored as %+v", r)
	}
}

// That nobody can say whether there is money is no reason to leave a sandbox asleep for a person.
func TestASandboxIsWokenAgainAfterAQuestionThatFailed(t *testing.T) {
	s := newSleeper(t)
	s.restart(fake.Knobs{PriceNano: 100})
	p := s.ensure()
	s.fallAsleep(p)
	s.ledger.refuse = errors.New("the database does not answer")
	if _, err := s.m.Ensure(s.ctx, s.ws); err == nil {
		t.Fatal("it was woken")
	}
	s.pausedFor(executors.ByIdle)
	s.ledger.refuse = nil
	s.ensure()
	s.runs(p, 2)
}
