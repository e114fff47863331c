package gate

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/parawork/parawork/internal/proxycopy"
)

// upstreamError says that the server's own proxy failed, without naming it or its password.
type upstreamError struct {
	status string // its answer, "" when there was none
	cause  error
}

func (e *upstreamError) Error() string {
	if e.status != "" {
		return "The proxy this server uses to reach the network answered: " + e.status
	}
	return "The proxy this server uses to reach the network could not be reached."
}

func (e *upstreamError) Unwrap() error { return e.cause }

// throughProxy connects to target through the server's own proxy.
func throughProxy(ctx context.Context, proxy *url.URL, target string) (proxycopy.Conn, error) {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	if port == "" {
		return nil, &upstreamError{cause: errors.New("only http:// and https:// proxies are known")}
	}
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return nil, &upstreamError{cause: err}
	}
	defer context.AfterFunc(ctx, func() { _ = raw.SetDeadline(time.Unix(1, 0)) })()
	conn := raw.(proxycopy.Conn)
	if proxy.Scheme == "https" {
		conn = tls.Client(raw, &tls.Config{ServerName: proxy.Hostname()})
	}
	out, err := ask(conn, proxy.User, target)
	if err != nil {
		_ = raw.Close()
		return nil, err
	}
	if ctx.Err() != nil {
		_ = raw.Close()
		return nil, ctx.Err()
	}
	return out, nil
}

func ask(conn proxycopy.Conn, user *url.Userinfo, target string) (proxycopy.Conn, error) {
	head := fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %s\r\n", target, target)
	if user != nil {
		password, _ := user.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return nil, &upstreamError{cause: err}
	}
	r := bufio.NewReaderSize(&io.LimitedReader{R: conn, N: maxHead}, 4<<10)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, &upstreamError{cause: err}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, &upstreamError{status: plainStatus(resp.StatusCode)}
	}
	if r.Buffered() == 0 {
		return conn, nil
	}
	early, err := r.Peek(r.Buffered())
	return &eager{Conn: conn, early: early}, err
}

func plainStatus(code int) string { return fmt.Sprintf("%d %s", code, http.StatusText(code)) }

// eager is a connection whose other end has already sent bytes.
type eager struct {
	proxycopy.Conn
	early []byte
}

func (e *eager) Read(p []byte) (int, error) {
	if len(e.early) == 0 {
		return e.Conn.Read(p)
	}
	n := copy(p, e.early)
	e.early = e.early[n:]
	return n, nil
}
