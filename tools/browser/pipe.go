package browser

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// ackEvery is how many bytes are read before the guest may drop them.
const ackEvery = 256 << 10

// reopened is how often a cut stream is opened again, without a message in between, before the connection ends.
const reopened = 3

// pipe carries messages to and from the browser's program in a sandbox. Its streams survive a cut of the line to the guest.
type pipe struct {
	guest  *client.Client
	id     string // of the process
	ctx    context.Context
	cancel context.CancelFunc
	acker  sync.WaitGroup
	acking atomic.Bool

	// Of Receive.
	out    *client.Output
	r      *bufio.Reader
	off    int64 // of the next byte
	acked  int64
	failed int
	line   []byte

	// Of Send.
	in  *client.Input
	seq uint64
}

// openPipe opens the streams of a process. What it said before from is not read.
func openPipe(g *client.Client, id string, from int64) (*pipe, error) {
	p := &pipe{guest: g, id: id, off: from, acked: from}
	p.ctx, p.cancel = context.WithCancel(context.Background()) // until Close
	if err := p.openOut(); err != nil {
		p.Close()
		return nil, err
	}
	in, err := g.Input(p.ctx, id)
	if err != nil {
		p.Close()
		return nil, err
	}
	p.in, p.seq = in, in.Last
	return p, nil
}

func (p *pipe) openOut() error {
	out, err := p.guest.Output(p.ctx, p.id, guest.Stdout, p.off)
	if err != nil {
		return err
	}
	p.out, p.off = out, out.From
	p.r = bufio.NewReaderSize(out, 64<<10)
	return nil
}

// Receive implements cdp.Pipe. io.EOF: the program has ended.
func (p *pipe) Receive() ([]byte, error) {
	p.line = p.line[:0]
	if cap(p.line) > 2<<20 {
		p.line = nil
	}
	skip := false
	for {
		piece, err := p.r.ReadSlice('\n')
		p.off += int64(len(piece))
		p.ack()
		if len(p.line)+len(piece) > guest.MaxBrowserMessage+1 {
			skip, p.line = true, p.line[:0] // not from our program: it leaves out such messages itself
		}
		if !skip {
			p.line = append(p.line, piece...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF):
			return nil, io.EOF
		case err != nil:
			lost, err := p.again(err)
			if err != nil {
				return nil, err
			}
			skip = skip || lost
		case skip:
			p.line, skip = p.line[:0], false
		default:
			p.failed = 0
			return p.line, nil
		}
	}
}

// again opens a cut output again. lost says that bytes are missing.
func (p *pipe) again(cause error) (lost bool, err error) {
	if p.failed++; p.failed > reopened || p.ctx.Err() != nil {
		return false, cause
	}
	_ = p.out.Close()
	at := p.off
	err = p.openOut()
	return p.off != at, err
}

// ack lets the guest drop what was read, from time to time.
func (p *pipe) ack() {
	if p.off-p.acked < ackEvery || !p.acking.CompareAndSwap(false, true) {
		return
	}
	off := p.off
	p.acked = off
	p.acker.Go(func() {
		defer p.acking.Store(false)
		_ = p.guest.Ack(p.ctx, p.id, guest.Stdout, off) // the next one makes up for it
	})
}

// Send implements cdp.Pipe. A message is one or several frames of input; its last byte is a newline.
func (p *pipe) Send(message []byte) error {
	message = append(message, '\n')
	for len(message) > 0 {
		n := min(len(message), guest.MaxInput)
		if err := p.send(message[:n]); err != nil {
			return err
		}
		message = message[n:]
	}
	return nil
}

func (p *pipe) send(frame []byte) error {
	p.seq++
	err := p.in.Write(p.seq, frame)
	for try := 0; err != nil && try < reopened && p.ctx.Err() == nil; try++ {
		_ = p.in.Close()
		in, oerr := p.guest.Input(p.ctx, p.id)
		if oerr != nil {
			return fmt.Errorf("sending to the browser: %w", errors.Join(err, oerr))
		}
		p.in = in
		if in.Last >= p.seq {
			return nil
		}
		err = in.Write(p.seq, frame)
	}
	return err
}

// Close ends the streams. The program goes on.
func (p *pipe) Close() {
	p.cancel()
	if p.out != nil {
		_ = p.out.Close()
	}
	p.acker.Wait()
}
