package command

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
)

// batch is how long OutputAfter waits for more once there is something: programs write line by line.
const batch = 100 * time.Millisecond

// Part is a part of one output of a command.
type Part struct {
	Bytes []byte
	From  int64 // offset of the first byte; later than asked for where bytes are not stored any more
	End   int64 // offset after the last byte: where to go on
}

// OutputAfter returns what a command printed from two offsets on. While there is nothing, it waits for something, for the command's end, and
// at most as long as wait. The outputs of the record itself are empty.
func (c *Commands) OutputAfter(ctx context.Context, commandID string, stdout, stderr int64, wait time.Duration) (cmd Command, out, errs Part, err error) {
	c.mu.Lock()
	r := c.live[commandID]
	c.mu.Unlock()
	if r == nil {
		cmd, err = c.cfg.Store.Command(ctx, commandID)
		out, errs = stored(cmd.Stdout, stdout, cmd.Truncated), stored(cmd.Stderr, stderr, cmd.Truncated)
		cmd.Stdout, cmd.Stderr = nil, nil
		return cmd, out, errs, err
	}
	late := time.NewTimer(wait)
	defer late.Stop()
	for waiting := true; waiting; {
		more := r.grown.next()
		if r.stdout.offset() > stdout || r.stderr.offset() > stderr {
			late.Reset(min(wait, batch))
			more, waiting = nil, false
		}
		select {
		case <-more:
		case <-r.done:
			waiting = false
		case <-late.C:
			waiting = false
		case <-ctx.Done():
			return Command{}, Part{}, Part{}, context.Cause(ctx)
		case <-c.life.Done():
			return Command{}, Part{}, Part{}, executors.ErrStopping()
		}
	}
	cmd = r.snapshot() // its state first: an end that is seen has all output
	cmd.Stdout, cmd.Stderr = nil, nil
	out.Bytes, out.From, out.End = r.stdout.after(stdout)
	errs.Bytes, errs.From, errs.End = r.stderr.after(stderr)
	return cmd, out, errs, nil
}

// stored is the part of an output that was stored with an ended command. Of one with a missing middle the place of the end is not known any
// more, so the whole end is returned.
func stored(all []byte, off int64, truncated bool) Part {
	if truncated && len(all) > OutputKeep {
		all = all[OutputKeep:]
		off = max(off, OutputKeep)
		return Part{Bytes: all, From: off, End: off + int64(len(all))}
	}
	off = min(max(off, 0), int64(len(all)))
	return Part{Bytes: all[off:], From: off, End: int64(len(all))}
}

// broadcast wakes everybody who waits. The zero value is ready. Safe for concurrent use.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{}
}

// next returns a channel that is closed by the next send.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) send() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
