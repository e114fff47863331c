package preview

import (
	"container/list"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Paths of the proxy itself, on each origin or below each path of a port. Requests for them never reach a program in a sandbox.
const (
	enterPath  = "/.parawork/enter"      // where a ticket is redeemed
	sharedPath = "/.parawork/shared"     // where a shared link leads
	scriptPath = "/.parawork/preview.js" // what pages in the app's frame load
)

// TokenHeader carries the token of a script. It is not passed on.
const TokenHeader = "X-Parawork-Preview"

// Visit is what a ticket lets somebody see.
type Visit struct {
	Who         any
	Owner       string // the user whose it is: one has a limited number, and connections of their own
	WorkspaceID string
	Port        int
	Path        string // where it leads; "" = the root
	App         string // origin of the app, where its page shows the port in a frame; "" = in a tab of its own
}

// Ticket returns what to append to a port's address to let a person in, once, within a minute.
func (p *Proxy) Ticket(v Visit) (string, error) {
	if v.Path == "" {
		v.Path = "/"
	}
	if !localPath(v.Path) {
		return "", fault.New(fault.Invalid, "invalid_path", "A path of a preview begins with one / and has no backslash or control character.").With("field", "path")
	}
	g := &grant{spot: spot{v.WorkspaceID, v.Port}, who: v.Who, owner: v.Owner, until: p.cfg.Now().Add(ticketLife), path: v.Path, app: v.App}
	token, err := p.keep(&p.tickets, g)
	return strings.TrimPrefix(enterPath, "/") + "?ticket=" + token, err
}

// Token returns a token that lets a script reach a port until a time, in the header TokenHeader of each request.
func (p *Proxy) Token(v Visit) (string, time.Time, error) {
	until := p.cfg.Now().Add(tokenLife)
	token, err := p.keep(&p.grants, &grant{spot: spot{v.WorkspaceID, v.Port}, who: v.Who, owner: v.Owner, until: until, via: byHeader})
	return token, until, err
}

// localPath reports whether a redirect to a path stays on its origin.
func localPath(path string) bool {
	return len(path) <= 2000 && strings.HasPrefix(path, "/") && !strings.HasPrefix(path, "//") &&
		!strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r < ' ' || r == 0x7f })
}

func (p *Proxy) token() (string, error) {
	var raw [32]byte
	if _, err := io.ReadFull(p.cfg.Rand, raw[:]); err != nil {
		return "", fmt.Errorf("making a ticket: %w", err)
	}
	return base64.RawURLEncoding.EncodeToString(raw[:]), nil
}

func (p *Proxy) keep(on *shelf, g *grant) (string, error) {
	token, err := p.token()
	if err != nil {
		return "", err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	on.put(token, g)
	return token, nil
}

// How a request shows its grant. A grant that was given for one way holds for no other.
type way int

const (
	byCookie way = iota
	byFrame      // a cookie that the browser sends in a frame of the app alone
	byPath
	byHeader
)

// grant is one person's right to see one port from one browser or script. Guarded by Proxy.mu.
type grant struct {
	spot
	who      any
	owner    string // a user or, of what a link opened, the link
	until    time.Time
	checked  time.Time
	via      way
	arriving bool   // nothing was asked with it so far
	path     string // of a ticket: where it leads
	link     string // the id of the shared link it was opened by, "" = none
	app      string // the origin that may show the port in a frame
}

// shelf stores a limited number of grants; the oldest are dropped, first those of an owner who has too many.
type shelf struct {
	by    map[string]*list.Element
	order *list.List
	of    map[string]int // how many each owner has
}

type kept struct {
	token string
	*grant
}

func newShelf() shelf { return shelf{make(map[string]*list.Element), list.New(), make(map[string]int)} }

func (s shelf) put(token string, g *grant) {
	if alone := s.of[g.owner] >= mostOfOne; alone || s.order.Len() >= most {
		e := s.order.Front()
		for alone && e.Value.(kept).owner != g.owner {
			e = e.Next()
		}
		s.drop(e.Value.(kept).token)
	}
	s.by[token] = s.order.PushBack(kept{token, g})
	s.of[g.owner]++
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
		owner := e.Value.(kept).owner
		if s.of[owner]--; s.of[owner] == 0 {
			delete(s.of, owner)
		}
	}
}

// Names of the cookies: over https ones that no other origin can set. A frame has a cookie of its own, which its site alone sees.
const (
	securePrefix = "__Host-"
	plainCookie  = "parawork_preview"
	frameCookie  = "parawork_preview_frame"
)

