package sessions_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/sessions"
)

// refusing is a store that cannot write while it is on.
type refusing struct {
	sessions.Store
	on atomic.Bool
}

func (f *refusing) UpdateSession(ctx context.Context, row sessions.Session) error {
	if f.on.Load() {
		return errors.New("database or disk is full")
	}
	return f.Store.UpdateSession(ctx, row)
}

func (f *refusing) UpdateSessions(ctx context.Context, all []sessions.Session) error {
	if f.on.Load() {
		return errors.New("database or disk is full")
	}
	return f.Store.UpdateSessions(ctx, all)
}

// Where it cannot be stored that the sessions of a workspace end, all go on, and none says that it was stopped, also
// after the server was killed and another one took over.
func TestStopAllThatCannotBeStoredEndsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	store := &refusing{}
	h.tune = func(c *sessions.Config) {
		store.Store = c.Store
		c.Store = store
	}
	s := h.start()
	var ids []string
	for range 3 {
		ids = append(ids, s.run(t, "sh", "-c", "read x; echo got $x").ID)
	}
	store.on.Store(true)
	err := s.StopAll(t.Context(), h.ws.ID)
	store.on.Store(false)
	if err == nil {
		t.Fatal("it went")
	}
	for _, id := range ids {
		if got := s.get(t, id); got.State.Ended() || got.StateReason == "stopped with its workspace" {
			t.Fatalf("session %s is %s: %s", id, got.State, got.StateReason)
		}
	}
	s.end()
	s = h.start()
	for _, id := range ids {
		if got := s.get(t, id); got.State.Ended() {
			t.Fatalf("after a restart session %s is %s: %s", id, got.State, got.StateReason)
		}
	}
	if err := s.StopAll(t.Context(), h.ws.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range ids {
		if got := s.get(t, id); !got.State.Ended() || got.StateReason != "stopped with its workspace" {
			t.Errorf("session %s is %s: %s", id, got.State, got.StateReason)
		}
	}
}
