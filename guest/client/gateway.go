package client

import (
	"context"
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
	ctx, end := context.WithCancelCause(ctx)
	in, out := io.Pipe()
	q := request{method: http.MethodPost, path: strings.Split(strings.TrimPrefix(guest.GatewayPath, "/v1/"), "/"), query: url.Values{guest.HostQuery: {host}}, body: in}
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
	s := &gatewayStream{far: theirs, in: resp.Body, out: out, end: func() { end(nil) }}
	go s.carry() // ends with the connection, or with ctx
	return gatewayConn{ours}, nil
}

// gatewayLinger is how long a program may take to read the rest of what was sent to it once the connection has ended on the
// host's side.
const gatewayLinger = 10 * time.Second

// gatewayStream carries a connection to the gateway in the bodies of a request and its answer.
type gatewayStream struct {
	far net.Conn // one end of a net.Pipe; the other end is the connection
	in  io.ReadCloser
	out *io.PipeWriter
	end func()
}

func (s *gatewayStream) carry() {
	var up sync.WaitGroup
	up.Go(s.up)
	_, err := copyPiece(s.out, s.far)
	_ = s.far.Close()
	_ = s.out.CloseWithError(err)
	late := time.AfterFunc(gatewayLinger, s.end)
	up.Wait()
	late.Stop()
	s.end()
	_ = s.in.Close()
}

// up copies the program's data, until it has closed or the stream ends. A program that sends no more has left: half-open
// connections to a model are not supported.
func (s *gatewayStream) up() {
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

// gatewayConn is a connection from a program of a sandbox.
type gatewayConn struct{ net.Conn }

func (gatewayConn) RemoteAddr() net.Addr { return gatewayAddr{} }

type gatewayAddr struct{}

func (gatewayAddr) Network() string { return "sandbox" }
func (gatewayAddr) String() string  { return "sandbox:gateway" }
