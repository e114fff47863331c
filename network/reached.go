package network

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// maxReached is how many hosts are kept that a workspace reached.
const maxReached = 500

// Reached hears of a connection that was made. It does not block: what is too much within moments is not counted.
func (s *Service) Reached(r executors.Reach) {
	now := s.cfg.Now().UnixMilli()
	k := hostKey{r.WorkspaceID, r.Host, r.Port}
	s.mu.Lock()
	p := s.reached[k]
	if p == nil && s.reaches[r.WorkspaceID] < maxReached && len(s.reached) < maxPending {
		p = &Reached{Reach: r, FirstAt: now}
		s.reached[k] = p
		s.reaches[r.WorkspaceID]++
	}
	if p != nil {
		p.LastAt = now
		p.Times++
	}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// writeReached stores what was gathered.
func (s *Service) writeReached(ctx context.Context) {
	s.mu.Lock()
	all := make([]Reached, 0, len(s.reached))
	for _, p := range s.reached {
		all = append(all, *p)
	}
	clear(s.reached)
	clear(s.reaches)
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	if err := s.cfg.Store.AddReached(context.WithoutCancel(ctx), all, maxReached); err != nil {
		s.cfg.Log.WarnContext(ctx, "reached hosts could not be stored", "count", len(all), "error", err)
	}
}

// Hosts returns which hosts a workspace reached, the newest first, as far as its connections go through the gate. full says that older
// ones were forgotten to make room.
func (s *Service) Hosts(ctx context.Context, workspaceID string) (all []Reached, full bool, err error) {
	all, err = s.cfg.Store.Reached(ctx, workspaceID)
	return all, len(all) >= maxReached, err
}
