package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Recover takes up every session that had not ended when the server did: it is attached again from the last byte the host
// has, or its end is told and stored. One that cannot be taken up now, since the server's disk or database does not answer, keeps nobody
// from starting and does not end: it is tried until it goes. Call it once, after the sandboxes were recovered and before anybody may attach.
func (s *Service) Recover(ctx context.Context) error {
	rows, err := s.cfg.Store.OpenSessions(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows { // before any of them ends: what the others use stays
		s.recount(ctx, row)
	}
	done := make(chan struct{}, len(rows))
	slots := make(chan struct{}, 16)
	for _, row := range rows {
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := s.recoverOne(ctx, row); err != nil && ctx.Err() == nil {
				s.run(func() { s.retake(row, err) })
			}
			done <- struct{}{}
		}()
	}
	for range rows {
		<-done
	}
	return ctx.Err()
}

func (s *Service) recoverOne(ctx context.Context, row Session) error {
	if _, ok := s.cfg.Places.Live(row.WorkspaceID); !ok && s.cfg.Places.Astray(row.WorkspaceID) == row.SandboxID {
		s.run(func() { s.await(row) })
		return nil
	}
	kept, err := s.recall(row.ID)
	var unread *fs.PathError
	if errors.As(err, &unread) { // it is there: without it, what the session prints would not be masked
		return fmt.Errorf("reading the secrets of session %s: %w", row.ID, err)
	}
	if err != nil {
		s.cfg.Log.Warn("secrets of a session not read", "session_id", row.ID, "error", err)
	}
	l, liveErr := s.newLive(row, kept.Secrets)
	if liveErr != nil {
		return liveErr
	}
	l.uses, l.files, l.token = kept.Uses, kept.Files, kept.Token
	l.byKey, l.ownSecrets = kept.ByKey, kept.Own
	if err != nil || len(s.cfg.Key) == 0 {
		l.talk.since = s.now() // what the record told before could not be masked any more
	}
	if row.ExitSignal == stopping {
		l.stopper = row.StateReason
	}
	if err := l.recallQuestions(ctx); err != nil {
		l.shut()
		return fmt.Errorf("reading the questions of session %s: %w", row.ID, err)
	}
	l.rewind()
	place, ok := s.cfg.Places.Live(row.WorkspaceID)
	if ok {
		l.guest, l.worktree = place.Guest, place.Hello.Root
		if l.inside, err = s.insideOf(ctx, place); err != nil {
			s.cfg.Log.Warn("home of a session's agent not found", "session_id", row.ID, "error", err)
		}
	}
	if l.inside == nil && kept.Inside {
		l.inside = &inside{} // its home is not on this machine, and cannot be reached now
	}
	l.claimHome = claimHome(place, l.inside, row)
	if !s.add(l) {
		return ErrRestarting
	}
	s.followRecord(ctx, l)
	if !ok || place.SandboxID != row.SandboxID {
		l.finish(ctx, ending{state: Lost, reason: "the place it ran in is gone"})
		s.release(l)
		return nil
	}
	if place.Asleep() {
		s.run(func() { s.takeUpAwake(l, row, place) })
	} else if s.takeUp(ctx, l, row) {
		return nil
	}
	l.rehear()
	l.mu.Lock()
	l.judge()
	l.mu.Unlock()
	if !s.run(func() { l.pump(s.hard) }) {
		s.release(l)
	}
	return nil
}

// takeUp asks the guest about a session of before a restart, and goes on with what the server died over. It reports whether the session
// turned out to have ended; then it is released.
func (s *Service) takeUp(ctx context.Context, l *live, row Session) (over bool) {
	ask, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	p, err := l.guest.Process(ask, row.ID)
	switch {
	case fault.Is(err, fault.NotFound) && row.State == Starting && l.empty():
		l.finish(ctx, ending{state: Failed, reason: "the server was stopped before it had started; start it again"})
		s.release(l)
		return true
	case fault.Is(err, fault.NotFound):
		l.finish(ctx, ending{state: Lost, reason: "the place it ran in does not know it any more"})
		s.release(l)
		return true
	case err == nil && p.State == guest.Running && p.Size.Cols > 0:
		l.mu.Lock()
		l.row.Cols, l.row.Rows = p.Size.Cols, p.Size.Rows
		l.noteSize()
		l.mu.Unlock()
	}
	if err == nil {
		l.mu.Lock()
		l.pastTo = p.Ends[guest.Terminal]
		l.mu.Unlock()
	}
	// Any other error is a cut: the pump tries again, and knows when to give up.
	switch running := err == nil && p.State == guest.Running; {
	case running && l.stopper != "":
		s.run(func() { s.stopLate(l) })
	case running:
		s.deliverLate(l, row)
		s.steerLate(ctx, l)
	}
	return false
}

