package sessions_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

// sleepy is a harness whose sandboxes fall asleep after 30 minutes without use, on a clock the test sets.
type sleepy struct {
	*harness
	t     *testing.T
	ahead atomic.Int64 // of the real clock
}

func newSleepy(t *testing.T) *sleepy {
	h := &sleepy{harness: newHarness(t), t: t}
	h.world.Now = func() time.Time { return time.Now().Add(time.Duration(h.ahead.Load())) }
	h.places = func(mc *executortest.ManagerConfig) {
		mc.Executors = []executors.Executor{fake.NewCloud(h.world)}
		mc.Now = h.world.Now
		mc.HealthEvery = time.Hour // the test looks itself
		mc.IdleAfter = func(executors.Kind, executors.Purpose) time.Duration { return 30 * time.Minute }
	}
	return h
}

// sleep has nobody do anything for long, and waits until the sandbox sleeps.
func (h *sleepy) sleep(s *server, row sessions.Session, runs int) {
	h.t.Helper()
	eventually(h.t, "the session is quiet", func() bool { return s.get(h.t, row.ID).State == state.Idle })
	p, ok := s.manager.Live(h.ws.ID)
	if !ok {
		h.t.Fatal("no sandbox")
	}
	s.manager.CheckHealth(h.t.Context())
	h.ahead.Add(int64(31 * time.Minute))
	s.manager.CheckHealth(h.t.Context())
	if !p.Asleep() || h.world.Runs(row.SandboxID) != runs {
		h.t.Fatalf("asleep: %v, after %d runs", p.Asleep(), h.world.Runs(row.SandboxID))
	}
}

func TestASleepingSessionIsShownAndWakesWhenSomebodyTypes(t *testing.T) {
	t.Parallel()
	h := newSleepy(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `stty -echo; echo ready; while read l; do echo "heard $l"; done`)
	ana := sessions.Attach{UserID: h.actor.User.ID, Name: "Ana", Writer: true}
	sc := s.watch(t, row.ID, ana)
	sc.shows(t, "ready")
	if err := sc.Input(t.Context(), []byte("one\r")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "heard one")
	sc.Close()
	h.sleep(s, row, 1)

	// To look at it, to move the mouse in it and to make it larger are no reasons to wake it.
	sc = s.watch(t, row.ID, ana)
	sc.shows(t, "heard one")
	eventually(t, "the viewer sees that it sleeps", func() bool { return sc.field("asleep") == true })
	if reason, _ := sc.field("reason").(string); reason != "Asleep after 30 idle minutes. It wakes when you type." {
		t.Errorf("it sleeps for %q", reason)
	}
	if err := sc.Input(t.Context(), []byte("\x1b[I")); err != nil {
		t.Errorf("a look at it: %v", err)
	}
	sc.Wish(guest.Size{Cols: 101, Rows: 31})
	if got := s.get(t, row.ID); got.State.Ended() || got.StateReason != "Asleep after 30 idle minutes. It wakes when you type." {
		t.Errorf("listed as %+v", got)
	}
	if n := h.world.Runs(row.SandboxID); n != 1 {
		t.Errorf("woken by a look: %d runs", n)
	}
	if err := sc.Input(t.Context(), []byte("two\r")); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "heard two")
	eventually(t, "the viewer sees that it is awake", func() bool { return sc.field("asleep") == nil })
	eventually(t, "it is as large as was wished", func() bool { return sc.cells() == [2]uint16{101, 31} })
	sc.Close()
	h.sleep(s, row, 2)

	// A restart neither wakes nor ends it.
	s.end()
	s = h.start()
	if got := s.get(t, row.ID); got.State.Ended() || !strings.HasPrefix(got.StateReason, "Asleep after") {
		t.Fatalf("after a restart: %+v", got)
	}
	sc = s.watch(t, row.ID, ana)
	sc.shows(t, "heard two")
	eventually(t, "the viewer sees that it sleeps", func() bool { return sc.field("asleep") == true })
	if n := h.world.Runs(row.SandboxID); n != 2 {
		t.Errorf("woken by a restart: %d runs", n)
	}
	if err := s.Input(t.Context(), h.actor, row.ID, "three\r"); err != nil {
		t.Fatal(err)
	}
	sc.shows(t, "heard three")
	sc.Close()
	h.sleep(s, row, 3)

	// A queued prompt wakes it as well.
	if _, err := s.AddPrompt(t.Context(), h.actor, row.ID, prompt.Request{Text: "four"}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the prompt is typed", func() bool { return strings.Contains(s.output(t, row.ID), "heard four") })
	h.sleep(s, row, 4)

	// What is ended must be awake for it.
	if got, err := s.Stop(t.Context(), h.actor, row.ID, 0); err != nil || got.State != state.Exited {
		t.Errorf("stopped: %+v, %v", got, err)
	}
}

func TestASessionWhosePausedSandboxIsLostSaysSo(t *testing.T) {
	t.Parallel()
	h := newSleepy(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "echo ready; exec sleep 1000")
	eventually(t, "it runs", func() bool { return strings.Contains(s.output(t, row.ID), "ready") })
	h.sleep(s, row, 1)
	h.world.Vanish(row.SandboxID)
	if err := s.Input(t.Context(), h.actor, row.ID, "x"); err == nil {
		t.Error("typed into a sandbox that is gone")
	}
	if got := s.ended(t, row.ID); got.State != state.Lost {
		t.Errorf("ended as %+v", got)
	}
}
