package boxlite_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/boxlite"
	"github.com/parawork/parawork/executors/boxlite/boxlitetest"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/hosted/hostedtest"
)

func TestMain(m *testing.M) { hostedtest.Main(m) }

// servers are stand-ins, by the folder of the executor that uses one.
var servers = hostedtest.PerFolder[*boxlitetest.Server]{New: func(t *testing.T) *boxlitetest.Server { return boxlitetest.New(t, true) }}

func newExecutor(t *testing.T, s *boxlitetest.Server, dir string) *boxlite.Executor {
	t.Helper()
	return newAt(t, s, s.Key(), dir, time.Now)
}

func newAt(t *testing.T, s *boxlitetest.Server, key, dir string, now func() time.Time) *boxlite.Executor {
	t.Helper()
	e, err := boxlite.New(boxlite.Config{Dir: dir, GuestPath: hostedtest.GuestPath(t), ReadyIn: 20 * time.Second, Now: now,
		Settings: func(context.Context) (boxlite.Settings, error) {
			return boxlite.Settings{URL: s.URL(), APIKey: key}, nil
		},
		Log: hostedtest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	hostedtest.Need(t)
	executortest.Run(t, executortest.Config{Remote: true, Abilities: []string{"RemnantKeeper", "Sleeper"}, SandboxAbilities: []string{"Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, servers.Of(t, dir), dir) }})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	hostedtest.Need(t)
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		s := boxlitetest.New(t, true)
		key := s.Key()
		breaks := func(k boxlitetest.Knobs) func() { return func() { s.Set(k) } }
		return executortest.Service{Left: s.Boxes, Restart: s.Restart, Disks: s.Dir(), Lose: breaks(boxlitetest.Knobs{LoseCreates: 1}), Down: breaks(boxlitetest.Knobs{Down: true}),
			Executor: func(t *testing.T, dir string, now func() time.Time) executors.Executor {
				return newAt(t, s, key, dir, now)
			},
			Refuse: map[string]func(){"bad_key": s.Revoke, "quota": breaks(boxlitetest.Knobs{Full: true}), "outage": breaks(boxlitetest.Knobs{Down: true}),
				"image_missing": breaks(boxlitetest.Knobs{MissingImages: []string{"node:20-slim"}})},
			Ends: map[string]executortest.End{"removed there": {Do: func() { s.Vanish(s.Boxes()[0]) }, Says: "BoxLite no longer has it"},
				"stopped there": {Do: s.Restart, Kept: true}},
			Cut:  func(d time.Duration) { s.Set(boxlitetest.Knobs{CutAfter: d}) },
			Heal: func() { s.Set(boxlitetest.Knobs{}); s.SetKey(key) }}
	})
}

func TestLostAnswersLeaveNoBox(t *testing.T) {
	t.Parallel()
	s := boxlitetest.New(t, false)
	e := newExecutor(t, s, t.TempDir())
	s.Set(boxlitetest.Knobs{LoseCreates: 1})
	sb, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1")) // asked again with the same key: the same box
	if err != nil {
		t.Fatal(err)
	}
	if s.Made() != 1 || hostedtest.Hello(t, sb) != nil {
		t.Errorf("%d boxes were made; hello %v", s.Made(), hostedtest.Hello(t, sb))
	}
	s.Set(boxlitetest.Knobs{LoseCreates: 100})
	if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_2")); hostedtest.Reason(err) != "outage" {
		t.Errorf("a making that is never answered: %v", err)
	}
	s.Set(boxlitetest.Knobs{})
	if got := s.Boxes(); len(got) != 1 || !strings.Contains(got[0], "sbx_1") {
		t.Errorf("boxes left: %q", got)
	}
	if list, err := e.List(t.Context()); err != nil || len(list) != 1 {
		t.Errorf("List: %v, %v", list, err)
	}
}

func TestPauseKeepsTheDisk(t *testing.T) {
	t.Parallel()
	s, dir := boxlitetest.New(t, false), t.TempDir()
	e := newExecutor(t, s, dir)
	sb, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1"))
	if err != nil {
		t.Fatal(err)
	}
	p := sb.(executors.Pauser)
	for range 2 {
		if err := p.Pause(t.Context()); err != nil {
			t.Fatalf("Pause: %v", err)
		}
	}
	if asleep, err := e.Asleep(t.Context(), sb.Handle()); err != nil || !asleep {
		t.Errorf("Asleep: %v, %v", asleep, err)
	}
	if _, err := sb.Dial(t.Context()); err == nil {
		t.Error("a paused box was dialled")
	}
	if asleep, _ := e.Asleep(t.Context(), sb.Handle()); !asleep {
		t.Error("Dial woke the box")
	}
	if err := p.Resume(t.Context()); err != nil {
		t.Fatalf("Resume: %v", err)
	}
	if err := hostedtest.Hello(t, sb); err != nil {
		t.Errorf("after Resume: %v", err)
	}
	s.Restart() // everything in boxes ends
	again, err := newExecutor(t, s, dir).Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("Recover after the BoxLite server's restart: %v", err)
	}
	if err := hostedtest.Hello(t, again); err != nil {
		t.Errorf("after Recover: %v", err)
	}
	s.Vanish(s.Boxes()[0])
	if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) || !strings.Contains(err.Error(), "BoxLite no longer has it") {
		t.Errorf("Recover of a box that was removed there: %v", err)
	}
}

