package prompt

import (
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
)

var (
	errNotNow = errors.New("the session moved on")
	errMoved  = errors.New("the prompt was changed")
)

const uncertain = "its sandbox became unreachable while it was typed: look at the terminal before you send it again"

// frames splits a prompt into the frames of input in which it is typed. Enter is a separate frame: agents take one that follows a
// paste directly for a part of it.
func (s *Session) frames(p Prompt) [][]byte {
	text := pasted(p.Text, p.Bracketed)
	var out [][]byte
	for len(text) > 0 {
		n := min(len(text), inputPiece)
		out, text = append(out, text[:n]), text[n:]
	}
	return append(out, []byte(s.queue.cfg.Agents.Keys(s.about.Agent).Submit))
}

// submit types a prompt: paste, a pause, Enter. Nobody else types in between. It stores the numbers of the frames before it sends
// the first: the guest counts what it receives, so that after a crash at any point the next server knows what is typed and what
// is not, and each frame is typed once.
func (s *Session) submit(ctx context.Context, p Prompt) error {
	bracketed := s.cfg.Brackets()
	if err := s.waitTurn(ctx); err != nil {
		return err
	}
	held := true
	free := func() {
		if held {
			held = false
			s.stream.turn <- struct{}{}
		}
	}
	defer free()
	t := &s.stream
	if t.forget == nil {
		t.forget = s.queue.cfg.Tasks.After(keepFor, s.forgetTyped)
	}
	if t.in == nil { // its number must be known
		if _, err := s.open(ctx); err != nil {
			return err
		}
	}
	p.Bracketed = bracketed
	s.mu.Lock()
	why, _ := s.notYet(p, time.Now())
	before := s.stand()
	s.mu.Unlock()
	if why != "" {
		return errNotNow
	}
	frames := s.frames(p)
	p.State, p.Frame, p.Frames = Sending, t.seq+1, uint64(len(frames))
	if err := s.claim(ctx, p); err != nil {
		return err
	}
	failpoint.Reach(failpoint.QueueClaimed)
	s.queue.publish(ctx, p)
	if !s.typeFrames(ctx, p, frames) {
		held = false
		s.resolveHeld(ctx, p)
		return nil
	}
	failpoint.Reach(failpoint.QueueTyped)
	free()
	s.accept(ctx, p, before)
	return nil
}

// claim marks the prompt as being sent, unchanged since it was read.
func (s *Session) claim(ctx context.Context, p Prompt) error {
	ctx, cancel := context.WithTimeout(ctx, storeWithin)
	defer cancel()
	_, err := s.queue.cfg.Store.EditPrompt(ctx, p.ID, -1, func(q *Prompt) error {
		if q.State != Queued || q.Text != p.Text || q.Held != p.Held || q.SessionID != p.SessionID {
			return errMoved
		}
		q.State, q.Frame, q.Frames, q.Bracketed = p.State, p.Frame, p.Frames, p.Bracketed
		return nil
	})
	if errors.Is(err, errMoved) {
		s.steerAgain()
		return errNotNow
	}
	return err
}

// typeFrames sends the last frames of a prompt; the caller has the turn. It returns false when it is not certain that all are on
// their way.
func (s *Session) typeFrames(ctx context.Context, p Prompt, frames [][]byte) bool {
	ctx, cancel := context.WithTimeout(ctx, quietWait) // a program that does not read must not block the keyboard forever
	defer cancel()
	for i, f := range frames {
		if i == len(frames)-1 {
			if !s.pasteShown(ctx, i > 0) {
				return false
			}
			failpoint.Reach(failpoint.PromptPasted)
			failpoint.Reach(failpoint.QueuePasted)
		}
		if err := s.sendPiece(ctx, f); err != nil {
			s.queue.cfg.Log.Warn("prompt was typed only in part", "session_id", s.about.ID, "prompt_id", p.ID, "error", err)
			return false
		}
	}
	return true
}

// pasteShown waits between paste and Enter: until the program has shown some of the paste, and a little more.
func (s *Session) pasteShown(ctx context.Context, pasted bool) bool {
	began := time.Now()
	for pasted && time.Since(began) < pasteSeen {
		if !tasks.Sleep(ctx, pasteEnter/5) {
			return false
		}
		s.mu.Lock()
		seen := s.cfg.Machine.LastOut.After(began)
		s.mu.Unlock()
		if seen {
			break
		}
	}
	return tasks.Sleep(ctx, pasteEnter)
}

