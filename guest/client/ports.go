package client

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// DialPort connects to a program in the sandbox that listens at a port of its loopback, through the guest's own pipe: the sandbox
// needs no network for it. ctx bounds only the connecting. The data comes from an agent and is untrusted.
//
// The connection has deadlines and CloseWrite where the pipe has them. Errors: port_closed, port_timeout, too_many_streams.
func (c *Client) DialPort(ctx context.Context, port int) (net.Conn, error) {
	if port < 1 || port > 65535 {
		return nil, fault.New(fault.Invalid, "invalid_port", "The port must be a number from 1 to 65535.")
	}
	return c.dialPipe(ctx, "ports", strconv.Itoa(port))
}

// DialDesktop connects to a socket of the sandbox's desktop with an id, as DialPort does. Errors: desktop_not_running, too_many_streams.
func (c *Client) DialDesktop(ctx context.Context, id string, socket guest.DesktopSocket) (net.Conn, error) {
	return c.dialPipe(ctx, "desktops", id, string(socket))
}

// dialPipe connects to what a path names. The guest repeats the last element, which is checked.
func (c *Client) dialPipe(ctx context.Context, path ...string) (net.Conn, error) {
	q := request{method: http.MethodPost, path: path}
	name := path[len(path)-1]
	life, end := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { end(context.Cause(ctx)) })
	conn, err := c.open(life, end, q, name)
	if !stop() { // ctx ended during the handshake, whatever came of that
		if err == nil {
			_ = conn.Close()
		}
		err = context.Cause(ctx)
	}
	if err != nil {
		end(nil)
		return nil, err
	}
	return conn, nil
}

func (c *Client) open(ctx context.Context, end context.CancelCauseFunc, q request, name string) (net.Conn, error) {
	if c.onePipe() {
		in, out := io.Pipe()
		q.body = in
		resp, err := c.do(ctx, q)
		if err != nil {
			_ = out.Close()
			return nil, err
		}
		return &sharedPort{pipeConn: pipeConn{both{resp.Body, out}}, out: out, end: end, name: name}, checkName(resp.Header, name, resp.Body)
	}
	pipe, r, head, err := c.direct(ctx, q)
	if err != nil {
		return nil, err
	}
	conn, ok := pipe.(net.Conn)
	if !ok {
		conn = pipeConn{pipe.(io.ReadWriteCloser)}
	}
	return &directPort{Conn: conn, r: r, end: end, name: name}, checkName(head, name, pipe)
}

func checkName(head http.Header, name string, conn io.Closer) error {
	if got := head.Get(guest.HeaderPort); got != name {
		_ = conn.Close()
		return wrong("port", fmt.Errorf("port %q when %s was requested", clip(got, 50), name))
	}
	return nil
}

// directPort is a port on a separate pipe.
type directPort struct {
	net.Conn
	r    *bufio.Reader
	end  context.CancelCauseFunc
	name string
}

func (p *directPort) Read(b []byte) (int, error) { return p.r.Read(b) }

func (p *directPort) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return p.Close()
}

func (p *directPort) Close() error {
	err := p.Conn.Close()
	p.end(nil)
	return err
}

func (p *directPort) RemoteAddr() net.Addr { return portAddr(p.name) }

// sharedPort is a port in the bodies of a request and its answer.
type sharedPort struct {
	pipeConn
	out  *io.PipeWriter
	end  context.CancelCauseFunc
	name string
}

func (p *sharedPort) CloseWrite() error { return p.out.Close() }

func (p *sharedPort) Close() error {
	err := p.pipeConn.Close()
	p.end(nil)
	return err
}

func (p *sharedPort) RemoteAddr() net.Addr { return portAddr(p.name) }

// both is a pipe made of two.
type both struct {
	io.ReadCloser
	out *io.PipeWriter
}

func (b both) Write(p []byte) (int, error) { return b.out.Write(p) }

func (b both) Close() error {
	_ = b.out.Close()
	return b.ReadCloser.Close()
}

// portAddr is a port, or a socket of a desktop, in a sandbox.
type portAddr string

func (portAddr) Network() string  { return "sandbox" }
func (a portAddr) String() string { return "sandbox:" + string(a) }
