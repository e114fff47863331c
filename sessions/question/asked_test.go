package question_test

import (
	"context"
	"errors"
	"testing"
	"time"

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
func (s *session) waits(ctx context.Context, t *testing.T) (id string, end <-chan waited) {
	t.Helper()
	c := make(chan waited, 1)
	go func() {
		a, err := s.AskAndWait(ctx, "call/1", mayRun)
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
	id, end := s.waits(t.Context(), t)
	if _, err := s.board.Answer(t.Context(), ana, "ses_1", question.AnswerRequest{QuestionID: id, OptionIDs: []string{"deny"}, Text: "no"}); err != nil {
		t.Fatal(err)
	}
	if w := <-end; w.err != nil || len(w.answer.Options) != 1 || w.answer.Options[0].ID != "deny" || w.answer.Text != "no" {
		t.Errorf("%+v", w)
	}

	_, end = s.waits(t.Context(), t)
	s.Withdraw(t.Context(), "call/1")
	if w := <-end; fault.CodeOf(w.err) != "question_gone" {
		t.Errorf("after it was withdrawn: %+v", w)
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	id, end = s.waits(ctx, t)
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
	id, end := newSession(t, store).waits(ctx, t)
	cancel(question.ErrStays)
	if w := <-end; !errors.Is(w.err, question.ErrStays) {
		t.Errorf("%+v", w)
	}
	s := newSession(t, store)
	if err := s.Recall(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, end := s.waits(t.Context(), t)
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
