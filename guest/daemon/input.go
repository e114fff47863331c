package daemon

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

var errInputClosed = fault.New(fault.Gone, "input_closed", "The process does not take input any more.")

// input delivers numbered frames to a program, each once and in order. The caller writes a frame the program takes at once; the
// rest waits in a bounded queue with its own goroutine, and further callers wait too.
type input struct {
	file *os.File
	owns bool // only we use the file: closing the input closes it

	mu      sync.Mutex
	last    uint64 // the newest frame received
	stop    func() // ends the current stream of frames, nil before the first
	queue   [][]byte
	queued  int           // bytes in queue
	writing bool          // the writer is running
	ending  bool          // no more frames: close when the queue is empty
	closed  bool          // nothing is written any more
	moved   chan struct{} // closed at the next change of the above, nil when nobody waits
}

func newInput(f *os.File) *input { return &input{file: f} }

// begin lets a new stream take over: frames of an older one are no longer accepted, so that its remainder cannot come between the
// frames the host now sends. It returns the number of the newest frame received.
func (in *input) begin(ctx context.Context) (stream context.Context, stop func(), last uint64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stop != nil {
		in.stop()
	}
	stream, in.stop = context.WithCancel(ctx)
	return stream, in.stop, in.last
}

// takeAll takes the frames of r to its end.
func (in *input) takeAll(ctx context.Context, r io.Reader) error {
	for {
		seq, frame, err := guest.ReadInput(r, nil)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := in.put(ctx, seq, frame); err != nil {
			return err
		}
	}
}

// put delivers frame seq. It ignores a frame that was received before. It waits while the queue is full.
func (in *input) put(ctx context.Context, seq uint64, p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.queued >= guest.MaxInput && !in.closed {
		if err := in.wait(ctx); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if seq <= in.last {
		return nil
	}
	if in.closed || in.ending {
		return errInputClosed
	}
	in.last = seq
	defer in.notify()
	if len(in.queue) == 0 && !in.writing {
		p = p[in.try(p):]
	}
	if len(p) == 0 {
		return nil
	}
	in.queue = append(in.queue, p)
	in.queued += len(p)
	if !in.writing {
		in.writing = true
		go in.write() // ends when the queue is empty or the file is closed
	}
	return nil
}

// wait waits for a change. The caller holds mu.
func (in *input) wait(ctx context.Context) error {
	if in.moved == nil {
		in.moved = make(chan struct{})
	}
	moved := in.moved
	in.mu.Unlock()
	defer in.mu.Lock()
	select {
	case <-moved:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// notify wakes waiters. The caller holds mu.
func (in *input) notify() {
	if in.moved != nil {
		close(in.moved)
		in.moved = nil
	}
}

// try writes what the program takes without waiting.
func (in *input) try(p []byte) (n int) {
	rc, err := in.file.SyscallConn()
	if err != nil {
		return 0
	}
	_ = rc.Write(func(fd uintptr) bool {
		if k, err := unix.Write(int(fd), p); err == nil {
			n = k
		}
		return true
	})
	return n
}

// write writes the queue until it is empty.
func (in *input) write() {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(in.queue) > 0 && !in.closed {
		p := in.queue[0]
		in.mu.Unlock()
		_, err := in.file.Write(p)
		in.mu.Lock()
		if err != nil {
			in.shut()
			break
		}
		in.queue[0] = nil
		in.queue = in.queue[1:]
		in.queued -= len(p)
		in.notify()
	}
	in.writing = false
	if in.ending {
		in.shut()
	}
}

// end closes the input once frame after has been received and everything received has been written.
func (in *input) end(ctx context.Context, after uint64) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.last < after && !in.closed {
		if err := in.wait(ctx); err != nil {
			return err
		}
	}
	in.ending = true
	if !in.writing {
		in.shut()
	}
	return nil
}

// close drops what was not written.
func (in *input) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.shut()
}

func (in *input) shut() {
	if in.closed {
		return
	}
	in.closed, in.queue, in.queued = true, nil, 0
	in.notify()
	if in.owns {
		_ = in.file.Close()
	}
}
