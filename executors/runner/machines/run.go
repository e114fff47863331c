package machines

import (
	"context"
	"maps"
	"slices"
	"time"
)

// keepHistory is how long ended connections and tokens are stored, and keepConnections how many of one machine.
const (
	keepHistory     = 90 * 24 * time.Hour
	keepConnections = 1000
)

// pruneEvery is how often older ones are dropped.
const pruneEvery = time.Hour

// Run stores the latest state of connected machines now and then, until ctx ends. Then it disconnects every machine and waits for the
// connections.
func (s *Service) Run(ctx context.Context) error {
	tick := time.NewTicker(s.cfg.Tick)
	defer tick.Stop()
	pruned := time.Time{}
	for {
		select {
		case <-ctx.Done():
			s.shut()
			return nil
		case <-tick.C:
		}
		s.keep(ctx)
		if now := s.cfg.Now(); now.Sub(pruned) >= pruneEvery {
			pruned = now
			if err := s.store.PruneRunners(ctx, now.Add(-keepHistory).UnixMilli(), keepConnections); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("old connections of machines could not be dropped", "error", err)
			}
		}
	}
}

// seenEvery is the shortest time between two writes of a mere sign of life.
const seenEvery = time.Minute

// keep stores what machines reported since the last write, and publishes loads that were held back.
func (s *Service) keep(ctx context.Context) {
	now := s.now()
	var store []*entry
	var say []Machine
	s.mu.Lock()
	for _, e := range s.all {
		l := e.live
		if l == nil {
			continue
		}
		if l.unstored && now-l.stored >= seenEvery.Milliseconds() {
			store = append(store, e)
		}
		if l.unsaid && now-l.published >= loadEvery.Milliseconds() {
			l.published, l.unsaid = now, false
			say = append(say, e.m)
		}
	}
	s.mu.Unlock()
	for _, e := range store {
		s.storeSeen(ctx, e)
	}
	for _, m := range say {
		s.publish(ctx, m)
	}
}

// storeSeen stores what a connected machine reported since the last write.
func (s *Service) storeSeen(ctx context.Context, e *entry) {
	e.turn.Lock()
	defer e.turn.Unlock()
	s.mu.Lock()
	l, m := e.live, e.m
	if l == nil || !l.unstored {
		s.mu.Unlock()
		return
	}
	l.stored, l.unstored = s.now(), false
	s.mu.Unlock()
	if err := s.store.SawRunner(ctx, m); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "the state of a machine could not be stored", "runner_id", m.ID, "error", err)
	}
}

// shut accepts no more connections, disconnects every machine and waits until they are gone. They reconnect when a server is there again.
func (s *Service) shut() {
	s.mu.Lock()
	s.closed = true
	all := slices.Collect(maps.Keys(s.links))
	s.mu.Unlock()
	for _, l := range all {
		l.Close(sayRestart)
	}
	s.conns.Wait()
}
