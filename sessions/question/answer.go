package question

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
)

// AnswerRequest answers a question. Via says where it was answered, "" = by the API.
type AnswerRequest struct {
	QuestionID string
	OptionIDs  []string
	Text       string
	Via        string
}

const maxAnswerText = 16 << 10

// takenUpIn is how long an answer waits for a question of an earlier server to be reconnected.
const takenUpIn = 3 * time.Second

// errGone reports that an answer comes too late and nobody else gave one.
func errGone() error {
	return fault.New(fault.Conflict, "question_gone", "The agent no longer waits for an answer: it continued, was interrupted or has ended.")
}

// Questions returns a page of a session's questions, newest first.
func (b *Board) Questions(ctx context.Context, sessionID string, pg page.Page) ([]Question, string, error) {
	all, next, err := b.cfg.Store.Questions(ctx, sessionID, pg)
	if err != nil {
		return nil, "", err
	}
	names := map[string]string{}
	l := b.cfg.Sessions.InMemory(sessionID)
	for i := range all {
		if l != nil {
			if all[i], err = l.questionNow(ctx, all[i]); err != nil {
				return nil, "", err
			}
		}
		all[i].AnsweredByName = b.nameOf(ctx, all[i].AnsweredBy, names)
	}
	return all, next, nil
}

// questionNow returns q, as it was stored, in the form people should see: as answered while its answer is held until others are
// given, and with its end if it has ended meanwhile.
func (l *Questions) questionNow(ctx context.Context, q Question) (Question, error) {
	l.mu.Lock()
	as := l.pendingOf(func(as *pending) bool { return as.q.ID == q.ID })
	var now Question
	switch {
	case as == nil:
	case as.held != nil:
		now = *as.held
	default:
		now = as.q
	}
	l.mu.Unlock()
	switch {
	case as == nil && q.State == Open: // it was released once its end was stored
		return l.board.cfg.Store.Question(ctx, q.ID)
	case as != nil && now.State != Open:
		return now, nil
	}
	return q, nil
}

// nameOf returns a user's name, "" for no user. seen caches it within one request.
func (b *Board) nameOf(ctx context.Context, userID string, seen map[string]string) string {
	if userID == "" {
		return ""
	}
	if name, ok := seen[userID]; ok {
		return name
	}
	name := "somebody who has left"
	if a, err := b.cfg.Accounts.Actor(ctx, userID); err == nil {
		name = a.User.Name
	}
	seen[userID] = name
	return name
}

// Answer passes a person's answer to the agent: once, even when others answer at the same time. If it does not reach the agent,
// the question stays open. Errors: question_not_found, invalid_answer, already_answered, question_gone, session_not_ready,
// answer_not_delivered.
func (b *Board) Answer(ctx context.Context, actor accounts.Actor, sessionID string, req AnswerRequest) (Question, error) {
	q, err := b.cfg.Store.Question(ctx, req.QuestionID)
	if err != nil {
		return Question{}, err
	}
	if q.SessionID != sessionID {
		return Question{}, fault.New(fault.NotFound, "question_not_found", "The session has no such question.")
	}
	choice, err := choose(q, req)
	if err != nil {
		return Question{}, err
	}
	l, release := b.cfg.Sessions.Hold(sessionID)
	if l == nil {
		return Question{}, b.late(ctx, q.ID)
	}
	defer release()
	l.mu.Lock()
	as := l.pendingOf(func(as *pending) bool { return as.q.ID == q.ID })
	l.mu.Unlock()
	if as == nil {
		return Question{}, b.late(ctx, q.ID)
	}
	if err := l.host.Wake(ctx); err != nil { // only a running program can take an answer
		return Question{}, err
	}
	var by handOver
	var held *Question
	for deadline := time.Now().Add(takenUpIn); ; {
		select {
		case <-as.turn:
		case <-ctx.Done():
			return Question{}, ctx.Err()
		}
		l.mu.Lock()
		q, by, held = as.q, as.by, as.held
		l.mu.Unlock()
		if by != nil || held != nil || q.State != Open || time.Now().After(deadline) {
			break
		}
		as.turn <- struct{}{} // after a restart the agent's hook reports in a moment
		if !tasks.Sleep(ctx, takenUpIn/50) {
			return Question{}, ctx.Err()
		}
	}
	defer func() { as.turn <- struct{}{} }()
	switch {
	case held != nil:
		return Question{}, b.tooLate(ctx, *held)
	case q.State != Open:
		return Question{}, b.tooLate(ctx, q)
	case by == nil:
		return Question{}, fault.New(fault.Unavailable, "session_not_ready", "The server is reconnecting to the session. Try again in a moment.")
	}
	open := q
	q.State, q.AnsweredBy, q.AnsweredAt, q.Answer, q.Via = Answered, actor.User.ID, b.now(), safetext.Cut(safetext.Lines(choice.Words()), maxAskDetail), cmp.Or(req.Via, "api")
	switch err := by(ctx, actor, choice); {
	case errors.Is(err, errHeld):
		l.mu.Lock()
		as.held = &q
		l.host.Changed()
		l.mu.Unlock()
		b.notify(ctx, q)
		q.AnsweredByName = actor.User.Name
		return q, nil
	case fault.Is(err, fault.Gone), fault.Is(err, fault.NotFound):
		open.State, open.AnsweredAt = Withdrawn, b.now()
		l.settleQuestion(ctx, as, open)
		return Question{}, errGone()
	case fault.Is(err, fault.Invalid), fault.Is(err, fault.Forbidden):
		return Question{}, err
	case err != nil:
		return Question{}, fault.Wrap(err, fault.Unavailable, "answer_not_delivered", "The answer did not reach the agent; the question is still open. Try again, or answer in the terminal.")
	}
	failpoint.Reach(failpoint.QuestionHanded)
	if !l.settleQuestion(ctx, as, q) { // the session has ended meanwhile
		return Question{}, errGone()
	}
	l.mu.Lock()
	settled := as.settled
	l.mu.Unlock()
	if settled != nil {
		settled()
	}
	q.AnsweredByName = actor.User.Name
	return q, nil
}

