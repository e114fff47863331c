package gate

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest/egressbridge"
	"github.com/parawork/parawork/internal/sockpath"
)

// The delay before a way out is opened again: from the first to the last one, doubled each time.
const (
	carrySoon = 250 * time.Millisecond
	carryLate = 10 * time.Second
)

// Carrier keeps the way out of a sandbox open in which the gate's socket cannot be mounted.
type Carrier struct {
	cancel context.CancelFunc
	done   chan struct{}
}

// Way is how a sandbox is reached, and where its gate is.
type Way struct {
	Open func(context.Context) (net.Conn, error) // starts guest/egressbridge in the sandbox
	Gate func() string                           // the folder with the gate's socket
	Log  *slog.Logger
}

// Carry keeps a way out open until ctx ends, or End. It starts one goroutine by run, which reports whether it did; nil is returned where it did
// not.
func Carry(ctx context.Context, run func(func()) bool, w Way) *Carrier {
	ctx, cancel := context.WithCancel(ctx)
	c := &Carrier{cancel: cancel, done: make(chan struct{})}
	if !run(func() {
		defer close(c.done)
		w.carry(ctx)
	}) {
		cancel()
		return nil
	}
	return c
}

// End closes the way out, and waits until it is closed.
func (c *Carrier) End() {
	c.cancel()
	<-c.done
}

func (w Way) carry(ctx context.Context) {
	pause := carrySoon
	for ctx.Err() == nil {
		began := time.Now()
		if p, err := w.Open(ctx); err == nil {
			egressbridge.Serve(ctx, p, w.dial, w.Log)
			_ = p.Close()
		}
		if time.Since(began) > time.Minute {
			pause = carrySoon
		}
		t := time.NewTimer(pause)
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
		}
		pause = min(2*pause, carryLate)
	}
}

// dial connects to the gate.
func (w Way) dial(ctx context.Context) (egressbridge.Conn, error) {
	path, done, err := sockpath.Short(w.Gate(), filepath.Base(executors.InsideGateSock))
	if err != nil {
		return nil, err
	}
	defer done()
	conn, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if err != nil {
		return nil, err
	}
	return conn.(*net.UnixConn), nil
}
