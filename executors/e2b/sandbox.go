package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/seal"
)

// sandbox is one sandbox, of which there is one value a process: see Executor.live.
type sandbox struct {
	e     *Executor
	id    string
	token string
	envd  *envd
	way   *inputWay

	mu     sync.Mutex
	rec    record
	paused bool
	over   error            // why there will be no other pipe
	open   map[string]*pipe // by the id of its bridge; nil while it is being opened
	strays bool             // there may be bridges of pipes that have ended
	spare  *pipe            // reached already, for the next Dial
	last   usage            // figures, and when they were read
	lastAt time.Time
	cpuMs  int64
	peak   int64
	pipes  int

	reaches *executors.Network // as E2B has them; nil = not set by this process
	want    *executors.Network // to be sent to E2B
}

var (
	_ executors.Sandbox    = (*sandbox)(nil)
	_ executors.Pauser     = (*sandbox)(nil)
	_ executors.Leased     = (*sandbox)(nil)
	_ executors.SinglePipe = (*sandbox)(nil)
	_ executors.Metered    = (*sandbox)(nil)
)

var (
	errEnded   = errors.New("the sandbox has ended")
	errAsleep  = errors.New("the sandbox is paused")
	errStopped = errors.New("the executor was closed")
)

func (s *sandbox) record() record {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rec
}

// Handle carries which sandbox of which account it is. No secret is in it, for handles are stored.
func (s *sandbox) Handle() executors.Handle {
	b, err := json.Marshal(s.record())
	if err != nil {
		panic(err) // a struct of strings and numbers always encodes
	}
	return executors.Handle{Kind: s.e.cfg.Kind, ID: s.id, Version: handleVersion, State: b}
}

// Token is the guest's secret.
func (s *sandbox) Token() string { return s.token }

// OnePipe says that pipes are expensive: each is a process in the sandbox and two long requests.
func (s *sandbox) OnePipe() bool { return true }

// Dial opens a pipe to the guest.
func (s *sandbox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	s.mu.Lock()
	p := s.spare
	s.spare = nil
	s.mu.Unlock()
	if p == nil || p.why(nil) != nil {
		var err error
		if p, err = s.dial(ctx, dialWithin); err != nil {
			return nil, err
		}
	}
	// envd keeps a record of what is written to a process: see seal.
	defer context.AfterFunc(ctx, func() { _ = p.Close() })()
	sealed, err := seal.Client(p, s.token)
	if err != nil {
		_ = p.Close()
		return nil, causeOf(ctx, p.why(err))
	}
	return sealed, nil
}

// dialWithin is how long a guest that runs may take to be reached.
const dialWithin = 10 * time.Second

func (s *sandbox) dial(ctx context.Context, within time.Duration) (*pipe, error) {
	single := s.way.single.Load()
	p, err := s.bridge(ctx, within)
	if err != nil && ctx.Err() == nil && s.way.single.Load() != single {
		p, err = s.bridge(ctx, within) // the other way of writing
	}
	if absent(err) {
		return nil, fmt.Errorf("%w, or was ended: %w", errAsleep, err)
	}
	if err != nil {
		return nil, err // a typed nil is no pipe
	}
	return p, nil
}

// bridge opens a pipe and keeps account of it.
func (s *sandbox) bridge(ctx context.Context, within time.Duration) (*pipe, error) {
	s.mu.Lock()
	if s.paused {
		s.mu.Unlock()
		return nil, errAsleep
	}
	if s.over != nil {
		defer s.mu.Unlock()
		return nil, s.over
	}
	s.pipes++
	name := s.e.run + "-" + strconv.Itoa(s.pipes)
	s.open[name] = nil
	program := s.rec.Guest
	s.mu.Unlock()
	start := startRequest{Stdin: true, Process: processConfig{Cmd: program, Cwd: "/", Envs: plainEnv,
		Args: []string{"bridge", "--wait", within.String(), s.socket(), name}}}
	p, err := openPipe(ctx, s.envd, s.way, start, within+5*time.Second, func(pid uint32) { s.bridgeEnded(name, pid) })
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if _, still := s.open[name]; still {
		s.open[name] = p
	}
	over, sweep := s.over, s.strays
	s.strays = false
	s.mu.Unlock()
	if over != nil { // meanwhile
		p.fail(over)
		return nil, over
	}
	if sweep {
		s.e.later(s.sweep)
	}
	return p, nil
}

