package sessions_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
)

// readers lets whoever reads which conversations are taken go on only when the gate opens.
type readers struct {
	sessions.Store
	reached chan struct{}
	gate    chan struct{}
	once    sync.Once
}

func (r *readers) Conversations(ctx context.Context, agent string, since int64) ([]string, error) {
	taken, err := r.Store.Conversations(ctx, agent, since)
	r.once.Do(func() {
		close(r.reached)
		<-r.gate
	})
	return taken, err
}

// codexes makes Codex a program that prints a title for each line typed.
func (h *harness) codexes() {
	h.t.Helper()
	path := filepath.Join(h.dir, "codexes")
	if err := os.WriteFile(path, []byte("#!/bin/sh\nprintf '\\033]0;ready\\007'\nwhile read -r line; do printf '\\033]0;%s\\007' \"$line\"; done\n"), 0o755); err != nil {
		h.t.Fatal(err)
	}
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: path}
}

const someConversation = "019aaaaa-0000-7000-8000-000000000001"

func started(id string) string {
	return `{"hook_event_name":"SessionStart","session_id":"` + id + `"}`
}

// What a hook says of the conversation stays, although a search for it that began before ends after it, having found nothing.
func TestSearchForAConversationLeavesTheHooksWord(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.codexes()
	slow := &readers{reached: make(chan struct{}), gate: make(chan struct{})}
	h.tune = func(c *sessions.Config) { slow.Store, c.Store = c.Store, slow }
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	<-slow.reached
	s.Hook(t.Context(), row.ID, "", started(someConversation))
	if got := s.get(t, row.ID).Conversation; got != someConversation {
		t.Fatalf("the hook was not heard: %q", got)
	}
	close(slow.gate)
	s.typesLine(t, h, row.ID, "after")
	eventually(t, "what came after the search is stored", func() bool {
		got, err := slow.Session(t.Context(), row.ID)
		return err == nil && got.Title == "after"
	})
	if got := s.get(t, row.ID).Conversation; got != someConversation {
		t.Errorf("the conversation is %q", got)
	}
	if got, err := slow.Session(t.Context(), row.ID); err != nil || got.Conversation != someConversation {
		t.Errorf("stored is %q, %v", got.Conversation, err)
	}
}

// pair lets two who would take a conversation begin at the same moment, having read the same.
type pair struct {
	sessions.Store
	both sync.WaitGroup
}

func (p *pair) meet() {
	p.both.Done()
	p.both.Wait()
}

func (p *pair) ClaimConversation(ctx context.Context, c sessions.Claim) (bool, error) {
	if c.Conversation == someConversation {
		p.meet()
	}
	return p.Store.ClaimConversation(ctx, c)
}

// A conversation has one session that goes on with it.
func TestASessionIsResumedOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.codexes()
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex})
	eventually(t, "the title arrives", func() bool { return s.get(t, row.ID).Title == "ready" })
	s.Hook(t.Context(), row.ID, "", started(someConversation))
	dir := filepath.Join(h.dir, "homes", h.actor.User.ID, ".codex/sessions/2026/01/01")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "rollout-x-"+someConversation+".jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 0); err != nil {
		t.Fatal(err)
	}
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil || next.Conversation != someConversation {
		t.Fatalf("resumed with %q: %v", next.Conversation, err)
	}
	if again, err := s.Resume(t.Context(), h.actor, row.ID); fault.CodeOf(err) != "conversation_in_use" {
		t.Fatalf("resumed a second time: %+v, %v", again, err)
	}
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 0); err != nil {
		t.Fatal(err)
	}
	if last, err := s.Resume(t.Context(), h.actor, row.ID); err != nil || last.Conversation != someConversation {
		t.Errorf("the conversation of a session that has ended was not taken over: %q, %v", last.Conversation, err)
	}
}

// Of two sessions that say at the same moment that a conversation is theirs, one has it.
func TestAConversationIsOneSessions(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.puppets()
	two := &pair{}
	two.both.Add(2)
	h.tune = func(c *sessions.Config) { two.Store, c.Store = c.Store, two }
	s := h.start()
	a, b := s.puppet(t), s.puppet(t)
	var wg sync.WaitGroup
	for _, p := range []*puppet{a, b} {
		wg.Go(func() { s.Hook(t.Context(), p.id, "", started(someConversation)) })
	}
	wg.Wait()
	held := 0
	for _, p := range []*puppet{a, b} {
		if s.get(t, p.id).Conversation == someConversation {
			held++
		}
	}
	if held != 1 {
		t.Errorf("%d sessions hold one conversation", held)
	}
}

// mute is a pipe that can fall silent: what is written then arrives nowhere, and nothing more is read.
type mute struct {
	io.ReadWriteCloser
	silent *atomic.Bool
	closed chan struct{}
	once   sync.Once
}

func (m *mute) Read(p []byte) (int, error) {
	n, err := m.ReadWriteCloser.Read(p)
	if m.silent.Load() {
		<-m.closed
		return 0, io.EOF
	}
	return n, err
}

func (m *mute) Write(p []byte) (int, error) {
	if m.silent.Load() {
		return len(p), nil
	}
	return m.ReadWriteCloser.Write(p)
}

func (m *mute) Close() error {
	m.once.Do(func() { close(m.closed) })
	return m.ReadWriteCloser.Close()
}

// A sandbox that hangs, in which the conversation of an agent would be looked for, delays no other session's state.
func TestAHungSandboxDelaysNobodysState(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.codexes()
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: "codexes"} // in there it is a name
	var silent atomic.Bool
	h.knobs = fake.Knobs{OwnDisk: true, Wrap: func(c io.ReadWriteCloser) io.ReadWriteCloser {
		return &mute{ReadWriteCloser: c, silent: &silent, closed: make(chan struct{})}
	}}
	s := h.start()
	hung := s.begin(t, sessions.StartRequest{Agent: agents.Codex, Env: map[string]string{"PATH": h.dir + ":" + os.Getenv("PATH")}})
	eventually(t, "the title arrives", func() bool { return s.get(t, hung.ID).Title == "ready" })
	s.places.Set(fake.Knobs{OwnDisk: true})
	other, err := s.Start(t.Context(), h.actor, h.addWorkspace("other").ID, sessions.StartRequest{Agent: agents.Command, Argv: []string{"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.get(t, hung.ID); got.State.Ended() {
		t.Fatalf("it ended: %s, %v: %s", got.StateReason, got.Argv, s.output(t, hung.ID))
	}
	silent.Store(true)
	for i := range 3 { // state that is stored again and again, each time with a search that is due
		s.Says(hung.ID, agents.Hint{Source: agents.FromTitle, Mood: agents.Asking, Reason: fmt.Sprint("is it ", i)})
		reason := fmt.Sprint("other ", i)
		s.Says(other.ID, agents.Hint{Source: agents.FromNotice, Mood: agents.Asking, Reason: reason})
		eventually(t, "the other's state is stored", func() bool {
			got, err := store.NewSessions(h.db).Session(t.Context(), other.ID)
			return err == nil && got.StateReason == reason
		})
	}
	if got, err := store.NewSessions(h.db).Session(t.Context(), hung.ID); err != nil || got.State != state.Waiting {
		t.Errorf("the hung one's own state is stored as %s, %v", got.State, err)
	}
}
