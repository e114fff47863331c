package egress

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/tasks"
)

// TunnelConfig says where a Tunnel leads.
type TunnelConfig struct {
	Guard Guard
	// Proxy returns the server's own proxy for a target, as http.Transport takes it; nil, or a nil URL, = none.
	Proxy func(*url.URL) (*url.URL, error)
	// Resolve looks a name up; nil = the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
}

// Tunnel is the way out for one program of ours that connects to addresses chosen by people, such as git: an HTTP proxy on this machine's
// loopback that accepts only CONNECT, only with its one-time secret. It resolves and judges each name, and dials exactly what it judged.
type Tunnel struct {
	cfg      TunnelConfig
	listener net.Listener
	secret   string
	work     *tasks.Scope

	mu      sync.Mutex
	refused string
}

// tunnelUser is the user name that goes with the secret.
const tunnelUser = "parawork"

// Limits of a request to a tunnel.
const (
	maxTunnelHead  = 8 << 10
	tunnelPatience = 20 * time.Second // for a request, and for a connection
	mostInTunnel   = 64
)

// OpenTunnel opens a tunnel. Close it.
func OpenTunnel(ctx context.Context, cfg TunnelConfig) (*Tunnel, error) {
	if cfg.Resolve == nil {
		cfg.Resolve = func(ctx context.Context, host string) ([]netip.Addr, error) {
			return net.DefaultResolver.LookupNetIP(ctx, "ip", host)
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening a tunnel: %w", err)
	}
	t := &Tunnel{cfg: cfg, listener: l, secret: rand.Text(), work: tasks.NewScope(context.WithoutCancel(ctx))}
	t.work.Go(t.serve)
	return t, nil
}

// URL is the tunnel's address with its secret: for an environment, never for arguments or logs.
func (t *Tunnel) URL() string {
	return "http://" + tunnelUser + ":" + t.secret + "@" + t.listener.Addr().String()
}

// Refused is the first target that was refused, "" when none was.
func (t *Tunnel) Refused() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.refused
}

// Close ends the tunnel and every connection through it, and returns when they have ended.
func (t *Tunnel) Close() {
	_ = t.listener.Close()
	t.work.End(net.ErrClosed)
}

func (t *Tunnel) serve() {
	seats := make(chan struct{}, mostInTunnel)
	for {
		conn, err := t.listener.Accept()
		if err != nil {
			return
		}
		select {
		case seats <- struct{}{}:
		default:
			_ = conn.Close()
			continue
		}
		if !t.work.Go(func() {
			defer func() { <-seats }()
			defer conn.Close()
			defer context.AfterFunc(t.work.Context(), func() { _ = conn.Close() })()
			t.carry(conn)
		}) {
			_ = conn.Close()
			return
		}
	}
}

// carry handles one connection.
func (t *Tunnel) carry(conn net.Conn) {
	_ = conn.SetDeadline(time.Now().Add(tunnelPatience))
	head := &io.LimitedReader{R: conn, N: maxTunnelHead}
	r := bufio.NewReader(head)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	say := func(status int, words string) {
		_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nProxy-Authenticate: Basic realm=\"parawork\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status, words)
	}
	if !t.knows(req.Header.Get("Proxy-Authorization")) {
		say(http.StatusProxyAuthRequired, "Proxy Authentication Required")
		return
	}
	host, port, err := net.SplitHostPort(req.Host)
	if req.Method != http.MethodConnect || err != nil || host == "" {
		say(http.StatusMethodNotAllowed, "Only CONNECT host:port is accepted")
		return
	}
	ctx, cancel := context.WithTimeout(t.work.Context(), tunnelPatience)
	defer cancel()
	out, err := t.dial(ctx, host, port, req.Header.Get(directHeader) != "")
	switch {
	case errors.Is(err, ErrRefused):
		t.mu.Lock()
		t.refused = cmp.Or(t.refused, host)
		t.mu.Unlock()
		say(http.StatusForbidden, "The address is inside a network this server does not reach out to")
		return
	case err != nil:
		say(http.StatusBadGateway, strings.Map(oneLine, Words(err)))
		return
	}
	defer out.Close()
	defer context.AfterFunc(t.work.Context(), func() { _ = out.Close() })()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connected\r\n\r\n"); err != nil {
		return
	}
	_ = conn.SetDeadline(time.Time{})
	head.N = 1 << 62
	join(conn, r, out)
}

