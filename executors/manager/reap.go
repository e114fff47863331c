package manager

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/internal/fault"
)

// reaper removes what is left of sandboxes that have ended. It knows which to leave alone for now.
type reaper struct {
	m *Manager

	mu        sync.Mutex
	recovered bool                        // recovery tried all open rows: a sandbox that is still unknown belongs to nobody
	gone      map[string]int64            // sandboxes found gone by this process: ms UTC
	trials    map[string]bool             // by id: sandboxes made only to try their executor
	strangers map[executors.Kind][]string // by executor: ids of sandboxes that live and have no row
}

func newReaper(m *Manager) *reaper {
	return &reaper{m: m, gone: make(map[string]int64), trials: make(map[string]bool), strangers: make(map[executors.Kind][]string)}
}

// start lets the reaper begin.
func (rp *reaper) start() {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.recovered = true
}

// spare makes the reaper leave a sandbox alone until the returned func is called.
func (rp *reaper) spare(sandboxID string) (done func()) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.trials[sandboxID] = true
	return func() {
		rp.mu.Lock()
		defer rp.mu.Unlock()
		delete(rp.trials, sandboxID)
	}
}

// noteGone remembers that a sandbox was found gone: its remnants stay for a while, for those who followed its processes.
func (rp *reaper) noteGone(sandboxID string) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.gone[sandboxID] = rp.m.now()
}

// Remnants returns the guest's folder of a sandbox that is gone, for as long as it exists. Its contents are untrusted like all else of a
// guest: guest.ReadProcessRecord and bytelog read them safely.
func (m *Manager) Remnants(kind executors.Kind, sandboxID string) (dir string, ok bool) {
	e, _ := m.cfg.Executors.Find(context.Background(), kind) // an executor that is gone has no remnants
	if r, is := e.(executors.RemnantKeeper); is {
		return r.Remnants(sandboxID)
	}
	return "", false
}

// fresh reports whether a gone sandbox's remnants must still stay.
func (rp *reaper) fresh(sandboxID string) bool {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	_, ok := rp.gone[sandboxID]
	return ok
}

// Reap destroys sandboxes that executors have and the store knows as ended, or as made ahead of time: leftovers of a server that died
// between two steps, and what gone sandboxes left behind. A sandbox unknown to the store lives on: the Manager writes a row before it makes
// a sandbox, so the row was lost, as with an older backup of the database, and somebody may be working in it.
func (m *Manager) Reap(ctx context.Context) {
	if !m.reaper.forget() {
		return
	}
	places := m.cfg.Executors.All(ctx)
	m.cfg.Choice.Forget(places)
	for kind, e := range places {
		if m.reaper.reapPlace(ctx, kind, e); ctx.Err() != nil {
			return
		}
	}
}

// forget drops entries about sandboxes found gone long ago, and says whether the reaper may begin.
func (rp *reaper) forget() (ready bool) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	maps.DeleteFunc(rp.gone, func(_ string, at int64) bool { return rp.m.now()-at >= rp.m.cfg.KeepRemnants.Milliseconds() })
	return rp.recovered
}

// reapPlace reaps one executor's sandboxes.
func (rp *reaper) reapPlace(ctx context.Context, kind executors.Kind, e executors.Executor) {
	rp.mu.Lock()
	ready := rp.recovered
	rp.mu.Unlock()
	if !ready || rp.m.cfg.Choice.Unreachable(ctx, kind) != nil {
		return
	}
	// List first: a sandbox made later is not in the list, and every sandbox in it had its row before it was made.
	handles, err := e.List(ctx)
	if err != nil {
		rp.m.cfg.Log.Warn("an executor's sandboxes could not be listed", "executor", kind, "error", err)
		return
	}
	if len(handles) == 0 {
		rp.noteStrangers(kind, nil)
		return
	}
	open, err := rp.m.cfg.Store.OpenSandboxes(ctx)
	if err != nil {
		rp.m.cfg.Log.Warn("the open sandboxes could not be read", "error", err)
		return
	}
	warm, err := rp.m.cfg.Pool.IDs(ctx)
	if err != nil {
		rp.m.cfg.Log.Warn("the warm sandboxes could not be read", "error", err)
		return
	}
	known := make(map[string]bool, len(open)+len(warm))
	for _, id := range warm {
		known[id] = true
	}
	for _, r := range open {
		known[r.Handle.ID] = true
	}
	rp.mu.Lock()
	maps.Copy(known, rp.trials)
	rp.mu.Unlock()
	var strangers []string
	for _, h := range handles {
		if known[h.ID] || rp.fresh(h.ID) || ctx.Err() != nil {
			continue
		}
		switch _, err := rp.m.cfg.Store.Sandbox(ctx, h.ID); {
		case err != nil && !fault.Is(err, fault.NotFound):
			rp.m.cfg.Log.Warn("the owner of an unknown sandbox could not be read", "sandbox_id", h.ID, "error", err)
		case err != nil && !WorksForNobody(h.ID):
			if rp.stranger(ctx, e, h) {
				strangers = append(strangers, h.ID)
			}
		case kind.Member() != "":
			rp.reapMember(ctx, e, h)
		default:
			rp.reapOne(ctx, e, h)
		}
	}
	rp.noteStrangers(kind, strangers)
}

