package sessions_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
)

var mayRun = agents.Ask{Kind: agents.Permission, Title: "Run \x1b[31mrm\x07?", Detail: "rm -rf\r\n\x1b]0;x\x07 /", FreeText: true,
	Options: []agents.Option{{ID: "allow", Label: "Allow", Role: agents.Allow}, {ID: "deny", Label: "Deny", Role: agents.Deny}}}

func reached(context.Context, accounts.Actor, agents.Answer) error { return nil }

func (s *server) question(t *testing.T, session, id string) question.Question {
	t.Helper()
	all, _, err := s.Questions(t.Context(), session, page.Page{})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range all {
		if q.ID == id {
			return q
		}
	}
	t.Fatalf("question %s is not among %v", id, all)
	return question.Question{}
}

func TestQuestionIsAnsweredOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "read x")
	var took atomic.Int32
	inside, on := make(chan struct{}), make(chan struct{})
	q := s.Ask(t.Context(), row.ID, "k", mayRun, func(context.Context, accounts.Actor, agents.Answer) error {
		if took.Add(1) == 1 {
			close(inside)
		}
		<-on
		return nil
	})
	if got := s.get(t, row.ID); got.Question == nil || got.Question.ID != q || got.State != state.Waiting || strings.ContainsAny(got.Question.Title+got.Question.Detail, "\x1b\x07\r") {
		t.Fatalf("session %+v, question %+v", got, got.Question)
	}
	if again := s.Ask(t.Context(), row.ID, "k", mayRun, func(context.Context, accounts.Actor, agents.Answer) error {
		if took.Add(1) == 1 {
			close(inside)
		}
		<-on
		return nil
	}); again != q {
		t.Errorf("the same question was asked twice: %s and %s", q, again)
	}
	var wg sync.WaitGroup
	var won, lost atomic.Int32
	for i := range 8 {
		wg.Go(func() {
			who := accounts.Actor{User: accounts.User{ID: h.actor.User.ID, Name: "Ana"}}
			_, err := s.Answer(t.Context(), who, row.ID, question.AnswerRequest{QuestionID: q, OptionIDs: []string{[]string{"allow", "deny"}[i%2]}})
			switch {
			case err == nil:
				won.Add(1)
			case fault.CodeOf(err) == "already_answered" && strings.Contains(err.Error(), "by "+h.actor.User.Name):
				lost.Add(1)
			default:
				t.Errorf("%v", err)
			}
		})
	}
	<-inside
	close(on)
	wg.Wait()
	if won.Load() != 1 || lost.Load() != 7 || took.Load() != 1 {
		t.Errorf("%d won, %d lost, %d reached the agent", won.Load(), lost.Load(), took.Load())
	}
	if got := s.get(t, row.ID); got.Question != nil || got.State == state.Waiting {
		t.Errorf("after the answer: %s, %+v", got.State, got.Question)
	}
	if got := s.question(t, row.ID, q); got.State != question.Answered || got.AnsweredBy != h.actor.User.ID || got.AnsweredByName == "" || got.Via != "api" {
		t.Errorf("stored %+v", got)
	}
}

func TestAnswerThatDidNotArriveIsNone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "read x")
	fail := errors.New("cut")
	q := s.Ask(t.Context(), row.ID, "k", mayRun, func(context.Context, accounts.Actor, agents.Answer) error { return fail })
	ans := question.AnswerRequest{QuestionID: q, OptionIDs: []string{"deny"}, Text: "not here"}
	if _, err := s.Answer(t.Context(), h.actor, row.ID, ans); fault.CodeOf(err) != "answer_not_delivered" {
		t.Fatalf("got %v", err)
	}
	if got := s.question(t, row.ID, q); got.State != question.Open {
		t.Fatalf("stored %+v", got)
	}
	fail = nil
	got, err := s.Answer(t.Context(), h.actor, row.ID, ans)
	if err != nil || got.Answer != "Deny: not here" {
		t.Fatalf("got %+v, %v", got, err)
	}
	// The agent went on by itself before the answer reached it.
	q = s.Ask(t.Context(), row.ID, "k2", mayRun, func(context.Context, accounts.Actor, agents.Answer) error {
		return fault.New(fault.Gone, "hook_gone", "gone")
	})
	ans.QuestionID = q
	for range 2 {
		if _, err := s.Answer(t.Context(), h.actor, row.ID, ans); fault.CodeOf(err) != "question_gone" {
			t.Fatalf("got %v", err)
		}
	}
	if got := s.question(t, row.ID, q); got.State != question.Withdrawn || got.AnsweredBy != "" {
		t.Errorf("stored %+v", got)
	}
}

func TestQuestionsEndWithTheirSession(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s := h.start()
	row := s.run(t, "sh", "-c", "read x")
	first := s.Ask(t.Context(), row.ID, "1", mayRun, reached)
	second := s.Ask(t.Context(), row.ID, "2", mayRun, reached)
	s.Withdraw(t.Context(), row.ID, "1")
	if got := s.get(t, row.ID); got.Question == nil || got.Question.ID != second || got.State != state.Waiting {
		t.Fatalf("session %+v", got)
	}
	items, err := s.Inbox(t.Context(), h.ws.TeamID, "")
	if err != nil || len(items) != 1 || items[0].ID != second || items[0].Kind != question.InboxQuestion {
		t.Fatalf("inbox %+v, %v", items, err)
	}
	if _, err := s.Stop(t.Context(), h.actor, row.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{first, second} {
		if got := s.question(t, row.ID, q); got.State != question.Withdrawn || got.AnsweredAt == 0 {
			t.Errorf("stored %+v", got)
		}
	}
	if _, err := s.Answer(t.Context(), h.actor, row.ID, question.AnswerRequest{QuestionID: second, OptionIDs: []string{"allow"}}); fault.CodeOf(err) != "question_gone" {
		t.Errorf("got %v", err)
	}
	if items, err := s.Inbox(t.Context(), h.ws.TeamID, ""); err != nil || len(items) != 0 {
		t.Errorf("inbox %+v, %v", items, err)
	}
}
