package resets

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/usagelimit"
)

// world is one session, its queue and a clock.
type world struct {
	now      time.Time
	row      sessions.Session
	prompts  []prompt.Prompt
	answered []string
	refuse   error // of who started it
	deaf     error // of the agent that asks
	scope    []string
}

func (w *world) AddPrompt(_ context.Context, a accounts.Actor, id string, n prompt.Request) (prompt.Prompt, error) {
	for _, p := range w.prompts {
		if p.ID == n.ID {
			return p, fault.New(fault.Conflict, "exists", "It exists.")
		}
	}
	p := prompt.Prompt{ID: n.ID, SessionID: id, Text: n.Text, Held: n.Held, State: prompt.Queued, CreatedBy: a.User.ID, CreatedAt: w.now.UnixMilli()}
	w.prompts = append(w.prompts, p)
	return p, nil
}

func (w *world) set(id string, fn func(*prompt.Prompt)) (prompt.Prompt, error) {
	for i := range w.prompts {
		if w.prompts[i].ID == id {
			fn(&w.prompts[i])
			return w.prompts[i], nil
		}
	}
	return prompt.Prompt{}, fault.New(fault.NotFound, "none", "There is none.")
}

// EditPrompt sends it at once, and the agent works.
func (w *world) EditPrompt(_ context.Context, _ accounts.Actor, id string, _ prompt.Edit) (prompt.Prompt, error) {
	w.row.State, w.row.Basis.Limit = state.Working, nil
	return w.set(id, func(p *prompt.Prompt) { p.State, p.Held, p.SentAt = prompt.Sent, "", w.now.UnixMilli() })
}

func (w *world) CancelPrompt(_ context.Context, id string) (prompt.Prompt, error) {
	return w.set(id, func(p *prompt.Prompt) { p.State, p.Held = prompt.Cancelled, "" })
}

func (w *world) ListPrompts(ctx context.Context, _ string) ([]prompt.Prompt, error) {
	scope, _ := tenant.Of(ctx)
	w.scope = scope.Teams()
	return w.prompts, nil
}

func (w *world) limit(until time.Duration) {
	end := time.Time{}
	if until != 0 {
		end = w.now.Add(until)
	}
	w.row.State, w.row.Basis.Limit = state.Idle, usagelimit.Of(usagelimit.Session, w.now, end)
}

func (w *world) sent() (n int) {
	for _, p := range w.prompts {
		if p.State == prompt.Sent {
			n++
		}
	}
	return n
}

// server is a new one, which remembers nothing.
func (w *world) server() *Service {
	return New(Config{Open: func(context.Context) ([]sessions.Session, error) { return []sessions.Session{w.row}, nil },
		Get: func(context.Context, string) (sessions.Session, error) { return w.row, nil }, Prompts: w,
		Answer: func(_ context.Context, _ accounts.Actor, _ string, r question.AnswerRequest) (question.Question, error) {
			if w.deaf != nil {
				return question.Question{}, w.deaf
			}
			w.answered, w.row.Question, w.row.State = append(w.answered, r.OptionIDs...), nil, state.Idle
			return question.Question{}, nil
		},
		Actor: func(_ context.Context, id string) (accounts.Actor, error) {
			return accounts.Actor{User: accounts.User{ID: id}}, nil
		},
		Admit: func(context.Context, accounts.Actor, string) error { return w.refuse }, Now: func() time.Time { return w.now }})
}

