package question_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
)

// waited is how AskAndWait ended.
type waited struct {
	answer agents.Answer
	err    error
}

// waits asks a question in a goroutine, and returns it once people see it.
func (s *session) waits(ctx context.Context, t *testing.T, key string, accept question.Accept) (id string, end <-chan waited) {
	t.Helper()
	c := make(chan waited, 1)
	go func() {
		a, err := s.AskAndWait(ctx, key, mayRun, accept)
		c <- waited{a, err}
	}()
	for late := time.Now().Add(time.Minute); time.Now().Before(late); time.Sleep(time.Millisecond) {
		s.mu.Lock()
		q := s.Oldest()
		s.mu.Unlock()
		if q != nil {
			return q.ID, c
		}
	}
	t.Fatal("nothing was asked")
	return "", nil
}

// Who asks in the server gets the answer, or learns that there will be none.
func TestAskAndWait(t *testing.T) {
	t.Parallel()
	store := &memory{all: map[string]question.Question{}}
	s := newSession(t, store)
	id, end := s.waits(t.Context(), t, "call/0", nil)
	if _, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"deny"}, Text: "no"}); err != nil {
		t.Fatal(err)
	}
	if w := <-end; w.err != nil || len(w.answer.Options) != 1 || w.answer.Options[0].ID != "deny" || w.answer.Text != "no" {
		t.Errorf("%+v", w)
	}

	_, end = s.waits(t.Context(), t, "call/1", nil)
	s.Withdraw(t.Context(), "call/1")
	if w := <-end; fault.CodeOf(w.err) != "question_gone" {
		t.Errorf("after it was withdrawn: %+v", w)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	id, end = s.waits(ctx, t, "call/1", nil)
	cancel(errors.New("interrupted"))
	if w := <-end; w.err == nil || w.err.Error() != "interrupted" {
		t.Errorf("%+v", w)
	}
	if q, _ := s.board.QuestionByID(t.Context(), id); q.State != question.Withdrawn || q.Source != question.AskedByAgent {
		t.Errorf("after an interruption: %+v", q)
	}
}

// A server that ends leaves the question open, and the next one takes it over with its answer.
func TestAskAndWaitOverARestart(t *testing.T) {
	t.Parallel()
	store := &memory{all: map[string]question.Question{}}
	ctx, cancel := context.WithCancelCause(t.Context())
	id, end := newSession(t, store).waits(ctx, t, "call/1", nil)
	cancel(question.ErrStays)
	if w := <-end; !errors.Is(w.err, question.ErrStays) {
		t.Errorf("%+v", w)
	}
	s := newSession(t, store)
	if err := s.Recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, end := s.waits(t.Context(), t, "call/1", nil)
	if again != id {
		t.Errorf("asked anew: %s, not %s", again, id)
	}
	for late := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // until it is taken over
		_, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"allow"}})
		if err == nil {
			break
		}
		if time.Now().After(late) {
			t.Fatal(err)
		}
	}
	if w := <-end; w.err != nil || w.answer.Options[0].ID != "allow" {
		t.Errorf("%+v", w)
	}
}

// An answer that was stored when the server was killed is not asked for again, and who answers late or twice reads so.
func TestAnAnswerOutlivesTheServer(t *testing.T) {
	t.Parallel()
	store := &memory{all: map[string]question.Question{}}
	first := newSession(t, store)
	ctx, cancel := context.WithCancelCause(t.Context())
	id, _ := first.waits(ctx, t, "call/1", nil)
	request := question.AnswerRequest{QuestionID: id, OptionIDs: []string{"deny"}, Text: "not: now"}
	if _, err := first.board.Answer(t.Context(), ana, "ses_1", request); err != nil {
		t.Fatal(err)
	}
	cancel(question.ErrStays)
	if _, err := first.board.Answer(t.Context(), ana, "ses_1", request); fault.CodeOf(err) != "already_answered" {
		t.Errorf("answered twice: %v", err)
	}
	again := newSession(t, store)
	a, err := again.AskAndWait(t.Context(), "call/1", mayRun, nil)
	if err != nil || len(a.Options) != 1 || a.Options[0].ID != "deny" || a.Text != "not: now" {
		t.Errorf("%+v, %v", a, err)
	}
	if _, err := again.board.Answer(t.Context(), ana, "ses_1", request); fault.CodeOf(err) != "already_answered" {
		t.Errorf("answered twice, after a restart: %v", err)
	}
}

// An answer that is not accepted leaves the question open, and its author learns why.
func TestAnswersThatAreNotAccepted(t *testing.T) {
	t.Parallel()
	s := newSession(t, &memory{all: map[string]question.Question{}})
	id, end := s.waits(t.Context(), t, "call/1", func(_ context.Context, _ accounts.Actor, a agents.Answer) error {
		if a.Options[0].ID == "allow" {
			return fault.New(fault.Forbidden, "not_you", "No.")
		}
		return nil
	})
	if _, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"allow"}}); fault.CodeOf(err) != "not_you" {
		t.Errorf("%v", err)
	}
	if _, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"deny"}}); err != nil {
		t.Error(err)
	}
	if w := <-end; w.err != nil || w.answer.Options[0].ID != "deny" {
		t.Errorf("%+v", w)
	}
}