// accept stores that the prompt was typed, and then whether the agent accepted it.
func (s *Session) accept(ctx context.Context, p Prompt, before stance) {
	s.markSent(ctx, p)
	if !s.took(ctx, p, before) {
		s.closePrompt(p, Failed, "the agent did not start working on it: look at the terminal before you send it again")
		return
	}
	if ctx.Err() == nil {
		s.closePrompt(p, Sent, "")
	}
}

// markSent stores when the prompt was sent.
func (s *Session) markSent(ctx context.Context, p Prompt) {
	at := s.queue.now()
	s.mu.Lock()
	s.steering.sentAt = time.Now()
	s.mu.Unlock()
	if _, err := s.queue.cfg.Store.EditPrompt(ctx, p.ID, -1, func(q *Prompt) error { q.SentAt = at; return nil }); err != nil && ctx.Err() == nil {
		s.queue.cfg.Log.Warn("a sent prompt could not be recorded", "session_id", s.about.ID, "prompt_id", p.ID, "error", err)
	}
}

// resolve finds out how much has arrived of a prompt that was being typed when the pipe was cut or the server died, and types the
// rest. A guest drops its older stream when a new one opens, so its count is then final.
func (s *Session) resolve(ctx context.Context, p Prompt) {
	if s.waitTurn(ctx) != nil {
		return
	}
	s.resolveHeld(ctx, p)
}

// resolveHeld is resolve for a caller that has the turn; it releases the turn.
func (s *Session) resolveHeld(ctx context.Context, p Prompt) {
	t := &s.stream
	free := func() { t.turn <- struct{}{} }
	if p.SentAt != 0 {
		free()
		s.closePrompt(p, Sent, "")
		return
	}
	mine := t.seq // 0 in a new server
	newest, err := s.arrived(ctx)
	if ctx.Err() != nil {
		free()
		return // stays as it is: the next server asks again
	}
	last := p.Frame + p.Frames - 1
	frames := s.frames(p)
	switch {
	case err == nil && newest < p.Frame: // nothing, and nothing of it is retained to be sent again
		free()
		s.closePrompt(p, Queued, "")
	case err != nil, mine > newest, mine > last, uint64(len(frames)) != p.Frames:
		free()
		s.closePrompt(p, Failed, uncertain)
	case newest >= last:
		free()
		s.closePrompt(p, Sent, "")
	default:
		s.mu.Lock()
		before := s.stand()
		s.mu.Unlock()
		ok := s.typeFrames(ctx, p, frames[newest-p.Frame+1:])
		free()
		switch {
		case ok:
			s.accept(ctx, p, before)
		case ctx.Err() == nil:
			s.closePrompt(p, Failed, uncertain)
		}
	}
}

// arrived opens the input again and returns the number of the newest frame the guest has, or has been sent again.
func (s *Session) arrived(ctx context.Context) (newest uint64, err error) {
	t := &s.stream
	t.drop()
	ctx, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	for {
		if newest, err = s.open(ctx); err == nil {
			return newest, nil
		}
		switch fault.KindOf(err) {
		case fault.NotFound, fault.Gone, fault.Conflict:
			return 0, err
		}
		if !tasks.Sleep(ctx, lookEvery) {
			return 0, err
		}
	}
}

// TakeUp continues the queue of a session after the server died. It takes the keyboard before anybody can type, so that the
// guest's count is of our frames.
func (s *Session) TakeUp(ctx context.Context) {
	p, err := s.queue.cfg.Store.NextPrompt(ctx, s.about.ID)
	switch {
	case fault.Is(err, fault.NotFound):
		return
	case err != nil:
		s.queue.cfg.Log.Warn("queue of prompts could not be read", "session_id", s.about.ID, "error", err)
	case p.State == Sending && !s.hosted():
		s.mu.Lock()
		s.steering.on = true // resolve first
		s.mu.Unlock()
		<-s.stream.turn // nobody can have it yet
		release, ok := s.host.Hold()
		if !ok || !s.queue.cfg.Tasks.Go(func() {
			defer release()
			s.resolveHeld(s.queue.cfg.Context, p)
			s.steer(s.queue.cfg.Context)
		}) {
			s.stream.turn <- struct{}{}
		}
		return
	}
	s.Look()
}
