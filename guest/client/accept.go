package client

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
)

// AcceptGateway waits for the next connection of one of the sandbox's programs to the model gateway, and accepts it. host
// identifies this run of the server: it replaces an earlier one. ctx also bounds the connection. Its data comes from an agent and
// is untrusted. The connection has deadlines.
//
// Errors: fault.Unsupported or fault.NotFound of a guest without a gateway.
func (c *Client) AcceptGateway(ctx context.Context, host string) (net.Conn, error) {
	return c.accept(ctx, guest.GatewayPath, host)
}

// openingIn is how long a guest may take to say what a connection to the tools is for: it knows before it offers one.
const openingIn = 15 * time.Second

// maxOpening bounds that line, in bytes.
const maxOpening = 1 << 10

// AcceptTools waits for the next connection of one of the sandbox's programs to the tools, and accepts it, as AcceptGateway does.
// The opening names the process as the guest found it: a program cannot name one whose token it does not have. The use is one
// of those that guest defines.
//
// Errors: fault.Unsupported or fault.NotFound of a guest without tools. After others the caller asks again, not at once.
func (c *Client) AcceptTools(ctx context.Context, host string) (accepted net.Conn, opening guest.ToolOpening, err error) {
	for range guest.MaxToolConns {
		var conn net.Conn
		if conn, err = c.accept(ctx, guest.ToolsPath, host); err != nil {
			return nil, opening, err
		}
		from := bufio.NewReaderSize(conn, maxOpening)
		if opening, err = readOpening(conn, from); err == nil {
			return openedConn{conn, from}, opening, nil
		}
		_ = conn.Close()
		if !errors.Is(err, io.EOF) {
			break
		} // otherwise the program left before it was accepted
	}
	return nil, guest.ToolOpening{}, err
}

func readOpening(conn net.Conn, from *bufio.Reader) (o guest.ToolOpening, err error) {
	_ = conn.SetReadDeadline(time.Now().Add(openingIn))
	line, err := from.ReadSlice('\n')
	if errors.Is(err, bufio.ErrBufferFull) {
		return o, wrong("tools", fmt.Errorf("the first line has more than %d bytes", maxOpening))
	}
	if err != nil {
		return o, unreachable(fmt.Errorf("reading what a connection to the tools is for: %w", err))
	}
	if err := json.Unmarshal(line, &o); err != nil {
		return o, wrong("tools", err)
	}
	if err := guest.CheckID(o.Process); err != nil {
		return o, wrong("tools", err)
	}
	if !o.Use.Known() {
		return o, wrong("tools", fmt.Errorf("unknown use %q", clip(string(o.Use), 50)))
	}
	_ = conn.SetReadDeadline(time.Time{})
	return o, nil
}

// openedConn is a connection whose first line was read.
type openedConn struct {
	net.Conn
	from *bufio.Reader
}

func (c openedConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// accept waits for the next connection that the guest offers at a path, and accepts it.
func (c *Client) accept(ctx context.Context, path, host string) (net.Conn, error) {
	ctx, end := context.WithCancelCause(ctx)
	in, out := io.Pipe()
	q := request{method: http.MethodPost, path: strings.Split(strings.TrimPrefix(path, "/v1/"), "/"), query: url.Values{guest.HostQuery: {host}}, body: in}
	resp, err := c.do(ctx, q)
	if err != nil {
		_ = out.Close()
		end(nil)
		return nil, err
	}
	if _, err := out.Write([]byte{0}); err != nil { // accepted
		end(nil)
		_ = resp.Body.Close()
		return nil, unreachable(err)
	}
	ours, theirs := net.Pipe() // adds the deadlines that a server needs and a stream lacks
	s := &offeredStream{far: theirs, in: resp.Body, out: out, end: func() { end(nil) }}
	context.AfterFunc(ctx, func() { // HTTP/2 does not notice it while the guest takes nothing
		_ = out.CloseWithError(net.ErrClosed)
		_ = resp.Body.Close()
	})
	go s.carry() // ends with the connection, or with ctx
	return offeredConn{ours, offeredAddr(strings.TrimPrefix(path, "/v1/")), s.end}, nil
}

// offeredLinger is how long a program may take to read the rest of what was sent to it once the connection has ended on the
// host's side.
const offeredLinger = 10 * time.Second

// offeredStream carries a connection in the bodies of a request and its answer.
type offeredStream struct {
	far net.Conn // one end of a net.Pipe; the other end is the connection
	in  io.ReadCloser
	out *io.PipeWriter
	end func()
}

func (s *offeredStream) carry() {
	var up sync.WaitGroup
	up.Go(s.up)
	_, err := copyPiece(s.out, s.far)
	_ = s.far.Close()
	_ = s.out.CloseWithError(err)
	late := time.AfterFunc(offeredLinger, s.end)
	up.Wait()
	late.Stop()
	s.end()
	_ = s.in.Close()
}

// up copies the program's data, until it has closed or the stream ends. A program that sends no more has left: half-open
// connections are not supported.
func (s *offeredStream) up() {
	_, err := copyPiece(s.far, s.in)
	_ = s.far.Close()
	if err != nil {
		_, _ = copyPiece(io.Discard, s.in) // the connection has ended on the host's side: the stream's end shows that the program has everything
	}
}

// copyPiece copies with a small buffer: many connections may be open.
func copyPiece(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 16<<10))
}

// offeredConn is a connection from a program of a sandbox.
type offeredConn struct {
	net.Conn
	addr offeredAddr
	end  func()
}

// Close closes the connection. A guest that takes nothing would keep its stream open otherwise.
func (c offeredConn) Close() error {
	time.AfterFunc(offeredLinger, c.end)
	return c.Conn.Close()
}

func (c offeredConn) RemoteAddr() net.Addr { return c.addr }

type offeredAddr string

func (offeredAddr) Network() string  { return "sandbox" }
func (a offeredAddr) String() string { return "sandbox:" + string(a) }
