package sessions

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/signals"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/transcript"
)

// live is a session in memory: a running one, or an ended one that is being read. Its log is the server's own copy of every byte.
type live struct {
	svc *Service
	id  string

	workspaceID string
	explicit    bool
	byKey       bool          // its agent was given an account's key directly
	token       string        // the token its agent presents to the model gateway; "" = it does not use it
	done        chan struct{} // closed when the session has ended and its end is stored

	// Its parts.
	rec        *history.Recording
	log        *bytelog.Log // of rec
	prompts    *prompt.Session
	masks      *masks.Session
	questions  *question.Questions
	transcript *transcript.Session

	refs int // guarded by svc.mu: references of the pump, viewers and readers

	mu       sync.Mutex // guards the fields below up to out, and what the session's questions and its queue record about it
	row      Session
	prompt   string  // the last prompt that was sent, until the agent's turn ends
	worktree string  // the agent's working directory, "" when unknown
	inside   *inside // nil: the home is on this server
	guest    *client.Client
	machine  state.Machine
	recheck  recheck // evaluates the state machine again
	looks    looks   // of sources that report nothing themselves
	seats    seats
	size     sizing
	held     keyboard
	pastTo   int64         // offset up to which output was printed while no server ran
	gen      uint64        // counts changes of what a state frame shows
	changed  chan struct{} // closed and replaced when gen grew or there is a new size
	stopper  string        // who requested the stop, such as "stopped by Ana"
	notice   string        // what viewers should know in addition to the state
	search   search        // for the agent's conversation
	stirring bool          // its workspace is being woken for a queued prompt

	out stream
}

// seats are the viewers of a terminal. The session's mu guards them.
type seats struct {
	viewers  map[*Viewer]struct{}
	typist   *Viewer // who typed last
	arrivals uint64  // viewers so far
}

// recheck is the timer that evaluates the state machine again. The session's mu guards it.
type recheck struct {
	timer *time.Timer
	at    time.Time
	still bool // its workspace was suspended at the last evaluation
}

// stream is the path from the guest's output to the log.
type stream struct {
	mu           sync.Mutex // guards the fields below; taken before the session's mu
	masker       *redact.Masker
	blind        bool // its secrets are no longer known: show nothing it prints
	scan         signals.Scanner
	skip         int64       // bytes still to drop: the log already has them
	hold         *time.Timer // releases held bytes
	acking       bool        // a goroutine is about to acknowledge
	degraded     bool        // the log cannot be written to disk
	storing      bool        // a goroutine writes the rest once the disk accepts it
	reportedFull bool        // the guest knows that the disk is full
	endLate      bool        // store the end once the rest of the output is stored
}

// newLive creates a live session from its row and opens its log.
func (s *Service) newLive(row Session, hidden []string) (*live, error) {
	l := &live{svc: s, id: row.ID, workspaceID: row.WorkspaceID, row: row, done: make(chan struct{}), changed: make(chan struct{}),
		seats: seats{viewers: map[*Viewer]struct{}{}}, out: stream{masker: redact.New(hidden...)}}
	var err error
	if l.rec, err = s.Recordings.Record(recordedRow(row), recorded{l}, l.done); err != nil {
		return nil, err
	}
	l.log = l.rec.Log()
	l.masks = s.Masks.Session(maskedRow(row), masked{l}, hidden)
	l.explicit = s.cfg.Agents.Explicit(row.Agent)
	l.machine = state.New(l.explicit, time.UnixMilli(row.StartedAt), row.State, row.StateReason)
	l.machine.Recall(time.Now(), row.Basis)
	l.out.scan.Clean, l.out.scan.Signal = safetext.Line, l.heard
	about := promptedAbout(row)
	about.Explicit = l.explicit
	l.prompts = s.Queue.Session(prompt.SessionConfig{About: about, Host: prompted{l}, Lock: &l.mu, Machine: &l.machine, Done: l.done,
		Note: l.rec.Note, Lines: l.lines, Brackets: l.brackets})
	l.questions = s.Board.Session(question.SessionConfig{About: question.About{ID: row.ID, TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, SandboxID: row.SandboxID, Agent: row.Agent},
		Host: questioned{l}, Lock: &l.mu, Machine: &l.machine, Mask: l.masks.Text, Note: l.rec.Note, Screen: l.rec.View, Printed: l.printed})
	l.transcript = s.transcripts.Session(transcript.SessionConfig{ID: row.ID, Host: transcribed{l}, Log: l.log, Journal: l.rec.Journal(), Mask: l.masks.Text})
	if row.State.Ended() {
		close(l.done)
	}
	return l, nil
}

// add registers a live session with one reference. It returns false when the service is closed.
func (s *Service) add(l *live) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	l.refs = 1
	s.lives[l.id] = l
	l.masks.Join()
	return true
}