// bridgeEnded ends what a pipe that has ended leaves in the sandbox: envd keeps a process whose stream was cut.
func (s *sandbox) bridgeEnded(name string, pid uint32) {
	s.mu.Lock()
	delete(s.open, name)
	s.strays = true // until a sweep has seen that it is gone
	there := !s.paused && s.over == nil
	s.mu.Unlock()
	if pid != 0 && there {
		s.e.later(func(ctx context.Context) {
			if err := s.envd.kill(ctx, pid); err != nil {
				s.e.cfg.Log.Debug("bridge of a pipe that has ended could not be ended", "sandbox_id", s.id, "error", err)
			}
		})
	}
}

// sweep ends the bridges of pipes that have ended, of servers before this one too.
func (s *sandbox) sweep(ctx context.Context) {
	all, err := s.envd.processes(ctx)
	if err != nil {
		s.mu.Lock()
		s.strays = true
		s.mu.Unlock()
		return
	}
	for _, r := range all {
		n := len(r.Config.Args)
		if n < 3 || r.Config.Args[0] != "bridge" || r.Config.Args[n-2] != s.socket() {
			continue
		}
		s.mu.Lock()
		_, ours := s.open[r.Config.Args[n-1]]
		s.mu.Unlock()
		if !ours {
			_ = s.envd.kill(ctx, r.Pid) // the next sweep tries again
		}
	}
}

// laterWithin bounds what is done in the background.
const laterWithin = 20 * time.Second

// later does something in the background, unless the executor was closed.
func (e *Executor) later(do func(context.Context)) {
	e.work.Go(func() {
		ctx, cancel := context.WithTimeout(e.life, laterWithin)
		defer cancel()
		do(ctx)
	})
}

// cutAll ends every pipe. over says why there will be no other.
func (s *sandbox) cutAll(over error) {
	s.mu.Lock()
	s.over = over
	s.mu.Unlock()
	s.cut(over)
}

func (s *sandbox) cut(why error) {
	s.mu.Lock()
	all := make([]*pipe, 0, len(s.open))
	for _, p := range s.open {
		if p != nil {
			all = append(all, p)
		}
	}
	s.spare = nil
	s.mu.Unlock()
	for _, p := range all {
		p.fail(why)
	}
}

// spareFor is how long a pipe that was opened to see whether the guest is there waits for somebody who wants one.
const spareFor = 10 * time.Second

// reach opens a pipe to see whether the guest is there, and keeps it for the next Dial.
func (s *sandbox) reach(ctx context.Context, within time.Duration) error {
	p, err := s.dial(ctx, within)
	if err != nil {
		return err
	}
	s.mu.Lock()
	old := s.spare
	s.spare = p
	s.mu.Unlock()
	if old != nil {
		old.fail(io.ErrClosedPipe)
	}
	s.e.later(func(ctx context.Context) {
		select {
		case <-time.After(spareFor):
		case <-ctx.Done():
		}
		s.mu.Lock()
		unused := s.spare == p
		if unused {
			s.spare = nil
		}
		s.mu.Unlock()
		if unused {
			p.fail(io.ErrClosedPipe)
		}
	})
	return nil
}

// Destroy ends the sandbox and forgets it.
func (s *sandbox) Destroy(ctx context.Context) error {
	defer s.e.turns.Lock(s.id)()
	a, err := s.e.account(ctx)
	if err != nil {
		return err
	}
	return s.e.destroy(ctx, a, s.id, s.record())
}

// Pause has E2B save memory and disk and stop the machine. Processes are as they were when it wakes; every pipe is cut.
func (s *sandbox) Pause(ctx context.Context) error {
	a, err := s.e.account(ctx)
	if err != nil {
		return err
	}
	s.setPaused(true) // nobody dials meanwhile
	err = a.plane.pause(ctx, s.record().Sandbox)
	if err != nil {
		if d, gerr := a.plane.get(context.WithoutCancel(ctx), s.record().Sandbox); gerr != nil || d.State != statePaused {
			s.setPaused(false)
			return fmt.Errorf("pausing the sandbox: %w", inWords(err, a.set, 0, 0))
		}
	}
	s.cut(errAsleep)
	return nil
}

func (s *sandbox) setPaused(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = yes
}

// Resume wakes it, which begins another run.
func (s *sandbox) Resume(ctx context.Context) error {
	a, err := s.e.account(ctx)
	if err != nil {
		return err
	}
	return s.wake(ctx, a)
}

// changingFor is how long a sandbox that is changing its state is waited for.
const changingFor = 10 * time.Second

