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

// AcceptGateway waits for the next connection of one of the sandbox's programs to the model gateway, and takes it. host names this run of
// the server: what another one asked before is over. ctx bounds the connection, too. What comes over it is an agent's: hostile. It has
// deadlines.
//
// Errors: fault.Unsupported or fault.NotFound of a guest that offers no gateway.
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
	if _, err := out.Write([]byte{0}); err != nil { // it is taken
		end(nil)
		_ = resp.Body.Close()
		return nil, unreachable(err)
	}
	ours, theirs := net.Pipe() // has the deadlines that a server needs, which a stream has not
	s := &gatewayStream{far: theirs, in: resp.Body, out: out, end: func() { end(nil) }}
	go s.carry() // ends with the connection, or with ctx
	return gatewayConn{ours}, nil
}

// gatewayLinger is how long a program may take to read the rest of what it was told once the connection has ended here.
const gatewayLinger = 10 * time.Second

// gatewayStream carries a connection to the gateway in the bodies of a request and its answer.
type gatewayStream struct {
	far net.Conn // the end of a pipe, whose other one is the connection
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

// up carries what the program says, until it has left or the stream ends. A program that says no more has left: nobody takes half a
// connection to a model.
func (s *gatewayStream) up() {
	_, err := copyPiece(s.far, s.in)
	_ = s.far.Close()
	if err != nil {
		_, _ = copyPiece(io.Discard, s.in) // the connection has ended here: the stream's end tells that the program has all
	}
}

// copyPiece copies with a small buffer: many connections may be open.
func copyPiece(to io.Writer, from io.Reader) (int64, error) {
	return io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 16<<10))
}

// gatewayConn is a connection of a program of a sandbox's.
type gatewayConn struct{ net.Conn }

func (gatewayConn) RemoteAddr() net.Addr { return gatewayAddr{} }

type gatewayAddr struct{}

func (gatewayAddr) Network() string { return "sandbox" }
func (gatewayAddr) String() string  { return "sandbox:gateway" }
