package hosted

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/bridge"
	"github.com/parawork/parawork/guest/seal"
)

// Sandbox is one sandbox. A kind wraps it to add abilities.
type Sandbox struct {
	e     *Executor
	id    string
	token string

	mu     sync.Mutex
	rec    record
	paused bool
	over   error                  // why there will be no other pipe
	open   map[io.Closer]struct{} // pipes
	spare  *pipe                  // reached already, for the next Dial
}

var (
	_ executors.Executor      = (*withCapabilities)(nil)
	_ executors.RemnantKeeper = (*Executor)(nil)
	_ executors.SinglePipe    = (*Sandbox)(nil)
	_ executors.Pauser        = (*Pausing)(nil)
)

// withCapabilities stands for a kind.
type withCapabilities struct{ *Executor }

// Capabilities are a kind's own.
func (withCapabilities) Capabilities(context.Context) (executors.Capabilities, error) {
	return executors.Capabilities{}, nil
}

var (
	errEnded   = errors.New("the sandbox has ended")
	errAsleep  = errors.New("the sandbox is paused")
	errStopped = errors.New("the executor was closed")
)

func (s *Sandbox) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec
}

// Handle carries which machine of which account it is. No secret is in it, for handles are stored.
func (s *Sandbox) Handle() executors.Handle { return s.e.handle(s.id, s.record()) }

// Token is the guest's secret.
func (s *Sandbox) Token() string { return s.token }

// OnePipe says that pipes are expensive: each is a process in the machine and a connection through the service.
func (s *Sandbox) OnePipe() bool { return true }

// Machine is what the service calls the sandbox's machine.
func (s *Sandbox) Machine() string { return s.record().Machine }

// RunsSince is when the machine's present run began, as this server knows it, ms UTC.
func (s *Sandbox) RunsSince() int64 { return s.record().Runs }

// Service returns the account's API as settings say now.
func (s *Sandbox) Service(ctx context.Context) (Service, error) {
	a, err := s.e.cfg.Account(ctx)
	return a.Service, err
}

// InWords makes an error of the service one for people.
func (s *Sandbox) InWords(err error) error { return s.e.cfg.Troubles.InWords(err) }

// dialWithin is how long a guest that runs may take to be reached.
const dialWithin = 15 * time.Second

