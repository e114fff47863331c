package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

const (
	// cancelPatience is how long Cancel waits for the command's end.
	cancelPatience = executors.StopGrace + 2*executors.DrainIdle
	// backgroundLog is how much of each output of a background command the guest stores: it is not acknowledged while the command runs, so
	// that a restarted server can read it again.
	backgroundLog = 16 << 20
	// settle is how long the response to a command's start may wait for its end: a short command then takes one round trip.
	settle = 25 * time.Millisecond
)

// running is a command under way in this process.
type running struct {
	id      string
	fn      func(Event) error // nil when nobody streams
	queued  chan struct{}     // closed when it waits for an unreachable executor
	started chan struct{}
	done    chan struct{}

	cancelOnce sync.Once
	cancelled  chan struct{}

	fnMu  sync.Mutex   // serializes calls of fn
	moves atomic.Int64 // bytes read and calls made: shows whether the output still moves
	inFn  atomic.Int32

	stdin                    []byte
	stdout, stderr           keeper
	grown                    broadcast // that there is more of them
	outRedactor, errRedactor redactor  // all output passes through them

	early *guest.Process // of a command that had ended when its start was answered: its exit and its whole output

	mu  sync.Mutex
	cmd Command
}

func newRunning(cmd Command, fn func(Event) error) *running {
	r := &running{id: cmd.ID, fn: fn, cmd: cmd, queued: make(chan struct{}), started: make(chan struct{}), done: make(chan struct{}),
		cancelled: make(chan struct{})}
	into := func(k *keeper, event string) func(int64, []byte) {
		return func(off int64, p []byte) {
			k.add(off, p)
			r.grown.send()
			r.moves.Add(1)
			r.notify(Event{Type: event, Data: p, Offset: off})
		}
	}
	r.outRedactor.pass, r.errRedactor.pass = into(&r.stdout, EventStdout), into(&r.stderr, EventStderr)
	return r
}

func (r *running) cancel() { r.cancelOnce.Do(func() { close(r.cancelled) }) }

func (r *running) wasCancelled() bool {
	select {
	case <-r.cancelled:
		return true
	default:
		return false
	}
}

// snapshot returns the command's current record.
func (r *running) snapshot() Command {
	r.mu.Lock()
	c := r.cmd
	r.mu.Unlock()
	var cutOut, cutErr bool
	c.Stdout, cutOut = r.stdout.bytes()
	c.Stderr, cutErr = r.stderr.bytes()
	c.Truncated = cutOut || cutErr
	return c
}

// notify passes an event to the streaming caller; an error it returns cancels the command.
func (r *running) notify(e Event) {
	if r.fn == nil {
		return
	}
	r.inFn.Add(1)
	defer r.inFn.Add(-1)
	r.fnMu.Lock()
	defer r.fnMu.Unlock()
	if r.wasCancelled() && e.Type != EventEnded {
		return
	}
	if err := r.fn(e); err != nil {
		r.cancel()
	}
	r.moves.Add(1)
}

// drive runs a command from start to end.
func (c *Commands) drive(r *running, spec guest.ProcessSpec, timeout time.Duration) {
	ctx, cancel := context.WithCancel(c.life)
	defer cancel()
	place, err := c.begin(ctx, r, spec)
	if err != nil {
		if c.life.Err() == nil {
			c.conclude(r, guest.Process{}, err)
		}
		return
	}
	if r.early != nil {
		c.settled(r, place)
		return
	}
	c.follow(ctx, r, place, timeout)
}

// settled concludes a command whose end and output came with the response to its start.
func (c *Commands) settled(r *running, place *executors.Place) {
	r.outRedactor.take(0, r.early.Early[guest.Stdout])
	r.errRedactor.take(0, r.early.Early[guest.Stderr])
	c.conclude(r, *r.early, nil)
	c.remove(place, r.id)
}

var (
	errCancelled = errors.New("cancelled")
	errLost      = errors.New("the sandbox ended while the command ran")
	errOvertime  = errors.New("the guest did not end the command in time")
	errQueue     = errors.New("its place could not be reached")
)

