package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
	"github.com/parawork/parawork/internal/fault"
)

// reachIn is how long the guest of a sandbox that runs may take to be reached.
const reachIn = 5 * time.Second

// Recover finds a sandbox again, and wakes it where it is paused. ErrGone when E2B no longer has it, or when its guest was asked to end. It
// restarts a guest that died, because the disk still exists. Any other error means that the state is unknown now.
func (e *Executor) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	if h.Kind != e.cfg.Kind {
		return nil, fmt.Errorf("handle of kind %q given to the e2b executor", h.Kind)
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
	if !errors.Is(err, fs.ErrNotExist) && kept.Sandbox == "" {
		return rec, fmt.Errorf("reading the record of sandbox %s: %w", h.ID, err)
	}
	if kept.Sandbox == "" || kept.Warm { // the folder of a warm one becomes that of the sandbox it serves
		return rec, fs.ErrNotExist
	}
	if !sandboxdir.Plain(kept.Sandbox) || kept.Domain != "" && !plainHost(kept.Domain) {
		return rec, fmt.Errorf("the handle of sandbox %s names what cannot be", h.ID)
	}
	return kept, nil
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
	a, err := e.account(ctx)
	if err != nil {
		return nil, err
	}
	if !rec.Ready && !rec.Warm { // its maker died: nothing of anybody's is in it
		if err := e.destroy(ctx, a, h.ID, rec); err != nil {
			return nil, err
		}
		return nil, executors.GoneBecause("The server stopped while it was being made.")
	}
	d, err := a.plane.get(ctx, rec.Sandbox)
	switch {
	case isStatus(err, http.StatusNotFound) && rec.Account != a.set.account():
		return &foreign{e: e, id: h.ID, rec: rec}, nil
	case isStatus(err, http.StatusNotFound):
		return nil, errors.Join(e.removeFolder(h.ID), executors.GoneBecause("E2B no longer has it: it was ended there."))
	case err != nil:
		return nil, inWords(err, a.set, 0, 0)
	}
	s, err := e.taken(a, h.ID, rec, d.answer)
	if err != nil {
		return nil, err
	}
	if d.State == statePaused {
		s.setPaused(true)
		if rec.Warm {
			return s, nil
		}
		if err := s.wake(ctx, a); err != nil {
			return nil, err
		}
	} else {
		s.setPaused(false)
	}
	if rec.Warm { // no guest runs in it yet
		return s, nil
	}
	return s, s.meet(ctx, a)
}

// taken is the value of a sandbox: the one this process has already, or another.
func (e *Executor) taken(a *account, id string, rec record, got answer) (*sandbox, error) {
	if s := e.known(id); s != nil {
		s.envd.setToken(got.EnvdAccessToken)
		return s, nil
	}
	token, err := e.files.Token(id)
	if errors.Is(err, fs.ErrNotExist) && !rec.Warm {
		// The folder was lost. envd is ours still, and takes another guest's word for ours: see meet.
		if err = e.removeFolder(id); err == nil {
			err = e.files.Make(id)
		}
		if err == nil {
			token, err = e.files.MakeToken(id)
		}
		if err == nil {
			rec.Guest = "" // it must be started with the new token
			err = e.files.Write(id, rec)
		}
	}
	if err != nil && !rec.Warm {
		return nil, fmt.Errorf("reading the token of sandbox %s: %w", id, err)
	}
	return e.adopt(a, id, rec, got, token), nil
}

