package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
)

// arrive lets every participant copy its part of the workspace to a new sandbox.
func (p *place) arrive(ctx context.Context, s executors.Spec, say func(step, title string, done, all int64)) error {
	ctx = context.WithValue(ctx, takingLeave{}, p) // it is not the slot's yet, but in use already
	for _, a := range p.m.attached() {
		if a.Arriving == nil {
			continue
		}
		if err := a.Arriving(ctx, executors.Arrival{Place: p.Place, Spec: s, Say: say}); err != nil {
			return fmt.Errorf("copying workspace %s to sandbox %s: %w", p.WorkspaceID, p.SandboxID, err)
		}
	}
	return nil
}

// syncBeforeSuspend lets every participant copy to the server what is in a sandbox that is about to be paused. It returns the error of a Home
// callback.
func (s *slot) syncBeforeSuspend(ctx context.Context, p *place) error {
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
