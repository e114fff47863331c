package sessions

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// PromptState is what became of a prompt.
type PromptState string

// States of a prompt, as in the API.
const (
	PromptQueued    PromptState = "queued"
	PromptSending   PromptState = "sending" // it is being typed; nobody can change it any more
	PromptSent      PromptState = "sent"    // the agent took it up
	PromptFailed    PromptState = "failed"
	PromptCancelled PromptState = "cancelled"
)

// Prompt is a text that waits for a session's agent, or waited.
type Prompt struct {
	ID, TeamID, WorkspaceID, SessionID string
	Position                           int64 // order within the session
	Text                               string
	State                              PromptState
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

// Prompts is what the room needs of the storage for prompts. Errors: fault.NotFound for an id that is not there.
type Prompts interface {
	// AddPrompt stores a prompt behind the others of its session; fault.Conflict when that has most open ones already.
	AddPrompt(ctx context.Context, p Prompt, most int) (Prompt, error)
	Prompt(ctx context.Context, id string) (Prompt, error)
	// Prompts returns a session's prompts that are queued, sending or failed, and the newest of the others, in order.
	Prompts(ctx context.Context, sessionID string, recent int) ([]Prompt, error)
	// NextPrompt returns the prompt that is being sent, else the first queued one.
	NextPrompt(ctx context.Context, sessionID string) (Prompt, error)
	// EditPrompt lets fn change a prompt in one transaction; with at >= 0 it is then put at that place of the queue.
	EditPrompt(ctx context.Context, id string, at int, fn func(*Prompt) error) (Prompt, error)
	// HoldPrompts lets the queued prompts of a session wait for a person ("": no longer) and says how many changed.
	HoldPrompts(ctx context.Context, sessionID, why string) (int64, error)
	// MovePrompts gives the queued prompts of a session to another and says how many there were.
	MovePrompts(ctx context.Context, from, to string) (int64, error)
	// EndPrompts settles what was being sent when its session ended: sent with a SentAt, else failed.
	EndPrompts(ctx context.Context, sessionID, why string) error
}

// Limits of a queue.
const (
	maxQueue     = 100 // open prompts of one session
	shownPrompts = 50  // closed ones in a list
)

// NewPrompt asks for a prompt to be sent.
type NewPrompt struct {
	ID     string // chosen by who must know later whether it was added; "" = a new one. It cannot be added twice
	Text   string
	Now    bool // before the others, and although somebody's text waits in the agent's box
	Resume bool // a session that has ended is resumed first
}

// PromptEdit changes a prompt; nil and false leave as it is.
type PromptEdit struct {
	Text     *string
	Position *int // place in the queue, 0 = next
	Release  bool // let it and those behind it go on
	Now      bool // send it before the others; a failed one is sent again
}

func checkPrompt(text string) error {
	switch {
	case strings.TrimSpace(text) == "":
		return fault.New(fault.Invalid, "invalid_prompt", "The prompt is empty: write what the agent should do.").With("field", "text")
	case len(text) > maxPrompt:
		return fault.New(fault.Invalid, "invalid_prompt", "The prompt is longer than 1 MiB. Put long text into a file and name the file.").With("field", "text")
	case strings.ContainsRune(text, 0) || !utf8.ValidString(text):
		return fault.New(fault.Invalid, "invalid_prompt", "The prompt must be UTF-8 text without NUL characters.").With("field", "text")
	}
	return nil
}

// AddPrompt puts a prompt behind the others of a session. It is sent once the agent is idle, at once when it is idle now. With
// Resume an ended session is resumed and the prompt goes to the new one, which the answer names. Errors: not_found,
// invalid_prompt, queue_full, session_not_running, and those of Resume.
func (s *Service) AddPrompt(ctx context.Context, actor accounts.Actor, sessionID string, n NewPrompt) (Prompt, error) {
	if err := checkPrompt(n.Text); err != nil {
		return Prompt{}, err
	}
	row, err := s.Get(ctx, sessionID)
	if err != nil {
		return Prompt{}, err
	}
	switch {
	case row.Agent == setupAgent:
		return Prompt{}, fault.New(fault.Conflict, "session_takes_no_prompts", "A setup script takes no prompts.")
	case row.State.Ended() && !n.Resume:
		return Prompt{}, notRunning(row)
	case row.State.Ended():
		if row, err = s.Resume(ctx, actor, sessionID); err != nil {
			return Prompt{}, err
		}
		if row.State.Ended() {
			return Prompt{}, fault.New(fault.Conflict, "session_not_running", "The agent could not be started again: %s.", row.StateReason)
		}
	}
	p := Prompt{ID: id.New("prm"), TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, SessionID: row.ID, Text: n.Text, State: PromptQueued,
		Urgent: n.Now, CreatedBy: actor.User.ID, CreatedAt: s.now()}
	if n.ID != "" {
		p.ID = n.ID
	}
	if p, err = s.cfg.Store.AddPrompt(ctx, p, maxQueue); err != nil {
		return Prompt{}, err
	}
	if n.Now {
		if p, err = s.cfg.Store.EditPrompt(ctx, p.ID, 0, func(*Prompt) error { return nil }); err != nil {
			return Prompt{}, err
		}
	}
	s.queueMoved(ctx, p)
	return p, nil
}

// Prompt returns a prompt. Errors: not_found.
func (s *Service) Prompt(ctx context.Context, id string) (Prompt, error) {
	return s.cfg.Store.Prompt(ctx, id)
}

// ListPrompts returns what waits for a session, is being sent or failed, and the newest of what was sent or cancelled, in the
// order of sending.
func (s *Service) ListPrompts(ctx context.Context, sessionID string) ([]Prompt, error) {
	all, err := s.cfg.Store.Prompts(ctx, sessionID, shownPrompts)
	if err != nil {
		return nil, err
	}
	l := s.running(sessionID)
	for i := range all {
		if all[i].State != PromptQueued {
			continue
		}
		all[i].Waits = all[i].Held
		switch {
		case all[i].Held != "":
		case l == nil || l.snapshot().State.Ended():
			all[i].Waits = "the session has ended: resume it to go on"
		default:
			all[i].Waits = l.waits()
		}
		break
	}
	return all, nil
}

// EditPrompt changes a prompt that waits, or sends a failed one again. Errors: not_found, invalid_prompt, prompt_sent,
// prompt_closed.
func (s *Service) EditPrompt(ctx context.Context, actor accounts.Actor, id string, e PromptEdit) (Prompt, error) {
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
	p, err := s.cfg.Store.EditPrompt(ctx, id, at, func(p *Prompt) error {
		if p.State == PromptFailed && (e.Now || e.Text != nil) {
			p.State, p.Reason, p.Frame, p.Frames, p.SentAt = PromptQueued, "", 0, 0, 0
			p.Urgent = false
		}
		if p.State != PromptQueued {
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
		if _, err := s.cfg.Store.HoldPrompts(ctx, p.SessionID, ""); err != nil {
			return Prompt{}, err
		}
		p.Held = ""
	}
	s.queueMoved(ctx, p)
	return p, nil
}

// CancelPrompt takes a prompt out of the queue, also one that failed. Errors: not_found, prompt_sent.
func (s *Service) CancelPrompt(ctx context.Context, id string) (Prompt, error) {
	p, err := s.cfg.Store.EditPrompt(ctx, id, -1, func(p *Prompt) error {
		switch p.State {
		case PromptCancelled:
			return nil
		case PromptQueued, PromptFailed:
			p.State, p.Held, p.Urgent = PromptCancelled, "", false
			return nil
		}
		return notQueued(*p)
	})
	if err == nil {
		s.queueMoved(ctx, p)
	}
	return p, err
}

func notQueued(p Prompt) error {
	switch p.State {
	case PromptSending, PromptSent:
		return fault.New(fault.Conflict, "prompt_sent", "The agent has this prompt already. Send another one, or interrupt the agent.")
	case PromptFailed:
		return fault.New(fault.Conflict, "prompt_closed", "This prompt failed. Send it again with now, or cancel it.")
	}
	return fault.New(fault.Conflict, "prompt_closed", "This prompt was cancelled. Write a new one.")
}

// queueMoved tells whoever sends and whoever looks that a queue changed.
func (s *Service) queueMoved(ctx context.Context, p Prompt) {
	if l := s.ref(p.SessionID); l != nil {
		s.steerOn(l)
		s.release(l)
	}
	s.publishPrompts(ctx, p)
}

func (s *Service) publishPrompts(ctx context.Context, p Prompt) {
	if s.cfg.Events == nil {
		return
	}
	s.cfg.Events.Publish(ctx, events.Event{Type: "prompt.updated", ID: p.SessionID, WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Version: s.now()})
}

// inherit gives a resumed session what waited for the one before it.
func (s *Service) inherit(ctx context.Context, from, to Session) {
	n, err := s.cfg.Store.MovePrompts(ctx, from.ID, to.ID)
	if err != nil {
		s.cfg.Log.Warn("queued prompts stay with the session that ended", "session_id", from.ID, "error", err)
		return
	}
	if n > 0 {
		// Who resumes wants it to go on.
		if _, err := s.cfg.Store.HoldPrompts(ctx, to.ID, ""); err != nil {
			s.cfg.Log.Warn("queued prompts stay held", "session_id", to.ID, "error", err)
		}
		s.publishPrompts(ctx, Prompt{SessionID: from.ID, WorkspaceID: from.WorkspaceID, TeamID: from.TeamID})
		s.queueMoved(ctx, Prompt{SessionID: to.ID, WorkspaceID: to.WorkspaceID, TeamID: to.TeamID})
	}
}
