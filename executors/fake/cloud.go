package fake

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/parawork/parawork/executors"
)

// Cloud is an executor on somebody else's machines: its sandboxes have a disk of their own, are suspended for free, and live only as long as
// somebody extends their lease. Real processes run on while a sandbox is suspended, but nobody can reach them.
type Cloud struct{ *Executor }

var (
	_ executors.Executor   = (*Cloud)(nil)
	_ executors.Sleeper    = (*Cloud)(nil)
	_ executors.Pauser     = cloudSandbox{}
	_ executors.Leased     = cloudSandbox{}
	_ executors.SinglePipe = cloudSandbox{}
)

// NewCloud makes a Cloud over w. A second one over the same World is that of a restarted server.
func NewCloud(w *World) *Cloud {
	c := &Cloud{New(w)}
	c.Set(Knobs{})
	return c
}

// Set turns the knobs.
func (c *Cloud) Set(k Knobs) {
	k.OwnDisk = true
	k.Boundary = cmp.Or(k.Boundary, executors.MachineBoundary)
	c.Executor.Set(k)
}

// Capabilities returns what the knobs say.
func (c *Cloud) Capabilities(ctx context.Context) (executors.Capabilities, error) {
	caps, err := c.Executor.Capabilities(ctx)
	k := c.get()
	caps.Pause, caps.PauseFree, caps.Sizes, caps.PriceNano = true, true, k.Sizes, k.PriceNano
	caps.LeaseMs, caps.RunMs = k.Lease.Milliseconds(), k.Run.Milliseconds()
	return caps, err
}

// Create starts a guest in this process, and its lease.
func (c *Cloud) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	sb, err := c.Executor.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if b := c.w.boxes[s.ID]; b != nil {
		c.w.run(b, c.get())
	}
	return cloudSandbox{sb.(*sandbox)}, nil
}

// run begins a run of a box. Guarded by w.mu.
func (w *World) run(b *box, k Knobs) {
	b.still, b.leaseEnds, b.runEnds = false, 0, 0
	now := w.now()
	if k.Lease > 0 {
		b.leaseEnds = now + k.Lease.Milliseconds()
	}
	if k.Run > 0 {
		b.runEnds = now + k.Run.Milliseconds()
		if b.leaseEnds > 0 {
			b.leaseEnds = min(b.leaseEnds, b.runEnds)
		}
	}
	b.runs++
}

// Recover wakes a sandbox of the world.
func (c *Cloud) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	sb, err := c.Executor.Recover(ctx, h)
	if err != nil {
		return nil, err
	}
	out := cloudSandbox{sb.(*sandbox)}
	return out, out.Resume(ctx)
}

// Asleep reports whether a sandbox is suspended, without waking it.
func (c *Cloud) Asleep(_ context.Context, h executors.Handle) (bool, error) {
	if err := c.get().AsleepErr; err != nil {
		return false, err
	}
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	b := c.w.boxes[h.ID]
	if b == nil {
		return false, executors.ErrGone
	}
	return c.w.isSuspended(b), nil
}

// isSuspended reports whether a box is suspended, also because its lease ended. Guarded by w.mu.
func (w *World) isSuspended(b *box) bool {
	if !b.still && b.leaseEnds > 0 && w.now() >= b.leaseEnds {
		b.still = true
		b.listen.cut()
	}
	return b.still
}

func (w *World) now() int64 {
	if w.Now == nil {
		return time.Now().UnixMilli()
	}
	return w.Now().UnixMilli()
}

// Runs returns how many runs a sandbox has had; 0 = it does not exist.
func (w *World) Runs(id string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.boxes[id]; b != nil {
		return b.runs
	}
	return 0
}

// Expire suspends a sandbox as if its lease had ended.
func (w *World) Expire(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b := w.boxes[id]; b != nil {
		b.still = true
		b.listen.cut()
	}
}

// Still reports whether a sandbox is suspended.
func (w *World) Still(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[id]
	return b != nil && w.isSuspended(b)
}

type cloudSandbox struct{ *sandbox }

func (s cloudSandbox) OnePipe() bool { return true }

func (s cloudSandbox) change(err error, fn func(b *box)) error {
	if err != nil {
		return err
	}
	w := s.e.w
	w.mu.Lock()
	defer w.mu.Unlock()
	b := w.boxes[s.handle.ID]
	if b == nil {
		return executors.ErrGone
	}
	fn(b)
	return nil
}

func (s cloudSandbox) Pause(context.Context) error {
	return s.change(s.e.get().PauseErr, func(b *box) {
		b.still = true
		b.listen.cut()
	})
}

func (s cloudSandbox) Resume(context.Context) error {
	return s.change(s.e.get().ResumeErr, func(b *box) {
		if s.e.w.isSuspended(b) {
			s.e.w.run(b, s.e.get())
		}
	})
}

var errAsleep = errors.New("the sandbox is suspended")

func (s cloudSandbox) Extend(_ context.Context, d time.Duration) (executors.Lease, error) {
	var l executors.Lease
	var refused error
	err := s.change(s.e.get().ExtendErr, func(b *box) {
		if s.e.w.isSuspended(b) {
			refused = errAsleep
			return
		}
		if s.e.get().Lease > 0 {
			b.leaseEnds = max(b.leaseEnds, s.e.w.now()+d.Milliseconds())
		}
		if b.runEnds > 0 && b.leaseEnds > 0 {
			b.leaseEnds = min(b.leaseEnds, b.runEnds)
		}
		l = executors.Lease{EndsAt: b.leaseEnds, RunEndsAt: b.runEnds}
	})
	return l, errors.Join(err, refused)
}
