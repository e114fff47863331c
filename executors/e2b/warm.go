package e2b

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
)

// Class tells what a warm sandbox must be like to serve s: the template, which says the size, and the account.
func (e *Executor) Class(s executors.Spec) string {
	a, err := e.account(context.Background())
	if err != nil {
		return "" // Warm says why
	}
	return a.set.TemplateOf(s.Size.CPUs, s.Size.MemoryMB) + "@" + a.set.account()
}

// Warm makes a sandbox of nobody yet, with the guest's program in it and tried. It reaches nothing of the network until it is somebody's.
func (e *Executor) Warm(ctx context.Context, id, class string) (executors.Handle, error) {
	none := executors.Handle{}
	if err := sandboxdir.CheckID(id); err != nil {
		return none, err
	}
	defer e.turns.Lock(id)()
	a, err := e.account(ctx)
	if err != nil {
		return none, err
	}
	var size executors.Size
	for _, s := range a.set.Sizes() {
		if class == a.set.TemplateOf(s.CPUs, s.MemoryMB)+"@"+a.set.account() {
			size = s
		}
	}
	if size.CPUs == 0 {
		return none, fmt.Errorf("E2B has no size of class %q any more", class)
	}
	if err := e.removeFolder(id); err != nil {
		return none, err
	}
	rec := record{Account: a.set.account(), Template: a.set.TemplateOf(size.CPUs, size.MemoryMB), CPUs: size.CPUs, MemoryMB: size.MemoryMB, Warm: true}
	if rec.Attempt, err = e.files.Random(12); err != nil {
		return none, err
	}
	if err := e.files.Make(id); err != nil {
		return none, err
	}
	err = e.warm(ctx, a, id, &rec)
	if err == nil {
		return e.known(id).Handle(), nil
	}
	cctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if derr := e.destroy(cctx, a, id, rec); derr != nil {
		e.cfg.Log.Error("half-made warm sandbox could not be ended", "sandbox_id", id, "error", derr)
	}
	return none, fmt.Errorf("making the warm sandbox %s at E2B: %w", id, inWords(err, a.set, size.CPUs, size.MemoryMB))
}

func (e *Executor) warm(ctx context.Context, a *account, id string, rec *record) error {
	got, err := e.begin(ctx, a, id, rec, map[string]string{"purpose": "pool"}, executors.Network{Mode: executors.NetworkNone})
	if err != nil {
		return err
	}
	s := e.adopt(a, id, *rec, got, "")
	program, err := e.bringGuest(ctx, s.envd)
	if err != nil {
		return err
	}
	p, err := s.envd.start(ctx, guestStart(program, []string{"version"}))
	if err != nil {
		return fmt.Errorf("trying the guest: %w", err)
	}
	defer p.close()
	if err := p.wait(); err != nil {
		return &guestError{err}
	}
	rec.Guest = program
	s.mu.Lock()
	s.rec = *rec
	s.mu.Unlock()
	return e.files.Write(id, *rec)
}

// takenWarm is a warm sandbox on its way to be somebody's.
type takenWarm struct {
	rec record
	got answer
}

// takeWarm makes the warm sandbox that s names the sandbox s.ID, whose folder is then there. nil = there is none to be taken.
func (e *Executor) takeWarm(ctx context.Context, a *account, s executors.Spec) (*takenWarm, error) {
	if s.Warm == nil || s.Warm.Kind != e.cfg.Kind || sandboxdir.CheckID(s.Warm.ID) != nil || s.Warm.ID == s.ID {
		return nil, nil
	}
	defer e.turns.Lock(s.Warm.ID)()
	rec, err := e.files.Read(s.Warm.ID)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!rec.Warm || rec.Sandbox == "" || rec.Account != a.set.account() ||
		rec.Template != a.set.TemplateOf(s.Size.CPUs, s.Size.MemoryMB)) {
		return nil, nil // one is made instead
	}
	if err != nil {
		return nil, err
	}
	got, err := a.plane.connect(ctx, rec.Sandbox, Lease) // its lease begins anew, and it is woken where it was paused
	if err != nil {
		e.cfg.Log.Warn("warm sandbox cannot be taken", "sandbox_id", s.Warm.ID, "error", err)
		return nil, nil
	}
	e.mu.Lock()
	delete(e.live, s.Warm.ID)
	e.mu.Unlock()
	// One step: at every instant exactly one folder names it.
	if err := e.files.Rename(s.Warm.ID, s.ID); err != nil {
		return nil, fmt.Errorf("taking the warm sandbox %s: %w", s.Warm.ID, err)
	}
	rec.Runs = cmp.Or(rec.Runs, e.cfg.Now().UnixMilli())
	return &takenWarm{rec, got}, nil
}
