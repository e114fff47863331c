package sessions

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/sessions/state"
)

// all are the sessions in memory.
func (s *Service) all() []*live {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.lives))
}

// Use reports the activity in a workspace's sessions.
func (s *Service) Use(workspaceID string) executors.Use {
	var u executors.Use
	for _, l := range s.all() {
		l.mu.Lock()
		if l.workspaceID == workspaceID && !l.row.State.Ended() {
			u.Sessions++
			u.Working = u.Working || l.row.State == state.Working || l.row.State == state.Starting
			for v := range l.seats.viewers {
				if !v.guest { // a link must not keep a sandbox running
					u.Viewers++
				}
			}
			for _, at := range [...]time.Time{l.machine.LastOut, l.machine.LastInput} {
				if !at.IsZero() {
					u.LastAt = max(u.LastAt, at.UnixMilli())
				}
			}
		}
		l.mu.Unlock()
	}
	return u
}

// FilesChanged records in the journals of a workspace's running sessions that files have just changed: paths, and how many more.
// It never blocks.
func (s *Service) FilesChanged(workspaceID string, paths []string, more int) {
	for _, l := range s.all() {
		l.mu.Lock()
		here := l.row.WorkspaceID == workspaceID && !l.row.State.Ended()
		l.mu.Unlock()
		if here {
			l.rec.NoteFiles(paths, more)
		}
	}
}

// Working reports whether an agent is working in a workspace now.
func (s *Service) Working(_ context.Context, workspaceID string) (bool, error) {
	for _, l := range s.all() {
		l.mu.Lock()
		works := l.row.WorkspaceID == workspaceID && l.row.State == state.Working && l.explicit
		l.mu.Unlock()
		if works {
			return true, nil
		}
	}
	return false, nil
}
