package lsp

import (
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/time/rate"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
)

const (
	triesToReach = 20              // of a sandbox whose pipe was cut
	tryAgain     = 2 * time.Second // between two
	frame        = guest.MaxInput  // bytes of one frame of input: a smaller message reaches the server as a whole or not at all

	errorsPerSecond = 256 << 10 // bytes of standard error that are read
)

// again waits before another try to reach a sandbox. While it is suspended that takes as long as it takes.
func (sv *server) again(ctx context.Context, tries *int, err error) error {
	if *tries++; *tries > triesToReach || fault.Is(err, fault.NotFound) || fault.Is(err, fault.Gone) {
		return err
	}
	if sv.place.Asleep() {
		*tries = 0
		select {
		case <-sv.place.Awake():
		case <-ctx.Done():
		}
	} else {
		select {
		case <-sv.s.cfg.After(tryAgain):
		case <-ctx.Done():
		}
	}
	return context.Cause(ctx)
}

// output reads a server's messages from its process, over cuts of the pipe. What was read is acknowledged, so that the guest drops it.
type output struct {
	ctx   context.Context
	sv    *server
	out   *client.Output
	met   bool // it is known where the output begins
	off   int64
	acked int64
}

func (o *output) Read(p []byte) (int, error) {
	for tries := 0; ; {
		var err error
		if o.out == nil {
			if o.out, err = o.sv.place.Guest.SharedOutput(o.ctx, o.sv.id, guest.Stdout, o.off); err == nil && o.out.From != o.off {
				if o.met || !o.sv.resumed {
					return 0, errors.New("its output was lost while it could not be read")
				}
				o.off = o.out.From // it wrote too much while Parawork was away
			}
			if err == nil && !o.met {
				o.met = true
				o.sv.began.Store(o.off)
			}
		}
		if err == nil {
			var n int
			n, err = o.out.Read(p)
			o.off += int64(n)
			if o.off-o.acked >= executors.AckEvery {
				if o.sv.place.Guest.Ack(o.ctx, o.sv.id, guest.Stdout, o.off) == nil {
					o.acked = o.off
				}
			}
			if n > 0 {
				return n, nil
			}
			if errors.Is(err, io.EOF) {
				return 0, err
			}
			o.close()
		}
		if err := o.sv.again(o.ctx, &tries, err); err != nil {
			return 0, err
		}
	}
}

func (o *output) close() {
	if o.out != nil {
		_ = o.out.Close()
		o.out = nil
	}
}

// input writes messages to a server's process, over cuts of the pipe: frames are numbered, and none is taken twice.
type input struct {
	ctx context.Context
	sv  *server
	in  *client.Input
	met bool   // the first number is known
	seq uint64 // of the last frame
}

func (w *input) Write(p []byte) (n int, err error) {
	for len(p) > 0 {
		part := p[:min(len(p), frame)]
		if err := w.send(part); err != nil {
			return n, err
		}
		n, p = n+len(part), p[len(part):]
	}
	return n, nil
}

func (w *input) send(p []byte) error {
	w.seq++
	for tries := 0; ; {
		var err error
		if w.in == nil {
			w.in, err = w.sv.place.Guest.Input(w.ctx, w.sv.id)
			switch {
			case err != nil:
			case !w.met:
				w.met, w.seq = true, w.in.Last+1 // an earlier run has sent some
			case w.in.Last >= w.seq:
				return nil
			}
		}
		if err == nil {
			if err = w.in.Write(w.seq, p); err == nil {
				return nil
			}
			w.close()
		}
		if err := w.sv.again(w.ctx, &tries, err); err != nil {
			return err
		}
	}
}

func (w *input) close() {
	if w.in != nil {
		_ = w.in.Close()
		w.in = nil
	}
}

// readErrors keeps the end of what the server writes to standard error, and has the guest drop it.
func (sv *server) readErrors(ctx context.Context) {
	out, err := sv.place.Guest.SharedOutput(ctx, sv.id, guest.Stderr, 0)
	if err != nil {
		return
	}
	defer out.Close()
	buf := make([]byte, 32<<10)
	pace := rate.NewLimiter(errorsPerSecond, 4*errorsPerSecond)
	off, acked := out.From, int64(0)
	for {
		n, err := out.Read(buf)
		off += int64(n)
		if pace.WaitN(ctx, n) != nil {
			return
		}
		_, _ = sv.stderr.Write(buf[:n]) // never fails
		if off-acked >= executors.AckEvery {
			if acked = off; sv.place.Guest.Ack(ctx, sv.id, guest.Stderr, off) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
