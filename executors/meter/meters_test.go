package meter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// sandbox is a live one whose figures the test says.
type sandbox struct {
	executors.Sandbox
	*rig
}

func (s sandbox) Figures() (executors.Figures, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	return s.figures, s.figuresErr
}

// limited is one whose limits can be changed while it lives.
type limited struct{ sandbox }

func (l limited) SetLimits(given executors.Limits) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.given = append(l.given, given)
	return l.setErr
}

// rig is Meters with one sandbox, on a clock of their own.
type rig struct {
	*meter.Meters
	cfg   meter.Config
	place *executors.Place

	mu           sync.Mutex
	none         bool // the workspace has no live sandbox
	fixed        bool // its place cannot change limits
	own, project executors.Limits
	limitsErr    error
	startedAt    time.Time
	now          time.Time
	figures      executors.Figures
	figuresErr   error
	asked        int
	given        []executors.Limits // by SetLimits
	setErr       error
	held         bool // something is held back for growing
	growErr      error
	released     int
	resized      []executors.Limits
	paused       string
	pauseErr     error
	stopped      []string
	notes        []string // kind and text
	events       []events.Event
}

func newRig(t *testing.T, change ...func(r *rig)) *rig {
	t.Helper()
	r := &rig{place: executors.NewPlace("sbx", "ws", "team", "docker"), now: time.Unix(1_700_000_000, 0)}
	r.startedAt = r.now
	r.cfg = meter.Config{Places: r, Limits: r, Notify: func(_ context.Context, n executors.Note) {
		r.mu.Lock()
		defer r.mu.Unlock()
		if n.WorkspaceID != "ws" || n.TeamID != "team" {
			t.Errorf("told to %+v", n)
		}
		r.notes = append(r.notes, n.Kind+": "+n.Text)
	}, Events: r, Now: func() time.Time { return r.now }}
	for _, fn := range change {
		fn(r)
	}
	mt, err := meter.New(r.cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.Meters = mt
	return r
}

func (r *rig) Limits(context.Context, string) (own, project executors.Limits, err error) {
	return r.own, r.project, r.limitsErr
}

func (r *rig) Publish(_ context.Context, e events.Event) { r.events = append(r.events, e) }

func (r *rig) One(workspaceID string) (meter.Sandbox, bool) {
	if r.none || workspaceID != "ws" {
		return meter.Sandbox{}, false
	}
	return meter.Sandbox{Place: r.place, Record: executors.Record{StartedAt: r.startedAt.UnixMilli()},
		Sandbox: func() executors.Sandbox {
			if r.fixed {
				return sandbox{rig: r}
			}
			return limited{sandbox{rig: r}}
		},
		MayGrow: func(context.Context, executors.Limits) (bool, error) { return r.held, r.growErr },
		Release: func(context.Context) { r.released++ },
		Resized: func(_ context.Context, l executors.Limits) { r.resized = append(r.resized, l) }}, true
}

func (r *rig) All() []meter.Sandbox {
	if s, ok := r.One("ws"); ok {
		return []meter.Sandbox{s}
	}
	return nil
}

func (r *rig) Open(context.Context) ([]executors.Record, error) { return nil, nil }

func (r *rig) Place(_ context.Context, k executors.Kind) (executors.Capabilities, bool) {
	return executors.Capabilities{Kind: k, Limits: k == "docker", Warning: map[bool]string{true: "", false: "No groups here."}[k == "docker"]}, true
}

func (r *rig) KindFor(_ context.Context, k executors.Kind) executors.Kind {
	if k == "auto" {
		return "docker"
	}
	return k
}

func (r *rig) Paused(string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.paused, r.paused != ""
}

func (r *rig) Pause(_ context.Context, _, reason string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pauseErr == nil {
		r.paused = reason
	}
	return r.pauseErr
}

func (r *rig) Stop(_ context.Context, workspaceID, sandboxID, words string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stopped = append(r.stopped, workspaceID+" "+sandboxID+": "+words)
	return nil
}

// make has the sandbox made with the limits that hold.
func (r *rig) make(t *testing.T) executors.Limits {
	t.Helper()
	spec := executors.Spec{ID: "sbx", WorkspaceID: "ws"}
	if err := r.Participant().Making(t.Context(), executors.Capabilities{Kind: "docker"}, &spec); err != nil {
		t.Fatal(err)
	}
	return spec.Limits
}

// read lets time pass and reads once, and returns what people were notified of.
func (r *rig) read(t *testing.T, after time.Duration, f executors.Figures) []string {
	t.Helper()
	r.now, r.figures, r.notes = r.now.Add(after), f, nil
	r.Read(t.Context())
	return r.notes
}

func TestWhoseLimitsHold(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) {
		r.cfg.Default = executors.Limits{CPUs: 2, MemoryMB: 2048}
		r.cfg.Maximum = executors.Limits{CPUs: 8, DiskMB: 5000}
		r.cfg.ByKind = map[executors.Kind]executors.Limits{"docker": {MemoryMB: 4096}}
		r.cfg.Shared = func(_ context.Context, k executors.Kind) (executors.Limits, error) {
			if k == "docker" {
				return executors.Limits{CPUs: 1, Processes: 500}, nil
			}
			return executors.Limits{}, errors.New("nobody knows")
		}
		r.project = executors.Limits{CPUs: 4, MemoryMB: 8192, WallMinutes: 60}
		r.own = executors.Limits{CPUs: 16, WallMinutes: 30}
	})
	want := executors.Limits{CPUs: 8, MemoryMB: 4096, Processes: 500, DiskMB: 5000, WallMinutes: 30}
	if got := r.make(t); got != want {
		t.Errorf("a sandbox is made with %+v, want %+v", got, want)
	}
	if l, ok := r.Live("ws"); !ok || l != want {
		t.Errorf("it lives with %+v, %v", l, ok)
	}
	if got, want := r.Usual(t.Context(), "docker"), (executors.Limits{CPUs: 2, MemoryMB: 2048, Processes: 500, DiskMB: 5000}); got != want {
		t.Errorf("usual are %+v, want %+v", got, want)
	}
	if got, want := r.Usual(t.Context(), "e2b"), (executors.Limits{CPUs: 2, MemoryMB: 2048, DiskMB: 5000}); got != want { // where it cannot be read now
		t.Errorf("usual there are %+v, want %+v", got, want)
	}
	v, err := r.View(t.Context(), "ws", "e2b") // it lives elsewhere than where its next one would
	if err != nil || v.Effective != want || v.Own != r.own || v.Project != r.project || v.Instance != (executors.Limits{CPUs: 2, MemoryMB: 2048, Processes: 500}) ||
		v.Maximum != (executors.Limits{CPUs: 8, MemoryMB: 4096, DiskMB: 5000}) {
		t.Errorf("%+v, %v", v, err)
	}
	r.none = true
	if _, ok := r.Live("ws"); ok {
		t.Error("a workspace without a sandbox lives")
	}
	if v, err := r.View(t.Context(), "ws", "auto"); err != nil || v.Effective != want {
		t.Errorf("without a sandbox: %+v, %v", v, err)
	}
	if _, err := r.View(t.Context(), "ws", "e2b"); err == nil {
		t.Error("limits that cannot be read are shown")
	}
	r.limitsErr = errors.New("the disk is gone")
	if err := r.Participant().Making(t.Context(), executors.Capabilities{Kind: "docker"}, &executors.Spec{ID: "sbx2", WorkspaceID: "ws"}); !errors.Is(err, r.limitsErr) {
		t.Errorf("a sandbox is made with limits nobody knows: %v", err)
	}
	if _, err := r.View(t.Context(), "ws", "docker"); !errors.Is(err, r.limitsErr) {
		t.Errorf("%v", err)
	}
	if _, err := meter.New(meter.Config{}); err == nil {
		t.Error("made without neighbours")
	}
}

func TestWhatKeepsALimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.none = true; r.cfg.DiskEvery = time.Second })
	for kind, want := range map[executors.Kind]string{"docker": "by the kernel", "local": "not enforced in this place: No groups here."} {
		v, err := r.View(t.Context(), "ws", kind)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]string{}
		for _, e := range v.Enforced {
			names[e.Name] = e.How
			if kernel := e.Name != "disk_mb" && e.Name != "wall_minutes"; e.OK != (!kernel || kind == "docker") {
				t.Errorf("%s: %+v", kind, e)
			}
		}
		if len(names) != 5 || names["cpus"] != want || names["memory_mb"] != want || names["processes"] != want || !strings.Contains(names["disk_mb"], "every second;") || names["wall_minutes"] == "" {
			t.Errorf("%s: %q", kind, names)
		}
	}
}

func TestLimitsOfASandboxThatRuns(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.own = executors.Limits{CPUs: 1, WallMinutes: 60}
	r.make(t)
	apply := func(what string, now bool, says string, live executors.Limits) {
		t.Helper()
		got, why, err := r.Apply(t.Context(), "ws")
		if err != nil || got != now || !strings.Contains(why, says) || says == "" && why != "" {
			t.Errorf("%s: %v, %q, %v", what, got, why, err)
		}
		if l, _ := r.Live("ws"); l != live {
			t.Errorf("%s: it lives with %+v, want %+v", what, l, live)
		}
	}
	r.own = executors.Limits{CPUs: 1, WallMinutes: 90}
	apply("time alone", true, "", r.own)
	if len(r.given) != 0 {
		t.Errorf("the place was asked: %+v", r.given)
	}
	r.own = executors.Limits{CPUs: 4, WallMinutes: 10}
	r.growErr = fault.New(fault.Quota, "over_budget", "The budget is used up.")
	apply("what may not be paid for", false, "The budget is used up. The running sandbox keeps", executors.Limits{CPUs: 1, WallMinutes: 10})
	r.growErr = errors.New("the ledger is gone")
	if _, _, err := r.Apply(t.Context(), "ws"); !errors.Is(err, r.growErr) {
		t.Errorf("trouble: %v", err)
	}
	r.growErr, r.held = nil, true
	r.setErr = fault.New(fault.Unsupported, "fixed", "No.")
	apply("a place that cannot after all", false, "This place cannot change the limits", executors.Limits{CPUs: 1, WallMinutes: 10})
	r.setErr = fault.New(fault.Conflict, "too_small", "It uses more memory than that.")
	apply("what it uses already", false, "It uses more memory than that. It takes effect with the next sandbox.", executors.Limits{CPUs: 1, WallMinutes: 10})
	r.setErr = errors.New("a group is gone")
	if _, _, err := r.Apply(t.Context(), "ws"); fault.CodeOf(err) != "limits_not_applied" {
		t.Errorf("trouble of the place: %v", err)
	}
	if r.released != 3 || len(r.resized) != 0 {
		t.Errorf("of what was held back %d were released; charged for %+v", r.released, r.resized)
	}
	r.setErr = nil
	apply("what can be given", true, "", r.own)
	if !slices.Equal(r.resized, []executors.Limits{r.own}) || r.given[len(r.given)-1] != r.own || r.released != 3 {
		t.Errorf("charged for %+v, given %+v", r.resized, r.given)
	}
	r.fixed = true
	r.own = executors.Limits{CPUs: 2, DiskMB: 100}
	apply("a place that cannot", false, "This place cannot change the limits", executors.Limits{CPUs: 4, DiskMB: 100})
	r.none = true
	if now, why, err := r.Apply(t.Context(), "ws"); now || why != "" || err != nil {
		t.Errorf("without a sandbox: %v, %q, %v", now, why, err)
	}
}

