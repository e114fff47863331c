package sessions

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/damage"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

// Recover reconnects every session that had not ended when the server did: it reads on from the last byte the host has, or stores
// its end. A session that cannot be reconnected now, because the server's disk or database does not answer, neither prevents the
// start nor ends: the server retries until it works. Call it once, after the sandboxes were recovered and before anybody may
// attach.
func (s *Service) Recover(ctx context.Context) error {
	rows, err := s.cfg.Store.OpenSessions(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows { // before any of them ends: files the others use stay
		s.gateway.Admit(s.Masks.Recount(ctx, maskedRow(row)), row.SandboxID)
		s.relay.Admit(row.ID, row.TeamID, row.WorkspaceID, row.CreatedBy, row.Agent, row.SandboxID)
	}
	var all sync.WaitGroup
	slots := make(chan struct{}, 16)
	for _, row := range rows {
		all.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if err := s.recoverOne(ctx, row); err != nil && ctx.Err() == nil {
				s.run(func() { s.retake(row, err) })
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

func (s *Service) recoverOne(ctx context.Context, row Session) error {
	if _, ok := s.cfg.Places.Live(row.WorkspaceID); !ok && s.cfg.Places.UnreachableSandbox(row.WorkspaceID) == row.SandboxID {
		s.run(func() { s.await(row) })
		return nil
	}
	kept, err := s.launches.Recall(row.ID)
	var unread *fs.PathError
	if errors.As(err, &unread) { // the file exists: without it, the session's output would not be masked
		return fmt.Errorf("reading the secrets of session %s: %w", row.ID, err)
	}
	if err != nil {
		s.cfg.Log.Warn("secrets of a session could not be read", "session_id", row.ID, "error", err)
	}
	l, liveErr := s.newLive(row, kept.Secrets)
	if liveErr != nil {
		return liveErr
	}
	l.masks.Give(masks.Given{Uses: kept.Uses, Files: kept.Files, Own: kept.Own})
	l.token, l.byKey = kept.Token, kept.ByKey
	l.out.blind = len(damage.Aside(s.dir(row.ID)))+len(damage.Aside(s.launches.Path(row.ID))) > 0
	if err != nil || len(s.cfg.Key) == 0 {
		l.transcript.Since(s.now()) // earlier parts of the record could no longer be masked
	}
	if row.ExitSignal == stopping {
		l.stopper = row.StateReason
	}
	if err := l.questions.Recall(ctx); err != nil {
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
		l.inside = &inside{} // its home is not on this server, and cannot be reached now
	}
	l.search.home = claimHome(place, l.inside, row)
	if !s.add(l) {
		return ErrRestarting
	}
	if !l.out.blind {
		s.followRecord(ctx, l)
	}
	if !ok || place.SandboxID != row.SandboxID {
		l.finish(ctx, ending{state: state.Lost, reason: "the sandbox it ran in is gone"})
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

const neverStarted = "the server stopped before it had started; start it again"

// NeverStarted reports whether the server died after it had stored a session and before the session's program ran.
func NeverStarted(row Session) bool {
	return row.State == state.Failed && row.StateReason == neverStarted
}

// takeUp asks the guest about a session from before a restart, and continues what the server died over. It reports whether the
// session turned out to have ended; then it is released.
func (s *Service) takeUp(ctx context.Context, l *live, row Session) (over bool) {
	ask, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	p, err := l.guest.Process(ask, row.ID)
	switch {
	case fault.Is(err, fault.NotFound) && row.State == state.Starting && l.empty():
		l.finish(ctx, ending{state: state.Failed, reason: neverStarted})
		s.release(l)
		return true
	case fault.Is(err, fault.NotFound):
		l.finish(ctx, ending{state: state.Lost, reason: "the sandbox it ran in does not know it any more"})
		s.release(l)
		return true
	case err == nil && p.State == guest.Running && p.Size.Cols > 0:
		l.mu.Lock()
		l.row.Cols, l.row.Rows = p.Size.Cols, p.Size.Rows
		l.rec.NoteSize(guest.Size{Cols: l.row.Cols, Rows: l.row.Rows})
		l.mu.Unlock()
	}
	if err == nil {
		l.mu.Lock()
		l.pastTo = p.Ends[guest.Terminal]
		l.mu.Unlock()
	}
	// Any other error is a cut: the pump retries, and knows when to give up.
	switch running := err == nil && p.State == guest.Running; {
	case running && l.stopper != "":
		s.run(func() { s.stopLate(l) })
	case running:
		s.deliverLate(l, row)
		l.prompts.TakeUp(ctx)
	}
	return false
}

// takeUpAwake does it once a sandbox that was found asleep is woken.
func (s *Service) takeUpAwake(l *live, row Session, place *executors.Place) {
	switch p, err := s.cfg.Store.NextPrompt(s.hard, l.id); {
	case err != nil:
	case p.State == prompt.Sending: // only the guest knows whether it was typed
		l.mu.Lock()
		l.stir()
		l.mu.Unlock()
	default:
		l.prompts.Look()
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
	l.search.home = claimHome(place, l.inside, row)
	stopped := l.stopper != ""
	l.mu.Unlock()
	if stopped {
		s.stopLate(l)
		return
	}
	s.deliverLate(l, row)
	l.prompts.TakeUp(s.hard)
}

// awaitEvery is how often a session checks whether its sandbox was found.
const awaitEvery = 500 * time.Millisecond

// await reconnects a session once its sandbox, which could not be reached, is found or known to be gone.
func (s *Service) await(row Session) {
	s.cfg.Log.Warn("session waits for its sandbox", "session_id", row.ID, "sandbox_id", row.SandboxID)
	for tasks.Sleep(s.hard, awaitEvery) {
		if _, ok := s.cfg.Places.Live(row.WorkspaceID); !ok && s.cfg.Places.UnreachableSandbox(row.WorkspaceID) == row.SandboxID {
			continue
		}
		if err := s.recoverOne(s.hard, row); err != nil {
			s.retake(row, err)
		}
		return
	}
}

// retakeAtMost is the longest time between two attempts to reconnect a session before people are asked, repairedEvery the time
// between two attempts afterwards.
const (
	retakeAtMost  = 5 * time.Second
	repairedEvery = time.Minute
)

// mostAside bounds how many damaged files of a session are renamed at once.
const mostAside = 8

// retake reconnects a session once the server's own problem that prevented it is gone. Its program continues meanwhile, and its
// guest retains its output. When the problem lasts, retake asks people after some tries.
func (s *Service) retake(row Session, err error) {
	s.cfg.Log.Error("session could not be reconnected; the server tries again", "session_id", row.ID, "error", err)
	st, tries := &stranding{svc: s, row: row}, 1
	for wait := awaitEvery; ; wait = min(2*wait, retakeAtMost) {
		if !damage.Lasting(err) {
			tries = 0
		}
		if tries >= s.cfg.TakeUpTries {
			s.stranded.add(st, err)
			if row.ExitSignal == stopping && st.end(row.StateReason) == nil { // the server died while it stopped the session
				return
			}
			wait = repairedEvery
		}
		if !tasks.Sleep(s.hard, wait) {
			return
		}
		if err = st.again(); err == nil {
			return
		}
		tries++
		s.cfg.Log.Debug("session still could not be reconnected", "session_id", row.ID, "error", err)
	}
}

// strandings lists the running sessions that cannot be reconnected because files of theirs are damaged, by ID.
type strandings struct {
	mu  sync.Mutex
	all map[string]*stranding
}

// stranding is a session that could not be reconnected.
type stranding struct {
	svc   *Service
	row   Session
	words string // what is wrong and what to do, once people are asked
	since int64  // ms UTC; likewise

	turn sync.Mutex // held during an attempt
	over bool       // guarded by turn: the attempt succeeded
}

func (a *strandings) of(id string) *stranding {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.all[id]
}

// add asks people about a session.
func (a *strandings) add(st *stranding, err error) {
	s, row := st.svc, st.row
	a.mu.Lock()
	_, known := a.all[row.ID]
	if !known {
		st.words = "The server cannot read its own files of this session (" + damage.Words(s.cfg.DataDir, err) + "), so it does not follow it. " +
			"An operator can repair them; the server tries again every minute. Stopping the session renames the damaged files."
		st.since = s.now()
		a.all[row.ID] = st
	}
	a.mu.Unlock()
	if !known {
		s.cfg.Log.Error("session could not be reconnected: its files must be repaired, or it must be stopped", "session_id", row.ID, "error", err)
		s.publish(s.hard, row)
	}
}

// refusal returns why a running session is not in memory.
func (a *strandings) refusal(row Session) error {
	if st := a.of(row.ID); st != nil {
		return fault.New(fault.Unavailable, "session_unreadable", "%s", st.words)
	}
	return notRunning(row)
}

// again tries to reconnect the session; nil on success.
func (st *stranding) again() error {
	st.turn.Lock()
	defer st.turn.Unlock()
	return st.takeUp()
}

func (st *stranding) takeUp() error {
	if st.over {
		return nil
	}
	s := st.svc
	if err := s.recoverOne(s.hard, st.row); err != nil {
		return err
	}
	st.over = true
	s.stranded.mu.Lock()
	delete(s.stranded.all, st.row.ID)
	s.stranded.mu.Unlock()
	s.cfg.Log.Info("session reconnected late", "session_id", st.row.ID)
	s.publish(s.hard, st.row)
	return nil
}

// end reconnects the session in order to stop it for reason. It renames files that cannot be read.
func (st *stranding) end(reason string) error {
	st.turn.Lock()
	defer st.turn.Unlock()
	before := st.row
	st.row.StateReason, st.row.ExitSignal = reason, stopping
	err := st.takeUp()
	for tries := 0; damage.Lasting(err) && tries < mostAside; tries++ {
		kept, aerr := damage.SetAside(st.svc.dir(st.row.ID), err)
		if aerr != nil {
			err = fault.Wrap(errors.Join(err, aerr), fault.Unavailable, "session_unreadable", "%s", st.words)
			break
		}
		st.svc.cfg.Log.Warn("damaged file of a session renamed", "session_id", st.row.ID, "kept", kept, "error", err)
		err = st.takeUp()
	}
	if err != nil {
		st.row = before
	}
	return err
}

// stopLate continues to stop a session after the server died while stopping it.
func (s *Service) stopLate(l *live) {
	ctx, cancel := context.WithTimeout(s.hard, DefaultGrace+endWait)
	defer cancel()
	if _, err := l.guest.Stop(ctx, l.id, DefaultGrace); err != nil {
		s.cfg.Log.Warn("session could not be stopped after a restart", "session_id", l.id, "error", err)
	}
}

// empty reports whether no byte of the session was ever seen.
func (l *live) empty() bool {
	_, end := l.log.Bounds()
	return end == 0
}

// deliverLate delivers a prompt that the server had not delivered when it died.
func (s *Service) deliverLate(l *live, row Session) {
	if row.Prompt == "" || row.PromptSentAt != 0 {
		return
	}
	if n := len(row.Argv); s.cfg.Agents.Hosted(row.Agent) || n > 0 && strings.HasSuffix(row.Argv[n-1], row.Prompt) { // the agent has it
		l.mu.Lock()
		l.row.PromptSentAt = row.StartedAt
		l.mu.Unlock()
		s.touch(l)
		return
	}
	queued, err := s.cfg.Store.Prompts(s.hard, l.id, prompt.Recent)
	if err != nil {
		s.cfg.Log.Warn("queue of prompts could not be read", "session_id", l.id, "error", err)
		return
	}
	for _, p := range queued {
		if p.Text == row.Prompt { // it is in the queue, or went through it
			if p.State == prompt.Sent {
				l.sent(p)
			}
			return
		}
	}
	s.run(func() { l.prompts.Deliver(s.hard, row.Prompt) })
}
