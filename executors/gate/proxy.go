package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/hostname"
	"github.com/parawork/parawork/internal/proxycopy"
)

// refused is the error of a connection that is not allowed.
type refused struct{ executors.Refusal }

func (r refused) Error() string { return r.Words() }

// ServeHTTP handles one request of the sandbox.
func (b *box) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		panic(http.ErrAbortHandler)
	}
	b.work.Add(1)
	b.mu.Unlock()
	defer b.work.Done()
	if b.questions.wait(r.Context()) != nil {
		panic(http.ErrAbortHandler)
	}
	switch {
	case r.Method == http.MethodConnect:
		b.connect(w, r)
	case r.URL.IsAbs():
		b.forward(w, r)
	case r.Method == http.MethodGet && r.URL.Path == guest.ForwardsPath:
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(guest.Forwards{Ports: append([]int{}, b.g.ports...)})
	default:
		complain(w, http.StatusBadRequest, "This is a sandbox's way out to the network: an HTTP proxy. It has no pages of its own.")
	}
}

func complain(w http.ResponseWriter, status int, words string) {
	w.Header().Set("Connection", "close")
	http.Error(w, "Parawork: "+words, status)
}

// connect handles CONNECT: it makes a tunnel to a host.
func (b *box) connect(w http.ResponseWriter, r *http.Request) {
	host, port, err := hostname.Split(r.RequestURI)
	if err != nil || r.ContentLength != 0 || len(r.TransferEncoding) > 0 {
		complain(w, http.StatusBadRequest, "The request must name a host and a port, such as CONNECT example.com:443.")
		return
	}
	out, err := b.reach(r.Context(), host, port)
	if err != nil {
		b.sorry(w, err)
		return
	}
	l := &link{host: host, port: port, end: func() { _ = out.Close() }}
	if !b.hold(l) {
		b.sorry(w, refused{b.refusal(host, port, executors.NotListed)})
		return
	}
	defer b.drop(l)
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	in := conn.(*caller)
	defer in.Close()
	_ = in.SetDeadline(time.Time{})
	if _, err := io.WriteString(in, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	early := make([]byte, rw.Reader.Buffered())
	if _, err := io.ReadFull(rw, early); err != nil {
		return
	}
	if len(early) > 0 {
		if _, err := out.Write(early); err != nil {
			return
		}
	}
	proxycopy.Both(in.UnixConn, out, proxycopy.Options{Idle: b.g.cfg.Idle, HalfIdle: b.g.cfg.HalfIdle})
}

// sorry answers a failed CONNECT. Programs that show anything show the words after the status code.
func (b *box) sorry(w http.ResponseWriter, err error) {
	status, words := refusalAnswer(err)
	conn, _, herr := http.NewResponseController(w).Hijack()
	if herr != nil {
		return
	}
	defer conn.Close()
	body := "Parawork: " + words + "\n"
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d Parawork: %s\r\nConnection: close\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n\r\n%s",
		status, strings.TrimSuffix(words, "."), len(body), body)
}

// notify converts an error of reach to a status and a message. The part that names a host is plain ASCII.
func refusalAnswer(err error) (int, string) {
	if r, is := errors.AsType[refused](err); is {
		if r.Reason == executors.Unresolved {
			return http.StatusBadGateway, r.Words()
		}
		return http.StatusForbidden, r.Words()
	}
	if ne, is := errors.AsType[net.Error](err); is && ne.Timeout() {
		return http.StatusGatewayTimeout, "The host did not answer in time."
	}
	if u, is := errors.AsType[*upstreamError](err); is {
		return http.StatusBadGateway, u.Error()
	}
	return http.StatusBadGateway, "The host could not be reached."
}

