package manager

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/executors"
)

// Attach adds participants, in the order in which they are called. It is called before Recover.
func (m *Manager) Attach(ps ...executors.Participant) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.participants = append(slices.Clip(m.participants), ps...)
}

// participants are those who take part in the lives of sandboxes, in the order in which they are called.
type participants []executors.Participant

// attached are the participants: they are called without the lock.
func (m *Manager) attached() participants {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.participants
}

// endingTimeout bounds all that happens in a sandbox before a planned end: a guest that does not answer keeps nobody from ending it.
const endingTimeout = time.Minute

// lastTimeout is the same for a place with a disk of its own, which ends with it.
const lastTimeout = 5 * time.Minute

// outfit has everybody fill in their part of the spec.
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

// prepare gets ready for finding a stored sandbox again.
func (ps participants) prepare(ctx context.Context, r executors.Record) error {
	for _, a := range ps {
		if a.Found == nil {
			continue
		}
		if err := a.Found(ctx, r); err != nil {
			return fmt.Errorf("preparing to find sandbox %s again: %w", r.Handle.ID, err)
		}
	}
	return nil
}

// takeLeave lets everybody bring home what is in a place that is about to end.
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

// takingLeave marks the context of what is done in a place before it ends: for that, it is still there.
type takingLeave struct{}
