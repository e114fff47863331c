package sessions_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/state"
)

// A sandbox that cannot be reached when the server starts is not gone: its sessions wait for it, and go on once it is found.
func TestSessionsWaitForAPlaceThatCannotBeReached(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "echo before; read x; echo after $x; read y; exit 3")
	sc := s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "before")
	s.end()

	h.knobs = fake.Knobs{RecoverErr: errors.New("no line now")}
	s = h.start()
	if got := s.get(t, row.ID); got.State.Ended() {
		t.Fatalf("the session was given up: %s, %s", got.State, got.StateReason)
	}
	if err := s.Input(t.Context(), h.actor, row.ID, "x\r"); fault.CodeOf(err) != "session_not_ready" {
		t.Errorf("typing meanwhile: %v", err)
	}
	s.places.Set(fake.Knobs{})
	s.manager.CheckHealth(t.Context())
	eventually(t, "the session can be typed into", func() bool {
		return s.Input(t.Context(), h.actor, row.ID, "found\r") == nil
	})
	sc = s.watch(t, row.ID, sessions.Attach{Writer: true})
	sc.shows(t, "after found")
	if err := sc.Input(t.Context(), []byte("\r")); err != nil {
		t.Fatal(err)
	}
	if got := s.ended(t, row.ID); got.ExitCode == nil || *got.ExitCode != 3 || !strings.HasPrefix(s.output(t, row.ID), "before") {
		t.Errorf("ended as %+v", got)
	}
}

// When it turns out to be gone after all, so are its sessions.
func TestSessionsOfAPlaceThatIsGoneAfterAll(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "cat")
	s.end()
	h.knobs = fake.Knobs{RecoverErr: errors.New("no line now")}
	s = h.start()
	if got := s.get(t, row.ID); got.State.Ended() {
		t.Fatalf("the session was given up: %s, %s", got.State, got.StateReason)
	}
	s.places.Set(fake.Knobs{RecoverErr: executors.ErrGone})
	s.manager.CheckHealth(t.Context())
	eventually(t, "the session is lost", func() bool { return s.get(t, row.ID).State == state.Lost })
}

// full is a store that cannot write for a while.
type full struct {
	sessions.Store
	until <-chan struct{}
}

func (f full) UpdateSession(ctx context.Context, row sessions.Session) error {
	select {
	case <-f.until:
		return f.Store.UpdateSession(ctx, row)
	default:
		return fault.New(fault.DiskFull, "disk_full", "The disk of the database is full.")
	}
}

// The end of a session that could not be stored is stored once it can be, without a restart.
func TestEndIsStoredLate(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	room := make(chan struct{})
	h.tune = func(c *sessions.Config) { c.Store, c.EndPatience = full{c.Store, room}, 100*time.Millisecond }
	s := h.start()
	row := s.run(t, "sh", "-c", "echo done; exit 4")
	eventually(t, "its output is there", func() bool {
		b, _, _, err := s.Output(t.Context(), row.ID, 0, 100)
		return err == nil && strings.Contains(string(b), "done")
	})
	eventually(t, "it has left the memory", func() bool {
		return fault.CodeOf(s.Input(t.Context(), h.actor, row.ID, "x")) == "session_not_ready"
	})
	close(room)
	eventually(t, "its end is stored", func() bool {
		got := s.get(t, row.ID)
		return got.ExitCode != nil && *got.ExitCode == 4
	})
}
