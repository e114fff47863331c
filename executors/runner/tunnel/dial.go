package tunnel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/gorilla/websocket"

	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// DialConfig configures a machine's connection. URL, RunnerID, Key and ServerKey are required.
type DialConfig struct {
	URL       string // of the server, as people open it: https://parawork.example.com, with a path when it lives below one
	RunnerID  string
	Key       ed25519.PrivateKey
	ServerKey ed25519.PublicKey // pinned when the machine was enrolled

	Proxy   func(*http.Request) (*url.URL, error) // nil = from HTTPS_PROXY, HTTP_PROXY and NO_PROXY
	RootCAs *x509.CertPool                        // root certificates of the outer TLS; nil = the system's. See Roots
	Agent   string                                // for the server's logs: the program and its version

	Timing Timing
	Now    func() time.Time // nil = time.Now
	Log    *slog.Logger
	Net    func(ctx context.Context, network, addr string) (net.Conn, error) // how connections are made; nil = with net.Dialer
}

// Roots returns the root certificates to trust in addition to the system's: those of file, "" = none, and of SSL_CERT_FILE, which not every
// system reads by default.
func Roots(file string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	for _, name := range []string{file, os.Getenv("SSL_CERT_FILE")} {
		if name == "" {
			continue
		}
		pem, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading certificate authorities: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("reading certificate authorities: %s has no certificate in PEM", name)
		}
	}
	return pool, nil
}

// refused is a response that is no WebSocket.
type refused struct {
	status int
	code   string // of a server's fault, "" when it is not one
	words  string
	proven bool // the real server sent it
}

func (r *refused) Error() string { return r.words }

// final reports whether the server has said that trying again is useless.
func (r *refused) final() bool {
	return r.proven && (r.code == wire.CodeRevoked || r.code == wire.CodeReplaced)
}

// Dial connects to the server and verifies both keys. Pass the connection to Serve. Errors say what is wrong and what to do; a fault with
// wire.CodeRevoked is the server's own, signed answer.
func Dial(ctx context.Context, cfg DialConfig) (net.Conn, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Proxy == nil {
		cfg.Proxy = http.ProxyFromEnvironment
	}
	if cfg.Net == nil {
		cfg.Net = (&net.Dialer{KeepAlive: -1}).DialContext // the tunnel has its own heartbeat
	}
	at, err := endpoint(cfg.URL)
	if err != nil {
		return nil, err
	}
	inner, err := proof(cfg.Key, cfg.ServerKey)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, handshakeTime)
	defer cancel()
	auth := wire.CallHeader(cfg.RunnerID, cfg.Key, cfg.Now())
	ws, err := cfg.socket(ctx, at, auth)
	if err != nil {
		if r, ok := errors.AsType[*refused](err); ok {
			if r.final() {
				return nil, fault.New(fault.Gone, r.code, "%s", r.words)
			}
			return nil, err
		}
		if ctx.Err() != nil && !errors.Is(err, context.DeadlineExceeded) && errors.Is(ctx.Err(), context.Canceled) {
			return nil, ctx.Err()
		}
		return nil, &unreached{words: noWay(at.Host, err), err: err}
	}
	s := newSocket(ws)
	stop := context.AfterFunc(ctx, func() { _ = s.Close() })
	defer stop()
	secure := tls.Client(s, inner)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = s.Close()
		words := "The server could not prove to be the one this machine was enrolled at: " + reason(err)
		if errors.Is(err, errKey) {
			words = "The server's key differs from that of the server this machine was enrolled at. Either somebody intercepts the connection, or the server was set up anew: then connect the machine again with a token from its Machines page."
		}
		return nil, &unreached{words: words, err: err}
	}
	if !stop() {
		return nil, &unreached{words: "The server took too long to answer.", err: context.Cause(ctx)}
	}
	return newConn(secure, s, cfg.Timing, cfg.Log), nil
}

// unreached says why there is no connection, with the cause for the log.
type unreached struct {
	words string
	err   error
}

func (u *unreached) Error() string { return u.words }
func (u *unreached) Unwrap() error { return u.err }

// endpoint returns the URL of the server's WebSocket.
func endpoint(base string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(base, "/"))
	if err != nil || u.Host == "" || u.User != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fault.New(fault.Invalid, "runner_server", "%q is not the address of a server, such as https://parawork.example.com.", clean(base))
	}
	u.Scheme = "ws" + strings.TrimPrefix(u.Scheme, "http")
	u.Path += wire.ConnectPath
	u.RawQuery, u.Fragment = "", ""
	return u, nil
}

// socket opens the WebSocket, through a proxy when there is one.
func (cfg DialConfig) socket(ctx context.Context, at *url.URL, auth string) (*websocket.Conn, error) {
	plain := *at
	plain.Scheme = "http" + strings.TrimPrefix(at.Scheme, "ws")
	proxy, err := cfg.Proxy(&http.Request{Method: http.MethodGet, URL: &plain, Host: at.Host, Header: http.Header{}})
	if err != nil {
		return nil, &refused{words: "The setting of the proxy is wrong: " + clean(err.Error())}
	}
	outer := &tls.Config{RootCAs: cfg.RootCAs, MinVersion: tls.VersionTLS12}
	d := websocket.Dialer{
		NetDialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := through(ctx, cfg.Net, proxy, outer, network, addr)
			if err == nil {
				tune(c)
			}
			return c, err
		},
		TLSClientConfig:  outer,
		HandshakeTimeout: handshakeTime,
		ReadBufferSize:   16 << 10,
		WriteBufferSize:  socketFrame,
		WriteBufferPool:  &buffers,
		Subprotocols:     []string{wire.Subprotocol},
	}
	h := http.Header{"Authorization": {auth}}
	if cfg.Agent != "" {
		h.Set("User-Agent", cfg.Agent)
	}
	ws, resp, err := d.DialContext(ctx, at.String(), h)
	if err != nil {
		if resp != nil && errors.Is(err, websocket.ErrBadHandshake) {
			return nil, cfg.answer(resp, at.Host, auth)
		}
		return nil, err
	}
	if ws.Subprotocol() != wire.Subprotocol {
		_ = ws.Close()
		return nil, &refused{words: at.Host + " does not speak our protocol. Is it the address of a Parawork server?"}
	}
	return ws, nil
}

// answer says why there is no WebSocket.
func (cfg DialConfig) answer(resp *http.Response, host, auth string) error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, maxError)) // the dialer provides the first kilobyte
	var said struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	if json.Unmarshal(bytes.TrimSpace(b), &said) == nil && word(said.Code) && said.Message != "" {
		return &refused{status: resp.StatusCode, code: said.Code, words: clean(said.Message),
			proven: wire.RefusalProven(resp.Header, cfg.ServerKey, auth, said.Code)}
	}
	words := fmt.Sprintf("%s answered %d instead of a WebSocket.", host, resp.StatusCode)
	switch {
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		words += " It redirects to " + clean(resp.Header.Get("Location")) + ": use that address."
	case resp.StatusCode == http.StatusBadGateway || resp.StatusCode == http.StatusServiceUnavailable || resp.StatusCode == http.StatusGatewayTimeout:
		words += " The server behind it is not running, or is starting."
	default:
		words += " Is it the address of a Parawork server, and does the proxy before it forward WebSockets?"
	}
	return &refused{status: resp.StatusCode, words: words}
}
