// Package bridge connects standard input and output to a guest's socket. It is the pipe to a guest in a sandbox where processes
// can be started but nothing can be dialled.
//
// \tbridge -> host Reached, when the guest has been reached
// \thost -> bridge Begin
// \tbridge -> host Begun, which proves that what the host writes arrives; from here on it is the pipe
package bridge

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"time"
)

// Messages exchanged before the pipe begins.
const (
	Reached = "PWB1\n"
	Begin   = "PWB2\n"
	Begun   = "PWB3\n"
)

// retryEvery is how often to dial a guest that does not listen yet.
const retryEvery = 3 * time.Millisecond

// Run is `parawork-guest bridge [--wait D] [--acked] SOCKET [ID]`. It returns when either end has closed. ID only identifies the process in
// process lists. With --acked the host confirms what it has read: see Acked.
func Run(ctx context.Context, args []string, in io.Reader, out io.Writer) error {
	fs := flag.NewFlagSet("parawork-guest bridge", flag.ContinueOnError)
	wait := fs.Duration("wait", 2*time.Second, "how long the guest may take to listen")
	confirmed := fs.Bool("acked", false, "the host confirms what it reads, and is sent no more than a window")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() < 1 || fs.NArg() > 2 {
		return errors.New("the socket of the guest is required")
	}
	conn, err := reach(ctx, fs.Arg(0), *wait)
	if err != nil {
		return err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	if _, err := io.WriteString(out, Reached); err != nil {
		return err
	}
	hello := make([]byte, len(Begin))
	if _, err := io.ReadFull(in, hello); err != nil || string(hello) != Begin {
		return errors.New("the host does not begin")
	}
	if _, err := io.WriteString(out, Begun); err != nil {
		return err
	}
	if *confirmed {
		a := newAcked(in, out)
		in, out = a, a
	}
	ended := make(chan error, 2)
	go func() { ended <- carry(conn, in) }()  // ends with the program
	go func() { ended <- carry(out, conn) }() // likewise
	return <-ended
}

// carry copies without the kernel's own copy calls, which on some pipes wait for more than has arrived.
func carry(to io.Writer, from io.Reader) error {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				return werr
			}
		}
		if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// reach connects to the guest, which may only just have been started.
func reach(ctx context.Context, socket string, wait time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		conn, err := new(net.Dialer).DialContext(ctx, "unix", socket)
		if err == nil {
			return conn, nil
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
			return nil, fmt.Errorf("no guest listens at %s: %w", socket, err)
		}
	}
}
