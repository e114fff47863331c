// Package preview shows people what programs in a sandbox serve at a port. Every port of every workspace is an origin of its own,
// below a domain that is not the app's: <port>-<workspace>.<domain>. Agents control what is served there, so it is untrusted for the app,
// the
// viewer and other workspaces: it gets no cookie of ours, and pages of other origins cannot use a person's access to it.
//
// A person arrives with a single-use ticket, which the app gives to those who may see the workspace. It becomes a grant: a cookie of that
// origin alone, bound to the sign-in it was given for. The proxy checks the right behind it with each request, and again while it answers
// one, a WebSocket's included. Tickets and grants live in memory: after a restart of the server people open the port once more.
package preview

import (
	"cmp"
	"container/list"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Config is what a Proxy is made of. Domain, Dial and Check are required.
type Config struct {
	Domain string // ports are shown below it, such as "preview.example.com" or "localhost"
	// Dial connects to a port inside a workspace's sandbox. Only with wake does it wake, or make, a sandbox that sleeps or does not exist.
	// who is what Ticket was given.
	Dial func(ctx context.Context, who any, workspaceID string, port int, wake bool) (net.Conn, error)
	// Check returns why the holder of a grant may not see the workspace now. who is what Ticket was given.
	Check func(ctx context.Context, who any, workspaceID string) error
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
	checkFresh = 2 * time.Second  // how long a checked right is cached
	checkEvery = 30 * time.Second // how often it is checked during a long response
	most       = 10_000
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

var label = regexp.MustCompile(`^([1-9][0-9]{0,4})-([a-z0-9]{10,40})$`)

// workspacePrefix is what ids of workspaces begin with, and names of hosts do not.
const workspacePrefix = "ws_"

// spotOf parses the port a Host header names.
func (p *Proxy) spotOf(host string) (spot, bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	name, ok := strings.CutSuffix(strings.ToLower(strings.TrimSuffix(host, ".")), "."+p.cfg.Domain)
	m := label.FindStringSubmatch(name)
	if !ok || m == nil {
		return spot{}, false
	}
	port, err := strconv.Atoi(m[1])
	return spot{workspacePrefix + m[2], port}, err == nil && port <= 65535
}

// Serves reports whether a Host header names an origin of a port.
func (p *Proxy) Serves(host string) bool {
	_, ok := p.spotOf(host)
	return ok
}

// Address returns where a port is shown. scheme and hostPort say how the app itself is reached: its port is ours.
func (p *Proxy) Address(scheme, hostPort, workspaceID string, port int) string {
	host := fmt.Sprintf("%d-%s.%s", port, strings.TrimPrefix(workspaceID, workspacePrefix), p.cfg.Domain)
	if _, at, err := net.SplitHostPort(hostPort); err == nil {
		host = net.JoinHostPort(host, at)
	}
	return scheme + "://" + host + "/"
}

// enterPath is where a ticket is redeemed. Requests for it never reach a program in a sandbox.
const enterPath = "/.parawork/enter"

// Ticket returns what to append to a port's Address to let who in, once, within a minute.
func (p *Proxy) Ticket(who any, workspaceID string, port int) (string, error) {
	t, err := p.token()
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tickets.put(t, &grant{spot: spot{workspaceID, port}, who: who, until: p.cfg.Now().Add(ticketLife)})
	return strings.TrimPrefix(enterPath, "/") + "?ticket=" + t, nil
}

func (p *Proxy) token() (string, error) {
	var raw [32]byte
	if _, err := io.ReadFull(p.cfg.Rand, raw[:]); err != nil {
		return "", fmt.Errorf("making a ticket: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]), nil
}

// grant is one person's right to see one port from one browser. Guarded by Proxy.mu.
type grant struct {
	spot
	who     any
	until   time.Time
	checked time.Time
}

// shelf stores a limited number of grants; the oldest are dropped.
type shelf struct {
	by    map[string]*list.Element
	order *list.List
}

type kept struct {
	token string
	*grant
}

func newShelf() shelf { return shelf{make(map[string]*list.Element), list.New()} }

func (s shelf) put(token string, g *grant) {
	for s.order.Len() >= most {
		s.drop(s.order.Front().Value.(kept).token)
	}
	s.by[token] = s.order.PushBack(kept{token, g})
}

func (s shelf) get(token string, now time.Time) *grant {
	e := s.by[token]
	if e == nil {
		return nil
	}
	g := e.Value.(kept).grant
	if now.After(g.until) {
		s.drop(token)
		return nil
	}
	return g
}

func (s shelf) drop(token string) {
	if e := s.by[token]; e != nil {
		s.order.Remove(e)
		delete(s.by, token)
	}
}

// Names of the cookie: over https one that no other origin can set.
const (
	hostCookie  = "__Host-parawork_preview"
	plainCookie = "parawork_preview"
)

func (p *Proxy) cookieName(r *http.Request) string {
	if p.cfg.Secure(r) {
		return hostCookie
	}
	return plainCookie
}

// enter exchanges a ticket for a grant.
func (p *Proxy) enter(w http.ResponseWriter, r *http.Request, at spot) {
	ticket := r.URL.Query().Get("ticket")
	p.mu.Lock()
	g := p.tickets.get(ticket, p.cfg.Now())
	p.tickets.drop(ticket)
	p.mu.Unlock()
	if r.Method != http.MethodGet || g == nil || g.spot != at {
		p.refuse(w, r, http.StatusForbidden, "The link was used before or is too old.", "Open the port from Parawork again.")
		return
	}
	token, err := p.token()
	if err != nil {
		p.refuse(w, r, http.StatusInternalServerError, "Something went wrong.", "Try again.")
		return
	}
	p.mu.Lock()
	p.grants.put(token, &grant{spot: at, who: g.who, until: p.cfg.Now().Add(grantLife)})
	p.mu.Unlock()
	h := w.Header()
	http.SetCookie(w, &http.Cookie{Name: p.cookieName(r), Value: token, Path: "/", HttpOnly: true, Secure: p.cfg.Secure(r), SameSite: http.SameSiteLaxMode, MaxAge: int(grantLife.Seconds())})
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// admitted finds the request's grant and checks the right behind it again.
func (p *Proxy) admitted(r *http.Request, at spot) (*grant, error) {
	var g *grant
	var token string
	fresh := false
	p.mu.Lock()
	now := p.cfg.Now()
	for _, c := range r.CookiesNamed(p.cookieName(r)) { // over plain http other origins can add one of the same name
		if found := p.grants.get(c.Value, now); found != nil && found.spot == at {
			g, token, fresh = found, c.Value, now.Sub(found.checked) < checkFresh
			break
		}
	}
	p.mu.Unlock()
	if g == nil {
		return nil, errNoGrant
	}
	if fresh {
		return g, nil
	}
	if err := p.cfg.Check(r.Context(), g.who, at.workspaceID); err != nil {
		if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Internal) {
			p.mu.Lock()
			p.grants.drop(token)
			p.mu.Unlock()
		}
		return nil, errNoGrant
	}
	p.mu.Lock()
	g.checked = p.cfg.Now()
	p.mu.Unlock()
	return g, nil
}

var errNoGrant = fault.New(fault.Unauthorized, "preview_closed", "You have not opened this port from Parawork, or may not see it any more.")

// own returns the origin a request was sent to.
func (p *Proxy) own(r *http.Request) string {
	scheme := "http"
	if p.cfg.Secure(r) {
		scheme = "https"
	}
	return scheme + "://" + strings.ToLower(r.Host)
}

// stranger reports whether a page of another workspace, or of anywhere else, made the browser send this request. Links that people follow do
// not count.
func (p *Proxy) stranger(r *http.Request, at spot) bool {
	if from := r.Header.Get("Origin"); from != "" {
		return !p.kin(from, r, at)
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	if r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		return false
	}
	return !p.kin(r.Header.Get("Referer"), r, at)
}

// kin reports whether an address is of the request's own origin, or of another port of the same workspace.
func (p *Proxy) kin(address string, r *http.Request, at spot) bool {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		return false
	}
	if u.Scheme+"://"+strings.ToLower(u.Host) == p.own(r) {
		return true
	}
	other, ok := p.spotOf(u.Host)
	return ok && other.workspaceID == at.workspaceID && strings.HasPrefix(p.own(r), u.Scheme+":")
}
