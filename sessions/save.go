package sessions

import (
	"context"
	"time"

	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/sessions/agents"
)

// saveEvery is the least time between two writes of what changes in running sessions.
const saveEvery = 300 * time.Millisecond

// touch says that l has something to store.
func (s *Service) touch(l *live) {
	s.mu.Lock()
	s.dirty[l] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// stirred says that who is at l's terminal changed.
func (s *Service) stirred(l *live) {
	s.mu.Lock()
	s.seats[l] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// saveLoop stores dirty sessions: the first at once, the next not before saveEvery has passed.
func (s *Service) saveLoop(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		s.save(ctx)
		pause.Reset(saveEvery)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		}
	}
}

func (s *Service) save(ctx context.Context) {
	s.mu.Lock()
	dirty := make([]*live, 0, len(s.dirty))
	for l := range s.dirty {
		dirty = append(dirty, l)
	}
	clear(s.dirty)
	seats := make([]*live, 0, len(s.seats))
	for l := range s.seats {
		seats = append(seats, l)
	}
	clear(s.seats)
	s.mu.Unlock()
	for _, l := range seats {
		s.publish(ctx, l.snapshot())
	}
	for _, l := range dirty {
		s.findConversation(ctx, l)
		row := l.snapshot()
		if row.State.Ended() {
			continue // stored by finish, in full
		}
		if err := s.cfg.Store.UpdateSession(ctx, row); err != nil {
			s.cfg.Log.Warn("session not stored", "session_id", row.ID, "error", err)
			s.touch(l) // again: what changed must not be lost, least of all when the server stops
			continue
		}
		s.publish(ctx, row)
	}
}

func (s *Service) publish(ctx context.Context, row Session) {
	if s.cfg.Events == nil {
		return
	}
	s.cfg.Events.Publish(ctx, events.Event{Type: "session.updated", ID: row.ID, WorkspaceID: row.WorkspaceID, TeamID: row.TeamID, Version: s.now()})
}

// The search for a conversation: so often at least apart, and so many times after each change of state. The agent writes its
// id some time after the first prompt.
const (
	seekEvery = 2 * time.Second
	seekTries = 5
)

// lateOutput returns the end of what the session printed.
func (l *live) lateOutput() []byte {
	const most = 256 << 10
	first, end := l.log.Bounds()
	buf := make([]byte, 0, most)
	for off := max(first, end-most); off < end && len(buf) < most; {
		n, at, err := l.log.ReadAt(buf[len(buf):most], off)
		if n == 0 || err != nil {
			break
		}
		buf, off = buf[:len(buf)+n], at+int64(n)
	}
	return buf
}

// findConversation looks for the agent's own id of the conversation, where the agent chooses it itself.
func (s *Service) findConversation(ctx context.Context, l *live) {
	l.mu.Lock()
	row, worktree, in, g := l.row, l.worktree, l.inside, l.guest
	due := row.Conversation == "" && worktree != "" && s.cfg.Agents.Finds(row.Agent) && row.State != Starting &&
		(l.soughtAt.IsZero() || time.Since(l.soughtAt) >= seekEvery || row.State.Ended())
	if due {
		l.soughtAt = time.Now()
	}
	l.mu.Unlock()
	if !due {
		return
	}
	taken, err := s.cfg.Store.Conversations(ctx, row.Agent, row.StartedAt)
	if err != nil {
		s.cfg.Log.Warn("conversations not read", "session_id", row.ID, "error", err)
		return
	}
	if in != nil && (g == nil || in.home == "") {
		return
	}
	find := agents.Find{UserID: row.CreatedBy, Inside: in.in(ctx, g), Worktree: worktree, Since: row.StartedAt, Output: l.lateOutput, Taken: make(map[string]struct{}, len(taken))}
	for _, id := range taken {
		find.Taken[id] = struct{}{}
	}
	id, err := s.cfg.Agents.FindConversation(row.Agent, find)
	if err != nil {
		s.cfg.Log.Warn("conversation not looked for", "session_id", row.ID, "error", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.row.Conversation = id
	if l.seeks++; id == "" && l.seeks <= seekTries && !l.row.State.Ended() {
		s.after(seekEvery, func() { s.touch(l) })
	}
}
