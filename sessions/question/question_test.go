package question_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/screen"
	"github.com/parawork/parawork/sessions/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// memory keeps questions as the storage does.
type memory struct {
	mu  sync.Mutex
	all map[string]question.Question
}

func (m *memory) InsertQuestion(_ context.Context, q question.Question) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all[q.ID] = q
	return nil
}

func (m *memory) CloseQuestion(_ context.Context, q question.Question) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	open := m.all[q.ID].State == question.Open
	if open {
		m.all[q.ID] = q
	}
	return open, nil
}

func (m *memory) WithdrawQuestions(_ context.Context, sessionID string, at int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for id, q := range m.all {
		if q.SessionID == sessionID && q.State == question.Open {
			q.State, q.AnsweredAt = question.Withdrawn, at
			m.all[id] = q
		}
	}
	return nil
}

func (m *memory) Question(_ context.Context, id string) (question.Question, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	q, ok := m.all[id]
	if !ok {
		return q, fault.New(fault.NotFound, "question_not_found", "None.")
	}
	return q, nil
}

func (m *memory) AnsweredQuestion(_ context.Context, sessionID, key string) (question.Question, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.all {
		if q.SessionID == sessionID && q.Key == key && q.State == question.Answered {
			return q, nil
		}
	}
	return question.Question{}, fault.New(fault.NotFound, "question_not_found", "None.")
}

func (m *memory) OpenQuestions(context.Context, string) (out []question.Question, _ error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, q := range m.all {
		if q.State == question.Open {
			out = append(out, q)
		}
	}
	return out, nil
}

func (m *memory) Questions(ctx context.Context, _ string, _ page.Page) ([]question.Question, string, error) {
	all, err := m.OpenQuestions(ctx, "")
	return all, "", err
}

func (m *memory) Marks(context.Context, string, string, []string) (map[string]question.Mark, error) {
	return nil, nil
}
func (m *memory) PutMark(context.Context, question.Mark) error { return nil }

// session is one session that asks, and all there are.
type session struct {
	*question.Questions
	board *question.Board
	store *memory

	mu      sync.Mutex // the session's lock
	state   state.State
	machine state.Machine
	notes   []journal.Kind
	claimed string
	heard   []agents.Mood
}

func (s *session) State() state.State { return s.state }

func (s *session) Judge() {
	if s.state.Ended() {
		return
	}
	s.machine.Evaluate(time.Now())
	s.state = s.machine.State
}

func (s *session) Changed() {}

func (s *session) Noticed(agents.HookReport) {}

func (s *session) Observe(h agents.Hint) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard = append(s.heard, h.Mood)
}

func (s *session) Claim(_ context.Context, conversation string) error {
	s.claimed = conversation
	return nil
}
func (s *session) Press(context.Context, []byte) error                  { return nil }
func (s *session) Prompt(context.Context, accounts.Actor, string) error { return nil }
func (s *session) Wake(context.Context) error                           { return nil }

func (s *session) Hold(id string) (*question.Questions, func()) { return s.InMemory(id), func() {} }
func (s *session) All() []*question.Questions                   { return []*question.Questions{s.Questions} }
func (s *session) InMemory(id string) *question.Questions {
	if id != "ses_1" {
		return nil
	}
	return s.Questions
}

func (s *session) Actor(context.Context, string) (accounts.Actor, error) { return ana, nil }

var ana = accounts.Actor{User: accounts.User{ID: "ana", Name: "Ana"}}

var mayRun = agents.Ask{Kind: agents.Permission, Title: "Run swordfish\x07?", FreeText: true,
	Options: []agents.Option{{ID: "allow", Label: "Allow", Role: agents.Allow}, {ID: "deny", Label: "Deny", Role: agents.Deny}}}

