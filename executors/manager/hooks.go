package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
)

// Attach adds participants, in the order in which they are called. Call it before Recover.
func (m *Manager) Attach(ps ...executors.Participant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.participants = append(slices.Clip(m.participants), ps...)
}

// participants are the participants in the lives of sandboxes, in the order in which they are called.
type participants []executors.Participant

// attached returns the participants: they are called without the lock.
func (m *Manager) attached() participants {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.participants
}

// endingTimeout bounds everything done in a sandbox before a planned end: a guest that does not answer must not prevent the end.
const endingTimeout = time.Minute

// lastTimeout is the same for a sandbox with a disk of its own, whose disk ends with it.
const lastTimeout = 5 * time.Minute

// outfit lets every participant fill in its part of the spec.
func (ps participants) outfit(ctx context.Context, c executors.Capabilities, s *executors.Spec) error {
	for _, a := range ps {
		if a.Making == nil {
			continue
		}
		if err := a.Making(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}

// prepare prepares recovery of a stored sandbox.
func (ps participants) prepare(ctx context.Context, r executors.Record) error {
	for _, a := range ps {
		if a.Found == nil {
			continue
		}
		if err := a.Found(ctx, r); err != nil {
			return fmt.Errorf("preparing to recover sandbox %s: %w", r.Handle.ID, err)
		}
	}
	return nil
}

// takeLeave lets every participant copy to the server what is in a sandbox that is about to end.
func (p *place) takeLeave(ctx context.Context) {
	bound := endingTimeout
	if p.OwnDisk {
		bound = lastTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), takingLeave{}, p), bound)
	defer cancel()
	for _, a := range p.m.attached() {
		if a.Ending == nil {
			continue
		}
		a.Ending(ctx, p.Place)
	}
	p.BeginEnd()
}

// takingLeave marks the context of calls made in a sandbox before it ends: for them, it still exists.
type takingLeave struct{}
