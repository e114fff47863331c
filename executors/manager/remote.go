package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
)

// arrive has everybody bring to a new sandbox what belongs there.
func (p *place) arrive(ctx context.Context, s executors.Spec, say func(step, title string, done, all int64)) error {
	ctx = context.WithValue(ctx, takingLeave{}, p) // it is not the slot's yet, and used already
	for _, a := range p.m.attached() {
		if a.Arriving == nil {
			continue
		}
		if err := a.Arriving(ctx, executors.Arrival{Place: p.Place, Spec: s, Say: say}); err != nil {
			return fmt.Errorf("bringing workspace %s to sandbox %s: %w", p.WorkspaceID, p.SandboxID, err)
		}
	}
	return nil
}

// standStill lets everybody bring home what is in a place that is about to be paused. Its error is one of Home's functions.
func (s *slot) standStill(ctx context.Context, p *place) error {
	s.mu.Lock()
	runEndsAt := p.record.RunEndsAt
	s.mu.Unlock()
	bound := homeTimeout
	if left := time.Duration(runEndsAt-s.m.now())*time.Millisecond - runReserve; runEndsAt > 0 {
		bound = min(bound, max(left, runReserve))
	}
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, takingLeave{}, p), bound)
	defer cancel()
	var errs []error
	for _, a := range s.m.attached() {
		if a.Home == nil {
			continue
		}
		errs = append(errs, a.Home(ctx, p.Place))
	}
	for _, a := range s.m.attached() {
		if a.Pausing == nil {
			continue
		}
		a.Pausing(ctx, p.Place)
	}
	err := errors.Join(errs...)
	p.home.Store(err == nil)
	return err
}
