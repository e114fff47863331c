package prompt

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// State is the state of a prompt.
type State string

// States of a prompt, as in the API.
const (
	Queued    State = "queued"
	Sending   State = "sending" // it is being typed; it can no longer be changed
	Sent      State = "sent"    // the agent accepted it
	Failed    State = "failed"
	Cancelled State = "cancelled"
)

// Prompt is a text that waits, or waited, for a session's agent.
type Prompt struct {
	ID, TeamID, WorkspaceID, SessionID string
	Position                           int64 // order within the session
	Text                               string
	State                              State
	Reason                             string // why it failed
	Held                               string // why it waits for a person; "" = it does not
	Urgent                             bool   // a person said "send now"
	CreatedBy                          string
	CreatedAt, SentAt                  int64

	// How it is typed: the number of its first frame of input, how many there are, Enter last, and whether the paste is
	// bracketed. Stored before the first is sent, so that a later server can tell from the guest's count what has arrived.
	Frame, Frames uint64
	Bracketed     bool

	Waits string // why the first of the queue is not sent now; not stored
}

// Store is what the package needs of the storage. Errors: fault.NotFound for an unknown ID.
type Store interface {
	// AddPrompt appends a prompt to those of its session; fault.Conflict when that already has most open ones.
	AddPrompt(ctx context.Context, p Prompt, most int) (Prompt, error)
	Prompt(ctx context.Context, id string) (Prompt, error)
	// Prompts returns a session's prompts that are queued, sending or failed, and the newest of the others, in order.
	Prompts(ctx context.Context, sessionID string, recent int) ([]Prompt, error)
	// NextPrompt returns the prompt that is being sent, otherwise the first queued one.
	NextPrompt(ctx context.Context, sessionID string) (Prompt, error)
	// EditPrompt lets fn change a prompt in one transaction; with at >= 0 it then moves to that position of the queue.
	EditPrompt(ctx context.Context, id string, at int, fn func(*Prompt) error) (Prompt, error)
	// HoldPrompts makes the queued prompts of a session wait for a person ("": no longer) and returns how many changed.
	HoldPrompts(ctx context.Context, sessionID, why string) (int64, error)
	// MovePrompts moves the queued prompts of a session to another and returns how many there were.
	MovePrompts(ctx context.Context, from, to string) (int64, error)
	// EndPrompts settles a prompt that was being sent when its session ended: sent with a SentAt, otherwise failed.
	EndPrompts(ctx context.Context, sessionID, why string) error
}

// Limits of a queue.
const (
	MaxBytes = 1 << 20 // of one prompt
	Recent   = 50      // finished ones in a list

	maxQueue = 100 // open prompts of one session
)

// Request requests that a prompt be sent.
type Request struct {
	ID     string // chosen by a caller that must know later whether it was added; "" = a new one. It cannot be added twice
	Text   string
	Now    bool   // before the others, and even if the agent's input field holds somebody's text
	Resume bool   // an ended session is resumed first
	Held   string // why it waits for somebody to send it; "" = it does not
}

// Edit changes a prompt; nil and false leave a field unchanged.
type Edit struct {
	Text     *string
	Position *int // position in the queue, 0 = next
	Release  bool // release it and those after it
	Now      bool // send it before the others; a failed one is sent again
}

func checkPrompt(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fault.New(fault.Invalid, "invalid_prompt", "The prompt is empty. Write what the agent should do.").With("field", "text")
	case len(text) > MaxBytes:
		return fault.New(fault.Invalid, "invalid_prompt", "The prompt is longer than 1 MiB. Put long text into a file and name the file.").With("field", "text")
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return fault.New(fault.Invalid, "invalid_prompt", "The prompt must be UTF-8 text without NUL characters.").With("field", "text")
	}
	return nil
}

// AddPrompt appends a prompt to those of a session. It is sent once the agent is idle, at once when it is idle now. With Resume
// an ended session is resumed and the prompt goes to the new one, which the answer names. Errors: not_found, invalid_prompt,
// queue_full, session_not_running, and those of Resume.
func (q *Queue) AddPrompt(ctx context.Context, actor accounts.Actor, sessionID string, n Request) (Prompt, error) {
	if err := checkPrompt(n.Text); err != nil {
		return Prompt{}, err
	}
	to, err := q.cfg.Sessions.Open(ctx, actor, sessionID, n.Resume)
	if err != nil {
		return Prompt{}, err
	}
	p := Prompt{ID: id.New("prm"), TeamID: to.TeamID, WorkspaceID: to.WorkspaceID, SessionID: to.ID, Text: n.Text, State: Queued,
		Urgent: n.Now, Held: n.Held, CreatedBy: actor.User.ID, CreatedAt: q.now()}
	if n.ID != "" {
		p.ID = n.ID
	}
	if p, err = q.cfg.Store.AddPrompt(ctx, p, maxQueue); err != nil {
		return Prompt{}, err
	}
	if n.Now {
		if p, err = q.cfg.Store.EditPrompt(ctx, p.ID, 0, func(*Prompt) error { return nil }); err != nil {
			return Prompt{}, err
		}
	}
	q.Moved(ctx, p)
	return p, nil
}