// forward handles a request for a page over plain HTTP.
func (b *box) forward(w http.ResponseWriter, r *http.Request) {
	authority := r.URL.Host
	if r.URL.Port() == "" {
		authority = strings.TrimSuffix(authority, ":") + ":80"
	}
	host, port, err := hostname.Split(authority)
	switch {
	case err != nil || r.URL.User != nil:
		complain(w, http.StatusBadRequest, "The request must name a host, such as http://example.com/, without user name and password.")
		return
	case r.URL.Scheme != "http":
		complain(w, http.StatusNotImplemented, "The proxy fetches only plain http itself. Use CONNECT for everything else, as clients do for https.")
		return
	case r.Header.Get("Upgrade") != "":
		complain(w, http.StatusNotImplemented, "Use CONNECT for what is not plain http, as clients do for WebSockets.")
		return
	}
	// The connection to a host is reused for a while, its permission is not.
	if why := b.judge(r.Context(), host, port); why != "" {
		b.refuse(host, port, why)
		status, words := refusalAnswer(refused{b.refusal(host, port, why)})
		http.Error(w, "Parawork: "+words, status)
		return
	}
	transport, done, err := b.transportFor(&r, host, port)
	if err != nil {
		status, words := refusalAnswer(err)
		http.Error(w, "Parawork: "+words, status)
		return
	}
	defer done()
	authority = hostname.Join(host, port)
	p := httputil.ReverseProxy{
		Rewrite: func(pr *httputil.ProxyRequest) {
			// Request exactly what was judged, also from a proxy that resolves the name once more.
			pr.Out.URL.Host, pr.Out.Host = authority, strings.TrimSuffix(authority, ":80")
			if _, said := pr.In.Header["User-Agent"]; !said {
				pr.Out.Header["User-Agent"] = nil // nothing is added
			}
		},
		Transport:     transport,
		FlushInterval: -1,
		ErrorLog:      b.srv.ErrorLog,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			status, words := refusalAnswer(err)
			http.Error(w, "Parawork: "+words, status)
		},
	}
	p.ServeHTTP(w, r)
}

// transportFor returns how to fetch a page: directly, or through the server's own proxy. In the latter case one connection serves every
// host, so the request ends, not the connection, when the host is no longer allowed.
func (b *box) transportFor(r **http.Request, host string, port int) (t http.RoundTripper, done func(), err error) {
	proxy, err := b.upstream("http", host, port)
	if err != nil || proxy == nil {
		return b.plain, func() {}, err
	}
	if _, err := b.addresses((*r).Context(), host, port); inside(err) {
		b.refuse(host, port, executors.PrivateAddress)
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel((*r).Context())
	l := &link{host: host, port: port, end: cancel}
	if !b.hold(l) {
		return nil, nil, refused{b.refusal(host, port, executors.NotListed)}
	}
	*r = (*r).WithContext(ctx)
	b.reached(host, port)
	return b.far, func() { b.drop(l) }, nil
}

// newRemoteTransport fetches pages only through the server's own proxy.
func (b *box) newRemoteTransport() *http.Transport {
	t := b.newTransport()
	t.DialContext = (&net.Dialer{Timeout: b.g.cfg.DialIn}).DialContext
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		proxy, err := b.g.cfg.Upstream(r.URL)
		if err == nil && proxy == nil {
			err = errors.New("no proxy")
		}
		return proxy, err
	}
	return t
}

// newTransport fetches pages over plain HTTP.
func (b *box) newTransport() *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			host, port, err := hostname.Split(addr)
			if err != nil {
				return nil, err
			}
			out, err := b.reach(ctx, host, port)
			if err != nil {
				return nil, err
			}
			p := &page{Conn: out, idle: b.g.cfg.Idle}
			l := &link{host: host, port: port, end: func() { _ = out.Close() }}
			p.done = func() { b.drop(l) }
			if !b.hold(l) {
				return nil, refused{b.refusal(host, port, executors.NotListed)}
			}
			return p, nil
		},
		DisableCompression:     true,
		MaxIdleConns:           16,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        30 * time.Second,
		ResponseHeaderTimeout:  15 * time.Minute, // a model may think for a long time before it answers
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// page is a connection for pages that ends when it is silent too long.
type page struct {
	proxycopy.Conn
	idle time.Duration
	done func()
}

func (p *page) Read(b []byte) (int, error) {
	_ = p.SetReadDeadline(time.Now().Add(p.idle))
	return p.Conn.Read(b)
}

func (p *page) Write(b []byte) (int, error) {
	_ = p.SetWriteDeadline(time.Now().Add(p.idle))
	return p.Conn.Write(b)
}

func (p *page) Close() error {
	p.done()
	return nil
}

func (b *box) refusal(host string, port int, why executors.RefusalReason) executors.Refusal {
	return executors.Refusal{TeamID: b.ticket.TeamID, WorkspaceID: b.ticket.WorkspaceID, Host: host, Port: port, Reason: why}
}

// reached reports that a host was reached.
func (b *box) reached(host string, port int) {
	if b.g.cfg.Reached != nil {
		b.g.cfg.Reached(executors.Reach{TeamID: b.ticket.TeamID, WorkspaceID: b.ticket.WorkspaceID, Host: host, Port: port})
	}
}

// refuse reports that a host was refused.
func (b *box) refuse(host string, port int, why executors.RefusalReason) {
	b.g.cfg.Log.Debug("host refused", "workspace_id", b.ticket.WorkspaceID, "host", host, "port", port, "reason", why)
	if b.g.cfg.Refused != nil {
		b.g.cfg.Refused(b.refusal(host, port, why))
	}
}
