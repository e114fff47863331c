package sessions

import (
	"cmp"
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

// Outcomes of an interrupt.
const (
	Interrupted  = "interrupted"   // it was working and has stopped
	StillWorking = "still_working" // the keys were pressed, but it is still working
	NotWorking   = "not_working"   // nothing was pressed: it is idle
	KeysPressed  = "sent"          // the keys were pressed; this program does not report its state
)

// Interruption is the result of an interrupt.
type Interruption struct {
	Outcome string
	Keys    string // pressed, for display: "Esc"
	Held    int    // queued prompts that now wait for a person
	Session Session
}

const (
	interruptWait = 5 * time.Second
	interruptGap  = 150 * time.Millisecond // between two keys
)

// Interrupt stops the agent's current work, with the key a person would press; the session continues. Queued prompts then wait
// until somebody releases them. An agent that reports idle is left alone unless force. Errors: not_found, session_not_running,
// keyboard_held, session_unreachable.
func (s *Service) Interrupt(ctx context.Context, actor accounts.Actor, id string, force bool) (Interruption, error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return Interruption{}, err
	}
	defer s.release(l)
	row := l.snapshot()
	if row.State.Ended() {
		return Interruption{}, notRunning(row)
	}
	l.mu.Lock()
	err = l.allows(actor.User.ID)
	l.mu.Unlock()
	if err != nil {
		return Interruption{}, err
	}
	keys := s.cfg.Agents.Keys(row.Agent)
	if l.explicit && row.State == state.Idle && !force {
		return Interruption{Outcome: NotWorking, Session: s.hydrate(row)}, nil
	}
	out := Interruption{Keys: keys.Name}
	// Hold the queue first: the agent is idle a moment later.
	held, err := s.cfg.Store.HoldPrompts(ctx, id, cmp.Or(safetext.Cut(safetext.Line(actor.User.Name), 80), "somebody")+" interrupted the agent")
	if err != nil {
		return out, err
	}
	if out.Held = int(held); held > 0 {
		s.Queue.Moved(ctx, prompt.Prompt{SessionID: id, WorkspaceID: row.WorkspaceID, TeamID: row.TeamID})
	}
	if err = l.typed(ctx, nil, actor.User.ID, nil); err == nil && s.cfg.Hosts != nil && s.cfg.Agents.Hosted(row.Agent) {
		keys.Interrupt, err = nil, s.cfg.Hosts.InterruptSession(ctx, id)
	}
	if err != nil {
		return out, err
	}
	l.rec.Note(journal.Interrupt, map[string]any{"user_id": actor.User.ID, "name": safetext.Cut(safetext.Line(actor.User.Name), 64), "keys": keys.Name})
	for i, k := range keys.Interrupt {
		if i > 0 && !tasks.Sleep(ctx, interruptGap) {
			return out, ctx.Err()
		}
		if err := l.prompts.Send(ctx, []byte(k)); err != nil {
			return out, err
		}
		l.prompts.Pressed([]byte(k))
	}
	out.Outcome = l.stops(ctx, row.State)
	out.Session = s.hydrate(l.snapshot())
	return out, nil
}

// stops waits until the agent, which was in a state, is idle or has ended.
func (l *live) stops(ctx context.Context, was state.State) string {
	deadline := time.NewTimer(interruptWait)
	defer deadline.Stop()
	for {
		l.mu.Lock()
		changed, now := l.changed, l.row.State
		l.mu.Unlock()
		if now == state.Idle || now.Ended() {
			if was == state.Idle || !l.explicit && was != state.Working {
				return KeysPressed
			}
			return Interrupted
		}
		select {
		case <-changed:
		case <-deadline.C:
			return StillWorking
		case <-ctx.Done():
			return StillWorking
		}
	}
}