// Prompt returns a prompt. Errors: not_found.
func (q *Queue) Prompt(ctx context.Context, id string) (Prompt, error) {
	return q.cfg.Store.Prompt(ctx, id)
}

// ListPrompts returns the prompts of a session that wait, are being sent or failed, and the newest of those sent or cancelled, in
// the order of sending.
func (q *Queue) ListPrompts(ctx context.Context, sessionID string) ([]Prompt, error) {
	all, err := q.cfg.Store.Prompts(ctx, sessionID, Recent)
	if err != nil {
		return nil, err
	}
	s := q.cfg.Sessions.InMemory(sessionID)
	for i := range all {
		if all[i].State != Queued {
			continue
		}
		all[i].Waits = all[i].Held
		switch {
		case all[i].Held != "":
		case s == nil || s.ended():
			all[i].Waits = "the session has ended: resume it to continue"
		default:
			all[i].Waits = s.Waits()
		}
		break
	}
	return all, nil
}

// EditPrompt changes a waiting prompt, or sends a failed one again. Errors: not_found, invalid_prompt, prompt_sent,
// prompt_closed.
func (q *Queue) EditPrompt(ctx context.Context, actor accounts.Actor, id string, e Edit) (Prompt, error) {
	if e.Text != nil {
		if err := checkPrompt(*e.Text); err != nil {
			return Prompt{}, err
		}
	}
	at := -1
	if e.Position != nil {
		at = max(*e.Position, 0)
	}
	if e.Now {
		at = 0
	}
	p, err := q.cfg.Store.EditPrompt(ctx, id, at, func(p *Prompt) error {
		if p.State == Failed && (e.Now || e.Text != nil) {
			p.State, p.Reason, p.Frame, p.Frames, p.SentAt = Queued, "", 0, 0, 0
			p.Urgent = false
		}
		if p.State != Queued {
			return notQueued(*p)
		}
		if e.Text != nil {
			p.Text = *e.Text
		}
		if e.Now {
			p.Urgent, p.Held = true, ""
		}
		return nil
	})
	if err != nil {
		return Prompt{}, err
	}
	if e.Release {
		if _, err := q.cfg.Store.HoldPrompts(ctx, p.SessionID, ""); err != nil {
			return Prompt{}, err
		}
		p.Held = ""
	}
	q.Moved(ctx, p)
	return p, nil
}

// CancelPrompt removes a prompt from the queue, also a failed one. Errors: not_found, prompt_sent.
func (q *Queue) CancelPrompt(ctx context.Context, id string) (Prompt, error) {
	p, err := q.cfg.Store.EditPrompt(ctx, id, -1, func(p *Prompt) error {
		switch p.State {
		case Cancelled:
			return nil
		case Queued, Failed:
			p.State, p.Held, p.Urgent = Cancelled, "", false
			return nil
		}
		return notQueued(*p)
	})
	if err == nil {
		q.Moved(ctx, p)
	}
	return p, err
}

func notQueued(p Prompt) error {
	switch p.State {
	case Sending, Sent:
		return fault.New(fault.Conflict, "prompt_sent", "The agent already has this prompt. Send another one, or interrupt the agent.")
	case Failed:
		return fault.New(fault.Conflict, "prompt_closed", "This prompt failed. Send it again with now, or cancel it.")
	}
	return fault.New(fault.Conflict, "prompt_closed", "This prompt was cancelled. Write a new one.")
}

// Moved notifies the sender and the viewers that a queue changed.
func (q *Queue) Moved(ctx context.Context, p Prompt) {
	if s, release := q.cfg.Sessions.Hold(p.SessionID); s != nil {
		s.Look()
		release()
	}
	q.publish(ctx, p)
}

// publish notifies the viewers of a session's prompts that they changed.
func (q *Queue) publish(ctx context.Context, p Prompt) {
	if q.cfg.Events == nil {
		return
	}
	q.cfg.Events.Publish(ctx, events.Event{Type: "prompt.updated", ID: p.SessionID, WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Version: q.now()})
}

// Inherit moves the waiting prompts of a session to the one that resumes it.
func (q *Queue) Inherit(ctx context.Context, from, to About) {
	n, err := q.cfg.Store.MovePrompts(ctx, from.ID, to.ID)
	if err != nil {
		q.cfg.Log.Warn("queued prompts could not be moved to the resumed session", "session_id", from.ID, "error", err)
		return
	}
	if n > 0 {
		// Resuming a session releases its queue.
		if _, err := q.cfg.Store.HoldPrompts(ctx, to.ID, ""); err != nil {
			q.cfg.Log.Warn("queued prompts could not be released", "session_id", to.ID, "error", err)
		}
		q.publish(ctx, Prompt{SessionID: from.ID, WorkspaceID: from.WorkspaceID, TeamID: from.TeamID})
		q.Moved(ctx, Prompt{SessionID: to.ID, WorkspaceID: to.WorkspaceID, TeamID: to.TeamID})
	}
}
