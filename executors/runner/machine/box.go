package machine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/locks"
)

// box is one sandbox. Making, finding, pausing and ending it take turns.
type box struct {
	m    *Machine
	turn locks.Turn

	writing sync.Mutex // of the page; taken before mu

	mu     sync.Mutex
	page   page
	live   executors.Sandbox // nil until it was found
	flight *flight           // not nil while it is being made
	pipes  map[*context.CancelCauseFunc]bool
	names  map[string]string // of programs that were started through this process, by process id
}

func newBox(m *Machine, p page) *box {
	return &box{m: m, turn: locks.NewTurn(), page: p, pipes: make(map[*context.CancelCauseFunc]bool), names: make(map[string]string)}
}

func (b *box) get() page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.page
}

// set stores a changed page, in the journal first.
func (b *box) set(change func(p *page)) error {
	b.writing.Lock()
	defer b.writing.Unlock()
	p := b.get()
	change(&p)
	if err := b.m.write(p); err != nil {
		return err
	}
	b.mu.Lock()
	b.page = p
	b.mu.Unlock()
	return nil
}

func (b *box) sandbox() executors.Sandbox {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.live
}

func (b *box) setLive(sb executors.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.live = sb
}

// lost drops a sandbox that could not be dialed, so that it is looked for again.
func (b *box) lost(sb executors.Sandbox) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.live == sb {
		b.live = nil
	}
}

var (
	errGone    = fault.New(fault.Gone, "runner_sandbox_gone", "The sandbox has ended on the machine.")
	errUnknown = fault.New(fault.NotFound, "runner_sandbox_gone", "The machine knows no such sandbox.")
	errMaking  = fault.New(fault.Unavailable, "runner_sandbox_making", "The sandbox is being made.")
	errPaused  = fault.New(fault.Unavailable, "runner_sandbox_paused", "The sandbox is paused.")
	errNoPause = fault.New(fault.Unsupported, "runner_pause_unsupported", "This machine cannot pause sandboxes.")
	errEnding  = fault.New(fault.Unavailable, wire.CodeUnavailable, "The machine's program is ending.")
)

// reach returns the sandbox of a box that should run: the known one, a recovered one or, where its guest has died, a new one over the same
// files.
func (b *box) reach(ctx context.Context) (executors.Sandbox, error) {
	release, err := b.turn.Lock(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	return b.reached(ctx)
}

// reached is reach for a caller that holds the turn.
func (b *box) reached(ctx context.Context) (executors.Sandbox, error) {
	p := b.get()
	switch p.State {
	case making:
		return nil, errMaking
	case paused:
		return nil, errPaused
	case gone, ending:
		return nil, errGone
	}
	if sb := b.sandbox(); sb != nil {
		return sb, nil
	}
	m := b.m
	spec, err := m.spec(ctx, p)
	if err != nil {
		return nil, err
	}
	if p.State == running {
		sb, err := m.cfg.Executor.Recover(ctx, p.Handle)
		if err == nil {
			b.setLive(sb)
			return sb, nil
		}
		if !errors.Is(err, executors.ErrGone) {
			return nil, fmt.Errorf("finding sandbox %s again: %w", p.ID, err)
		}
		m.cfg.Log.Info("the guest of a sandbox has ended", "sandbox_id", p.ID, "reason", err)
	}
	if err := m.cfg.Keeper.Ready(); err != nil {
		return nil, err
	}
	sb, err := m.cfg.Executor.Create(ctx, spec)
	if err != nil {
		return nil, fmt.Errorf("starting sandbox %s again: %w", p.ID, err)
	}
	err = b.set(func(p *page) {
		p.State, p.Handle, p.Reason = running, sb.Handle(), "What ran in it had ended on the machine. It was started again over the same files."
	})
	if err != nil {
		return nil, errors.Join(err, sb.Destroy(context.WithoutCancel(ctx)))
	}
	b.setLive(sb)
	m.hub.sandbox(b.status())
	return sb, nil
}

// dial opens a pipe to the guest, which may have died since it was last seen, and returns the guest's own token.
func (b *box) dial(ctx context.Context) (io.ReadWriteCloser, string, error) {
	for again := false; ; again = true {
		sb, err := b.reach(ctx)
		if err != nil {
			return nil, "", err
		}
		pipe, err := sb.Dial(ctx)
		if err == nil {
			return pipe, sb.Token(), nil
		}
		if again || ctx.Err() != nil {
			return nil, "", err
		}
		b.lost(sb)
	}
}

// addPipe registers how to end a pipe; false when there are too many.
func (b *box) addPipe(end *context.CancelCauseFunc) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pipes) >= maxPipes {
		return false
	}
	b.pipes[end] = true
	return true
}

func (b *box) dropPipe(end *context.CancelCauseFunc) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.pipes, end)
}

func (b *box) closePipes(why error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for end := range b.pipes {
		(*end)(why)
	}
}

