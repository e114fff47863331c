package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
)

// within waits until the session is in a state, by evidence of a source where one is named.
func (s *server) within(t *testing.T, id string, want state.State, source string) sessions.Session {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := s.get(t, id)
		if got.State == want && (source == "" || got.Basis.Source == source) {
			return got
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s (%s) by %q, want %s by %q; %+v\n%q", got.State, got.StateReason, got.Basis.Source, want, source, got.Basis.Evidence, s.output(t, id))
		}
	}
}

func (s *server) types(t *testing.T, id, text string) {
	t.Helper()
	eventually(t, "it takes what is typed", func() bool { return s.Input(t.Context(), s.h.actor, id, text) == nil })
}

// A program that prints nothing but uses CPU works; one that waits does not.
func TestSilentWorkIsSeen(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `echo begin; timeout 100 sh -c 'while :; do :; done' & wait $!; sleep 1000`)
	got := s.within(t, row.ID, state.Working, "process")
	if !strings.Contains(got.StateReason, "uses CPU") {
		t.Errorf("reason %q", got.StateReason)
	}
	s.end()
	s = h.start()
	s.within(t, row.ID, state.Working, "process")
}

// A shell at its prompt is idle; a program it runs is shown by name.
func TestShellTellsWhatItRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Shell, Argv: []string{"--norc"}})
	s.within(t, row.ID, state.Idle, "")
	s.types(t, row.ID, "sleep 1000\r")
	eventually(t, "it runs sleep", func() bool { return s.get(t, row.ID).StateReason == "runs sleep, which is quiet" })
	s.types(t, row.ID, "\x03")
	s.types(t, row.ID, "while :; do :; done\r")
	s.within(t, row.ID, state.Working, "process")
	s.types(t, row.ID, "\x03")
	s.within(t, row.ID, state.Idle, "")
	for range 2 {
		s.types(t, row.ID, "read -s -p 'Password: ' x\r")
		if got := s.within(t, row.ID, state.Waiting, "screen"); got.StateReason != "asks for a password" {
			t.Errorf("reason %q", got.StateReason)
		}
		s.types(t, row.ID, "secret")
		time.Sleep(2 * time.Second) // letters answer nothing: the question stays
		s.within(t, row.ID, state.Waiting, "screen")
		s.end()
		s = h.start()
		s.within(t, row.ID, state.Waiting, "screen")
		s.types(t, row.ID, "\r")
		s.within(t, row.ID, state.Idle, "")
	}
}

// A line each 20 ms is work, though it is few bytes.
func TestShortLinesAreWork(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `while :; do echo x; sleep 0.02; done`)
	s.within(t, row.ID, state.Working, "bytes")
}

// Output that the server had not evaluated when it was killed is evaluated after the restart, and so is an answer.
func TestOutputIsHeardAgainAfterAKill(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", `printf '\033]9;Shall I?\007'; read x; sleep 1000`)
	s.within(t, row.ID, state.Waiting, "notification")
	s.end()
	rows := store.NewSessions(h.db)
	stored, err := rows.Session(t.Context(), row.ID)
	if err != nil {
		t.Fatal(err)
	}
	stored.State, stored.StateReason, stored.Basis = state.Idle, "quiet", state.Basis{}
	if err := rows.UpdateSession(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	s = h.start()
	if got := s.within(t, row.ID, state.Waiting, "notification"); got.StateReason != "Shall I?" {
		t.Errorf("reason %q", got.StateReason)
	}
}
