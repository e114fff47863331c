package executors

import (
	"context"
	"errors"
	"maps"
)

// noteGone remembers that a sandbox was found gone: what it left stays for a while, for those who followed its processes.
func (m *Manager) noteGone(sandboxID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[sandboxID] = m.now()
}

// Remains returns the guest's own folder of a sandbox that is gone, for as long as it is kept. Its bytes are hostile like all
// else of a guest: guest.ReadProcessRecord and bytelog read them safely.
func (m *Manager) Remains(kind Kind, sandboxID string) (dir string, ok bool) {
	e, _ := m.executor(context.Background(), kind) // a kind that is gone has no remains
	if r, is := e.(Remainer); is {
		return r.Remains(sandboxID)
	}
	return "", false
}

// fresh reports whether a gone sandbox's remains are to be kept still.
func (m *Manager) fresh(sandboxID string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	_, ok := m.gone[sandboxID]
	return ok
}

// Reap destroys what the executors have and the store does not know as open: rests of a server that died between two steps,
// and what gone sandboxes left.
func (m *Manager) Reap(ctx context.Context) {
	m.mu.Lock()
	ready := m.recovered
	maps.DeleteFunc(m.gone, func(_ string, at int64) bool { return m.now()-at >= m.cfg.KeepRemains.Milliseconds() })
	m.mu.Unlock()
	if !ready {
		return
	}
	places := m.known(ctx)
	m.forgetGone(places)
	for kind, e := range places {
		if m.reapPlace(ctx, kind, e); ctx.Err() != nil {
			return
		}
	}
}

// reapPlace destroys what one place has and the store does not know as open.
func (m *Manager) reapPlace(ctx context.Context, kind Kind, e Executor) {
	m.mu.Lock()
	ready := m.recovered
	m.mu.Unlock()
	if !ready || m.awayWhy(ctx, kind) != nil {
		return
	}
	// The list comes first: what is made after it is not in it, and what is in it had its row before it was made.
	handles, err := e.List(ctx)
	if err != nil {
		m.cfg.Log.Warn("sandboxes could not be listed", "executor", kind, "error", err)
		return
	}
	if len(handles) == 0 {
		return
	}
	open, err := m.cfg.Store.OpenSandboxes(ctx)
	if err != nil {
		m.cfg.Log.Warn("open sandboxes could not be read", "error", err)
		return
	}
	warm, err := m.pool().ids(ctx)
	if err != nil {
		m.cfg.Log.Warn("warm sandboxes could not be read", "error", err)
		return
	}
	known := make(map[string]bool, len(open)+len(warm))
	for _, id := range warm {
		known[id] = true
	}
	for _, r := range open {
		known[r.Handle.ID] = true
	}
	m.mu.Lock()
	maps.Copy(known, m.trials)
	m.mu.Unlock()
	for _, h := range handles {
		if !known[h.ID] && !m.fresh(h.ID) && ctx.Err() == nil {
			if kind.Member() != "" {
				m.reapMember(ctx, e, h)
				continue
			}
			m.reapOne(ctx, e, h)
		}
	}
}

func (m *Manager) reapOne(ctx context.Context, e Executor, h Handle) {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	err := m.destroyHandle(ctx, e, h)
	if r, is := e.(Remainer); is && errors.Is(err, ErrGone) {
		err = r.Sweep(ctx, h.ID)
	}
	if err != nil && !errors.Is(err, ErrGone) {
		m.cfg.Log.Warn("unknown sandbox could not be reaped", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
		return
	}
	m.cfg.Counters.Cleaned(h.Kind)
	m.cfg.Log.Info("unknown sandbox reaped", "executor", h.Kind, "sandbox_id", h.ID)
}