// trialPrefix begins the ids of sandboxes that are made only to try their executor.
const trialPrefix = "try"

// WorksForNobody reports whether a sandbox of that id holds nobody's work: it is in the warm pool, or was made only to try its executor.
func WorksForNobody(sandboxID string) bool {
	kind, _, _ := strings.Cut(sandboxID, "_")
	return kind == pool.IDPrefix || kind == trialPrefix
}

// stranger reports whether a sandbox without a row lives. It removes what a dead one left on this host.
func (rp *reaper) stranger(ctx context.Context, e executors.Executor, h executors.Handle) bool {
	r, is := e.(executors.RemnantKeeper)
	if !is {
		return true
	}
	if _, left := r.Remnants(h.ID); !left {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, 2*rp.m.cfg.DialTimeout)
	defer cancel()
	if _, err := e.Recover(ctx, h); !errors.Is(err, executors.ErrGone) {
		return true
	}
	if err := r.Sweep(ctx, h.ID); err != nil {
		rp.m.cfg.Log.Warn("the remnants of an unknown sandbox could not be removed", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
	}
	return false
}

// noteStrangers remembers which sandboxes of an executor have no row, and logs each once.
func (rp *reaper) noteStrangers(kind executors.Kind, ids []string) {
	rp.mu.Lock()
	was := rp.strangers[kind]
	rp.strangers[kind] = ids
	rp.mu.Unlock()
	how := "`parawork doctor` lists it, `parawork admin adopt-leftovers --end-sandboxes` ends it"
	if kind.Member() != "" {
		how = "the owner of the machine can end it there"
	}
	for _, id := range ids {
		if !slices.Contains(was, id) {
			rp.m.cfg.Log.Warn("a sandbox runs that the database does not know; the server leaves it alone: "+how, "executor", kind, "sandbox_id", id)
		}
	}
}

// Strangers lists this installation's sandboxes in an executor that may hold work and are not in known, the ids of all sandboxes the
// database ever had.
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

// End ends a sandbox that no Manager serves, within a time limit. It returns no error for one that is gone.
func End(ctx context.Context, e executors.Executor, h executors.Handle, bound time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	sb, err := e.Recover(ctx, h)
	if err == nil {
		err = sb.Destroy(ctx)
	}
	if r, is := e.(executors.RemnantKeeper); is && errors.Is(err, executors.ErrGone) {
		return r.Sweep(ctx, h.ID)
	}
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	return err
}

func (rp *reaper) reapOne(ctx context.Context, e executors.Executor, h executors.Handle) {
	ctx, cancel := context.WithTimeout(ctx, makeTimeout)
	defer cancel()
	err := rp.destroyHandle(ctx, e, h)
	if r, is := e.(executors.RemnantKeeper); is && errors.Is(err, executors.ErrGone) {
		err = r.Sweep(ctx, h.ID)
	}
	if err != nil && !errors.Is(err, executors.ErrGone) {
		rp.m.cfg.Log.Warn("an unknown sandbox could not be reaped", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
		return
	}
	rp.m.cfg.Counters.Cleaned(h.Kind, executors.Unknown)
	rp.m.cfg.Log.Info("an unknown sandbox was reaped", "executor", h.Kind, "sandbox_id", h.ID)
}
