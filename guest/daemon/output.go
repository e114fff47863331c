package daemon

import (
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/fault"
)

var errNoStream = fault.New(fault.NotFound, "no_such_stream", "The process has no such output.")

const (
	// bulk is how many bytes at once show that more than a keystroke's echo is under way.
	bulk = 2 << 10
	// pace is how long more bytes are waited for then: it makes one wake-up of the host of many.
	pace = time.Millisecond
)

// serveOutput sends the bytes of a stream from an offset, and goes on as they come until the process has ended and all was sent.
// The head says where it begins: later than asked for when the bytes between were dropped. Should that happen on the way, the
// answer is cut off, and the host asks anew.
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
	w.Header().Set(guest.HeaderOffset, strconv.FormatInt(off, 10))
	if err := begin(w); err != nil {
		return errCut
	}
	return send(w, r, l, off)
}

// send follows the log from off.
func send(w http.ResponseWriter, r *http.Request, l *bytelog.Log, off int64) error {
	rc := http.NewResponseController(w)
	for {
		changed := l.Changed()
		n, err := sendBatch(w, l, off)
		off += int64(n)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errCut
		case n == batch:
			continue // more is there already
		}
		if n > 0 {
			if rc.Flush() != nil {
				return errCut
			}
			if n >= bulk {
				time.Sleep(pace)
			}
			continue
		}
		select {
		case <-changed:
		case <-r.Context().Done():
			return errCut
		}
	}
}

// sendBatch sends what is there at off, up to one batch. It holds a buffer only meanwhile.
func sendBatch(w http.ResponseWriter, l *bytelog.Log, off int64) (int, error) {
	buf := batches.Get().(*[batch]byte)
	defer batches.Put(buf)
	n, from, err := l.ReadAt(buf[:], off)
	if n > 0 {
		if from != off {
			return 0, errCut
		}
		_, err = w.Write(buf[:n])
	}
	return n, err
}
