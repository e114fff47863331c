package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/internal/fault"
)

// noteGone remembers that a sandbox was found gone: what it left stays for a while, for those who followed its processes.
func (m *Manager) noteGone(sandboxID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gone[sandboxID] = m.now()
}

// Remains returns the guest's own folder of a sandbox that is gone, for as long as it is kept. Its bytes are hostile like all
// else of a guest: guest.ReadProcessRecord and bytelog read them safely.
func (m *Manager) Remains(kind executors.Kind, sandboxID string) (dir string, ok bool) {
	e, _ := m.cfg.Executors.Find(context.Background(), kind) // a kind that is gone has no remains
	if r, is := e.(executors.Remainer); is {
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

// Reap destroys what the executors have and the store knows as ended, or as made ahead of time: rests of a server that died between two
// steps, and what gone sandboxes left. A sandbox the store never heard of lives on: each has its row before it is made, so the row was lost,
// as with an older backup of the database, and somebody's work goes on in it.
func (m *Manager) Reap(ctx context.Context) {
	m.mu.Lock()
	ready := m.recovered
	maps.DeleteFunc(m.gone, func(_ string, at int64) bool { return m.now()-at >= m.cfg.KeepRemains.Milliseconds() })
	m.mu.Unlock()
	if !ready {
		return
	}
	places := m.cfg.Executors.All(ctx)
	m.cfg.Choice.Forget(places)
	for kind, e := range places {
		if m.reapPlace(ctx, kind, e); ctx.Err() != nil {
			return
		}
	}
}

// reapPlace does so at one place.
func (m *Manager) reapPlace(ctx context.Context, kind executors.Kind, e executors.Executor) {
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
		m.noteStrangers(kind, nil)
		return
	}
	open, err := m.cfg.Store.OpenSandboxes(ctx)
	if err != nil {
		m.cfg.Log.Warn("open sandboxes could not be read", "error", err)
		return
	}
	warm, err := m.cfg.Pool.IDs(ctx)
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
	var strangers []string
	for _, h := range handles {
		if known[h.ID] || m.fresh(h.ID) || ctx.Err() != nil {
			continue
		}
		switch _, err := m.cfg.Store.Sandbox(ctx, h.ID); {
		case err != nil && !fault.Is(err, fault.NotFound):
			m.cfg.Log.Warn("whose an unknown sandbox is could not be read", "sandbox_id", h.ID, "error", err)
		case err != nil && !WorksForNobody(h.ID):
			if m.stranger(ctx, e, h) {
				strangers = append(strangers, h.ID)
			}
		case kind.Member() != "":
			m.reapMember(ctx, e, h)
		default:
			m.reapOne(ctx, e, h)
		}
	}
	m.noteStrangers(kind, strangers)
}

// trialPrefix begins the ids of sandboxes that are made only to try their place.
const trialPrefix = "try"

// WorksForNobody reports whether a sandbox of that id holds nobody's work: it waits to be used, or was made only to try its place.
func WorksForNobody(sandboxID string) bool {
	kind, _, _ := strings.Cut(sandboxID, "_")
	return kind == pool.IDPrefix || kind == trialPrefix
}

// stranger reports whether a sandbox without a row lives. What one that is gone left on this host is removed.
func (m *Manager) stranger(ctx context.Context, e executors.Executor, h executors.Handle) bool {
	r, is := e.(executors.Remainer)
	if !is {
		return true
	}
	if _, left := r.Remains(h.ID); !left {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 2*m.cfg.DialTimeout)
	defer cancel()
	if _, err := e.Recover(ctx, h); !errors.Is(err, executors.ErrGone) {
		return true
	}
	if err := r.Sweep(ctx, h.ID); err != nil {
		m.cfg.Log.Warn("what an unknown sandbox left could not be removed", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
	}
	return false
}

// noteStrangers remembers which sandboxes at a place have no row, and says each once in the log.
func (m *Manager) noteStrangers(kind executors.Kind, ids []string) {
	m.mu.Lock()
	was := m.strangers[kind]
	m.strangers[kind] = ids
	m.mu.Unlock()
	how := "`parawork doctor` lists it, `parawork admin adopt-leftovers --end-sandboxes` ends it"
	if kind.Member() != "" {
		how = "the owner of the machine can end it there"
	}
	for _, id := range ids {
		if !slices.Contains(was, id) {
			m.cfg.Log.Warn("a sandbox runs that the database does not know: it is left alone; "+how, "executor", kind, "sandbox_id", id)
		}
	}
}

// Strangers lists the sandboxes of this installation's at a place that known, the ids the database has of any time, does not name and that may hold work.
func Strangers(ctx context.Context, e executors.Executor, known func(ctx context.Context, id string) (bool, error)) ([]executors.Handle, error) {
	all, err := e.List(ctx)
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	for _, h := range all {
		if WorksForNobody(h.ID) {
			continue
		}
		has, err := known(ctx, h.ID)
		if err != nil {
			return nil, err
		}
		if !has {
			out = append(out, h)
		}
	}
	return out, nil
}

// End ends a sandbox that no Manager serves, within a bound of time. One that is gone is ended.
func End(ctx context.Context, e executors.Executor, h executors.Handle, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	sb, err := e.Recover(ctx, h)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if r, is := e.(executors.Remainer); is && errors.Is(err, executors.ErrGone) {
		return r.Sweep(ctx, h.ID)
	}
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	return err
}

func (m *Manager) reapOne(ctx context.Context, e executors.Executor, h executors.Handle) {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	err := m.destroyHandle(ctx, e, h)
	if r, is := e.(executors.Remainer); is && errors.Is(err, executors.ErrGone) {
		err = r.Sweep(ctx, h.ID)
	}
	if err != nil && !errors.Is(err, executors.ErrGone) {
		m.cfg.Log.Warn("unknown sandbox could not be reaped", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
		return
	}
	m.cfg.Counters.Cleaned(h.Kind)
	m.cfg.Log.Info("unknown sandbox reaped", "executor", h.Kind, "sandbox_id", h.ID)
}