// maxPipes limits the pipes of one sandbox: one for most requests, and one or two for each terminal.
const maxPipes = 2048

// maxNames limits the program names remembered of a box.
const maxNames = 1024

// began records a process's name.
func (b *box) began(id string, argv []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.names) < maxNames {
		b.names[id] = filepath.Base(argv[0])
	}
}

// quit records that the guest was asked to end itself: nothing starts over its files any more.
func (b *box) quit() {
	b.mu.Lock()
	b.live = nil
	b.mu.Unlock()
	if err := b.set(func(p *page) { p.State, p.Reason = gone, "It was asked to end." }); err != nil {
		b.m.cfg.Log.Error("the end of a sandbox could not be stored", "sandbox_id", b.page.ID, "error", err)
	}
	b.m.hub.sandbox(b.status())
}

// status returns the sandbox as reported to the server.
func (b *box) status() wire.Sandbox {
	p := b.get()
	out := wire.Sandbox{ID: p.ID, WorkspaceID: p.WorkspaceID, State: wire.Running, Reason: p.Reason, Token: p.Token, Root: b.m.tree(p), Home: b.m.insideHome(p), MadeAt: p.MadeAt}
	if single, ok := b.sandbox().(executors.SinglePipe); ok {
		out.OnePipe = single.OnePipe()
	}
	switch p.State {
	case paused, stopped, making:
		out.State = wire.Paused
	case gone, ending:
		out.State, out.Token = wire.Gone, ""
	}
	return out
}

// boxHome is the agents' home inside every isolated sandbox.
const boxHome = "/home/agent"

// firstUser is the id before that of the first sandbox's user, where this program is root: outside of the ranges that systems, people,
// containers and a server on the same machine use.
const firstUser = 600_200_000

func (m *Machine) place(p page) string { return filepath.Join(m.cfg.Dir, workspacesDir, p.Place) }
func (m *Machine) tree(p page) string  { return filepath.Join(m.place(p), "tree", p.Slug) }
func (m *Machine) home(p page) string  { return filepath.Join(m.place(p), "home") }

// insideHome returns the path of the agents' home.
func (m *Machine) insideHome(p page) string {
	if m.cfg.Mode == wire.Direct {
		return m.cfg.Home
	}
	return boxHome
}

// spec returns what a box is made with, now: the owner's policy file may have changed.
func (m *Machine) spec(ctx context.Context, p page) (executors.Spec, error) {
	s := executors.Spec{ID: p.ID, TeamID: p.TeamID, WorkspaceID: p.WorkspaceID, UserID: p.UserID, Root: m.tree(p), Env: p.Env,
		Limits: p.Limits.AtMost(m.cfg.Keeper.Policy().Limits.Executors())}
	if m.cfg.Mode == wire.Direct {
		s.MountSpec = &executors.MountSpec{Home: m.cfg.Home, UID: -1, GID: -1}
	} else {
		s.MountSpec = &executors.MountSpec{Home: boxHome, UID: p.UID, GID: p.UID, Mounts: []executors.Mount{{Source: s.Root, Target: s.Root}, {Source: m.home(p), Target: boxHome}}}
	}
	if p.Folder != "" && m.cfg.Mode != wire.Direct && !m.capabilities(ctx).OwnDisk {
		lent, err := m.lent(ctx, p)
		if err != nil {
			return s, err
		}
		s.MountSpec.Mounts = append(s.MountSpec.Mounts, lent...)
	}
	if m.cfg.Prepare != nil {
		if err := m.cfg.Prepare(ctx, &s); err != nil {
			return s, fmt.Errorf("preparing sandbox %s: %w", p.ID, err)
		}
	}
	return s, nil
}

// furnish makes the folders of a box. They belong to its user.
func (m *Machine) furnish(p page) error {
	place := m.place(p)
	if err := os.Mkdir(place, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Join(place, "tree"), m.tree(p), m.home(p)} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	config := filepath.Join(m.home(p), ".gitconfig") // git requires a name before it commits: this is the default
	if err := os.WriteFile(config, []byte("[user]\n\tname = Agent\n\temail = agent@localhost\n"), 0o600); err != nil {
		return err
	}
	if p.UID < 0 {
		return nil
	}
	for _, path := range []string{m.tree(p), config, m.home(p)} {
		if err := os.Lchown(path, p.UID, p.UID); err != nil {
			return err
		}
	}
	return nil
}

// freeUser returns the user for a new box. The caller holds m.mu.
func (m *Machine) freeUser() int {
	if os.Geteuid() != 0 || m.cfg.Mode == wire.Direct {
		return -1
	}
	var taken []int
	for _, b := range m.boxes {
		taken = append(taken, b.get().UID)
	}
	uid := firstUser + 1
	for slices.Contains(taken, uid) {
		uid++
	}
	return uid
}
