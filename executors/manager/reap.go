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

// reaper ends what is left of sandboxes that have ended. It knows which are to be left alone for now.
type reaper struct {
	m *Manager

	mu        sync.Mutex
	recovered bool                        // all that is stored as open was looked for: what is unknown by now is nobody's
	gone      map[string]int64            // sandboxes found gone by this process: ms UTC
	trials    map[string]bool             // by id: sandboxes made only to try their place
	strangers map[executors.Kind][]string // by place: ids of sandboxes that live and have no row
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

// spare has the reaper leave a sandbox alone until the returned func is called.
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

// noteGone remembers that a sandbox was found gone: what it left stays for a while, for those who followed its processes.
func (rp *reaper) noteGone(sandboxID string) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	rp.gone[sandboxID] = rp.m.now()
}

// Remnants returns the guest's own folder of a sandbox that is gone, for as long as it is kept. Its bytes are hostile like all
// else of a guest: guest.ReadProcessRecord and bytelog read them safely.
func (m *Manager) Remnants(kind executors.Kind, sandboxID string) (dir string, ok bool) {
	e, _ := m.cfg.Executors.Find(context.Background(), kind) // a kind that is gone has no remains
	if r, is := e.(executors.RemnantKeeper); is {
		return r.Remnants(sandboxID)
	}
	return "", false
}

// fresh reports whether a gone sandbox's remains are to be kept still.
func (rp *reaper) fresh(sandboxID string) bool {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	_, ok := rp.gone[sandboxID]
	return ok
}

// Reap destroys what the executors have and the store knows as ended, or as made ahead of time: rests of a server that died between two
// steps, and what gone sandboxes left. A sandbox the store never heard of lives on: each has its row before it is made, so the row was lost,
// as with an older backup of the database, and somebody's work goes on in it.
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

// forget drops what was found gone long ago, and says whether the reaper may begin.
func (rp *reaper) forget() (ready bool) {
	rp.mu.Lock()
	defer rp.mu.Unlock()
	maps.DeleteFunc(rp.gone, func(_ string, at int64) bool { return rp.m.now()-at >= rp.m.cfg.KeepRemnants.Milliseconds() })
	return rp.recovered
}

// reapPlace does so at one place.
func (rp *reaper) reapPlace(ctx context.Context, kind executors.Kind, e executors.Executor) {
	rp.mu.Lock()
	ready := rp.recovered
	rp.mu.Unlock()
	if !ready || rp.m.cfg.Choice.Unreachable(ctx, kind) != nil {
		return
	}
	// The list comes first: what is made after it is not in it, and what is in it had its row before it was made.
	handles, err := e.List(ctx)
	if err != nil {
		rp.m.cfg.Log.Warn("sandboxes could not be listed", "executor", kind, "error", err)
		return
	}
	if len(handles) == 0 {
		rp.noteStrangers(kind, nil)
		return
	}
	open, err := rp.m.cfg.Store.OpenSandboxes(ctx)
	if err != nil {
		rp.m.cfg.Log.Warn("open sandboxes could not be read", "error", err)
		return
	}
	warm, err := rp.m.cfg.Pool.IDs(ctx)
	if err != nil {
		rp.m.cfg.Log.Warn("warm sandboxes could not be read", "error", err)
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
			rp.m.cfg.Log.Warn("whose an unknown sandbox is could not be read", "sandbox_id", h.ID, "error", err)
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

// trialPrefix begins the ids of sandboxes that are made only to try their place.
const trialPrefix = "try"

// WorksForNobody reports whether a sandbox of that id holds nobody's work: it waits to be used, or was made only to try its place.
func WorksForNobody(sandboxID string) bool {
	kind, _, _ := strings.Cut(sandboxID, "_")
	return kind == pool.IDPrefix || kind == trialPrefix
}

// stranger reports whether a sandbox without a row lives. What one that is gone left on this host is removed.
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
		rp.m.cfg.Log.Warn("what an unknown sandbox left could not be removed", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
	}
	return false
}

// noteStrangers remembers which sandboxes at a place have no row, and says each once in the log.
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
			rp.m.cfg.Log.Warn("a sandbox runs that the database does not know: it is left alone; "+how, "executor", kind, "sandbox_id", id)
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
		rp.m.cfg.Log.Warn("unknown sandbox could not be reaped", "executor", h.Kind, "sandbox_id", h.ID, "error", err)
		return
	}
	rp.m.cfg.Counters.Cleaned(h.Kind)
	rp.m.cfg.Log.Info("unknown sandbox reaped", "executor", h.Kind, "sandbox_id", h.ID)
}
