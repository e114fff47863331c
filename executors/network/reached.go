package network

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// maxReached is how many hosts that a workspace reached are stored.
const maxReached = 500

// Reached records a connection that was made. It does not block: when too many are pending it drops some.
func (s *Service) Reached(r executors.Reach) {
	now := s.cfg.Now().UnixMilli()
	s.mu.Lock()
	if p := s.reached.of(hostKey{r.WorkspaceID, r.Host, r.Port}, Reached{Reach: r, FirstAt: now}); p != nil {
		p.LastAt = now
		p.Times++
	}
	s.mu.Unlock()
	s.soon()
}

// writeReached stores what was gathered.
func (s *Service) writeReached(ctx context.Context) {
	s.mu.Lock()
	all := s.reached.take()
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	if err := s.cfg.Store.AddReached(context.WithoutCancel(ctx), all, maxReached); err != nil {
		s.cfg.Log.WarnContext(ctx, "the reached hosts could not be stored", "count", len(all), "error", err)
	}
}

// Hosts returns which hosts a workspace reached, the newest first, as far as its connections go through the gate. full says that older ones
// were dropped to make room.
func (s *Service) Hosts(ctx context.Context, workspaceID string) (all []Reached, full bool, err error) {
	all, err = s.cfg.Store.Reached(ctx, workspaceID)
	return all, len(all) >= maxReached, err
}