// acquire returns the session in memory, loading an ended one. The caller must release it.
func (s *Service) acquire(ctx context.Context, id string) (*live, error) {
	if l := s.ref(id); l != nil {
		return l, nil
	}
	row, err := s.cfg.Store.Session(ctx, id)
	if err != nil {
		return nil, err
	}
	if !row.State.Ended() {
		if l := s.ref(id); l != nil { // it was being started
			return l, nil
		}
		return nil, s.stranded.refusal(row)
	}
	l, err := s.newLive(row, nil)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if other := s.lives[id]; other != nil {
		other.refs++
		s.mu.Unlock()
		_ = l.rec.Close()
		return other, nil
	}
	if s.closed {
		s.mu.Unlock()
		_ = l.rec.Close()
		return nil, ErrRestarting
	}
	l.refs = 1
	s.lives[id] = l
	l.masks.Join()
	s.mu.Unlock()
	return l, nil
}

func (s *Service) ref(id string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lives[id]
	if l != nil {
		l.refs++
	}
	return l
}

// hold takes another reference to a session to which the caller has one.
func (s *Service) hold(l *live) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.refs++
}

// running returns a session that is in memory, without a reference; nil when it is not.
func (s *Service) running(id string) *live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lives[id]
}

func (s *Service) release(l *live) {
	s.mu.Lock()
	l.refs--
	last := l.refs == 0 && s.lives[l.id] == l
	if last {
		delete(s.lives, l.id)
		l.masks.Leave()
		if !s.closed { // otherwise the last save still stores what changed
			delete(s.dirty, l)
		}
		delete(s.seats, l)
	}
	s.mu.Unlock()
	if last {
		l.shut()
	}
}

// shut releases everything the session holds in this process.
func (l *live) shut() {
	l.mu.Lock()
	if l.recheck.timer != nil {
		l.recheck.timer.Stop()
	}
	l.looks.stop()
	l.size.stop()
	l.held.stop()
	l.mu.Unlock()
	l.prompts.Close()
	if err := l.rec.Close(); err != nil {
		l.svc.cfg.Log.Warn("session log could not be closed", "session_id", l.id, "error", err)
	}
}

// snapshot returns the session as it is now.
func (l *live) snapshot() Session {
	_, end := l.log.Bounds()
	l.mu.Lock()
	defer l.mu.Unlock()
	row := l.row
	if !row.State.Ended() {
		row.Bytes = end
		row.Basis = l.machine.Basis()
	}
	row.Watchers = l.watchers()
	row.Question = l.questions.Oldest()
	return row
}

// heard takes a signal of the terminal. The caller holds out.mu.
func (l *live) heard(sig agents.Signal) {
	h := l.svc.cfg.Agents.Read(l.row.Agent, sig) // Agent never changes
	l.mu.Lock()
	defer l.mu.Unlock()
	h.Reason = safetext.Cut(h.Reason, safetext.MaxLine)
	l.questions.Observe(h)
	if l.machine.UpTo < l.pastTo {
		l.machine.Recalled(&h)
	}
	l.machine.Observe(time.Now(), h)
	l.prompts.Hint(h)
	if h.HasTitle {
		if t := safetext.Line(h.Title); t != l.row.Title {
			l.row.Title = t
			l.bump()
			l.svc.touch(l)
		}
	}
}

// judge evaluates the state machine and publishes a change. The caller holds mu.
func (l *live) judge() {
	if l.row.State.Ended() || l.stopper != "" || l.isSuspended() {
		return
	}
	changed, next := l.machine.Evaluate(time.Now())
	l.watchWork()
	// A timer that fires too early only evaluates again: do not set a new one for each piece of output.
	if !next.IsZero() && (l.recheck.timer == nil || next.Before(l.recheck.at)) {
		if l.recheck.timer != nil {
			l.recheck.timer.Stop()
		}
		l.recheck.at = next
		l.recheck.timer = l.svc.after(time.Until(next), func() {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.recheck.timer = nil
			l.judge()
		})
	}
	if !changed {
		return
	}
	l.search.vain = 0
	if l.machine.Trouble { // no source repeats it: store it, so that it survives a crash now
		l.svc.hurry()
	}
	if l.row.State != l.machine.State {
		l.row.StateAt = l.svc.now()
	}
	ended := l.row.State == state.Working && l.machine.State == state.Idle && l.explicit
	l.row.State, l.row.StateReason = l.machine.State, l.machine.Reason
	if ended && l.svc.cfg.TurnEnded != nil {
		l.svc.cfg.TurnEnded(l.row, l.prompt)
		l.prompt = ""
	}
	if l.row.State == state.Waiting {
		l.svc.run(l.questions.Watch)
	}
	l.rec.Note(journal.State, journal.Change{State: string(l.row.State), Reason: l.row.StateReason})
	l.prompts.Steered()
	l.bump()
	l.svc.touch(l)
}

// bump wakes whoever shows the state. The caller holds mu.
func (l *live) bump() {
	l.gen++
	l.wake()
}

func (l *live) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// over reports whether the session has ended and its end is stored.
func (l *live) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// markPrompt has a checkpoint note a prompt that went to the agent. The caller does not hold mu.
func (l *live) markPrompt(text string) {
	if c := l.svc.cfg.Checkpoints; c != nil {
		c.Prompted(l.snapshot(), text)
	}
}

// notePrompt records that a prompt went to the agent.
func (l *live) notePrompt(text string) {
	l.rec.Note(journal.Prompt, map[string]any{"text": safetext.Cut(strings.ToValidUTF8(text, ""), prompt.NotedBytes), "user_id": l.row.CreatedBy})
}
