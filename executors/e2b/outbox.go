package e2b

import (
	"encoding/base64"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/tasks"
)

const (
	// maxPending is how much may wait to be sent before whoever writes waits.
	maxPending = 256 << 10
	// maxPiece is how much of it goes into one message: large enough that what a message costs does not count.
	maxPiece = 64 << 10
	// keepaliveEvery is how often a quiet stream says that it is there.
	keepaliveEvery = 50 * time.Second
)

// outbox holds what was written to a pipe and not yet sent. What is written while something is on its way goes together in one message;
// a lone keystroke goes at once. Safe for concurrent use.
type outbox struct {
	mu   sync.Mutex
	buf  []byte
	err  error
	more chan struct{} // something waits to be sent
	room chan struct{} // something was taken
	done chan struct{} // closed
}

func newOutbox() *outbox {
	return &outbox{more: make(chan struct{}, 1), room: make(chan struct{}, 1), done: make(chan struct{})}
}

func wake(c chan struct{}) {
	tasks.Wake(c)
}

// write adds p, waiting where too much waits already.
func (o *outbox) write(p []byte) (written int, err error) {
	for {
		o.mu.Lock()
		if err := o.err; err != nil {
			o.mu.Unlock()
			return written, err
		}
		n := min(len(p), maxPending-len(o.buf))
		o.buf = append(o.buf, p[:n]...)
		o.mu.Unlock()
		if n > 0 {
			wake(o.more)
		}
		written += n
		if p = p[n:]; len(p) == 0 {
			return written, nil
		}
		select {
		case <-o.room:
		case <-o.done:
		}
	}
}

// take moves at most limit bytes to dst, waiting for the first one: none when nothing came for as long as idle says.
func (o *outbox) take(dst []byte, limit int, idle <-chan time.Time) ([]byte, error) {
	for {
		o.mu.Lock()
		if o.err != nil {
			o.mu.Unlock()
			return dst, o.err
		}
		if n := min(len(o.buf), limit); n > 0 {
			dst = append(dst, o.buf[:n]...)
			o.buf = o.buf[:copy(o.buf, o.buf[n:])]
			left := len(o.buf) > 0
			o.mu.Unlock()
			wake(o.room)
			if left {
				wake(o.more)
			}
			return dst, nil
		}
		o.mu.Unlock()
		select {
		case <-o.more:
		case <-o.done:
		case <-idle:
			return dst, nil
		}
	}
}

// close ends the box: what was not taken is lost.
func (o *outbox) close(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
		close(o.done)
	}
}

// inputStream is an outbox as the body of one request: messages of process.Process/StreamInput.
type inputStream struct {
	box   *outbox
	frame []byte // what of the present message was not read yet
	raw   []byte
	enc   []byte
	timer *time.Timer
}

func newInputStream(box *outbox, pid uint32) *inputStream {
	s := &inputStream{box: box, timer: time.NewTimer(keepaliveEvery)}
	s.frame = appendFrame(nil, 0, appendStart(nil, pid))
	return s
}

func (s *inputStream) Read(p []byte) (int, error) {
	if len(s.frame) == 0 {
		s.timer.Reset(keepaliveEvery)
		raw, err := s.box.take(s.raw[:0], maxPiece, s.timer.C)
		if err != nil {
			return 0, err
		}
		s.raw = raw
		s.enc = append(s.enc[:0], 0, 0, 0, 0, 0)
		if len(raw) == 0 {
			s.enc = append(s.enc, `{"keepalive":{}}`...)
		} else {
			s.enc = append(s.enc, `{"data":{"input":{"stdin":"`...)
			s.enc = base64.StdEncoding.AppendEncode(s.enc, raw)
			s.enc = append(s.enc, `"}}}`...)
		}
		n := len(s.enc) - frameHeader
		s.enc[1], s.enc[2], s.enc[3], s.enc[4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
		s.frame = s.enc
	}
	n := copy(p, s.frame)
	s.frame = s.frame[n:]
	return n, nil
}

func (s *inputStream) Close() error {
	s.timer.Stop()
	return nil
}
