package prompt_test

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory keeps the prompts of one session as the storage does.
type memory struct {
	prompt.Store // what is not asked for here

	mu  sync.Mutex
	all []prompt.Prompt
}

func (m *memory) AddPrompt(_ context.Context, p prompt.Prompt, _ int) (prompt.Prompt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all = append(m.all, p)
	return p, nil
}

func (m *memory) Prompts(context.Context, string, int) ([]prompt.Prompt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.all), nil
}

func (m *memory) NextPrompt(context.Context, string) (prompt.Prompt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.all {
		if p.State == prompt.Queued || p.State == prompt.Sending {
			return p, nil
		}
	}
	return prompt.Prompt{}, fault.New(fault.NotFound, "prompt_not_found", "None.")
}

func (m *memory) EditPrompt(_ context.Context, id string, at int, fn func(*prompt.Prompt) error) (prompt.Prompt, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.IndexFunc(m.all, func(p prompt.Prompt) bool { return p.ID == id })
	p := m.all[i]
	if err := fn(&p); err != nil {
		return p, err
	}
	m.all[i] = p
	if at >= 0 {
		m.all = slices.Insert(slices.Delete(m.all, i, i+1), at, p)
	}
	return p, nil
}

// session is one session that is typed into, and all there are.
type session struct {
	*prompt.Session
	queue *prompt.Queue
	store *memory
	done  chan struct{}

	mu      sync.Mutex // the session's lock
	row     prompt.Row
	changed chan struct{}
	why     string // its workspace is suspended
	woken   bool
	guest   int // how often somebody wanted to type
}

func (s *session) Row() prompt.Row          { return s.row }
func (s *session) Changed() <-chan struct{} { return s.changed }

func (s *session) Bump() {
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *session) Paused(wake bool) (string, time.Duration) {
	s.woken = s.woken || wake && s.why != ""
	return s.why, time.Hour
}

func (s *session) Awake(context.Context) error { return nil }

func (s *session) Guest() (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.guest++
	return nil, fault.New(fault.Unavailable, "session_not_ready", "Not now.")
}

func (s *session) Hold() (func(), bool) { return func() {}, true }
func (s *session) Sent(prompt.Prompt)   {}
func (s *session) Record(prompt.Prompt) {}

// sessions are that one.
type sessions struct{ *session }

func (s sessions) Open(_ context.Context, _ accounts.Actor, id string, _ bool) (prompt.About, error) {
	return prompt.About{ID: id, TeamID: "team", WorkspaceID: "ws"}, nil
}
func (s sessions) Hold(id string) (*prompt.Session, func()) { return s.InMemory(id), func() {} }
func (s sessions) InMemory(string) *prompt.Session          { return s.Session }

func newSession(t *testing.T) *session {
	dir := t.TempDir()
	registry, err := agents.New(agents.Config{HomesDir: dir, WorktreesDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	group := new(tasks.Group)
	t.Cleanup(func() { cancel(); group.Close() })
	s := &session{store: &memory{}, done: make(chan struct{}), changed: make(chan struct{}), row: prompt.Row{State: state.Working, StartedAt: 1}}
	machine := state.New(true, time.Now().Add(-time.Hour), state.Working, "")
	s.queue = prompt.New(prompt.Config{Store: s.store, Sessions: sessions{s}, Agents: registry, AcceptWithin: time.Second, Tasks: group, Context: ctx, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	s.Session = s.queue.Session(prompt.SessionConfig{About: prompt.About{ID: "ses_1", TeamID: "team", WorkspaceID: "ws", Agent: agents.ClaudeCode, Explicit: true}, Host: s, Lock: &s.mu, Machine: &machine,
		Done: s.done, Note: func(journal.Kind, any) {}, Lines: func(context.Context) ([]string, error) { return nil, nil }, Brackets: func() bool { return true }})
	return s
}

// set changes the session, and tells.
func (s *session) set(change func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	s.Bump()
}

func (s *session) waits(t *testing.T, want string) {
	t.Helper()
	got := ""
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(2 * time.Millisecond) {
		all, err := s.queue.ListPrompts(t.Context(), "ses_1")
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(all, func(p prompt.Prompt) bool { return p.State == prompt.Queued })
		if got = all[i].Waits; got == want {
			return
		}
	}
	t.Fatalf("it waits since %q, want %q", got, want)
}

var ana = accounts.Actor{User: accounts.User{ID: "ana"}}

// A prompt waits until its agent can take it, and says for what.
func TestPromptsWait(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	if _, err := s.queue.AddPrompt(t.Context(), ana, "ses_1", prompt.Request{Text: "go on"}); err != nil {
		t.Fatal(err)
	}
	s.waits(t, "the agent is working")
	s.set(func() { s.row.State = state.Waiting })
	s.waits(t, "the agent waits for an answer")
	s.set(func() { s.why = "the workspace is paused" })
	s.waits(t, "the workspace is paused")
	if s.woken {
		t.Error("a workspace was woken for a prompt that waits for an answer")
	}
	s.set(func() { s.row.State, s.row.HeldBy, s.row.HeldName = state.Idle, "bob", "Bob" })
	s.set(func() { s.why = "" })
	s.waits(t, "Bob holds the keyboard")
	s.set(func() { s.row.Stopping = true })
	s.waits(t, "the session is being stopped")
	if s.guest != 0 {
		t.Errorf("%d times somebody wanted to type meanwhile", s.guest)
	}
	s.Pressed([]byte("half a sentence"))
	s.set(func() { s.row = prompt.Row{State: state.Idle, StartedAt: 1} })
	s.waits(t, "the agent's input field holds unsent text: send or clear it in the terminal")
	s.Pressed([]byte("\x03"))
	if _, err := s.queue.CancelPrompt(t.Context(), s.store.all[0].ID); err != nil {
		t.Fatal(err)
	}
}

func TestPromptsAreChangedWhileTheyWait(t *testing.T) {
	t.Parallel()
	s := newSession(t)
	for _, text := range []string{" \n", "nul\x00", "\xff"} {
		if _, err := s.queue.AddPrompt(t.Context(), ana, "ses_1", prompt.Request{Text: text}); fault.CodeOf(err) != "invalid_prompt" {
			t.Errorf("%q: %v", text, err)
		}
	}
	add := func(r prompt.Request) prompt.Prompt {
		p, err := s.queue.AddPrompt(t.Context(), ana, "ses_1", r)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := add(prompt.Request{Text: "first"}), add(prompt.Request{Text: "second", Now: true})
	if all, _ := s.queue.ListPrompts(t.Context(), "ses_1"); len(all) != 2 || all[0].ID != second.ID || !all[0].Urgent {
		t.Errorf("the queue is %+v", all)
	}
	text := "another"
	if p, err := s.queue.EditPrompt(t.Context(), ana, first.ID, prompt.Edit{Text: &text}); err != nil || p.Text != text {
		t.Errorf("changed to %+v (%v)", p, err)
	}
	for _, id := range []string{first.ID, second.ID} {
		if p, err := s.queue.CancelPrompt(t.Context(), id); err != nil || p.State != prompt.Cancelled {
			t.Errorf("cancelled: %+v (%v)", p, err)
		}
	}
	if _, err := s.queue.EditPrompt(t.Context(), ana, first.ID, prompt.Edit{Text: &text}); fault.CodeOf(err) != "prompt_closed" {
		t.Errorf("changing one that was cancelled: %v", err)
	}
}
