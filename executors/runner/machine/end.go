package machine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

var errRemoved = fault.New(fault.Conflict, "sandbox_cancelled", "The making of the sandbox was cancelled.")

// remove ends everything in a sandbox and removes it with its files. Idempotent.
func (m *Machine) remove(ctx context.Context, id string) error {
	b := m.box(id)
	if b == nil {
		return nil
	}
	b.cancelFlight(errRemoved)
	release, err := b.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if m.box(id) != b { // meanwhile
		return nil
	}
	if b.get().State != ending {
		if err := b.set(func(p *page) { p.State = ending }); err != nil {
			return err
		}
	}
	failpoint.Reach(failpoint.BoxEnding)
	b.closePipes(errGone)
	return m.clear(ctx, b)
}

// cancelFlight cancels a making under way.
func (b *box) cancelFlight(why error) {
	b.mu.Lock()
	f := b.flight
	b.mu.Unlock()
	if f != nil {
		f.cancel(why)
	}
}

// clear ends what runs in a box and removes it. The caller holds its turn.
func (m *Machine) clear(ctx context.Context, b *box) error {
	if err := m.down(ctx, b, false); err != nil {
		return err
	}
	p := b.get()
	m.release(ctx, p)
	trash := filepath.Join(m.cfg.Dir, trashDir, p.ID)
	if err := os.Rename(m.place(p), trash); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing the files of sandbox %s: %w", p.ID, err)
	}
	failpoint.Reach(failpoint.BoxGone)
	if err := m.forget(p.ID); err != nil {
		return err
	}
	m.drop(b)
	out := b.status()
	out.State, out.Token = wire.Gone, ""
	m.hub.sandbox(out)
	if !m.start(func() { m.shred(trash) }) {
		m.cfg.Log.Debug("the files of a sandbox will be removed at the next start", "sandbox_id", p.ID)
	}
	return nil
}

// down ends what runs in a box, with or without preserving its own disk. The caller holds its turn.
func (m *Machine) down(ctx context.Context, b *box, keep bool) error {
	p, sb := b.get(), b.sandbox()
	if stopper, ok := m.cfg.Executor.(executors.Stopper); ok && keep {
		if err := stopper.Stop(ctx, m.handle(p)); err != nil {
			return fmt.Errorf("ending sandbox %s: %w", p.ID, err)
		}
		m.ended(b)
		return nil
	}
	remover, removes := m.cfg.Executor.(executors.Remover)
	if sb == nil && !removes {
		var err error
		if sb, err = m.find(ctx, p); err != nil {
			return err
		}
	}
	switch {
	case sb != nil:
		if err := sb.Destroy(ctx); err != nil {
			return fmt.Errorf("ending sandbox %s: %w", p.ID, err)
		}
	case removes: // whether or not its guest answers
		if err := remover.Remove(ctx, m.handle(p)); err != nil {
			return fmt.Errorf("ending sandbox %s: %w", p.ID, err)
		}
	default:
		r, ok := m.cfg.Executor.(executors.RemnantKeeper)
		if !ok {
			break
		}
		if err := r.Sweep(ctx, p.ID); err != nil {
			return fmt.Errorf("removing what sandbox %s left: %w", p.ID, err)
		}
	}
	m.ended(b)
	return nil
}

// handle returns the executor's handle of a box, also of one whose making was never seen to finish.
func (m *Machine) handle(p page) executors.Handle {
	h := p.Handle
	h.Kind, h.ID = m.cfg.Executor.Kind(), p.ID
	return h
}

// ended records that nothing runs in a box any more.
func (m *Machine) ended(b *box) {
	b.setLive(nil)
	if m.cfg.Ended != nil {
		m.cfg.Ended(b.get().ID)
	}
}

// find finds the executor's sandbox of a box; nil when there is none.
func (m *Machine) find(ctx context.Context, p page) (executors.Sandbox, error) {
	h := p.Handle
	if h.ID == "" { // this program died while it was being made, or it never was
		all, err := m.cfg.Executor.List(ctx)
		if err != nil {
			return nil, fmt.Errorf("looking for sandbox %s: %w", p.ID, err)
		}
		for _, other := range all {
			if other.ID == p.ID {
				h = other
			}
		}
		if h.ID == "" {
			return nil, nil
		}
	}
	sb, err := m.cfg.Executor.Recover(ctx, h)
	if errors.Is(err, executors.ErrGone) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking for sandbox %s: %w", p.ID, err)
	}
	return sb, nil
}

// shred removes files, also where a process has removed its owner's rights from folders. It follows no links.
func (m *Machine) shred(path string) {
	err := os.RemoveAll(path)
	if errors.Is(err, fs.ErrPermission) {
		_ = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() { // called before it is read; nobody else works in it any more
				_ = os.Chmod(name, 0o700)
			}
			return nil
		})
		err = os.RemoveAll(path)
	}
	if err != nil {
		m.cfg.Log.Warn("the files of a sandbox that has ended could not be removed", "path", path, "error", err)
	}
}

// Halt is the kill switch: it ends what runs in every sandbox, at once. Their files stay, and nothing starts before somebody asks for them
// again, which the Keeper may refuse. It returns the sandboxes that could not be ended.
func (m *Machine) Halt(ctx context.Context, reason string) error {
	var mu sync.Mutex
	var bad []error
	var wg sync.WaitGroup
	for _, b := range m.all() {
		wg.Go(func() {
			if err := m.halt(ctx, b, reason); err != nil {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, err)
			}
		})
	}
	wg.Wait()
	return errors.Join(bad...)
}

