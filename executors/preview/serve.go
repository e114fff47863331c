package preview

import (
	"context"
	"errors"
	"html/template"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// visit is the state of a request on its way.
type visit struct {
	spot
	own   string // the origin the browser requested
	inner string // the origin the program believes it has
	who   any    // who has opened the port
	wake  bool
}

type visitKey struct{}

// ServeHTTP forwards a request for a port's origin to the program, for the person who opened it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := p.spotOf(r.Host)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.URL.Path == enterPath {
		p.enter(w, r, at)
		return
	}
	if p.stranger(r, at) {
		p.refuse(w, r, http.StatusForbidden, "A page of another origin asked for this.", "Open the port from Parawork.")
		return
	}
	g, err := p.admitted(r, at)
	if err != nil {
		p.refuse(w, r, http.StatusUnauthorized, errNoGrant.Message, "Open the port from Parawork.")
		return
	}
	// Not only a WebSocket lasts long: so does a stream of events, or a response that never ends.
	ctx, end := context.WithCancel(r.Context())
	defer end()
	go p.guard(ctx, end, g) // ends with the request
	v := visit{spot: at, who: g.who, own: p.own(r), inner: "http://localhost:" + strconv.Itoa(at.port), wake: r.Header.Get("Sec-Fetch-Mode") != "cors" && r.Header.Get("Upgrade") == ""}
	p.forward.ServeHTTP(w, r.WithContext(context.WithValue(ctx, visitKey{}, v)))
}

// guard ends a connection whose right is withdrawn.
func (p *Proxy) guard(ctx context.Context, end context.CancelFunc, g *grant) {
	tick := time.NewTicker(p.every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := p.cfg.Check(ctx, g.who, g.workspaceID); err != nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Internal) {
			end()
			return
		}
	}
}

// rewrite makes the request look to the program as if its own machine had sent it: development servers reject other host names.
func rewrite(r *httputil.ProxyRequest) {
	v := r.In.Context().Value(visitKey{}).(visit)
	r.Out.URL.Scheme, r.Out.URL.Host = "http", net.JoinHostPort(v.workspaceID, strconv.Itoa(v.port))
	r.Out.Host = strings.TrimPrefix(v.inner, "http://")
	h := r.Out.Header
	for _, name := range [...]string{"Origin", "Referer"} {
		if was := h.Get(name); was == v.own || strings.HasPrefix(was, v.own+"/") {
			h.Set(name, v.inner+strings.TrimPrefix(was, v.own))
		}
	}
	own, _ := url.Parse(v.own)
	h.Set("X-Forwarded-Host", own.Host)
	h.Set("X-Forwarded-Proto", own.Scheme)
	for _, name := range [...]string{"X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"} { // the program must not learn who looks
		h.Del(name)
	}
	if strings.HasPrefix(strings.ToLower(h.Get("Authorization")), "bearer pw_") { // a token of ours is not meant for the program
		h.Del("Authorization")
	}
	cookies := r.In.Cookies()
	h.Del("Cookie")
	for _, c := range cookies {
		if c.Name != hostCookie && c.Name != plainCookie {
			r.Out.AddCookie(c)
		}
	}
}

// clean removes from a response what would reach beyond the port's origin.
func (p *Proxy) clean(resp *http.Response) error {
	v := resp.Request.Context().Value(visitKey{}).(visit)
	h := resp.Header
	for _, name := range [...]string{"Strict-Transport-Security", "Alt-Svc", "Public-Key-Pins"} {
		h.Del(name)
	}
	h.Set("X-Robots-Tag", "noindex, nofollow")
	set := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, line := range set {
		c, err := http.ParseSetCookie(line)
		if err != nil || c.Name == hostCookie || c.Name == plainCookie {
			continue
		}
		if c.Domain != "" { // no cookie for the origins of other workspaces
			line = dropAttribute(line, "domain")
		}
		h.Add("Set-Cookie", line)
	}
	if to := h.Get("Location"); to != "" {
		for _, inner := range [...]string{v.inner, "http://127.0.0.1:" + strconv.Itoa(v.port)} {
			if to == inner || strings.HasPrefix(to, inner+"/") || strings.HasPrefix(to, inner+"?") {
				h.Set("Location", v.own+strings.TrimPrefix(to, inner))
			}
		}
	}
	return nil
}

// dropAttribute removes an attribute from the line of a cookie.
func dropAttribute(line, name string) string {
	parts := strings.Split(line, ";")
	keep := parts[:1]
	for _, part := range parts[1:] {
		key, _, _ := strings.Cut(strings.TrimSpace(part), "=")
		if !strings.EqualFold(key, name) {
			keep = append(keep, part)
		}
	}
	return strings.Join(keep, ";")
}

// dial connects to what the address names: a workspace and a port.
func (p *Proxy) dial(ctx context.Context, _, address string) (net.Conn, error) {
	id, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		return nil, err
	}
	v, _ := ctx.Value(visitKey{}).(visit)
	return p.cfg.Dial(ctx, v.who, id, port, v.wake)
}

// failed says why the program could not be reached.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil {
		return
	}
	v, _ := r.Context().Value(visitKey{}).(visit)
	words, cure := "The program did not answer.", "Look at its terminal, then reload."
	var f *fault.Error
	if errors.As(err, &f) {
		words, cure = f.Message, "Reload once that has changed."
		if f.Code == "port_closed" {
			words, cure = "No program listens at port "+strconv.Itoa(v.port)+" of the sandbox.", "Start it in the workspace; this page tries again on its own."
			w.Header().Set("Refresh", "3")
		}
	}
	p.cfg.Log.Debug("a port could not be reached", "workspace_id", v.workspaceID, "port", v.port, "error", err)
	p.refuse(w, r, http.StatusBadGateway, words, cure)
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Preview</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto 0;padding:0 1.5rem}h1{font-size:1.25rem}</style>
<main><h1>{{.Words}}</h1><p>{{.Cure}}</p></main></html>
`))

// refuse answers for the proxy, not for the program.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, status int, words, cure string) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(words + " " + cure + "\n"))
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_ = page.Execute(w, struct{ Words, Cure string }{words, cure})
}
