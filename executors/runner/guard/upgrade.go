package guard

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// serveUpgrade handles a pipe's only request, which becomes one stream: a terminal's output or input, or a port. Once the guest has agreed,
// it connects the two.
func (g *Guard) serveUpgrade(ctx context.Context, conn net.Conn, r *bufio.Reader, head *bounded, req *http.Request, t Target) error {
	req = req.WithContext(ctx)
	if req.Header.Get("Upgrade") != guest.UpgradeStream || req.ContentLength > 0 || len(req.TransferEncoding) > 0 {
		return answerPipe(conn, fault.New(fault.Invalid, "pipe_protocol", "A pipe carries either HTTP/2 or one upgraded stream."))
	}
	req.Body, req.ContentLength = http.NoBody, 0 // what follows is the stream's
	if _, err := g.judge(req, t); err != nil {
		return answerPipe(conn, err)
	}
	rwc, token, err := t.Dial(ctx)
	if err != nil {
		return fmt.Errorf("reaching the guest: %w", err)
	}
	back := asConn(rwc)
	defer back.Close()
	defer context.AfterFunc(ctx, func() { _ = back.Close() })()
	out := &http.Request{Method: req.Method, URL: &url.URL{Scheme: "http", Host: "guest", Path: req.URL.Path, RawQuery: req.URL.RawQuery}, Host: "guest", Header: header(req, token)}
	out.Header["Connection"], out.Header["Upgrade"] = []string{"Upgrade"}, []string{guest.UpgradeStream}
	if err := out.Write(back); err != nil {
		return fmt.Errorf("asking the guest for a stream: %w", err)
	}
	backHead := &bounded{r: back, left: maxHead}
	br := bufio.NewReaderSize(backHead, 4<<10)
	resp, err := http.ReadResponse(br, out)
	if err != nil {
		return fmt.Errorf("asking the guest for a stream: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusSwitchingProtocols {
		return passAnswer(conn, resp)
	}
	if err := writeHead(conn, resp); err != nil {
		return fmt.Errorf("answering a pipe: %w", err)
	}
	head.left, backHead.left = -1, -1
	return join(conn, r, back, br)
}

// writeHead forwards the guest's agreement.
func writeHead(w io.Writer, resp *http.Response) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 101 Switching Protocols\r\n")
	if err := resp.Header.Write(&b); err != nil {
		return err
	}
	b.WriteString("\r\n")
	_, err := w.Write(b.Bytes())
	return err
}

// maxRefusal limits a forwarded response that is no stream.
const maxRefusal = 64 << 10

// passAnswer forwards a response that ends the pipe: the guest did not agree.
func passAnswer(w io.Writer, resp *http.Response) error {
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	if err != nil {
		return fmt.Errorf("reading the guest's refusal of a stream: %w", err)
	}
	return lastAnswer(w, resp.StatusCode, resp.Header.Get("Content-Type"), b)
}

func lastAnswer(w io.Writer, status int, kind string, body []byte) error {
	resp := &http.Response{StatusCode: status, ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{"Content-Type": {kind}}, Close: true,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
	return resp.Write(w)
}

// join copies in both directions until either ends.
func join(conn net.Conn, r io.Reader, back net.Conn, br io.Reader) error {
	ended := make(chan error, 2)
	copyTo := func(to net.Conn, from io.Reader) {
		buf := buffers.Get().(*[frameSize]byte)
		defer buffers.Put(buf)
		for {
			n, err := from.Read(buf[:])
			if n > 0 {
				if _, werr := to.Write(buf[:n]); werr != nil {
					ended <- werr
					return
				}
			}
			if errors.Is(err, io.EOF) {
				if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
					ended <- nil
					return
				}
				_ = to.Close()
			}
			if err != nil {
				ended <- err
				return
			}
		}
	}
	go copyTo(back, r)  // ends when either is closed
	go copyTo(conn, br) // likewise
	err := <-ended
	if err != nil {
		_ = conn.Close()
		_ = back.Close()
	}
	if second := <-ended; err == nil {
		err = second
	}
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// asConn makes a bare pipe look like a network connection.
func asConn(rwc io.ReadWriteCloser) net.Conn {
	if conn, ok := rwc.(net.Conn); ok {
		return conn
	}
	return bareConn{rwc}
}

// bareConn has no deadlines: closing it ends pending calls.
type bareConn struct{ io.ReadWriteCloser }

func (bareConn) LocalAddr() net.Addr              { return bareAddr{} }
func (bareConn) RemoteAddr() net.Addr             { return bareAddr{} }
func (bareConn) SetDeadline(time.Time) error      { return nil }
func (bareConn) SetReadDeadline(time.Time) error  { return nil }
func (bareConn) SetWriteDeadline(time.Time) error { return nil }

type bareAddr struct{}

func (bareAddr) Network() string { return "pipe" }
func (bareAddr) String() string  { return "guest" }

// errorBody is the body of a refusal, in the guest's format.
func errorBody(err error) (int, []byte) {
	body := guest.ErrorBody{Kind: string(fault.KindOf(err)), Code: fault.CodeOf(err), Message: err.Error()}
	if f, ok := errors.AsType[*fault.Error](err); ok {
		body.Message = f.Message
	} else {
		body.Kind, body.Code, body.Message = string(fault.Unavailable), wire.CodeUnavailable, "The machine could not forward the request."
	}
	b, merr := json.Marshal(body)
	if merr != nil {
		panic(merr) // encoding three strings cannot fail
	}
	return wire.Status(fault.Kind(body.Kind)), b
}

// refuse answers that a request is not forwarded.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return // nobody listens
	}
	status, b := errorBody(err)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b)
}

func answerPipe(w io.Writer, err error) error {
	status, b := errorBody(err)
	return lastAnswer(w, status, "application/json", b)
}