func newSession(t *testing.T, store *memory) *session {
	dir := t.TempDir()
	registry, err := agents.New(agents.Config{HomesDir: dir, WorktreesDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	group := new(tasks.Group)
	t.Cleanup(func() { cancel(); group.Close() })
	s := &session{store: store, state: state.Working, machine: state.New(true, time.Now(), state.Working, "")}
	s.board = question.New(question.Config{Store: store, Sessions: s, Agents: registry, Accounts: s, Live: func(string) (*executors.Place, bool) { return nil, false },
		Tasks: group, Context: ctx, Now: time.Now, Log: slog.New(slog.DiscardHandler)})
	s.Questions = s.board.Session(question.SessionConfig{About: question.About{ID: "ses_1", TeamID: "team", WorkspaceID: "ws", SandboxID: "sbx", Agent: agents.Codex}, Host: s,
		Lock: &s.mu, Machine: &s.machine, Mask: func(text string) string { return strings.ReplaceAll(text, "swordfish", "*********") },
		Note: func(kind journal.Kind, _ any) { s.notes = append(s.notes, kind) }, Screen: func(func(*screen.Screen)) bool { return false }, Printed: func() int64 { return 0 }})
	return s
}

// A question is masked, makes its session wait, and is answered once, whoever answers at the same time.
func TestOneAnswerReachesTheAgent(t *testing.T) {
	t.Parallel()
	s := newSession(t, &memory{all: map[string]question.Question{}})
	given := 0
	id := s.Ask(t.Context(), "k", mayRun, func(context.Context, accounts.Actor, agents.Answer) error { given++; return nil })
	if q, err := s.board.QuestionByID(t.Context(), id); err != nil || q.Title != "Run *********?" || q.State != question.Open {
		t.Fatalf("question %+v (%v)", q, err)
	}
	if s.state != state.Waiting {
		t.Errorf("the session is %s", s.state)
	}
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			_, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"allow"}})
			errs <- err
		}()
	}
	late := 0
	for range cap(errs) {
		if err := <-errs; fault.CodeOf(err) == "already_answered" {
			late++
		} else if err != nil {
			t.Error(err)
		}
	}
	if given != 1 || late != cap(errs)-1 {
		t.Errorf("the agent was answered %d times, %d came too late", given, late)
	}
	if q, _ := s.board.QuestionByID(t.Context(), id); q.State != question.Answered || q.AnsweredBy != "ana" || q.Answer != "Allow" {
		t.Errorf("question %+v", q)
	}
}

func TestWhatIsNoAnswer(t *testing.T) {
	t.Parallel()
	s := newSession(t, &memory{all: map[string]question.Question{}})
	cut := errors.New("cut")
	id := s.Ask(t.Context(), "k", mayRun, func(context.Context, accounts.Actor, agents.Answer) error { return cut })
	for _, c := range []struct {
		session string
		req     question.AnswerRequest
		code    string
	}{
		{"ses_2", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"allow"}}, "question_not_found"},
		{"ses_1", question.AnswerRequest{QuestionID: id}, "invalid_answer"},
		{"ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"never"}}, "invalid_answer"},
		{"ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"allow"}, Text: "because"}, "invalid_answer"},
		{"ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"deny"}, Text: "because"}, "answer_not_delivered"},
	} {
		if _, err := s.board.Answer(t.Context(), ana, c.session, c.req); fault.CodeOf(err) != c.code {
			t.Errorf("%+v: %v, want %s", c.req, err, c.code)
		}
	}
	if q, _ := s.board.QuestionByID(t.Context(), id); q.State != question.Open {
		t.Errorf("it is %s although no answer reached the agent", q.State)
	}
	s.Withdraw(t.Context(), "k")
	if _, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"allow"}}); fault.CodeOf(err) != "question_gone" {
		t.Errorf("after it was withdrawn: %v", err)
	}
}

// Questions of an earlier server are open again, and end with their session.
func TestQuestionsOutliveTheServer(t *testing.T) {
	t.Parallel()
	store := &memory{all: map[string]question.Question{}}
	id := newSession(t, store).Ask(t.Context(), "k", mayRun, nil)
	s := newSession(t, store)
	if err := s.Recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	oldest := s.Oldest()
	s.mu.Unlock()
	if oldest == nil || oldest.ID != id {
		t.Fatalf("the oldest question is %+v", oldest)
	}
	s.End(t.Context())
	if q, _ := s.board.QuestionByID(t.Context(), id); q.State != question.Withdrawn {
		t.Errorf("it is %s after its session has ended", q.State)
	}
}

// While its session listens, a hook's report takes effect: the conversation it names, and the state it reports.
func TestHooksAreHeard(t *testing.T) {
	t.Parallel()
	s := newSession(t, &memory{all: map[string]question.Question{}})
	unsubscribe := s.Subscribe()
	defer unsubscribe()
	hear := func(agent, event string) {
		s.board.Take(t.Context(), "sbx", guest.HookCall{Process: "ses_1", Agent: agent, At: time.Now().UnixMilli(), Event: []byte(event)})
	}
	const prompted, started = `{"hook_event_name":"UserPromptSubmit"}`, `{"hook_event_name":"SessionStart","session_id":"8c2f4f0e-1111-4222-8333-444455556666"}`
	hear(agents.ClaudeCode, prompted)
	hear(agents.ClaudeCode, started)
	if s.claimed != "" || len(s.heard) != 0 {
		t.Errorf("another agent's hooks were heard: %q, %v", s.claimed, s.heard)
	}
	hear(agents.Codex, started)
	hear(agents.Codex, prompted)
	if s.claimed != "8c2f4f0e-1111-4222-8333-444455556666" || !slices.Contains(s.heard, agents.Busy) {
		t.Errorf("heard of %q and %v", s.claimed, s.heard)
	}
}
