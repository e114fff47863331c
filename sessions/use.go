package sessions

import (
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/sessions/state"
)

// Use says what goes on in a workspace's sessions.
func (s *Service) Use(workspaceID string) executors.Use {
	s.mu.Lock()
	var here []*live
	for _, l := range s.lives {
		if l.workspaceID == workspaceID {
			here = append(here, l)
		}
	}
	s.mu.Unlock()
	var u executors.Use
	for _, l := range here {
		l.mu.Lock()
		if !l.row.State.Ended() {
			u.Sessions++
			u.Working = u.Working || l.row.State == state.Working || l.row.State == state.Starting
			for v := range l.viewers {
				if !v.guest { // a link must not keep a place running
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