// A kill is reported one reading late: a session that died of it says it better, and takes it for its own.
func TestKillsForWantOfMemory(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.own = executors.Limits{MemoryMB: 1024}
	r.make(t)
	f := executors.Figures{}
	if n := r.read(t, 5*time.Second, f); len(n) != 0 {
		t.Errorf("%q", n)
	}
	f.OOMKills = 1
	if n := r.read(t, 5*time.Second, f); len(n) != 0 {
		t.Errorf("at once: %q", n)
	}
	if n := r.read(t, 5*time.Second, f); len(n) != 1 || n[0] != "limit.memory: The kernel ended a process: out of memory at 1 GiB" {
		t.Errorf("one reading later: %q", n)
	}
	f.OOMKills = 4
	r.read(t, 5*time.Second, f)
	if says := r.Killed("sbx", f); says != "out of memory at 1 GiB" {
		t.Errorf("the session reports %q", says)
	}
	if n := r.read(t, 5*time.Second, f); len(n) != 1 || !strings.HasSuffix(n[0], "(2 times)") {
		t.Errorf("without the one it claimed: %q", n)
	}
	if says := r.Killed("sbx", f); says != "" {
		t.Errorf("a process that died of something else reports %q", says)
	}
	if n := r.read(t, 5*time.Second, f); len(n) != 0 {
		t.Errorf("again: %q", n)
	}
	// What happened before this server knew the sandbox is history.
	later := newRig(t)
	for range 3 {
		if n := later.read(t, 5*time.Second, executors.Figures{OOMKills: 7, ForksRefused: 9}); len(n) != 0 {
			t.Errorf("found again: %q", n)
		}
	}
	if says := later.Killed("sbx", executors.Figures{OOMKills: 8}); says != "out of memory" {
		t.Errorf("a kill since: %q", says)
	}
}

func TestProcessesThatCouldNotBeStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.own = executors.Limits{Processes: 64}
	r.make(t)
	if n := r.read(t, 5*time.Second, executors.Figures{ForksRefused: 1}); len(n) != 1 || n[0] != "limit.processes: No process could be started: the limit of 64 processes is reached" {
		t.Errorf("%q", n)
	}
	if n := r.read(t, 9*time.Minute, executors.Figures{ForksRefused: 50}); len(n) != 0 {
		t.Errorf("within ten minutes: %q", n)
	}
	if n := r.read(t, time.Minute, executors.Figures{ForksRefused: 60}); len(n) != 1 || !strings.HasSuffix(n[0], "(59 times)") {
		t.Errorf("after ten minutes: %q", n)
	}
}

func TestWhatASandboxUses(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(r *rig) { r.cfg.HasListeners = func(team string) bool { return team == "team" } })
	r.make(t)
	r.read(t, 5*time.Second, executors.Figures{CPUMs: 1000, MemoryBytes: 50 << 20})
	if got := r.Reading("sbx"); got.CPUPercent != 20 || got.DiskBytes != -1 {
		t.Errorf("%+v", got)
	}
	if len(r.events) != 1 || r.events[0].Type != "sandbox.usage" || r.events[0].ID != "sbx" || r.events[0].WorkspaceID != "ws" {
		t.Fatalf("%+v", r.events)
	}
	r.read(t, 10*time.Second, executors.Figures{CPUMs: 21_000, MemoryBytes: 50 << 20})
	if got := r.Reading("sbx"); got.CPUPercent != 200 {
		t.Errorf("two cores: %+v", got)
	}
	reported := len(r.events)
	r.read(t, 10*time.Second, executors.Figures{CPUMs: 21_010, MemoryBytes: 50<<20 + 1000}) // nothing anybody would see
	if len(r.events) != reported {
		t.Errorf("told of no news: %+v", r.events[reported:])
	}
	r.read(t, 10*time.Second, executors.Figures{CPUMs: 21_010, MemoryBytes: 80 << 20})
	if len(r.events) != reported+1 {
		t.Errorf("not told of %d MiB more", 30)
	}
	r.figuresErr = errors.New("the group is gone")
	r.read(t, 10*time.Second, executors.Figures{})
	if got := r.Reading("sbx"); got.Limits != (executors.Limits{}) || len(r.events) != reported+1 {
		t.Errorf("where they cannot be read: %+v, told %+v", got, r.events[reported:])
	}
	asked := r.asked
	r.place.MarkSuspended("It sleeps.")
	r.read(t, time.Hour, executors.Figures{CPUMs: 90_000})
	if r.asked != asked {
		t.Error("a sandbox that sleeps was asked, and may be awake now")
	}
	r.Participant().Ended(executors.Record{Handle: executors.Handle{ID: "sbx"}})
	if got := r.Reading("sbx"); got != (meter.Reading{DiskBytes: -1}) {
		t.Errorf("of one that has ended: %+v", got)
	}
}

func TestASandboxWhoseTimeIsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.own = executors.Limits{WallMinutes: 100}
	r.make(t)
	if n := r.read(t, 89*time.Minute, executors.Figures{}); len(n) != 0 {
		t.Errorf("%q", n)
	}
	if n := r.read(t, time.Minute, executors.Figures{}); len(n) != 1 || !strings.HasPrefix(n[0], "limit.wall_near: The sandbox will be stopped in 10 minutes: its time of 1 hour 40 minutes is nearly up") {
		t.Errorf("ten minutes before: %q", n)
	}
	if n := r.read(t, 9*time.Minute+59*time.Second, executors.Figures{}); len(n) != 0 || len(r.stopped) != 0 {
		t.Errorf("warned again: %q, stopped %q", n, r.stopped)
	}
	if n := r.read(t, time.Second, executors.Figures{}); len(n) != 1 || n[0] != "limit.wall: The sandbox was stopped: its time of 1 hour 40 minutes is up; the work is kept" {
		t.Errorf("%q", n)
	}
	if want := []string{"ws sbx: stopped: its time of 1 hour 40 minutes is up; the work is kept"}; !slices.Equal(r.stopped, want) {
		t.Errorf("stopped %q", r.stopped)
	}
	short := newRig(t)
	short.own = executors.Limits{WallMinutes: 10}
	if n := short.read(t, 7*time.Minute, executors.Figures{}); len(n) != 0 { // found after a restart: its limits are asked for
		t.Errorf("%q", n)
	}
	if n := short.read(t, time.Minute, executors.Figures{}); len(n) != 1 || !strings.Contains(n[0], "stopped in 2 minutes") {
		t.Errorf("a fifth before its end: %q", n)
	}
}

// disks runs a test in a bubble with Meters that look at the folder every 20 seconds.
func disks(t *testing.T, fn func(t *testing.T, r *rig, dir string)) {
	t.Helper()
	t.Parallel()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		var r *rig
		r = newRig(t, func(n *rig) {
			n.own = executors.Limits{DiskMB: 20}
			n.startedAt = time.Now()
			n.cfg.Now, n.cfg.Events = time.Now, nil
			n.cfg.Folders = func(executors.Record) []string { return []string{dir, filepath.Join(dir, "nowhere")} }
			n.cfg.Free = func(string) (int64, error) { return 1 << 40, nil }
		})
		r.make(t)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- r.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Run: %v", err)
			}
		}()
		fn(t, r, dir)
	})
}

// fill writes so many MiB, and has the sandbox have used time for it.
func (r *rig) fill(t *testing.T, dir, name string, mb int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("x", mb<<20)), 0o600); err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.figures.CPUMs++
}

// look lets the disk be looked at again, and returns what people see.
func (r *rig) look() []string {
	<-time.After(30 * time.Second)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	notes := r.notes
	r.notes = nil
	return notes
}

