package machine

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// flight is a making under way. It goes on when its caller was cut off: the caller asks again, and gets the missed progress.
type flight struct {
	cancel context.CancelCauseFunc
	orphan time.Duration

	mu        sync.Mutex
	lines     []wire.Progress // while a step is the last one, its newest progress replaces its earlier progress
	version   int             // of the last line
	over      bool
	changed   chan struct{} // closed at the next change
	listeners int
	alone     *time.Timer
}

func newFlight(cancel context.CancelCauseFunc, orphan time.Duration) *flight {
	return &flight{cancel: cancel, orphan: orphan, changed: make(chan struct{})}
}

// maxSteps limits the steps of one making.
const maxSteps = 200

func (f *flight) say(p wire.Progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := len(f.lines); n > 0 && f.lines[n-1].Step == p.Step && p.Step != "" {
		if p.Title == "" {
			p.Title = f.lines[n-1].Title
		}
		f.lines[n-1] = p
		f.version++
	} else if n < maxSteps || p.Step == "" {
		f.lines = append(f.lines, p)
		f.version = 0
	}
	f.notify()
}

// end sends the last line.
func (f *flight) end(p wire.Progress) {
	f.say(p)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.over = true
	if f.alone != nil {
		f.alone.Stop()
	}
	f.notify()
}

// notify wakes the listeners. The caller holds mu.
func (f *flight) notify() {
	close(f.changed)
	f.changed = make(chan struct{})
}

var errAlone = errors.New("nobody waited for the sandbox any more")

// listen calls fn with each line, from the first on, until the last; nil lines only say that the making goes on.
func (f *flight) listen(ctx context.Context, every time.Duration, fn func(*wire.Progress) error) error {
	f.mu.Lock()
	f.listeners++
	if f.alone != nil {
		f.alone.Stop()
		f.alone = nil
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.listeners--; f.listeners == 0 && !f.over {
			f.alone = time.AfterFunc(f.orphan, func() { f.cancel(errAlone) })
		}
	}()
	tick := time.NewTicker(every)
	defer tick.Stop()
	sent, version := 0, 0
	for {
		f.mu.Lock()
		var next []wire.Progress
		if n := len(f.lines); sent < n {
			next = slices.Clone(f.lines[sent:])
			sent, version = n, f.version
		} else if n > 0 && version != f.version {
			next, version = []wire.Progress{f.lines[n-1]}, f.version
		}
		over, changed := f.over, f.changed
		f.mu.Unlock()
		for i := range next {
			if err := fn(&next[i]); err != nil {
				return err
			}
		}
		if over {
			return nil
		}
		select {
		case <-changed:
		case <-tick.C:
			if err := fn(nil); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

var plainSlug = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

// checkMake rejects an invalid request.
func checkMake(a *wire.Make) error {
	invalid := func(what string) error {
		return fault.New(fault.Invalid, "runner_sandbox_invalid", "The machine cannot make this sandbox: %s.", what)
	}
	for _, id := range []string{a.ID, a.WorkspaceID, a.TeamID} {
		if guest.CheckID(id) != nil {
			return invalid("an id is invalid")
		}
	}
	if !plainSlug.MatchString(a.Slug) {
		a.Slug = "project"
	}
	a.Key = policy.Clean(a.Key, 60)
	if len(a.Folder) > guest.MaxPath || a.Folder != "" && !filepath.IsAbs(a.Folder) || strings.ContainsRune(a.Folder, 0) {
		return invalid("its folder is not a valid path")
	}
	l := a.Limits
	if l.CPUs < 0 || math.IsNaN(l.CPUs) || math.IsInf(l.CPUs, 0) || l.MemoryMB < 0 || l.DiskMB < 0 || l.Processes < 0 {
		return invalid("a limit is invalid")
	}
	size := 0
	for name, value := range a.Env {
		size += len(name) + len(value) + 2
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(value, 0) {
			return invalid("its environment has an invalid name")
		}
	}
	if size > guest.MaxEnv {
		return invalid("its environment is too large")
	}
	return nil
}

// begin makes a sandbox, or finds that it exists or is being made. It returns either a flight or a sandbox.
func (m *Machine) begin(ctx context.Context, cmd wire.Command, ask wire.Make) (*flight, *wire.Sandbox, error) {
	if err := checkMake(&ask); err != nil {
		return nil, nil, err
	}
	m.mu.Lock()
	if b := m.boxes[ask.ID]; b != nil {
		m.mu.Unlock()
		return b.again(ctx, ask)
	}
	if err := m.room(); err != nil {
		m.mu.Unlock()
		return nil, nil, err
	}
	p := page{ID: ask.ID, TeamID: ask.TeamID, WorkspaceID: ask.WorkspaceID, UserID: cmd.UserID, Key: ask.Key, Slug: ask.Slug, Folder: ask.Folder, Place: m.freePlace(ask),
		UID: m.freeUser(), Env: maps.Clone(ask.Env), Token: rand.Text() + rand.Text(), State: making, MadeAt: m.now(),
		Limits: executors.Limits{CPUs: ask.Limits.CPUs, MemoryMB: ask.Limits.MemoryMB, DiskMB: ask.Limits.DiskMB, Processes: ask.Limits.Processes}}
	b := newBox(m, p)
	fctx, cancel := context.WithCancelCause(m.life)
	f := newFlight(cancel, m.cfg.Orphan)
	b.flight = f
	b.turn.TryLock() // the making has it: nobody else knows the box yet
	m.boxes[p.ID] = b
	m.mu.Unlock()
	if !m.start(func() { m.fly(fctx, b, f, cmd) }) {
		m.drop(b)
		b.turn.Unlock()
		return nil, nil, errEnding
	}
	return f, nil, nil
}

// again answers a repeated request for a sandbox.
func (b *box) again(ctx context.Context, ask wire.Make) (*flight, *wire.Sandbox, error) {
	b.mu.Lock()
	p, f := b.page, b.flight
	b.mu.Unlock()
	if p.WorkspaceID != ask.WorkspaceID || p.TeamID != ask.TeamID {
		return nil, nil, fault.New(fault.Conflict, "runner_sandbox_invalid", "The machine has a sandbox of this name for another workspace.")
	}
	if f != nil {
		return f, nil, nil
	}
	if p.State != paused {
		if _, err := b.reach(ctx); err != nil {
			return nil, nil, err
		}
	}
	s := b.status()
	return nil, &s, nil
}

// room refuses a sandbox beyond the number the owner allows. The caller holds m.mu.
func (m *Machine) room() error {
	if m.over || m.life.Err() != nil {
		return errEnding
	}
	if most := m.cfg.Keeper.Policy().Limits.Sandboxes; most > 0 && m.busy() >= most {
		return fault.New(fault.Unavailable, wire.CodeFull, "The machine runs %d sandboxes, as many as its owner allows. End one there, or ask its owner to allow more.", most)
	}
	return nil
}

// busy returns how many sandboxes run. The caller holds m.mu.
func (m *Machine) busy() int {
	n := 0
	for _, b := range m.boxes {
		if s := b.get().State; s == running || s == making {
			n++
		}
	}
	return n
}

// freePlace returns the folder for a new sandbox: its workspace's, unless another sandbox has that. The caller holds m.mu.
func (m *Machine) freePlace(ask wire.Make) string {
	taken := false
	for _, b := range m.boxes {
		taken = taken || b.get().Place == ask.WorkspaceID
	}
	if _, err := os.Lstat(filepath.Join(m.cfg.Dir, workspacesDir, ask.WorkspaceID)); err == nil || taken {
		return ask.WorkspaceID + "-" + ask.ID
	}
	return ask.WorkspaceID
}

// drop removes a box from the list.
func (m *Machine) drop(b *box) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.boxes, b.page.ID)
}

// fly makes the sandbox. It has the box's turn.
func (m *Machine) fly(ctx context.Context, b *box, f *flight, cmd wire.Command) {
	defer f.cancel(nil)
	err := m.raise(ctx, b, f, cmd)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = errors.Join(cause, err)
		}
		m.cfg.Log.Info("a sandbox could not be made", "sandbox_id", b.page.ID, "workspace_id", b.page.WorkspaceID, "error", err)
		if cerr := m.clear(context.WithoutCancel(ctx), b); cerr != nil {
			m.cfg.Log.Error("a half-made sandbox could not be removed", "sandbox_id", b.page.ID, "error", cerr)
		}
	}
	b.mu.Lock()
	b.flight = nil
	b.mu.Unlock()
	b.turn.Unlock()
	if err != nil {
		e := remoteError(err)
		f.end(wire.Progress{Error: &e})
		return
	}
	s := b.status()
	m.hub.sandbox(s)
	f.end(wire.Progress{Sandbox: &s})
}