func (m *Machine) halt(ctx context.Context, b *box, reason string) error {
	stop := fault.New(fault.Unavailable, wire.CodeStopped, "%s", reason)
	b.cancelFlight(stop)
	release, err := b.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if s := b.get().State; s != running && s != paused {
		return nil
	}
	b.closePipes(stop)
	// Stored first: otherwise a request that comes meanwhile would restart a dead guest.
	if err := b.set(func(p *page) { p.State, p.Reason = stopped, reason }); err != nil {
		m.cfg.Log.Error("a sandbox could not be stored as stopped", "sandbox_id", b.page.ID, "error", err)
	}
	err = m.down(ctx, b, true)
	m.hub.sandbox(b.status())
	return err
}

// pause suspends a sandbox, resume resumes it. Both are idempotent.
func (m *Machine) pause(ctx context.Context, b *box) error {
	release, err := b.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if b.get().State == paused {
		return nil
	}
	sb, err := b.reached(ctx)
	if err != nil {
		return err
	}
	pauser, ok := sb.(executors.Pauser)
	if !ok {
		return errNoPause
	}
	if err := pauser.Pause(ctx); err != nil {
		return fmt.Errorf("pausing sandbox %s: %w", b.page.ID, err)
	}
	return b.set(func(p *page) { p.State, p.Reason = paused, "" })
}

func (m *Machine) resume(ctx context.Context, b *box) error {
	release, err := b.turn.Lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	if b.get().State != paused {
		_, err := b.reached(ctx)
		return err
	}
	if err := m.cfg.Keeper.Ready(); err != nil {
		return err
	}
	if sb := b.sandbox(); sb != nil {
		pauser, ok := sb.(executors.Pauser)
		if !ok {
			return errNoPause
		}
		if err := pauser.Resume(ctx); err != nil {
			return fmt.Errorf("resuming sandbox %s: %w", b.page.ID, err)
		}
	}
	if err := b.set(func(p *page) { p.State, p.Reason = running, "" }); err != nil {
		return err
	}
	_, err = b.reached(ctx) // recovering it resumes it
	return err
}

// tidyEach is how often a failed removal is tried again.
const tidyEach = time.Minute

// tidy finishes what an earlier program left half-done, reopens the ways out of running sandboxes, and then retries failures once a minute.
func (m *Machine) tidy(ctx context.Context) {
	entries, err := os.ReadDir(filepath.Join(m.cfg.Dir, trashDir))
	if err != nil {
		m.cfg.Log.Warn("the folder of files to remove could not be read", "error", err)
	}
	for _, e := range entries {
		m.shred(filepath.Join(m.cfg.Dir, trashDir, e.Name()))
	}
	for _, b := range m.all() {
		if b.get().State == running {
			m.openAgain(ctx, b)
		}
	}
	m.endUnknown(ctx)
	t := time.NewTicker(tidyEach)
	defer t.Stop()
	for {
		for _, b := range m.all() {
			m.finish(ctx, b)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// openAgain prepares a sandbox that survived an earlier program for one that serves it again: this program opens its way out.
func (m *Machine) openAgain(ctx context.Context, b *box) {
	release, err := b.turn.Lock(ctx)
	if err != nil {
		return
	}
	defer release()
	p := b.get()
	if _, err := m.spec(ctx, p); err != nil {
		m.cfg.Log.Warn("a running sandbox could not be prepared again", "sandbox_id", p.ID, "error", err)
		return
	}
	if b.sandbox() != nil {
		return
	}
	sb, err := m.cfg.Executor.Recover(ctx, p.Handle)
	if err != nil { // a dead one is restarted when somebody asks for it
		m.cfg.Log.Info("a sandbox was not found at the start", "sandbox_id", p.ID, "error", err)
		return
	}
	b.setLive(sb)
}

// finish removes a box whose making or ending was interrupted.
func (m *Machine) finish(ctx context.Context, b *box) {
	b.mu.Lock()
	half := b.page.State == ending || b.page.State == making && b.flight == nil
	b.mu.Unlock()
	if !half {
		return
	}
	if err := m.remove(ctx, b.get().ID); err != nil && ctx.Err() == nil {
		m.cfg.Log.Warn("a sandbox could not be ended yet", "sandbox_id", b.page.ID, "error", err)
	}
}

// endUnknown ends sandboxes of ours that the executor has and the journal does not know: they were being made when a program died.
func (m *Machine) endUnknown(ctx context.Context) {
	all, err := m.cfg.Executor.List(ctx)
	if err != nil {
		m.cfg.Log.Debug("the existing sandboxes could not be listed", "error", err)
		return
	}
	for _, h := range all {
		if m.box(h.ID) != nil {
			continue
		}
		if err := m.end(ctx, h); err != nil && !errors.Is(err, executors.ErrGone) {
			m.cfg.Log.Warn("an unknown sandbox could not be ended", "sandbox_id", h.ID, "error", err)
		}
	}
}

// end ends a sandbox of the executor's.
func (m *Machine) end(ctx context.Context, h executors.Handle) error {
	if r, ok := m.cfg.Executor.(executors.Remover); ok {
		return r.Remove(ctx, h)
	}
	sb, err := m.cfg.Executor.Recover(ctx, h)
	if err != nil {
		return err
	}
	return sb.Destroy(ctx)
}

func (m *Machine) box(id string) *box {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.boxes[id]
}

func (m *Machine) all() []*box {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*box, 0, len(m.boxes))
	for _, b := range m.boxes {
		out = append(out, b)
	}
	return out
}