func TestASandboxThatFillsItsDisk(t *testing.T) {
	disks(t, func(t *testing.T, r *rig, dir string) {
		r.fill(t, dir, "a", 10)
		if n := r.look(); len(n) != 0 {
			t.Errorf("half full: %q", n)
		}
		if got := r.Reading("sbx").DiskBytes; got < 10<<20 || got > 11<<20 {
			t.Errorf("%d bytes", got)
		}
		r.fill(t, dir, "b", 8)
		if n := r.look(); len(n) != 1 || !strings.HasPrefix(n[0], "limit.disk_near: The disk is nearly full: 18 MiB of 20 MiB are used.") {
			t.Errorf("nearly full: %q", n)
		}
		r.fill(t, dir, "b", 9)
		if n := r.look(); len(n) != 0 {
			t.Errorf("warned again: %q", n)
		}
		r.fill(t, dir, "c", 2)
		if n := r.look(); len(n) != 1 || !strings.HasPrefix(n[0], "limit.disk: The sandbox was stopped: the disk limit of 20 MiB is reached; nothing was deleted.") {
			t.Errorf("full: %q", n)
		}
		if reason, paused := r.Paused("ws"); !paused || !strings.HasPrefix(reason, meter.StoppedByLimit) || len(r.stopped) != 0 {
			t.Errorf("paused: %q; stopped %q", reason, r.stopped)
		}
		if n := r.look(); len(n) != 0 {
			t.Errorf("while it is suspended: %q", n)
		}
		// Somebody wakes it to tidy up: it gets room for that, and no more.
		r.mu.Lock()
		r.paused = ""
		r.mu.Unlock()
		r.fill(t, dir, "d", 10)
		if n := r.look(); len(n) != 0 {
			t.Errorf("while it tidies up: %q", n)
		}
		r.fill(t, dir, "e", 70)
		if n := r.look(); len(n) != 1 || !strings.HasPrefix(n[0], "limit.disk: ") {
			t.Errorf("it went on writing: %q", n)
		}
		for _, name := range []string{"a", "b", "c", "e"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		r.mu.Lock()
		r.paused = ""
		r.figures.CPUMs++
		r.mu.Unlock()
		if n := r.look(); len(n) != 0 {
			t.Errorf("after it tidied up: %q", n)
		}
		r.fill(t, dir, "f", 9)
		if n := r.look(); len(n) != 1 || !strings.HasPrefix(n[0], "limit.disk_near: ") {
			t.Errorf("nearly full again: %q", n)
		}
	})
}

func TestASandboxThatCannotBeSuspendedIsEnded(t *testing.T) {
	disks(t, func(t *testing.T, r *rig, dir string) {
		r.pauseErr = errors.New("it cannot")
		r.fill(t, dir, "a", 21)
		if n := r.look(); len(n) != 1 {
			t.Errorf("%q", n)
		}
		if len(r.stopped) != 1 || !strings.HasPrefix(r.stopped[0], "ws sbx: stopped: the disk limit of 20 MiB is reached") {
			t.Errorf("stopped %q", r.stopped)
		}
	})
}

// What takes no room counts little, what many names share counts once, and no link leads out of the sandbox's folders.
func TestWhatCountsOnADisk(t *testing.T) {
	outside := t.TempDir()
	disks(t, func(t *testing.T, r *rig, dir string) {
		if err := os.WriteFile(filepath.Join(outside, "large"), make([]byte, 40<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		r.fill(t, dir, "one", 8)
		hole, err := os.Create(filepath.Join(dir, "hole"))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(hole.Truncate(1<<36), hole.Close(), os.Symlink(outside, filepath.Join(dir, "way")), os.Symlink(filepath.Join(outside, "large"), filepath.Join(dir, "large")),
			os.MkdirAll(filepath.Join(dir, "deep/er"), 0o700)); err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			if err := os.Link(filepath.Join(dir, "one"), filepath.Join(dir, fmt.Sprint("name", i))); err != nil {
				t.Fatal(err)
			}
		}
		r.fill(t, dir, "deep/er/two", 4)
		if n := r.look(); len(n) != 0 {
			t.Errorf("%q", n)
		}
		if got := r.Reading("sbx"); got.DiskBytes < 12<<20 || got.DiskBytes > 13<<20 || got.DiskAtLeast {
			t.Errorf("%+v", got)
		}
		before := r.Reading("sbx").DiskBytes
		if err := os.Remove(filepath.Join(dir, "deep/er/two")); err != nil {
			t.Fatal(err)
		}
		if r.look(); r.Reading("sbx").DiskBytes != before { // who did nothing has written nothing
			t.Error("an idle sandbox's disk was looked at")
		}
		r.fill(t, dir, "three", 1)
		if r.look(); r.Reading("sbx").DiskBytes >= before {
			t.Errorf("%d bytes, before %d", r.Reading("sbx").DiskBytes, before)
		}
	})
}
