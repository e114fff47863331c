package daemon

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
)

var errNoStream = fault.New(fault.NotFound, "no_such_stream", "The process has no such output.")

const (
	// bulk is how many bytes at once indicate more than a keystroke's echo.
	bulk = 2 << 10
	// pace is how long to wait for more bytes then: it merges many wake-ups of the host into one.
	pace = time.Millisecond
)

// serveOutput sends the bytes of a stream from an offset, and continues as they come until the process has ended and everything
// was sent. The header holds the first offset: larger than requested when the bytes between were dropped. If bytes are dropped
// later, the answer is cut off, and the host requests the rest again.
func (d *Daemon) serveOutput(w http.ResponseWriter, r *http.Request) error {
	p, err := d.process(r)
	if err != nil {
		return err
	}
	l := p.logs[guest.Stream(r.PathValue("stream"))]
	if l == nil {
		return errNoStream
	}
	off, err := number(r, "from")
	if err != nil {
		return err
	}
	if _, end := l.Bounds(); off > end {
		return fault.New(fault.Invalid, "offset_beyond_end", "Offset %d is beyond the end of the output, %d.", off, end)
	}
	_, off, err = l.ReadAt(make([]byte, 1), off)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	d.readers.Add(1)
	defer d.readers.Add(-1)
	took := func(int64) {}
	for _, pu := range p.pumps {
		if pu.log == l {
			pu.followed(off)
			defer pu.hosts.Add(-1)
			took = pu.took
		}
	}
	at := strconv.FormatInt(off, 10)
	if wantsDirect(r) {
		conn, rest, stop, err := direct(w, r, guest.HeaderOffset, at)
		if err != nil {
			return err
		}
		defer stop()
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		go func() { // ends with the pipe: a host sends nothing more on it, and hangs up
			_, _ = rest.ReadByte()
			cancel()
		}()
		_ = follow(ctx, directBridge{conn}, l, off, took) // a cut pipe needs no further report
		return errHijacked
	}
	w.Header().Set(guest.HeaderOffset, at)
	if err := offer.Begin(w); err != nil {
		return errCut
	}
	return follow(r.Context(), sharedBridge{w, http.NewResponseController(w)}, l, off, took)
}

// follow sends the log from off as it grows, and reports its progress to took.
func follow(ctx context.Context, out bridge, l *bytelog.Log, off int64, took func(int64)) error {
	for {
		changed := l.Changed()
		n, err := sendBatch(out, l, off)
		off += int64(n)
		took(off)
		switch {
		case errors.Is(err, io.EOF):
			return out.end()
		case err != nil:
			return errCut
		case n == batch-guest.FrameHeader:
			continue // more is already there
		}
		if n > 0 {
			if out.flush() != nil {
				return errCut
			}
			if n >= bulk {
				time.Sleep(pace)
			}
			continue
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errCut
		}
	}
}

// sendBatch sends what is there at off, up to one batch. It holds a buffer only during that.
func sendBatch(out bridge, l *bytelog.Log, off int64) (int, error) {
	buf := batches.Get().(*[batch]byte)
	defer batches.Put(buf)
	n, from, err := l.ReadAt(buf[guest.FrameHeader:], off)
	if n > 0 {
		if from != off {
			return 0, errCut
		}
		err = out.send(buf[:guest.FrameHeader+n])
	}
	return n, err
}
