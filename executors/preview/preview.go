// Package preview shows people what programs in a sandbox serve at a port. Every port of every workspace is an origin of its own,
// below a domain that is not the app's: <port>-<workspace>.<domain>. Where there is no such domain, ports are shown below a path of a second
// origin, in a browser sandbox that gives each page an origin of its own without cookies or storage. Agents control what is served there, so
// it is untrusted for the app, the viewer and other workspaces: it gets no cookie of ours, and pages of other origins cannot use a person's
// access to it.
//
// A person arrives with a single-use ticket, which the app gives to those who may see the workspace, or by a link that somebody shared. Either
// becomes a grant: a cookie of that origin alone, or a part of the path, bound to the sign-in or link it was given for. Scripts send a token in
// a header. The proxy checks the right behind it with each request, and again while it answers one, a WebSocket's included. Tickets,
// grants and the tokens of scripts live in memory: after a restart of the server people open the port, or the link, once more.
package preview

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Config is what a Proxy is made of. Dial, Check, Links and Sharer are required.
type Config struct {
	Domain string // ports are shown below it, such as "preview.example.com" or "localhost"; "" = only below a path
	// Dial connects to a port inside a workspace's sandbox. Only with wake does it wake, or make, a sandbox that sleeps or does not exist.
	// who is what Ticket was given.
	Dial func(ctx context.Context, who any, workspaceID string, port int, wake bool) (net.Conn, error)
	// Check returns why the holder of a grant may not see the workspace now. who is what Ticket was given.
	Check func(ctx context.Context, who any, workspaceID string) error
	Links LinkStore
	// Sharer is who has the right behind a link that a user made: Check and Dial are given it.
	Sharer func(userID string) any
	// Secure reports whether the browser spoke https, to us or to a proxy before us.
	Secure func(r *http.Request) bool
	Now    func() time.Time
	Rand   io.Reader
	Log    *slog.Logger
}

// Proxy serves the origins of ports. Safe for concurrent use; its only goroutines are those of requests under way.
type Proxy struct {
	cfg     Config
	forward *httputil.ReverseProxy
	every   time.Duration // checkEvery

	mu      sync.Mutex
	tickets shelf
	grants  shelf
}

// Lifetimes of tickets and grants, and how many there are at most.
const (
	ticketLife = time.Minute
	grantLife  = 12 * time.Hour
	tokenLife  = time.Hour
	checkFresh = 2 * time.Second  // how long a checked right is cached
	checkEvery = 30 * time.Second // how often it is checked during a long response
	most       = 20_000
	mostOfOne  = 1_000 // of one person, or opened by one link
)

// New makes a Proxy.
func New(cfg Config) *Proxy {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	if cfg.Secure == nil {
		cfg.Secure = func(r *http.Request) bool { return r.TLS != nil }
	}
	cfg.Domain = strings.ToLower(strings.Trim(cfg.Domain, "."))
	p := &Proxy{cfg: cfg, every: checkEvery, tickets: newShelf(), grants: newShelf()}
	p.forward = &httputil.ReverseProxy{Rewrite: rewrite, ModifyResponse: p.clean, ErrorHandler: p.failed, FlushInterval: -1,
		ErrorLog: slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
		Transport: &http.Transport{DialContext: p.dial, DisableCompression: true, MaxConnsPerHost: 128, MaxIdleConnsPerHost: 16,
			IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 256 << 10}}
	return p
}

// Close closes idle connections.
func (p *Proxy) Close() { p.forward.Transport.(*http.Transport).CloseIdleConnections() }

// spot is one port of one workspace.
type spot struct {
	workspaceID string
	port        int
}

var label = regexp.MustCompile(`^([1-9][0-9]{0,4})-(?:([a-z]{2,3})-)?([a-z0-9]{10,40})$`)

// workspacePrefix is what ids of workspaces begin with. Labels leave it out, and name another prefix: 80-0123456789 and 80-sbx-0123456789.
const workspacePrefix = "ws"

// label names a port in an address.
func (s spot) label() string {
	prefix, body, _ := strings.Cut(s.workspaceID, "_")
	if prefix == workspacePrefix {
		return fmt.Sprintf("%d-%s", s.port, body)
	}
	return fmt.Sprintf("%d-%s-%s", s.port, prefix, body)
}

// parseLabel is the reverse of label.
func parseLabel(text string) (spot, bool) {
	m := label.FindStringSubmatch(text)
	if m == nil || m[2] == workspacePrefix {
		return spot{}, false
	}
	port, err := strconv.Atoi(m[1])
	return spot{cmp.Or(m[2], workspacePrefix) + "_" + m[3], port}, err == nil && port <= 65535
}

// spotOf parses the port a Host header names.
func (p *Proxy) spotOf(host string) (spot, bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	name, ok := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+p.cfg.Domain)
	if !ok || p.cfg.Domain == "" {
		return spot{}, false
	}
	return parseLabel(name)
}

// Serves reports whether a Host header names an origin of a port.
func (p *Proxy) Serves(host string) bool {
	_, ok := p.spotOf(host)
	return ok
}

// Address returns where a port is shown on an origin of its own. scheme and hostPort say how the app itself is reached: its port is ours.
func (p *Proxy) Address(scheme, hostPort, workspaceID string, port int) string {
	host := spot{workspaceID, port}.label() + "." + p.cfg.Domain
	if _, at, err := net.SplitHostPort(hostPort); err == nil {
		host = net.JoinHostPort(host, at)
	}
	return scheme + "://" + host + "/"
}

// PathRoot is what paths of ports begin with on an origin that shows all of them.
const PathRoot = "/preview/"

// PathAddress returns where a port is shown below a path of an origin, such as http://192.168.1.5:8081.
func PathAddress(origin, workspaceID string, port int) string {
	return origin + PathRoot + spot{workspaceID, port}.label() + "/"
}