// late returns why a question that is not open in memory cannot be answered.
func (b *Board) late(ctx context.Context, id string) error {
	q, err := b.cfg.Store.Question(ctx, id)
	if err != nil {
		return err
	}
	if q.State == Open {
		return fault.New(fault.Unavailable, "session_not_ready", "The server is reconnecting to the session. Try again in a moment.")
	}
	return b.tooLate(ctx, q)
}

func (b *Board) tooLate(ctx context.Context, q Question) error {
	if q.State != Answered {
		return errGone()
	}
	who := "in the terminal"
	name := b.nameOf(ctx, q.AnsweredBy, map[string]string{})
	if name != "" {
		who = "by " + name
	}
	return fault.New(fault.Conflict, "already_answered", "Already answered %s: %s", who, q.Answer).
		With("answered_by", q.AnsweredBy).With("answered_by_name", name).With("answer", q.Answer).With("via", q.Via).With("answered_at", q.AnsweredAt)
}

// choose reads the answer to q.
func choose(q Question, req AnswerRequest) (agents.Answer, error) {
	bad := func(format string, args ...any) (agents.Answer, error) {
		return agents.Answer{}, fault.New(fault.Invalid, "invalid_answer", format, args...)
	}
	a := agents.Answer{Text: strings.TrimSpace(req.Text)}
	if len(a.Text) > maxAnswerText {
		return bad("The text is longer than %d bytes.", maxAnswerText)
	}
	for _, want := range req.OptionIDs {
		i := slices.IndexFunc(q.Options, func(o agents.Option) bool { return o.ID == want })
		switch {
		case i < 0:
			return bad("The question has no option %q.", safetext.Cut(safetext.Line(want), 64))
		case slices.Contains(a.Options, q.Options[i]):
			return bad("The option %q is named twice.", q.Options[i].ID)
		}
		a.Options = append(a.Options, q.Options[i])
	}
	switch {
	case len(a.Options) == 0 && a.Text == "":
		return bad("Name an option or give a text.")
	case len(a.Options) > 1 && !q.Multi:
		return bad("The question takes only one option.")
	case a.Text != "" && !q.FreeText:
		return bad("The question takes no text. Name one of its options.")
	case q.Kind == agents.Permission && len(a.Options) == 0:
		return bad("Name an option: a text alone does not answer a request for permission.")
	case q.Kind == agents.Permission && a.Text != "" && a.Options[0].Role != agents.Deny:
		return bad("Only a Deny may have a text: it is the reason given to the agent.")
	}
	return a, nil
}
