package hosted

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/internal/fault"
)

// reachIn is how long the guest of a machine that runs may take to be reached.
const reachIn = 10 * time.Second

// errAskedToEnd says that a host had the guest end.
var errAskedToEnd = errors.New("the guest was asked to end")

// Recover finds a sandbox again, and starts it where it has stopped. ErrGone when the service no longer has it, or when its guest was asked to
// end. It restarts a guest that died, because the disk still exists. Any other error means that the state is unknown now.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if h.Kind != e.cfg.Kind {
		return nil, fmt.Errorf("handle of kind %q given to the %s executor", h.Kind, e.cfg.Kind)
	}
	if h.Version > handleVersion {
		return nil, fmt.Errorf("handle version %d of sandbox %s is newer than this server", h.Version, h.ID)
	}
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return nil, err
	}
	defer e.turns.Lock(h.ID)()
	return e.find(ctx, h)
}

// about puts together what is known of a sandbox: its folder, else its handle. fs.ErrNotExist when there never was one.
func (e *Executor) about(h executors.Handle) (record, error) {
	rec, err := e.files.Read(h.ID)
	if err == nil {
		return rec, nil
	}
	var kept record
	if len(h.State) > 0 {
		if jerr := json.Unmarshal(h.State, &kept); jerr != nil {
			return rec, fmt.Errorf("reading the handle of sandbox %s: %w", h.ID, jerr)
		}
	}
	if !errors.Is(err, fs.ErrNotExist) && kept.Machine == "" {
		return rec, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	if kept.Machine == "" {
		return rec, fs.ErrNotExist
	}
	return kept, nil
}

func (e *Executor) goneThere() error {
	return executors.GoneBecause(e.cfg.Troubles.Service + " no longer has it: it was ended there.")
}

// find looks for a sandbox and its guest. The caller holds the sandbox's turn.
func (e *Executor) find(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(e.removeFolder(h.ID), executors.ErrGone)
	}
	if err != nil {
		return nil, err
	}
	a, err := e.cfg.Account(ctx)
	if err != nil {
		return nil, err
	}
	if !rec.Ready { // its maker died: nothing of anybody's is in it
		if err := e.destroy(ctx, a, h.ID, rec); err != nil {
			return nil, err
		}
		return nil, executors.GoneBecause("The server stopped while it was being made.")
	}
	m, err := a.Service.Look(ctx, rec.Machine)
	switch {
	case errors.Is(err, ErrNoMachine) && rec.Account != a.ID:
		return &foreign{e: e, id: h.ID, rec: rec}, nil
	case errors.Is(err, ErrNoMachine):
		return nil, errors.Join(e.removeFolder(h.ID), e.goneThere())
	case err != nil:
		return nil, e.cfg.Troubles.InWords(err)
	}
	s, rekey, err := e.taken(h.ID, rec)
	if err != nil {
		return nil, err
	}
	switch err := s.meet(ctx, a, m.State, rekey); {
	case errors.Is(err, errAskedToEnd):
		if derr := e.destroy(ctx, a, h.ID, rec); derr != nil {
			return nil, derr
		}
		return nil, executors.GoneBecause("Its guest was asked to end.")
	case err != nil:
		return nil, e.cfg.Troubles.InWords(err)
	}
	return e.cfg.Wrap(s), nil
}

// taken is the value of a sandbox: the one this process has already, or another. rekey says that the guest must get another token.
func (e *Executor) taken(id string, rec record) (s *Sandbox, rekey bool, err error) {
	if s := e.known(id); s != nil {
		return s, false, nil
	}
	token, err := e.files.Token(id)
	if errors.Is(err, fs.ErrNotExist) { // the folder was lost: the machine is ours still, and takes another guest
		rekey = true
		if err = e.removeFolder(id); err == nil {
			err = e.files.Make(id)
		}
		if err == nil {
			token, err = e.files.MakeToken(id)
		}
		if err == nil {
			err = e.files.Write(id, rec)
		}
	}
	if err != nil {
		return nil, false, fmt.Errorf("reading the token of sandbox %s: %w", id, err)
	}
	return e.adopt(id, rec, token), rekey, nil
}

// meet reaches the guest of a machine, which is started where it has stopped, as is a guest that died.
func (s *Sandbox) meet(ctx context.Context, a Account, state State, rekey bool) error {
	if state == Stopped {
		return s.wake(ctx, a.Service)
	}
	if !rekey {
		s.mu.Lock()
		s.paused = false
		s.mu.Unlock()
		if err := s.reach(ctx, a.Service, reachIn); err == nil || ctx.Err() != nil {
			return err
		}
	}
	return s.begin(ctx, a.Service, rekey)
}

// wake starts the machine, which begins another run, and the guest in it.
func (s *Sandbox) wake(ctx context.Context, svc Service) error {
	switch err := svc.Start(ctx, s.record().Machine); {
	case errors.Is(err, ErrNoMachine):
		return s.e.goneThere()
	case err != nil:
		return fmt.Errorf("waking the sandbox: %w", err)
	}
	s.mu.Lock()
	s.rec.Runs = s.e.cfg.Now().UnixMilli()
	s.mu.Unlock()
	return s.begin(ctx, svc, false)
}

