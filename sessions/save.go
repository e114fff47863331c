package sessions

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tasks"
)

// saveEvery is the least time between two writes of changes in running sessions, savePause the longest while nothing can be
// stored.
const (
	saveEvery = 300 * time.Millisecond
	savePause = 10 * time.Second
)

// Bounds of storing. A save waits only for the store, never for a sandbox.
const (
	saveAtOnce = 8                // sessions stored at the same time
	saveWithin = 5 * time.Second  // for one of them
	lastSave   = 20 * time.Second // for all of them when the server stops
)

// touch marks l as having changes to store.
func (s *Service) touch(l *live) {
	s.mu.Lock()
	s.dirty[l] = struct{}{}
	s.mu.Unlock()
	tasks.Wake(s.wake)
}

// stirred records that the people at l's terminal changed.
func (s *Service) stirred(l *live) {
	s.mu.Lock()
	s.seats[l] = struct{}{}
	s.mu.Unlock()
	tasks.Wake(s.wake)
}

// hurry makes the next save skip the wait of saveEvery.
func (s *Service) hurry() {
	tasks.Wake(s.hurried)
}

// saveLoop stores dirty sessions: the first at once, the next not before saveEvery has passed.
func (s *Service) saveLoop(ctx context.Context) {
	pause := time.NewTimer(0)
	defer pause.Stop()
	var out outage
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.wake:
		}
		wait := out.saved(s, s.save(ctx))
		hurried := s.hurried
		if wait > saveEvery {
			hurried = nil
		}
		pause.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-pause.C:
		case <-hurried:
		}
	}
}

// outage is a period during which sessions cannot be stored.
type outage struct {
	began time.Time // zero: no outage
	wait  time.Duration
}

// attempt is the result of storing several sessions.
type attempt struct {
	mu     sync.Mutex
	stored int
	failed int
	err    error // of a failed one
}

// saved records an attempt, logs where an outage begins and ends, and returns how long to wait for the next attempt.
func (o *outage) saved(s *Service, a *attempt) (wait time.Duration) {
	switch {
	case a.failed == 0 && a.stored == 0: // nothing to store
	case a.failed == 0:
		if !o.began.IsZero() {
			s.cfg.Log.Info("sessions are stored again", "away_for", time.Since(o.began).Round(time.Millisecond))
		}
		*o = outage{}
	case o.began.IsZero():
		s.cfg.Log.Warn("sessions could not be stored; the server keeps trying", "sessions", a.failed, "error", a.err)
		o.began, o.wait = time.Now(), saveEvery
	case a.stored > 0:
		o.wait = saveEvery
	default:
		o.wait = min(2*o.wait, savePause)
	}
	return max(o.wait, saveEvery)
}

func (s *Service) save(ctx context.Context) *attempt {
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
	a := new(attempt)
	slots := make(chan struct{}, saveAtOnce)
	for _, l := range dirty {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			s.saveOne(ctx, l, a)
		})
	}
	wg.Wait()
	return a
}

func (s *Service) saveOne(ctx context.Context, l *live, a *attempt) {
	s.seek(l)
	row := l.snapshot()
	if row.State.Ended() {
		return // finish stored it in full
	}
	ctx, cancel := context.WithTimeout(ctx, saveWithin)
	defer cancel()
	err := s.cfg.Store.UpdateSession(ctx, row)
	a.mu.Lock()
	if err == nil {
		a.stored++
	} else {
		a.failed, a.err = a.failed+1, err
	}
	a.mu.Unlock()
	if err != nil {
		s.touch(l) // again: the change must not be lost, least of all when the server stops
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
