package checkpoints

import (
	"cmp"
	"context"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// mark is an automatic checkpoint that is to be taken.
type mark struct {
	teamID, workspaceID, sessionID string
	reason                         Reason
	note                           string
	at                             time.Time
}

// Bounds of the queue of marks. What does not fit is left out: the timeline has the files in any case.
const (
	maxMarks = 200
	markGap  = 2 * time.Second  // two marks of a session for one reason are at least this far apart
	sameGap  = 30 * time.Second // and with the same note this far: an agent's hook and the prompt's sender both report it
	maxHeard = 1000
)

// marks is the queue of automatic checkpoints.
type marks struct {
	mu    sync.Mutex
	due   []mark
	heard map[heardKey]heard // when a session was last marked
	wake  chan struct{}
}

type heardKey struct {
	sessionID string
	reason    Reason
}

type heard struct {
	note string
	at   time.Time
}

func newMarks() marks {
	return marks{heard: map[heardKey]heard{}, wake: make(chan struct{}, 1)}
}

// add queues a mark, unless it repeats the one before it.
func (m *marks) add(n mark) {
	m.mu.Lock()
	k := heardKey{n.sessionID, n.reason}
	last, known := m.heard[k]
	gap := n.at.Sub(last.at)
	if len(m.due) >= maxMarks || known && (gap < markGap || last.note == n.note && gap < sameGap) {
		m.mu.Unlock()
		return
	}
	if len(m.heard) >= maxHeard {
		clear(m.heard) // at worst a prompt is marked twice
	}
	m.heard[k] = heard{n.note, n.at}
	m.due = append(m.due, n)
	m.mu.Unlock()
	tasks.Wake(m.wake)
}

func (m *marks) take() []mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.due
	m.due = nil
	return out
}

// Prompted notes that a session's agent got a prompt: Run takes a checkpoint. It does not block.
func (s *Service) Prompted(row sessions.Session, prompt string) {
	first, _, _ := strings.Cut(strings.TrimSpace(prompt), "\n")
	s.mark(row, Prompt, safetext.Line(first))
}

// Compacting notes that an agent is about to compact its conversation: Run takes a checkpoint. It does not block.
func (s *Service) Compacting(row sessions.Session) { s.mark(row, TokenLimit, "") }

func (s *Service) mark(row sessions.Session, why Reason, note string) {
	s.marks.add(mark{teamID: row.TeamID, workspaceID: row.WorkspaceID, sessionID: row.ID, reason: why, note: note, at: s.cfg.Now()})
}

// marksAtOnce is how many automatic checkpoints are taken at once: a sandbox that does not answer holds up those of few others.
const marksAtOnce = 4

// Run takes the checkpoints that were noted, until ctx ends; it waits for those under way.
func (s *Service) Run(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	turns := make(chan struct{}, marksAtOnce)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-s.marks.wake:
		}
		for _, m := range s.marks.take() {
			select {
			case turns <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			all.Go(func() {
				defer func() { <-turns }()
				if err := s.take(ctx, m); err != nil && ctx.Err() == nil && !fault.Is(err, fault.NotFound) {
					s.cfg.Log.WarnContext(ctx, "a checkpoint could not be taken", "workspace_id", m.workspaceID, "session_id", m.sessionID, "reason", m.reason, "error", err)
				}
			})
		}
	}
}

// take takes an automatic checkpoint. It takes no snapshot if the files are as in the newest one.
func (s *Service) take(ctx context.Context, m mark) error {
	ctx, cancel := context.WithTimeout(tenant.In(ctx, m.teamID), markWithin)
	defer cancel()
	w, err := s.cfg.Workspaces.Workspace(ctx, m.workspaceID)
	if err != nil {
		return err
	}
	sn, err := s.cfg.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapPoll})
	if err == nil {
		sn, err = s.fresh(ctx, sn)
	}
	if err != nil || sn.ID == "" {
		return err
	}
	_, err = s.store(context.WithoutCancel(ctx), w, sn, Checkpoint{SessionID: m.sessionID, Reason: m.reason, Note: m.note})
	return err
}

// fresh replaces a snapshot that is about to expire: what removes expired ones must not meet a checkpoint that begins to refer to it.
func (s *Service) fresh(ctx context.Context, sn snapshot.Snap) (snapshot.Snap, error) {
	if sn.ID == "" || sn.ExpiresAt == 0 || sn.ExpiresAt > s.cfg.Now().Add(freshFor).UnixMilli() {
		return sn, nil
	}
	return s.cfg.Snapshots.Take(ctx, sn.WorkspaceID, snapshot.Request{Kind: snapshot.SnapTurn, Title: cmp.Or(sn.Title, "checkpoint")})
}

// BeforeEnd takes a checkpoint for each agent of a workspace whose sandbox is about to end or to be suspended. Its files are those of
// the newest snapshot: the caller has just taken one. A failure is logged, for the end cannot wait.
func (s *Service) BeforeEnd(ctx context.Context, workspaceID string) {
	if err := s.beforeEnd(ctx, workspaceID); err != nil && !fault.Is(err, fault.NotFound) {
		s.cfg.Log.WarnContext(ctx, "a checkpoint could not be taken before a sandbox's end", "workspace_id", workspaceID, "error", err)
	}
}

func (s *Service) beforeEnd(ctx context.Context, workspaceID string) error {
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	rows, err := s.cfg.Sessions.List(ctx, w.ID)
	if err != nil {
		return err
	}
	var sn snapshot.Snap
	for _, row := range rows {
		if row.State.Ended() || !converses(row) {
			continue
		}
		if sn.ID == "" {
			if sn, err = s.cfg.Snapshots.Now(ctx, w.ID); err == nil {
				sn, err = s.fresh(ctx, sn)
			}
			if err != nil || sn.ID == "" {
				return err
			}
		}
		if same, err := s.unchanged(ctx, row, sn); err != nil || same {
			if err != nil {
				return err
			}
			continue
		}
		if _, err := s.store(ctx, w, sn, Checkpoint{SessionID: row.ID, Reason: Timeout}); err != nil {
			return err
		}
	}
	return nil
}

// unchanged reports whether a session's newest checkpoint already holds these files and its whole conversation: a sandbox that is
// suspended again and again gets one checkpoint.
func (s *Service) unchanged(ctx context.Context, row sessions.Session, sn snapshot.Snap) (bool, error) {
	last, err := s.cfg.Store.SessionCheckpoint(ctx, row.ID)
	if fault.Is(err, fault.NotFound) {
		return false, nil
	}
	if err != nil || last.Reason != Timeout || last.SnapshotID != sn.ID {
		return false, err
	}
	now, err := s.messages(ctx, row.ID)
	return err == nil && now.Items == last.Messages.Items, err
}