func oneLine(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}

func (t *Tunnel) knows(auth string) bool {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(tunnelUser+":"+t.secret))
	return subtle.ConstantTimeCompare([]byte(auth), []byte(want)) == 1
}

// dial resolves a name once, judges each address, and connects to one that was judged.
func (t *Tunnel) dial(ctx context.Context, host, port string, direct bool) (net.Conn, error) {
	var proxy *url.URL
	if t.cfg.Proxy != nil && !direct {
		var err error
		if proxy, err = t.cfg.Proxy(&url.URL{Scheme: "https", Host: net.JoinHostPort(host, port)}); err != nil {
			return nil, fmt.Errorf("choosing the proxy: %w", err)
		}
	}
	targets, err := t.judge(ctx, host, port)
	var unknown *net.DNSError
	if proxy != nil {
		// Where only the server's own proxy can resolve names, that proxy decides where they lead.
		if err != nil && !(errors.As(err, &unknown) && unknown.IsNotFound) {
			return nil, err
		}
		return throughProxy(ctx, proxy, net.JoinHostPort(host, port))
	}
	if err != nil {
		return nil, err
	}
	var d net.Dialer
	var last error
	for i, to := range targets {
		each, cancel := context.WithTimeout(ctx, tunnelPatience/time.Duration(len(targets)-i))
		conn, err := d.DialContext(each, "tcp", to.String())
		cancel()
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// judge returns the addresses of a name that may be dialed. It refuses a name that leads both inside and outside as a whole: no legitimate
// name does.
func (t *Tunnel) judge(ctx context.Context, host, port string) ([]netip.AddrPort, error) {
	var ips []netip.Addr
	if ip, err := netip.ParseAddr(host); err == nil {
		ips = []netip.Addr{ip}
	} else if ips, err = t.cfg.Resolve(ctx, host); err != nil {
		return nil, err
	}
	var out []netip.AddrPort
	for _, ip := range ips {
		ap, err := netip.ParseAddrPort(net.JoinHostPort(ip.Unmap().WithZone("").String(), port))
		if err != nil {
			return nil, err
		}
		if err := t.cfg.Guard.Check(ap); err != nil {
			return nil, err
		}
		out = append(out, ap)
	}
	if len(out) == 0 {
		return nil, &net.DNSError{Err: "no address", Name: host, IsNotFound: true}
	}
	return out, nil
}

// throughProxy connects to target through the server's own proxy.
func throughProxy(ctx context.Context, proxy *url.URL, target string) (net.Conn, error) {
	port := proxy.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[proxy.Scheme]
	}
	if port == "" {
		return nil, errors.New("only http:// and https:// proxies are known")
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(proxy.Hostname(), port))
	if err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	if proxy.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: proxy.Hostname()})
	}
	out, err := askProxy(conn, proxy.User, target, "")
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return out, nil
}

// askProxy asks the proxy at the other end of conn to connect to target.
func askProxy(conn net.Conn, user *url.Userinfo, target, further string) (net.Conn, error) {
	head := "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n" + further
	if user != nil {
		password, _ := user.Password()
		head += "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)) + "\r\n"
	}
	if _, err := io.WriteString(conn, head+"\r\n"); err != nil {
		return nil, err
	}
	limited := &io.LimitedReader{R: conn, N: maxTunnelHead}
	r := bufio.NewReader(limited)
	resp, err := http.ReadResponse(r, &http.Request{Method: http.MethodConnect})
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(strings.Map(oneLine, resp.Status))
	}
	limited.N = 1 << 62
	return &readFirst{conn, r}, nil
}

// readFirst is a connection of which some bytes were read ahead.
type readFirst struct {
	net.Conn
	r io.Reader
}

func (c *readFirst) Read(p []byte) (int, error) { return c.r.Read(p) }

// CloseWrite says that nothing more is sent.
func (c *readFirst) CloseWrite() error { return closeWrite(c.Conn) }

func closeWrite(c net.Conn) error {
	if half, ok := c.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return c.Close()
}

// join copies bytes in both directions until both ends have closed.
func join(a net.Conn, fromA io.Reader, b net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(b, fromA); _ = closeWrite(b) })
	_, _ = io.Copy(a, b)
	_ = closeWrite(a)
	both.Wait()
}