// foreign is a sandbox of another account: it can neither be reached nor ended, only forgotten.
type foreign struct {
	e   *Executor
	id  string
	rec record
}

// Handle is as it was.
func (f *foreign) Handle() executors.Handle { return f.e.handle(f.id, f.rec) }

// Token is not known here.
func (f *foreign) Token() string { return "" }

func (e *Executor) errForeign() error {
	return fault.New(fault.Unavailable, "place_other_account",
		"The sandbox was made with another account of %s than this server uses now. Set that one again in Settings, Places, or destroy the sandbox to get a new one.", e.cfg.Troubles.Service)
}

// Dial says why it cannot be reached.
func (f *foreign) Dial(context.Context) (io.ReadWriteCloser, error) { return nil, f.e.errForeign() }

// Destroy forgets it.
func (f *foreign) Destroy(ctx context.Context) error {
	defer f.e.turns.Lock(f.id)()
	a, err := f.e.cfg.Account(ctx)
	if err != nil {
		return err
	}
	return f.e.destroy(ctx, a, f.id, f.rec)
}

func (e *Executor) handle(id string, rec record) executors.Handle {
	b, err := json.Marshal(rec)
	if err != nil {
		panic(err) // a struct of strings and numbers always encodes
	}
	return executors.Handle{Kind: e.cfg.Kind, ID: id, Version: handleVersion, State: b}
}

// Latest is how the machine of a sandbox stands, without waking it. ErrGone when the service no longer has it.
func (e *Executor) Latest(ctx context.Context, h executors.Handle) (Machine, error) {
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return Machine{}, err
	}
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return Machine{}, executors.ErrGone
	}
	if err != nil {
		return Machine{}, err
	}
	a, err := e.cfg.Account(ctx)
	if err != nil {
		return Machine{}, err
	}
	m, err := a.Service.Look(ctx, rec.Machine)
	switch {
	case errors.Is(err, ErrNoMachine) && rec.Account != a.ID:
		return m, e.errForeign()
	case errors.Is(err, ErrNoMachine):
		return m, e.goneThere()
	case err != nil:
		return m, e.cfg.Troubles.InWords(err)
	}
	return m, nil
}

// IsStopped reports whether the machine of a sandbox has stopped, without waking it: a kind whose sandboxes pause has it as Asleep. ErrGone when
// the service no longer has it.
func (e *Executor) IsStopped(ctx context.Context, h executors.Handle) (bool, error) {
	m, err := e.Latest(ctx, h)
	if err != nil {
		return false, err
	}
	if s := e.known(h.ID); s != nil && m.State == Stopped {
		s.setPaused(true)
		s.closeAll()
	}
	return m.State == Stopped, nil
}

// List returns every sandbox of this instance whose machine the service has, and every one that has a folder.
func (e *Executor) List(ctx context.Context) ([]executors.Handle, error) {
	ids, err := e.files.IDs()
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	names := make(map[string]string) // of the machine of each sandbox that has a folder
	for _, id := range ids {
		rec, err := e.files.Read(id)
		if err != nil {
			rec = record{}
		}
		names[id] = rec.Name
		out = append(out, e.handle(id, rec))
	}
	if on, err := e.cfg.On(ctx); err != nil || !on {
		return out, err
	}
	a, err := e.cfg.Account(ctx)
	if err != nil {
		return nil, err
	}
	prefix, err := e.machinePrefix()
	if err != nil {
		return nil, err
	}
	all, err := a.Service.All(ctx, prefix)
	if err != nil {
		return nil, e.cfg.Troubles.InWords(err)
	}
	for _, m := range all {
		id, ok := sandboxOf(prefix, m.Name)
		if !ok {
			continue
		}
		if name, here := names[id]; here {
			if name != m.Name { // an answer that was lost, and came after its try was given up
				e.later(func(ctx context.Context) {
					if err := a.Service.Remove(ctx, m.ID); err != nil { // the next look finds it again
						e.cfg.Log.Warn("a machine nobody knows could not be removed", "machine", m.Name, "error", err)
					}
				})
			}
			continue
		}
		// Its folder is not there: nobody here knows it. It is not ready, so whoever looks for it ends it.
		out = append(out, e.handle(id, record{Name: m.Name, Machine: m.ID, Account: a.ID}))
	}
	return out, nil
}

// Sweep forgets a sandbox that is gone.
func (e *Executor) Sweep(_ context.Context, sandboxID string) error {
	if err := sandboxdir.CheckID(sandboxID); err != nil {
		return err
	}
	defer e.turns.Lock(sandboxID)()
	if rec, err := e.files.Read(sandboxID); err == nil && rec.Ready {
		return nil // it lives, for all that is known here
	}
	return e.removeFolder(sandboxID)
}