// follow reads a running command's outputs until it has ended, and concludes it. When this server stops, it returns and leaves the record
// open.
func (c *Commands) follow(ctx context.Context, r *running, place *executors.Place, timeout time.Duration) {
	defer place.Use()() // a running command is not idle, however quiet it is
	rctx, stopReading := context.WithCancel(ctx)
	defer stopReading()
	var readers sync.WaitGroup
	background := r.snapshot().Background
	readers.Go(func() { c.read(rctx, r, place, guest.Stdout, &r.outRedactor, !background) })
	readers.Go(func() { c.read(rctx, r, place, guest.Stderr, &r.errRedactor, !background) })
	if len(r.stdin) > 0 {
		readers.Go(func() {
			if err := place.Feed(rctx, r.id, r.stdin); err != nil && rctx.Err() == nil {
				c.cfg.Log.Debug("the input of a command was not taken whole", "command_id", r.id, "error", err)
			}
		})
	}
	drained := make(chan struct{})
	go func() { readers.Wait(); close(drained) }() // ends with rctx

	proc, err := c.waitEnd(rctx, r, place, timeout)
	if c.life.Err() != nil {
		stopReading()
		<-drained
		return
	}
	c.drain(r, drained, place)
	stopReading()
	<-drained
	if err != nil {
		c.discard(place, r.id)
	}
	c.conclude(r, proc, err)
	if err == nil {
		// It exited on its own: what it left running in the background may go on. Nobody waits for the guest to forget it, because that may
		// be a slow remote call.
		c.remove(place, r.id)
	}
}

// waitEnd waits until the process has ended: it exited, was cancelled or took too long.
func (c *Commands) waitEnd(ctx context.Context, r *running, place *executors.Place, timeout time.Duration) (guest.Process, error) {
	type end struct {
		proc guest.Process
		err  error
	}
	wctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan end, 1)
	go func() { // ends with wctx
		proc, err := c.wait(wctx, place, r.id)
		ended <- end{proc, err}
	}()
	late := time.NewTimer(timeout + executors.Overtime)
	defer late.Stop()
	var why error
	select {
	case e := <-ended:
		return e.proc, e.err
	case <-place.Done():
		return guest.Process{}, fmt.Errorf("%w: %s", errLost, place.Reason())
	case <-ctx.Done():
		return guest.Process{}, context.Cause(ctx)
	case <-r.cancelled:
		why = errCancelled
	case <-late.C:
		why = errOvertime
	}
	proc, err := c.halt(ctx, r.id, place)
	if err != nil {
		return guest.Process{}, fmt.Errorf("%w, and stopping it failed: %w", why, err)
	}
	if why == errOvertime {
		return proc, errOvertime
	}
	return proc, nil
}

// halt ends a process. While its executor is unreachable it waits: the guest there enforces the command's timeout, and only the guest knows
// what became of the command.
func (c *Commands) halt(ctx context.Context, processID string, place *executors.Place) (guest.Process, error) {
	for attempt := 0; ; attempt++ {
		sctx, cancel := context.WithTimeout(ctx, executors.StopGrace+executors.DrainIdle)
		proc, err := place.Guest.Stop(sctx, processID, executors.StopGrace)
		cancel()
		if err == nil || ctx.Err() != nil || !c.away(ctx, place.Kind) {
			return proc, err
		}
		if perr := c.pause(ctx, place, attempt); perr != nil {
			return proc, perr
		}
	}
}

// wait asks the guest for the end of a process, again after each cut of the pipe.
func (c *Commands) wait(ctx context.Context, place *executors.Place, processID string) (guest.Process, error) {
	for attempt := 0; ; attempt++ {
		proc, err := place.Guest.Wait(ctx, processID)
		switch {
		case err == nil && proc.State == guest.Exited:
			return proc, nil
		case fault.Is(err, fault.NotFound):
			return guest.Process{}, fmt.Errorf("the guest no longer knows the command: %w", err)
		case ctx.Err() != nil:
			return guest.Process{}, context.Cause(ctx)
		}
		if err := c.pause(ctx, place, attempt); err != nil {
			return guest.Process{}, err
		}
	}
}

