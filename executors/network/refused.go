package network

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
)

const (
	// gatherFor is how long connections are gathered before they are written.
	gatherFor = 2 * time.Second
	// refreshEvery is how often the gates read rules that may have changed without a notification: an agent's account was removed.
	refreshEvery = time.Minute
)

// Refused records a connection that was refused. It does not block: when too many are pending it drops some.
func (s *Service) Refused(r executors.Refusal) {
	now := s.cfg.Now().UnixMilli()
	s.mu.Lock()
	if p := s.refused.of(hostKey{r.WorkspaceID, r.Host, r.Port}, Refused{FirstAt: now}); p != nil {
		p.Refusal, p.LastAt = r, now
		p.Times++
	}
	s.mu.Unlock()
	s.soon()
}

// Run writes the gathered connections and refreshes the gates' rules, until ctx is done.
func (s *Service) Run(ctx context.Context) error {
	fresh := s.cfg.After(refreshEvery)
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
		case <-fresh:
			s.refreshAll(ctx, s.cfg.Gates.Workspaces())
			fresh = s.cfg.After(refreshEvery)
		case <-s.wake:
			select {
			case <-s.cfg.After(gatherFor):
			case <-ctx.Done():
			}
			s.writeRefused(ctx)
			s.writeReached(ctx)
		}
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	s.writeRefused(last)
	s.writeReached(last)
	return nil
}

// writeRefused stores what was gathered, and notifies the teams of workspaces with something new.
func (s *Service) writeRefused(ctx context.Context) {
	s.mu.Lock()
	all := s.refused.take()
	s.mu.Unlock()
	if len(all) == 0 {
		return
	}
	teams := map[string]string{}
	for _, r := range all {
		teams[r.WorkspaceID] = r.TeamID
	}
	news, err := s.cfg.Store.AddRefused(context.WithoutCancel(ctx), all, maxRefused)
	if err != nil {
		s.cfg.Log.WarnContext(ctx, "the refused hosts could not be stored", "count", len(all), "workspaces", len(slices.Collect(maps.Keys(teams))), "error", err)
		return
	}
	for _, id := range news {
		s.publish(ctx, teams[id], id)
	}
}