// meet reaches the guest of a sandbox that runs, and starts it again where it died.
func (s *sandbox) meet(ctx context.Context, a *account) error {
	rekey := s.record().Guest == ""
	var err error
	if !rekey {
		if err = s.reach(ctx, reachIn); err == nil {
			return nil
		}
		if errors.Is(err, errAsleep) {
			return inWords(err, a.set, 0, 0)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	pid, perr := s.guestPid(ctx)
	if perr != nil {
		return errors.Join(err, perr)
	}
	if pid != 0 && !rekey {
		return fmt.Errorf("the guest does not answer: %w", err) // it is there, and busy
	}
	over, perr := s.envd.exists(ctx, s.ended())
	if perr != nil {
		return errors.Join(err, perr)
	}
	if over {
		if derr := s.e.destroy(ctx, a, s.id, s.record()); derr != nil {
			return derr
		}
		return executors.GoneBecause("Its guest was asked to end.")
	}
	if pid != 0 {
		if err := s.envd.kill(ctx, pid); err != nil {
			return err
		}
	}
	s.e.cfg.Log.Warn("guest of a sandbox has died and is started again", "sandbox_id", s.id)
	if err := s.begin(ctx); err != nil {
		return err
	}
	return s.ready()
}

// foreign is a sandbox of another key: it can neither be reached nor ended, only forgotten.
type foreign struct {
	e   *Executor
	id  string
	rec record
}

// Handle is as it was.
func (f *foreign) Handle() executors.Handle {
	b, err := json.Marshal(f.rec)
	if err != nil {
		panic(err) // a struct of strings and numbers always encodes
	}
	return executors.Handle{Kind: f.e.cfg.Kind, ID: f.id, Version: handleVersion, State: b}
}

// Token is not known here.
func (f *foreign) Token() string { return "" }

var errForeign = fault.New(fault.Unavailable, "e2b_other_key",
	"The sandbox was made with another E2B key or server than this server uses now. Set that key again in Settings, Places, or destroy the sandbox to get a new one.")

// Dial says why it cannot be reached.
func (f *foreign) Dial(context.Context) (io.ReadWriteCloser, error) { return nil, errForeign }

// Destroy forgets it.
func (f *foreign) Destroy(ctx context.Context) error {
	defer f.e.turns.Lock(f.id)()
	a, err := f.e.account(ctx)
	if err != nil {
		return err
	}
	return f.e.destroy(ctx, a, f.id, f.rec)
}

// Asleep reports whether the sandbox is paused.
func (e *Executor) Asleep(ctx context.Context, h executors.Handle) (bool, error) {
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return false, err
	}
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return false, executors.ErrGone
	}
	if err != nil {
		return false, err
	}
	a, err := e.account(ctx)
	if err != nil {
		return false, err
	}
	d, err := a.plane.get(ctx, rec.Sandbox)
	if isStatus(err, http.StatusNotFound) {
		if rec.Account != a.set.account() {
			return false, errForeign
		}
		return false, executors.GoneBecause("E2B no longer has it: it was ended there.")
	}
	if err != nil {
		return false, inWords(err, a.set, 0, 0)
	}
	if s := e.known(h.ID); s != nil && d.State == statePaused {
		s.setPaused(true)
		s.cut(errAsleep)
	}
	return d.State == statePaused, nil
}

// List returns every sandbox of this instance that E2B has, and every one that has a folder.
func (e *Executor) List(ctx context.Context) ([]executors.Handle, error) {
	ids, err := e.files.IDs()
	if err != nil {
		return nil, err
	}
	var out []executors.Handle
	ours, attempts := make(map[string]bool), make(map[string]string)
	for _, id := range ids {
		rec, err := e.files.Read(id)
		if err != nil {
			rec = record{}
		}
		if attempts[id] = rec.Attempt; rec.Sandbox != "" {
			ours[rec.Sandbox] = true
		}
		out = append(out, (&foreign{e: e, id: id, rec: rec}).Handle())
	}
	set, err := e.cfg.Settings(ctx)
	if err != nil {
		return nil, err
	}
	if !set.on() {
		return out, nil
	}
	a, err := e.account(ctx)
	if err != nil {
		return nil, err
	}
	instance, err := e.ourInstance()
	if err != nil {
		return nil, err
	}
	all, err := a.plane.list(ctx, map[string]string{"parawork": "1", "instance": instance})
	if err != nil {
		return nil, inWords(err, a.set, 0, 0)
	}
	for _, d := range all {
		id := d.Metadata["sandbox"]
		if ours[d.SandboxID] || sandboxdir.CheckID(id) != nil {
			continue
		}
		if attempt, here := attempts[id]; here {
			if attempt != d.Metadata["attempt"] { // an answer that was lost, and came after its try was given up
				e.later(func(ctx context.Context) {
					if err := a.plane.kill(ctx, d.SandboxID); err != nil { // the next look finds it again
						e.cfg.Log.Warn("a sandbox nobody knows could not be ended", "sandbox_id", id, "error", err)
					}
				})
			}
			continue
		}
		// Its folder is not there: nobody here knows it. It is not ready, so whoever looks for it ends it.
		b, err := json.Marshal(record{Sandbox: d.SandboxID, Account: a.set.account()})
		if err != nil {
			return nil, err
		}
		out = append(out, executors.Handle{Kind: e.cfg.Kind, ID: id, Version: handleVersion, State: b})
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