func (s *sandbox) wake(ctx context.Context, a *account) error {
	var got answer
	err := s.e.patiently(ctx, func() (err error) {
		got, err = a.plane.connect(ctx, s.record().Sandbox, Lease)
		return err
	})
	if isStatus(err, http.StatusNotFound) {
		return executors.GoneBecause("E2B no longer has it.")
	}
	if err != nil {
		return fmt.Errorf("waking the sandbox: %w", inWords(err, a.set, 0, 0))
	}
	s.envd.setToken(got.EnvdAccessToken)
	s.mu.Lock()
	woken := s.paused
	s.paused = false
	if woken {
		s.rec.Runs = s.e.cfg.Now().UnixMilli()
	}
	rec := s.rec
	s.lastAt = time.Time{}
	s.mu.Unlock()
	if woken {
		if err := s.e.files.Write(s.id, rec); err != nil {
			s.e.cfg.Log.Warn("beginning of a sandbox's run could not be kept", "sandbox_id", s.id, "error", err)
		}
	}
	return s.settleNetwork(ctx)
}

// patiently asks again while E2B says that the sandbox is changing its state.
func (e *Executor) patiently(ctx context.Context, do func() error) error {
	ctx, cancel := context.WithTimeout(ctx, changingFor)
	defer cancel()
	for {
		err := do()
		if !isStatus(err, http.StatusConflict) || sleep(ctx, 200*time.Millisecond) != nil {
			return err
		}
	}
}

// Extend lets the sandbox live for d more. It reports a limit of the plan as the end of the run.
func (s *sandbox) Extend(ctx context.Context, d time.Duration) (executors.Lease, error) {
	a, err := s.e.account(ctx)
	if err != nil {
		return executors.Lease{}, err
	}
	rec, now := s.record(), s.e.cfg.Now()
	l := executors.Lease{RunEndsAt: rec.Runs + a.set.MaxRun.Milliseconds()}
	if left := time.Duration(l.RunEndsAt-now.UnixMilli()) * time.Millisecond; d > left {
		d = max(left, 0)
	}
	if d > 0 {
		err = a.plane.live(ctx, rec.Sandbox, d)
	}
	switch {
	case err == nil:
		l.EndsAt = now.Add(d).UnixMilli()
		if nerr := s.settleNetwork(ctx); nerr != nil {
			s.e.cfg.Log.Warn("what a sandbox may reach could not be changed yet", "sandbox_id", s.id, "error", nerr)
		}
		return l, nil
	case isStatus(err, http.StatusNotFound):
		return l, errAsleep
	case !isStatus(err, http.StatusBadRequest):
		return l, fmt.Errorf("extending the sandbox's lease: %w", inWords(err, a.set, 0, 0))
	}
	// The plan's own bound is shorter: what is left is what it told before.
	at, gerr := a.plane.get(ctx, rec.Sandbox)
	if gerr != nil || at.Ends.IsZero() {
		return l, fmt.Errorf("extending the sandbox's lease: %w", inWords(err, a.set, 0, 0))
	}
	l.EndsAt = a.plane.clock.Ours(at.Ends.UnixMilli())
	l.RunEndsAt = l.EndsAt
	return l, nil
}

const (
	// figuresEvery is how often figures are read at most.
	figuresEvery = 10 * time.Second
	// figuresWithin is how long that may take.
	figuresWithin = 3 * time.Second
)

// Figures are as envd tells them: of the whole machine. CPU time is put together from how busy it was.
func (s *sandbox) Figures() (executors.Figures, error) {
	now := s.e.cfg.Now()
	s.mu.Lock()
	if s.paused {
		s.mu.Unlock()
		return executors.Figures{}, errAsleep
	}
	fresh := !s.lastAt.IsZero() && now.Sub(s.lastAt) < figuresEvery
	s.mu.Unlock()
	if !fresh {
		ctx, cancel := context.WithTimeout(s.e.life, figuresWithin)
		defer cancel()
		u, err := s.envd.metrics(ctx)
		if err != nil {
			return executors.Figures{}, err
		}
		s.mu.Lock()
		if !s.lastAt.IsZero() && u.CPUs > 0 && u.CPUPct >= 0 {
			busy := min(u.CPUPct, 100) / 100 * min(u.CPUs, 1024)
			s.cpuMs += int64(busy * float64(now.Sub(s.lastAt).Milliseconds()))
		}
		s.last, s.lastAt, s.peak = u, now, max(s.peak, u.MemUsed)
		s.mu.Unlock()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return executors.Figures{CPUMs: s.cpuMs, MemoryBytes: s.last.MemUsed, MemoryPeak: s.peak}, nil
}
