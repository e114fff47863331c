package filesync

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
)

// publishGap is the least time between two events of the same type and workspace: an agent that writes file after file causes a
// few events a second, not hundreds.
const publishGap = 250 * time.Millisecond

// changed records that a workspace's set has a new version. It never blocks.
func (s *Service) changed(workspaceID, teamID string, version int64) {
	s.notify(events.Event{Type: "changes.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: version})
}

// homeChanged records that the sync state of a workspace's files has changed. It never blocks.
func (s *Service) homeChanged(workspaceID, teamID string) {
	s.notify(events.Event{Type: "sync.updated", ID: workspaceID, WorkspaceID: workspaceID, TeamID: teamID, Version: s.cfg.Now().UnixMilli()})
}

// notify has an event published: the newest of its type and workspace.
func (s *Service) notify(e events.Event) {
	s.mu.Lock()
	s.pending[e.Type+" "+e.WorkspaceID] = e
	s.mu.Unlock()
	tasks.Wake(s.wake)
}

// reportedPaths is how many paths Touched gets.
const reportedPaths = 20

// touched notifies the subscriber of Touched which files changed.
func (s *Service) touched(workspaceID string, d Delta) {
	all := len(d.Upserts) + len(d.Removes)
	if s.cfg.Touched == nil || all == 0 {
		return
	}
	paths := make([]string, 0, min(all, reportedPaths))
	for _, c := range d.Upserts[:min(len(d.Upserts), reportedPaths)] {
		paths = append(paths, c.Path)
	}
	paths = append(paths, d.Removes[:min(len(d.Removes), reportedPaths-len(paths))]...)
	s.cfg.Touched(workspaceID, paths, all-len(paths))
}

// publish sends new versions to the bus until ctx ends: the first at once, those that follow closely together.
func (s *Service) publish(ctx context.Context) {
	last := make(map[string]time.Time)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		if wait, more := s.flush(ctx, last, time.Now()); more {
			timer.Reset(wait)
		} else {
			clear(last)
		}
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
	}
}

// flush publishes what may be published now, and returns how long to wait for the next. A published event stays in last while its
// gap runs.
func (s *Service) flush(ctx context.Context, last map[string]time.Time, now time.Time) (wait time.Duration, more bool) {
	var due []events.Event
	s.mu.Lock()
	for id, e := range s.pending {
		if now.Sub(last[id]) >= publishGap {
			due = append(due, e)
			delete(s.pending, id)
			last[id] = now
		}
	}
	s.mu.Unlock()
	for _, e := range due {
		s.cfg.Events.Publish(ctx, e)
	}
	wait = publishGap
	for id, at := range last {
		left := publishGap - now.Sub(at)
		if left <= 0 {
			delete(last, id)
			continue
		}
		wait, more = min(wait, left), true
	}
	return wait, more
}