// pass lets time go by in steps, each with a server that was killed and started again.
func (w *world) pass(t *testing.T, d time.Duration) {
	t.Helper()
	for end := w.now.Add(d); w.now.Before(end); w.now = w.now.Add(time.Minute) {
		if err := w.server().Step(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func newWorld() *world {
	return &world{now: time.Date(2026, 11, 28, 21, 0, 0, 0, time.UTC), row: sessions.Session{ID: "ses_1", TeamID: "team_1", WorkspaceID: "ws_1", CreatedBy: "usr_1", State: state.Working}}
}

func TestGoesOnOnceInTheNight(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.limit(6 * time.Hour) // until three
	w.row.State = state.Waiting
	w.row.Question = &question.Question{ID: "qst_1", Ask: agents.Ask{Options: []agents.Option{{ID: "1", Label: "Stop and wait for limit to reset"}, {ID: "2", Label: "Upgrade your plan"}}}}
	w.pass(t, 6*time.Hour)
	if len(w.answered) != 1 || w.answered[0] != "1" {
		t.Fatalf("answered %q", w.answered)
	}
	if len(w.prompts) != 1 || w.sent() != 0 || !strings.Contains(w.prompts[0].Held, "2026-11-29 03:00") {
		t.Fatalf("before the end: %+v", w.prompts)
	}
	w.pass(t, 9*time.Hour)
	if len(w.prompts) != 1 || w.sent() != 1 || w.prompts[0].CreatedBy != "usr_1" {
		t.Fatalf("after the end: %+v", w.prompts)
	}
}

func TestStopsAfterThreeTimesInARow(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.limit(0)
	for range 48 * 60 { // it stops again, whatever it is asked
		w.pass(t, time.Minute)
		if w.row.State == state.Working {
			w.pass(t, time.Minute)
			w.limit(0)
		}
	}
	if w.sent() != mostInRow {
		t.Fatalf("asked %d times", w.sent())
	}
	last := w.prompts[len(w.prompts)-1]
	if last.State != prompt.Queued || !strings.Contains(last.Held, "again and again") {
		t.Fatalf("%+v", last)
	}
	// A person sends it, it works for hours, and the next limit counts from the beginning.
	if _, err := w.EditPrompt(t.Context(), accounts.Actor{}, last.ID, prompt.Edit{Now: true}); err != nil {
		t.Fatal(err)
	}
	w.pass(t, 3*time.Hour)
	w.limit(time.Hour)
	w.pass(t, 2*time.Hour)
	if w.sent() != mostInRow+2 {
		t.Fatalf("asked %d times", w.sent())
	}
}

func TestPeopleDecide(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.limit(time.Hour)
	w.pass(t, time.Minute)
	if _, err := w.CancelPrompt(t.Context(), w.prompts[0].ID); err != nil {
		t.Fatal(err)
	}
	if w.pass(t, 3*time.Hour); len(w.prompts) != 1 || w.sent() != 0 {
		t.Fatalf("a deleted plan came back: %+v", w.prompts)
	}
	w = newWorld()
	w.limit(time.Hour)
	w.pass(t, time.Minute)
	w.row.State, w.row.Basis.Limit = state.Working, nil // with another account, in the terminal
	if w.pass(t, 3*time.Hour); w.sent() != 0 || w.prompts[0].State != prompt.Cancelled {
		t.Fatalf("it was asked to go on while it works: %+v", w.prompts)
	}
	w = newWorld()
	w.limit(time.Hour)
	w.refuse = fault.New(fault.Forbidden, "no", "No longer.")
	if w.pass(t, 3*time.Hour); w.sent() != 0 || len(w.prompts) != 0 {
		t.Fatalf("it was planned for somebody who may not: %+v", w.prompts)
	}
	w = newWorld()
	w.limit(time.Hour)
	w.pass(t, time.Minute)
	w.refuse = fault.New(fault.Forbidden, "no", "No longer.")
	if w.pass(t, 3*time.Hour); w.sent() != 0 || len(w.prompts) != 1 || w.prompts[0].State != prompt.Cancelled {
		t.Fatalf("it went on for somebody who may not any more: %+v", w.prompts)
	}
}

// A menu that cannot be answered now delays no plan, and the work is its team's.
func TestAMenuThatCannotBeAnswered(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.limit(time.Hour)
	w.row.State, w.deaf = state.Waiting, fault.New(fault.Unavailable, "session_not_ready", "In a moment.")
	w.row.Question = &question.Question{ID: "qst_1", Ask: agents.Ask{Options: []agents.Option{{ID: "1", Label: "Stop and wait for limit to reset"}}}}
	w.pass(t, 2*time.Minute)
	if len(w.prompts) != 1 || len(w.answered) != 0 || !slices.Equal(w.scope, []string{"team_1"}) {
		t.Fatalf("planned %+v, answered %q, in %q", w.prompts, w.answered, w.scope)
	}
	w.deaf = nil
	if w.pass(t, time.Minute); len(w.prompts) != 1 || len(w.answered) != 1 {
		t.Fatalf("planned %+v, answered %q", w.prompts, w.answered)
	}
}
