package executors

import (
	"context"
	"fmt"
	"time"
)

// hooks are what other rooms do at the turns of a sandbox's life. They are registered before Recover, and called in the order in
// which they were registered, by one goroutine at a time for each workspace.
type hooks struct {
	making []func(ctx context.Context, c Capabilities, s *Spec) error
	found  []func(ctx context.Context, r Record) error
	live   []func(p *Place)
	ending []func(ctx context.Context, p *Place)
	ended  []func(r Record)
	using  []func(workspaceID string) Use

	fallBack func(ctx context.Context, workspaceID string, cause error) (bool, error)
	arriving []func(ctx context.Context, a Arrival) error
	pausing  []func(ctx context.Context, p *Place)
	left     []func(ctx context.Context, p *Place) error
}

// endingTimeout bounds all that happens in a sandbox before a planned end: a guest that does not answer keeps nobody from ending it.
const endingTimeout = time.Minute

// lastTimeout is the same for a place with a disk of its own, which ends with it.
const lastTimeout = 5 * time.Minute

// OnMaking registers fn, called before a sandbox is made in a place that can do c, with s as it stands by then: fn fills in its part.
// An error of fn stops the making, in its words. What fn made is given back in OnEnded, also when the sandbox could not be made.
func (m *Manager) OnMaking(fn func(ctx context.Context, c Capabilities, s *Spec) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks.making = append(m.hooks.making, fn)
}

// OnFound registers fn, called before a stored sandbox is looked for again after a restart, and each time it is looked for. An error
// of fn counts as a sandbox that cannot be reached now.
func (m *Manager) OnFound(fn func(ctx context.Context, r Record) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks.found = append(m.hooks.found, fn)
}

// OnPlace registers fn, called for each place that becomes live by Ensure or Recover. fn must not block; it is registered
// before Recover.
func (m *Manager) OnPlace(fn func(p *Place)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks.live = append(m.hooks.live, fn)
}

// OnEnding registers fn, called before a live sandbox is ended on purpose (destroyed, moved, idle for long): its guest still answers,
// and what is to be brought home is brought home now. fn may use p, and with its ctx Ensure and RunInBox, which give it p; not Destroy. It logs what it cannot do.
func (m *Manager) OnEnding(fn func(ctx context.Context, p *Place)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks.ending = append(m.hooks.ending, fn)
}

// OnEnded registers fn, called once a sandbox's row is closed, however it ended. fn must not block.
func (m *Manager) OnEnded(fn func(r Record)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks.ended = append(m.hooks.ended, fn)
}

// OnUse registers fn, which says what goes on in a workspace: a sandbox that is in use is not idle. fn must not block.
func (m *Manager) OnUse(fn func(workspaceID string) Use) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hooks.using = append(m.hooks.using, fn)
}

// registered is a copy of the hooks: they are called without the lock.
func (m *Manager) registered() hooks {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.hooks
}

// outfit has everybody fill in their part of the spec.
func (m *Manager) outfit(ctx context.Context, c Capabilities, s *Spec) error {
	for _, fn := range m.registered().making {
		if err := fn(ctx, c, s); err != nil {
			return err
		}
	}
	return nil
}

// prepare gets ready for finding a stored sandbox again.
func (m *Manager) prepare(ctx context.Context, r Record) error {
	for _, fn := range m.registered().found {
		if err := fn(ctx, r); err != nil {
			return fmt.Errorf("preparing to find sandbox %s again: %w", r.Handle.ID, err)
		}
	}
	return nil
}

// takeLeave lets everybody bring home what is in a place that is about to end.
func (m *Manager) takeLeave(ctx context.Context, p *Place) {
	bound := endingTimeout
	if p.OwnDisk {
		bound = lastTimeout
	}
	ctx, cancel := context.WithTimeout(context.WithValue(context.WithoutCancel(ctx), takingLeave{}, p), bound)
	defer cancel()
	for _, fn := range m.registered().ending {
		fn(ctx, p)
	}
	p.endOnce.Do(func() { close(p.ending) })
}

// takingLeave marks the context of what is done in a place before it ends: for that, it is still there.
type takingLeave struct{}