func TestCutStreams(t *testing.T) {
	t.Parallel()
	s := boxlitetest.New(t, false)
	e := newExecutor(t, s, t.TempDir())
	sb, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 * boxlitetest.MaxExecutions { // each leaves an execution behind that must be removed
		pipe, err := sb.Dial(t.Context())
		if err != nil {
			t.Fatalf("Dial: %v", err)
		}
		_ = pipe.Close()
	}
	if n := s.Executions(); n > boxlitetest.MaxExecutions/2 {
		t.Errorf("%d executions are left", n)
	}
	s.Set(boxlitetest.Knobs{CutAfter: 50 * time.Millisecond})
	if pipe, err := sb.Dial(t.Context()); err == nil {
		b := make([]byte, 1)
		if _, err := pipe.Read(b); err == nil {
			t.Error("a pipe that was cut was read")
		}
		_ = pipe.Close()
	}
	s.Set(boxlitetest.Knobs{})
	if err := hostedtest.Hello(t, sb); err != nil {
		t.Errorf("the guest did not outlive the cut: %v", err)
	}
}

func TestWhatIsAskedOfTheServer(t *testing.T) {
	t.Parallel()
	s := boxlitetest.New(t, false)
	e := newExecutor(t, s, t.TempDir())
	one := hostedtest.Spec(t, "sbx_1")
	one.Network = executors.Network{Mode: executors.NetworkAllow, Allow: []string{"github.com:443", "*.npmjs.org", "10.0.0.1", "140.82.112.0/20"}}
	one.Size = executors.Size{CPUs: 4, MemoryMB: 4096}
	if _, err := e.Create(executors.As(t.Context(), executors.ForExecution, "usr_1"), one); err != nil {
		t.Fatal(err)
	}
	got := s.Asked(s.Boxes()[0])
	if got.Image != "python:3.12-slim" || *got.CPUs != 4 || *got.MemoryMiB != 4096 || *got.DiskGB != 4 || *got.AutoStop != 0 || !got.Detach ||
		strings.Join(got.Outbound().AllowNet, " ") != "*.npmjs.org github.com 140.82.112.0/20" {
		t.Errorf("asked for %+v %+v", got, got.Outbound())
	}
	s.Set(boxlitetest.Knobs{Flat: true}) // a server before the nested form
	two := hostedtest.Spec(t, "sbx_2")
	two.Network = executors.Network{Mode: executors.NetworkAllow} // an empty list would mean everything
	sb, err := e.Create(t.Context(), two)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range s.Boxes() {
		if strings.Contains(name, "sbx_2") {
			if got := s.Asked(name); got.Outbound().Mode != "disabled" || got.Image != "node:20-slim" {
				t.Errorf("asked for %+v %+v", got, got.Outbound())
			}
		}
	}
	if err := hostedtest.Hello(t, sb); err != nil {
		t.Error(err)
	}
}

func TestTroubleInWords(t *testing.T) {
	t.Parallel()
	s := boxlitetest.New(t, false)
	e := newExecutor(t, s, t.TempDir())
	for want, knobs := range map[string]boxlitetest.Knobs{"quota": {Full: true}, "image_missing": {MissingImages: []string{"node:20-slim"}}, "outage": {Down: true}} {
		s.Set(knobs)
		if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_"+want)); hostedtest.Reason(err) != want || !strings.Contains(err.Error(), "BoxLite") {
			t.Errorf("%s: %v", want, err)
		}
	}
	s.Set(boxlitetest.Knobs{})
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available || c.Warning != "" {
		t.Errorf("Capabilities: %+v, %v", c, err)
	}
	for _, size := range must(e.Capabilities(t.Context())).Sizes {
		if (size.CPUs <= boxlitetest.MaxCPUs) != size.Available {
			t.Errorf("size %+v", size)
		}
	}
	if words, err := boxlite.Check(t.Context(), boxlite.Settings{URL: s.URL() + "/v1/", APIKey: s.Key()}); err != nil || !strings.Contains(words, "0 boxes") {
		t.Errorf("Check: %q, %v", words, err)
	}
	sb, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1"))
	if err != nil {
		t.Fatal(err)
	}
	old := s.Key()
	s.Revoke()
	if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_2")); hostedtest.Reason(err) != "bad_key" {
		t.Errorf("Create with a key that was revoked: %v", err)
	}
	if _, err := e.Recover(t.Context(), sb.Handle()); hostedtest.Reason(err) != "bad_key" || errors.Is(err, executors.ErrGone) {
		t.Errorf("Recover with a key that was revoked: %v", err)
	}
	if _, err := boxlite.Check(t.Context(), boxlite.Settings{URL: s.URL(), APIKey: old}); hostedtest.Reason(err) != "bad_key" {
		t.Errorf("Check of a key that was revoked: %v", err)
	}
	if _, err := boxlite.Check(t.Context(), boxlite.Settings{URL: "http://127.0.0.1:1"}); hostedtest.Reason(err) != "outage" {
		t.Errorf("Check of nobody: %v", err)
	}
	if _, err := boxlite.Check(t.Context(), boxlite.Settings{}); hostedtest.Reason(err) != "no_key" {
		t.Errorf("Check of nothing: %v", err)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
