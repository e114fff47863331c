package agent

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/safetext"
)

// Enter takes a line that a person entered: a prompt, or one of the agent's own commands. It returns what a command has to say.
func (s *Service) Enter(ctx context.Context, threadID string, p Prompt) (words string, err error) {
	t, err := s.cfg.Store.Thread(ctx, threadID)
	if err != nil {
		return "", err
	}
	words, _, err = s.enter(ctx, t, p)
	return words, err
}

// enter returns also the message that the line became; its Seq is 0 where there was one, or it was no prompt.
func (s *Service) enter(ctx context.Context, t Thread, p Prompt) (words string, m Message, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(p.Text), " ")
	rest = strings.TrimSpace(rest)
	switch mode := Mode(strings.TrimPrefix(name, "/")); {
	case name == "/help":
		words, err = s.help(ctx, t)
		return words, m, err
	case name == "/undo" && rest == "" && p.again:
		return "", m, fault.New(fault.Conflict, "outcome_unknown", "The server was restarted meanwhile. It is unknown whether the turn was undone: look at the conversation.")
	case name == "/undo" && rest == "":
		words, err = s.undoLast(ctx, t, p.UserID)
		return words, m, err
	case name == "/clear":
		return "", m, s.Clear(ctx, t)
	case name == "/compact":
		return "", m, s.Compact(ctx, t)
	case name == "/model" && rest != "":
		return "The model is now " + rest + ".", m, s.Set(ctx, t, rest, "")
	case strings.HasPrefix(name, "/") && slices.Contains(Modes, mode):
		if err := s.Set(ctx, t, "", mode); err != nil && !(p.again && fault.CodeOf(err) == "turn_running") || rest == "" {
			return fmt.Sprintf("The mode is now %s.", mode), m, err
		}
		p.Text = rest
	default:
		expanded, err := s.expand(ctx, t, p.Text)
		if err != nil {
			return "", m, err
		}
		if expanded != p.Text {
			p.Text = expanded
			break
		}
		if !strings.HasPrefix(name, "/") || strings.Contains(name[1:], "/") || rest != "" {
			break
		}
		return "", m, fault.New(fault.Invalid, "unknown_command", "There is no command %s. /help lists those there are.", name)
	}
	m, err = s.send(ctx, t, p)
	return "", m, err
}

const maxModel = 200 // bytes of a name

// Set changes the model or the mode for the next turns; "" leaves one as it is. Errors: turn_running, invalid_model.
func (s *Service) Set(ctx context.Context, t Thread, model string, mode Mode) error {
	if len(model) > maxModel || safetext.Line(model) != model || strings.ContainsRune(model, ' ') {
		return fault.New(fault.Invalid, "invalid_model", "The name of a model has at most %d characters, on one line and without spaces.", maxModel).With("field", "model")
	}
	_, err := s.cfg.Store.Apply(ctx, t.ID, Change{At: s.now(), NoTurn: true, Thread: &ThreadChange{Model: model, Mode: mode}})
	if err == nil {
		s.changed(ctx, t)
	}
	return err
}

// undoLast undoes the last turn with its files, and says so.
func (s *Service) undoLast(ctx context.Context, t Thread, userID string) (words string, err error) {
	done, err := s.Undo(ctx, t.ID, UndoRequest{Files: true, UserID: userID})
	if err != nil {
		return "", err
	}
	if len(done.Paths) == 0 {
		return "Undone. It had changed no files.", nil
	}
	return fmt.Sprintf("Undone, with its changes of %d files. Restore the snapshot %s in the timeline to have them back.", len(done.Paths), done.Snapshot), nil
}

// Clear has the model be sent nothing of what there is. People can still read it. Errors: turn_running.
func (s *Service) Clear(ctx context.Context, t Thread) error {
	now := s.now()
	m := &Message{ID: id.New("msg"), ThreadID: t.ID, Role: Clear, State: Complete, Parts: textParts(""), CreatedAt: now, DoneAt: now}
	_, err := s.cfg.Store.Apply(ctx, t.ID, Change{At: now, NoTurn: true, Messages: []*Message{m}, Thread: &ThreadChange{State: Idle}})
	if err == nil {
		s.changed(ctx, t)
	}
	return err
}

// Compact summarizes the conversation now, in a turn of its own. Errors: turn_running, session_not_running.
func (s *Service) Compact(ctx context.Context, t Thread) error {
	host, ok := s.cfg.Sessions.Hosted(t.SessionID)
	if !ok {
		return errNotRunning
	}
	turn := s.newTurn(t)
	turn.Reason = compactOnly
	if _, err := s.cfg.Store.Apply(ctx, t.ID, Change{At: turn.StartedAt, NoTurn: true, Turn: turn, Thread: &ThreadChange{State: Working}}); err != nil {
		return err
	}
	s.changed(ctx, t)
	s.begin(t, *turn, host)
	return nil
}

// compactOnly is the reason of a running turn that only summarizes the conversation.
const compactOnly = "compact"

var errNotRunning = fault.New(fault.Conflict, "session_not_running", "The session has ended, or is not connected yet. Resume it, or try again.")