// pause waits, longer each time, before the next call to the guest.
func (c *Commands) pause(ctx context.Context, place *executors.Place, attempt int) error {
	t := time.NewTimer(min(50*time.Millisecond<<min(attempt, 6), 2*time.Second))
	defer t.Stop()
	var ended <-chan struct{}
	if place != nil {
		ended = place.Done()
	}
	select {
	case <-t.C:
		return nil
	case <-ended:
		return errLost
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// read passes one output through its redactor until its end, and resumes after each cut of the pipe.
func (c *Commands) read(ctx context.Context, r *running, place *executors.Place, s guest.Stream, k *redactor, ack bool) {
	buf := make([]byte, 32<<10)
	for attempt := 0; ; attempt++ {
		before := k.offset()
		err := c.readOnce(ctx, r, place, s, k, ack, buf)
		if err == nil || ctx.Err() != nil || fault.Is(err, fault.NotFound) {
			return
		}
		if k.offset() > before {
			attempt = 0
		}
		if c.pause(ctx, place, attempt) != nil {
			return
		}
	}
}

func (c *Commands) readOnce(ctx context.Context, r *running, place *executors.Place, s guest.Stream, k *redactor, ack bool, buf []byte) error {
	out, err := place.Guest.SharedOutput(ctx, r.id, s, k.offset())
	if err != nil {
		return err
	}
	defer out.Close()
	off := out.From
	if off < k.offset() {
		return fmt.Errorf("the guest returned offset %d when asked for %d", off, k.offset())
	}
	acked := off
	for {
		n, err := out.Read(buf)
		if n > 0 {
			k.take(off, buf[:n])
			r.moves.Add(1)
			off += int64(n)
			if ack && off-acked >= executors.AckEvery {
				acked = off
				if err := place.Guest.Ack(ctx, r.id, s, off); err != nil {
					return err
				}
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// drain waits for the rest of an ended command's output, as long as more arrives.
func (c *Commands) drain(r *running, drained <-chan struct{}, place *executors.Place) {
	t := time.NewTicker(executors.DrainIdle)
	defer t.Stop()
	last := r.moves.Load()
	for {
		select {
		case <-drained:
			return
		case <-place.Done():
			return
		case <-c.life.Done():
			return
		case <-t.C:
			now := r.moves.Load()
			if now == last && r.inFn.Load() == 0 {
				c.cfg.Log.Warn("the output of an ended command does not end", "command_id", r.id)
				return
			}
			last = now
		}
	}
}

// discard ends a process that still runs and makes the guest forget it.
func (c *Commands) discard(place *executors.Place, processID string) {
	select {
	case <-place.Done():
		return
	default:
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), executors.DrainIdle)
	defer cancel()
	if _, err := place.Guest.Stop(ctx, processID, 0); err != nil && !fault.Is(err, fault.NotFound) {
		c.cfg.Log.Debug("command could not be stopped", "command_id", processID, "error", err)
	}
	c.remove(place, processID)
}

// remove makes the guest forget an ended process and its log.
func (c *Commands) remove(place *executors.Place, processID string) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), executors.DrainIdle)
	defer cancel()
	if err := place.Guest.Remove(ctx, processID); err != nil && !fault.Is(err, fault.NotFound) {
		c.cfg.Log.Debug("command could not be removed from its guest", "command_id", processID, "error", err)
	}
}

// conclude stores how the command ended and wakes everybody who waits.
func (c *Commands) conclude(r *running, proc guest.Process, err error) {
	r.outRedactor.end()
	r.errRedactor.end()
	state, reason := verdict(proc, err, r.wasCancelled())
	r.mu.Lock()
	r.cmd.State, r.cmd.Reason, r.cmd.EndedAt = state, executors.CleanReason(reason), c.now()
	if proc.State == guest.Exited && proc.Signal == "" {
		r.cmd.ExitCode = proc.ExitCode
	}
	r.mu.Unlock()
	cmd := r.snapshot()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.life), executors.SettleTimeout)
	defer cancel()
	if err := c.cfg.Store.UpdateCommand(ctx, cmd); err != nil {
		c.cfg.Log.Error("the end of a command could not be stored", "command_id", r.id, "error", err)
	}
	r.mu.Lock()
	r.cmd = cmd
	r.mu.Unlock()
	r.notify(Event{Type: EventEnded, Command: &cmd})
	c.forget(r)
	close(r.done)
}

var noProcess guest.Process

// verdict returns the state in which a command ended, and the reason where the state alone does not explain it.
func verdict(proc guest.Process, err error, cancelled bool) (State, string) {
	switch {
	case errors.Is(err, errOvertime) || proc.Reason == "timeout":
		return TimedOut, "It took longer than its timeout."
	case errors.Is(err, errQueue) && !cancelled:
		return TimedOut, "It waited too long for its place, which cannot be reached, and will not run any more."
	case err != nil && cancelled:
		return Cancelled, ""
	case err != nil:
		return Failed, executors.ReasonOf(err)
	case proc.Reason == "exit" && proc.ExitCode != nil:
		return Completed, ""
	case cancelled:
		return Cancelled, ""
	case proc.Signal != "":
		return Failed, "It was ended by " + proc.Signal + "."
	}
	return Failed, "It ended without an exit code (" + proc.Reason + ")."
}