// Dial opens a pipe to the guest.
func (s *Sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	p := s.spare
	s.spare = nil
	s.mu.Unlock()
	if p == nil || p.closed() {
		svc, err := s.Service(ctx)
		if err != nil {
			return nil, err
		}
		if p, err = s.pipe(ctx, svc, dialWithin); err != nil {
			return nil, err
		}
	}
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	sealed, err := seal.Client(p, s.token)
	if err != nil {
		_ = p.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return sealed, nil
}

// pipe is a pipe whose owner knows when it has been closed.
type pipe struct {
	io.ReadWriteCloser
	s    *Sandbox
	done chan struct{}
	once sync.Once
}

func (p *pipe) closed() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Close ends the pipe, and the program in the machine. Idempotent.
func (p *pipe) Close() error {
	var err error
	p.once.Do(func() {
		close(p.done)
		p.s.mu.Lock()
		delete(p.s.open, p)
		p.s.mu.Unlock()
		err = p.ReadWriteCloser.Close()
	})
	return err
}

// pipe starts a bridge beside the guest and waits until it has reached the guest.
func (s *Sandbox) pipe(ctx context.Context, svc Service, within time.Duration) (*pipe, error) {
	s.mu.Lock()
	rec, over, paused := s.rec, s.over, s.paused
	s.mu.Unlock()
	if over != nil {
		return nil, over
	}
	if paused { // a pipe would start the machine
		return nil, errAsleep
	}
	ctx, cancel := context.WithTimeoutCause(ctx, within+10*time.Second, errSlow)
	defer cancel()
	argv := []string{rec.Guest, "bridge", "--wait", within.String(), s.socket()}
	if s.e.cfg.Lossy {
		argv = slices.Insert(argv, 2, "--acked")
	}
	raw, err := svc.Open(ctx, rec.Machine, argv)
	if err != nil {
		return nil, fmt.Errorf("opening a pipe to the guest: %w", err)
	}
	p := &pipe{ReadWriteCloser: raw, s: s, done: make(chan struct{})}
	s.mu.Lock()
	if over = s.over; over == nil {
		s.open[p] = struct{}{}
	}
	s.mu.Unlock()
	if over != nil { // meanwhile
		_ = p.Close()
		return nil, over
	}
	stop := context.AfterFunc(ctx, func() { _ = p.Close() })
	err = greet(p)
	if stop(); err != nil {
		_ = p.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("opening a pipe to the guest: %w", err)
	}
	if s.e.cfg.Lossy {
		p.ReadWriteCloser = bridge.Acked(raw)
	}
	return p, nil
}

// greet makes sure that the guest was reached, and that what is written arrives.
func greet(p io.ReadWriter) error {
	for _, word := range []string{bridge.Reached, bridge.Begun} {
		got := make([]byte, len(word))
		if _, err := io.ReadFull(p, got); err != nil {
			return err
		}
		if string(got) != word {
			return fmt.Errorf("what answers in the machine is not the guest's bridge: %s", Line(string(got), 20))
		}
		if word == bridge.Reached {
			if _, err := io.WriteString(p, bridge.Begin); err != nil {
				return err
			}
		}
	}
	return nil
}

// spareFor is how long a pipe that was opened to see whether the guest is there waits for somebody who wants one.
const spareFor = 10 * time.Second

// reach opens a pipe to see whether the guest is there, and keeps it for the next Dial.
func (s *Sandbox) reach(ctx context.Context, svc Service, within time.Duration) error {
	p, err := s.pipe(ctx, svc, within)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.spare
	s.spare = p
	s.mu.Unlock()
	if old != nil {
		_ = old.Close()
	}
	s.e.work.After(spareFor, func() {
		s.mu.Lock()
		unused := s.spare == p
		if unused {
			s.spare = nil
		}
		s.mu.Unlock()
		if unused {
			_ = p.Close()
		}
	})
	return nil
}

// cut ends every pipe. why says why there will be no other.
func (s *Sandbox) cut(why error) {
	s.mu.Lock()
	s.over = why
	s.mu.Unlock()
	s.closeAll()
}

// closeAll ends every pipe there is.
func (s *Sandbox) closeAll() {
	s.mu.Lock()
	all := make([]io.Closer, 0, len(s.open))
	for p := range s.open {
		all = append(all, p)
	}
	s.spare = nil
	s.mu.Unlock()
	for _, p := range all {
		_ = p.Close()
	}
}

func (s *Sandbox) setPaused(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = yes
}

// Destroy ends the sandbox and forgets it.
func (s *Sandbox) Destroy(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	a, err := s.e.cfg.Account(ctx)
	if err != nil {
		return err
	}
	return s.e.destroy(ctx, a, s.id, s.record())
}

// Pausing is a sandbox whose machine can be stopped and started with its disk. Processes end with the machine; the guest is started again, and
// tells what it knows of them.
type Pausing struct{ *Sandbox }

// Pause stops the machine. Its disk is as it was when it wakes.
func (p Pausing) Pause(ctx context.Context) error {
	s := p.Sandbox
	defer s.e.turns.Lock(s.id)()
	svc, err := s.Service(ctx)
	if err != nil {
		return err
	}
	s.setPaused(true) // nobody dials meanwhile
	if err := svc.Stop(ctx, s.Machine()); err != nil {
		if m, lerr := svc.Look(context.WithoutCancel(ctx), s.Machine()); lerr != nil || m.State != Stopped {
			s.setPaused(false)
			return fmt.Errorf("pausing the sandbox: %w", s.InWords(err))
		}
	}
	s.closeAll()
	return nil
}

// Resume starts it again, with its guest.
func (p Pausing) Resume(ctx context.Context) error {
	s := p.Sandbox
	defer s.e.turns.Lock(s.id)()
	a, err := s.e.cfg.Account(ctx)
	if err != nil {
		return err
	}
	m, err := a.Service.Look(ctx, s.Machine())
	if errors.Is(err, ErrNoMachine) {
		return s.e.goneThere()
	}
	if err == nil {
		err = s.meet(ctx, a, m.State, false)
	}
	if errors.Is(err, executors.ErrGone) {
		return err
	}
	return s.InWords(err)
}