// takeUpAwake does it once a place that was found asleep is woken.
func (s *Service) takeUpAwake(l *live, row Session, place *executors.Place) {
	switch p, err := s.cfg.Store.NextPrompt(s.hard, l.id); {
	case err != nil:
	case p.State == PromptSending: // whether it was typed only the guest knows
		l.mu.Lock()
		l.stir()
		l.mu.Unlock()
	default:
		s.steerOn(l)
	}
	select {
	case <-place.Awake():
	case <-place.Done(): // the pump finds out
		return
	case <-l.done:
		return
	case <-s.hard.Done():
		return
	}
	in, err := s.insideOf(s.hard, place)
	if err != nil {
		s.cfg.Log.Warn("home of a session's agent not found", "session_id", row.ID, "error", err)
	}
	l.mu.Lock()
	if l.inside, l.worktree = in, place.Hello.Root; in == nil && err != nil {
		l.inside = &inside{}
	}
	l.claimHome = claimHome(place, l.inside, row)
	l.mu.Unlock()
	l.mu.Lock()
	stopped := l.stopper != ""
	l.mu.Unlock()
	if stopped {
		s.stopLate(l)
		return
	}
	s.deliverLate(l, row)
	s.steerLate(s.hard, l)
}

// awaitEvery is how often a session asks whether its place was found.
const awaitEvery = 500 * time.Millisecond

// await takes a session up once its place, which could not be reached, is found or known to be gone.
func (s *Service) await(row Session) {
	s.cfg.Log.Warn("session waits for its place", "session_id", row.ID, "sandbox_id", row.SandboxID)
	for sleep(s.hard, awaitEvery) {
		if _, ok := s.cfg.Places.Live(row.WorkspaceID); !ok && s.cfg.Places.Astray(row.WorkspaceID) == row.SandboxID {
			continue
		}
		if err := s.recoverOne(s.hard, row); err != nil {
			s.retake(row, err)
		}
		return
	}
}

// retakeAtMost is the longest time between two attempts to take a session up.
const retakeAtMost = 5 * time.Second

// retake takes a session up that could not be for a reason of the server's own, once that is gone. Its program goes on meanwhile, and its
// guest keeps what it prints.
func (s *Service) retake(row Session, err error) {
	s.cfg.Log.Error("session not taken up; it is tried again", "session_id", row.ID, "error", err)
	for wait := awaitEvery; sleep(s.hard, wait); wait = min(2*wait, retakeAtMost) {
		if err := s.recoverOne(s.hard, row); err != nil {
			s.cfg.Log.Debug("session still not taken up", "session_id", row.ID, "error", err)
			continue
		}
		s.cfg.Log.Info("session taken up late", "session_id", row.ID)
		return
	}
}

// stopLate goes on stopping a session the server died over.
func (s *Service) stopLate(l *live) {
	ctx, cancel := context.WithTimeout(s.hard, DefaultGrace+endWait)
	defer cancel()
	if _, err := l.guest.Stop(ctx, l.id, DefaultGrace); err != nil {
		s.cfg.Log.Warn("session not stopped after a restart", "session_id", l.id, "error", err)
	}
}

// empty reports whether no byte of the session was ever seen.
func (l *live) empty() bool {
	_, end := l.log.Bounds()
	return end == 0
}

// deliverLate delivers a prompt the server died over.
func (s *Service) deliverLate(l *live, row Session) {
	if row.Prompt == "" || row.PromptSentAt != 0 {
		return
	}
	if n := len(row.Argv); n > 0 && strings.HasSuffix(row.Argv[n-1], row.Prompt) { // it went with the command line
		l.mu.Lock()
		l.row.PromptSentAt = row.StartedAt
		l.mu.Unlock()
		s.touch(l)
		return
	}
	queued, err := s.cfg.Store.Prompts(s.hard, l.id, shownPrompts)
	if err != nil {
		s.cfg.Log.Warn("queue of prompts not read", "session_id", l.id, "error", err)
		return
	}
	for _, p := range queued {
		if p.Text == row.Prompt { // it is in the queue, or went through it
			if p.State == PromptSent {
				l.firstSent(p)
			}
			return
		}
	}
	s.run(func() { l.deliver(s.hard, row.Prompt) })
}
