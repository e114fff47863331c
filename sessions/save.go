package sessions

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/events"
)

// saveEvery is the least time between two writes of what changes in running sessions.
const saveEvery = 300 * time.Millisecond

// Bounds of storing. Nothing here waits for a sandbox: the store is all there is to wait for.
const (
	saveAtOnce = 8                // sessions that are stored at the same time
	saveWithin = 5 * time.Second  // for one of them
	lastSave   = 20 * time.Second // for all of them when the server stops
)

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

// hurry has the next save not wait for saveEvery.
func (s *Service) hurry() {
	select {
	case s.hurried <- struct{}{}:
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
		case <-s.hurried:
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
	var wg sync.WaitGroup
	slots := make(chan struct{}, saveAtOnce)
	for _, l := range dirty {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.saveOne(ctx, l)
		})
	}
	wg.Wait()
}

func (s *Service) saveOne(ctx context.Context, l *live) {
	s.seek(l)
	row := l.snapshot()
	if row.State.Ended() {
		return // stored by finish, in full
	}
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	if err := s.cfg.Store.UpdateSession(ctx, row); err != nil {
		s.cfg.Log.Warn("session not stored", "session_id", row.ID, "error", err)
		s.touch(l) // again: what changed must not be lost, least of all when the server stops
		return
	}
	s.publish(ctx, row)
}

func (s *Service) publish(ctx context.Context, row Session) {
	if s.cfg.Events == nil {
		return
	}
	s.cfg.Events.Publish(ctx, events.Event{Type: "session.updated", ID: row.ID, WorkspaceID: row.WorkspaceID, TeamID: row.TeamID, Version: s.now()})
}