// stepAsk is the step in which the owner is asked.
const stepAsk = "ask"

func (m *Machine) raise(ctx context.Context, b *box, f *flight, cmd wire.Command) error {
	p := b.get()
	ask := policy.Ask{Kind: policy.KindSandbox, Command: cmd, WorkspaceID: p.WorkspaceID, SandboxID: p.ID, Path: p.Folder}
	if p.Key != "" { // the workspace's name for people
		ask.Text = "make a sandbox for " + p.Key
		if p.Folder != "" {
			ask.Text += " that shares objects with " + p.Folder
		}
	}
	if m.cfg.Keeper.Policy().Access == wire.Ask {
		f.say(wire.Progress{Step: stepAsk, Title: "Wait for the approval of " + m.cfg.Name + "'s owner"})
	}
	if err := m.cfg.Keeper.Check(ctx, ask); err != nil {
		return err
	}
	f.say(wire.Progress{Step: executors.StepCreate})
	if err := m.write(p); err != nil {
		return err
	}
	failpoint.Reach(failpoint.BoxStored)
	if err := m.furnish(p); err != nil {
		return fmt.Errorf("making the folders of sandbox %s: %w", p.ID, err)
	}
	spec, err := m.spec(ctx, p)
	if err != nil {
		return err
	}
	sb, err := m.cfg.Executor.Create(executors.WithProgress(ctx, func(_ context.Context, step, title, detail string, done, all int64) {
		if detail != "" {
			title = strings.TrimSpace(title + " " + detail)
		}
		f.say(wire.Progress{Step: step, Title: title, Done: done, All: all})
	}), spec)
	if err != nil {
		return err
	}
	failpoint.Reach(failpoint.BoxMade)
	b.setLive(sb)
	if err := ctx.Err(); err != nil {
		return err
	}
	return b.set(func(p *page) { p.State, p.Handle = running, sb.Handle() })
}
