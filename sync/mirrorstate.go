package filesync

import (
	"cmp"
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
)

// settle waits until everything reported up to version is synced, or the rest cannot be. It returns why something is missing. It
// also waits until files kept in both versions have been sent to the sandbox, whether or not they arrive.
func (m *mirror) settle(ctx context.Context, version uint64) error {
	for {
		m.mu.Lock()
		home, sending, step := m.done >= version && !m.busy && len(m.dirty) == 0, m.sending, m.step
		moving := !home && !m.busy && len(m.dirty) > 0
		for _, n := range m.dirty {
			moving = moving && n >= maxMoves
		}
		m.mu.Unlock()
		if home && !sending {
			return nil
		}
		if moving {
			return fault.New(fault.Unavailable, "sync_behind", "Some files are being written to all the time, so that no consistent copy of them could be taken.")
		}
		select {
		case <-step:
		case <-ctx.Done():
			if home {
				return nil
			}
			h := m.now()
			h.Reason = cmp.Or(h.Reason, "They did not arrive in time.")
			return fault.New(fault.Unavailable, "sync_behind", "%d files are not on the server yet. %s", h.Pending, h.Reason).With("pending", h.Pending)
		}
	}
}

// maxMoves is how often the mirror requests a file that changes all the time before waiters stop waiting for it.
const maxMoves = 3

// now returns the progress of the sync.
func (m *mirror) now() Home {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.status
	h.Pending = int64(len(m.dirty) + m.left)
	h.State = cmp.Or(h.State, Syncing)
	if h.Pending > 0 && h.State == Synced {
		h.State = Syncing
	}
	if m.trouble != "" && h.State == Synced {
		h.State, h.Reason = Behind, m.trouble
	}
	return h
}

// doubt records why the last reported set is incomplete, "" = it is complete: while it is incomplete, nobody knows whether
// everything is synced.
func (m *mirror) doubt(words string) {
	m.mu.Lock()
	changed := m.trouble != words
	m.trouble = words
	m.mu.Unlock()
	if changed {
		m.s.homeChanged(m.id, m.teamID)
	}
}

// unread returns why the guest could not report everything when it was last asked, "" = it could.
func (m *mirror) unread() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.trouble
}

// show records the state of the sync and publishes it.
func (m *mirror) show(state, reason string) {
	m.mu.Lock()
	if m.cut && state != Behind {
		m.mu.Unlock()
		return
	}
	changed := m.status.State != state || m.status.Reason != reason
	m.status.State, m.status.Reason = state, reason
	m.mu.Unlock()
	if changed {
		m.s.homeChanged(m.id, m.teamID)
	}
}

// persist stores the state of the sync where it differs from what is stored.
func (m *mirror) persist(ctx context.Context) {
	st := m.state()
	if st == m.stored {
		return
	}
	if err := m.s.cfg.Store.ApplyMirror(ctx, MirrorDelta{WorkspaceID: m.id, TeamID: m.teamID, State: st}); err != nil {
		m.log.Warn("sync progress could not be stored", "error", err)
		return
	}
	m.stored = st
}

func (m *mirror) state() MirrorState {
	h := m.now()
	return MirrorState{SandboxID: m.sbxID, BaseCommit: m.builtOn, State: h.State, Pending: h.Pending, Reason: h.Reason, SyncedAt: h.SyncedAt}
}

// fail gives an error of a step its context.
func (m *mirror) fail(what string, err error) error {
	return fmt.Errorf("%s of workspace %s: %w", what, m.id, err)
}