func (p *Proxy) cookieName(r *http.Request, via way) string {
	name := plainCookie
	if via == byFrame {
		name = frameCookie
	}
	if p.cfg.Secure(r) {
		return securePrefix + name
	}
	return name
}

// ours reports whether a cookie is one of Parawork's.
func ours(name string) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimPrefix(strings.TrimPrefix(name, securePrefix), "__Secure-")), "parawork")
}

// enter exchanges a ticket or a shared link for a grant, and leads to the page.
func (p *Proxy) enter(w http.ResponseWriter, r *http.Request, at spot, inPath bool) {
	g := p.redeem(r, at)
	if r.Method != http.MethodGet || g == nil {
		p.refuse(w, r, refusal{status: http.StatusForbidden, words: "This link was used before, is too old or was revoked.", cure: "Open the port from Parawork, or ask for a new link."})
		return
	}
	g.checked, g.arriving = time.Time{}, true
	switch {
	case inPath:
		g.via = byPath
	case g.app != "":
		g.via = byFrame
	}
	to := g.path
	token, err := p.keep(&p.grants, g)
	if err != nil {
		p.refuse(w, r, refusal{status: http.StatusInternalServerError, words: "Something went wrong.", cure: "Try again."})
		return
	}
	if inPath {
		to = PathRoot + at.label() + "/" + token + to
	} else {
		http.SetCookie(w, p.cookie(r, g, token))
	}
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, to, http.StatusSeeOther)
}

// redeem finds what a request to enter stands on: nil = nothing.
func (p *Proxy) redeem(r *http.Request, at spot) *grant {
	now := p.cfg.Now()
	if r.URL.Path == sharedPath {
		return p.byLink(r.Context(), r.URL.Query().Get("link"), at)
	}
	ticket := r.URL.Query().Get("ticket")
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.tickets.get(ticket, now)
	p.tickets.drop(ticket)
	if t == nil || t.spot != at {
		return nil
	}
	return &grant{spot: at, who: t.who, owner: t.owner, until: now.Add(grantLife), path: t.path, app: t.app}
}

func (p *Proxy) cookie(r *http.Request, g *grant, token string) *http.Cookie {
	c := &http.Cookie{Name: p.cookieName(r, g.via), Value: token, Path: "/", HttpOnly: true, Secure: p.cfg.Secure(r), SameSite: http.SameSiteLaxMode, MaxAge: int(g.until.Sub(p.cfg.Now()).Seconds())}
	if g.via == byFrame && p.trustworthy(r) { // the app is another site
		c.Secure, c.SameSite, c.Partitioned = true, http.SameSiteNoneMode, true
	}
	return c
}

// trustworthy reports whether browsers accept secure cookies from a request's origin: https, and names of this machine.
func (p *Proxy) trustworthy(r *http.Request) bool {
	return p.cfg.Secure(r) || p.cfg.Domain == "localhost"
}

// admitted finds the request's grant and checks the right behind it again. first: nothing was asked with it so far. token is the one in the path.
func (p *Proxy) admitted(r *http.Request, at spot, inPath bool, token string) (g *grant, first bool, err error) {
	p.mu.Lock()
	now := p.cfg.Now()
	look := func(with string, via way) bool {
		if found := p.grants.get(with, now); found != nil && found.spot == at && found.via == via {
			g, token = found, with
		}
		return g != nil
	}
	switch with := r.Header.Get(TokenHeader); {
	case with != "":
		look(with, byHeader)
	case inPath:
		look(token, byPath)
	default:
		for _, via := range [...]way{byFrame, byCookie} {
			for _, c := range r.CookiesNamed(p.cookieName(r, via)) { // over plain http other origins can add one of the same name
				if g == nil {
					look(c.Value, via)
				}
			}
		}
	}
	fresh := g != nil && now.Sub(g.checked) < checkFresh
	if g != nil {
		first, g.arriving = g.arriving, false
	}
	p.mu.Unlock()
	if g == nil {
		return nil, false, errNoGrant
	}
	if fresh {
		return g, first, nil
	}
	if err := p.cfg.Check(r.Context(), g.who, at.workspaceID); err != nil {
		if !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Internal) {
			p.mu.Lock()
			p.grants.drop(token)
			p.mu.Unlock()
		}
		return nil, false, errNoGrant
	}
	p.mu.Lock()
	g.checked = p.cfg.Now()
	p.mu.Unlock()
	return g, first, nil
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
