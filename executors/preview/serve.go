package preview

import (
	"cmp"
	"context"
	"errors"
	"html/template"
	"net"
	"net/http"
	"net/http/httputil"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// visit is the state of a request on its way.
type visit struct {
	spot
	own    string // the origin the browser requested
	base   string // the path below which the port is shown, "" = an origin of its own
	inner  string // the origin the program believes it has
	who    any    // who has opened the port
	owner  string // of the grant
	wake   bool
	app    string // the origin of the app, where its page may frame the port
	inject bool   // pages get the proxy's script
	apart  bool   // the frame's cookies are of another site than the app
}

type visitKey struct{}

// ServeHTTP forwards a request for a port's origin to the program, for whoever may see it.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	at, ok := p.spotOf(r.Host)
	if !ok {
		http.NotFound(w, r)
		return
	}
	p.serve(w, r, at, "")
}

// ServePath forwards requests below PathRoot. Nothing else on the origin may be worth protecting from the pages there, though each has an
// origin of its own: the browser puts them into a sandbox.
func (p *Proxy) ServePath(w http.ResponseWriter, r *http.Request) {
	name, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, PathRoot), "/")
	at, ok := parseLabel(name)
	if !strings.HasPrefix(r.URL.Path, PathRoot) || !ok {
		p.refuse(w, r, refusal{status: http.StatusNotFound, words: "This address is outside the preview.",
			cure: "The page asked for a path of this origin that is not below its own. Have the program use relative addresses, or set preview.baseDomain."})
		return
	}
	if path := "/" + rest; path == enterPath || path == sharedPath {
		r = within(r, PathRoot+name)
		p.enter(w, r, at, true)
		return
	}
	token, _, _ := strings.Cut(rest, "/")
	p.serve(w, r, at, PathRoot+name+"/"+token)
}

// NoToken stands in a path for a token that a header carries.
const NoToken = "-"

// within returns a request as it is below a path.
func within(r *http.Request, base string) *http.Request {
	u := *r.URL
	u.Path, u.RawPath = strings.TrimPrefix(u.Path, base), strings.TrimPrefix(u.RawPath, base)
	if u.Path == "" {
		u.Path = "/"
	}
	out := *r
	out.URL = &u
	return &out
}

func (p *Proxy) serve(w http.ResponseWriter, r *http.Request, at spot, base string) {
	inPath := base != ""
	if inPath {
		if r.Method == http.MethodOptions && r.Header.Get("Origin") == "null" && r.Header.Get("Access-Control-Request-Method") != "" {
			preflight(w, r)
			return
		}
		if r.URL.Path == base { // so that relative addresses are below it
			http.Redirect(w, r, base+"/", http.StatusSeeOther)
			return
		}
		r = within(r, base)
	} else if r.URL.Path == enterPath || r.URL.Path == sharedPath {
		p.enter(w, r, at, false)
		return
	}
	g, first, err := p.admitted(r, at, inPath, base[strings.LastIndexByte(base, '/')+1:])
	// A frame that the app made has arrived with the ticket it was given.
	arrived := err == nil && first && g.via == byFrame && r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Dest") == "iframe"
	if !inPath && r.Header.Get(TokenHeader) == "" && !arrived && p.stranger(r, at) {
		p.refuse(w, r, refusal{status: http.StatusForbidden, words: "A page of another origin asked for this.", cure: "Open the port from Parawork."})
		return
	}
	if err != nil {
		p.refuse(w, r, refusal{status: http.StatusUnauthorized, words: errNoGrant.Message, cure: "Open the port from Parawork."})
		return
	}
	if inPath && r.Header.Get("Service-Worker") != "" { // it would answer for all ports of the origin
		p.refuse(w, r, refusal{status: http.StatusForbidden, words: "A preview below a path has no service worker.", cure: "Set preview.baseDomain."})
		return
	}
	if r.URL.Path == scriptPath {
		serveScript(w)
		return
	}
	// Not only a WebSocket lasts long: so does a stream of events, or a response that never ends.
	ctx, end := context.WithCancel(r.Context())
	defer end()
	go p.guard(ctx, end, g) // ends with the request
	dest := r.Header.Get("Sec-Fetch-Dest")
	v := visit{spot: at, who: g.who, owner: g.owner, own: p.own(r), base: base, inner: "http://localhost:" + strconv.Itoa(at.port), app: g.app, apart: g.via == byFrame && p.trustworthy(r),
		// Not a page that reloads itself; nor whoever a page told its path: a program that is no browser says what it likes of itself.
		wake:   g.link == "" && (first || g.via == byHeader || g.via != byPath && r.Header.Get("Sec-Fetch-User") == "?1"),
		inject: strings.Contains(r.Header.Get("Accept"), "text/html") && (g.via == byPath || g.via == byFrame && (dest == "" || dest == "iframe"))}
	p.forward.ServeHTTP(final{w}, r.WithContext(context.WithValue(ctx, visitKey{}, v)))
}

// final drops interim responses (103 Early Hints): their headers pass no clean.
type final struct{ http.ResponseWriter }

// WriteHeader sends the headers of a response that is not interim.
func (f final) WriteHeader(status int) {
	if status >= 200 || status == http.StatusSwitchingProtocols {
		f.ResponseWriter.WriteHeader(status)
	}
}

// Unwrap lets an http.ResponseController flush and hijack.
func (f final) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// preflight lets a page of the browser's sandbox, whose origin is null, ask below its own path.
func preflight(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	allowNull(h)
	h.Set("Access-Control-Allow-Methods", r.Header.Get("Access-Control-Request-Method"))
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	w.WriteHeader(http.StatusNoContent)
}

func allowNull(h http.Header) {
	h.Set("Access-Control-Allow-Origin", "null")
	h.Set("Access-Control-Allow-Credentials", "true")
	h.Set("Access-Control-Expose-Headers", "*")
	h.Add("Vary", "Origin")
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
		if p.ended(ctx, g) {
			end()
			return
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
	// Nobody is served by a connection that was opened for somebody else: the owner of a machine may have been asked for one person.
	r.Out.URL.Scheme, r.Out.URL.Host = "http", net.JoinHostPort(v.workspaceID+"."+v.owner, strconv.Itoa(v.port))
	r.Out.Host = strings.TrimPrefix(v.inner, "http://")
	h := r.Out.Header
	for _, name := range [...]string{"Origin", "Referer"} {
		if was := h.Get(name); was == v.own || strings.HasPrefix(was, v.own+"/") {
			h.Set(name, v.inner+strings.TrimPrefix(strings.TrimPrefix(was, v.own), v.base))
		}
	}
	if v.base != "" && h.Get("Origin") == "null" {
		h.Set("Origin", v.inner)
	}
	if v.inject {
		h.Set("Accept-Encoding", "identity")
	}
	scheme, host, _ := strings.Cut(v.own, "://")
	h.Set("X-Forwarded-Host", host)
	h.Set("X-Forwarded-Proto", scheme)
	for _, name := range [...]string{TokenHeader, "X-Real-Ip", "Cf-Connecting-Ip", "True-Client-Ip"} { // the program must not learn who looks
		h.Del(name)
	}
	if strings.HasPrefix(strings.ToLower(h.Get("Authorization")), "bearer pw_") { // a token of ours is not meant for the program
		h.Del("Authorization")
	}
	cookies := r.In.Cookies()
	h.Del("Cookie")
	for _, c := range cookies {
		if v.base == "" && !ours(c.Name) { // below a path the host's cookies are those of the app and other workspaces
			r.Out.AddCookie(c)
		}
	}
}

// clean removes from a response what would reach beyond the port's origin.
func (p *Proxy) clean(resp *http.Response) error {
	v := resp.Request.Context().Value(visitKey{}).(visit)
	h := resp.Header
	// What browsers apply to the whole site, or report about it: the addresses below a path have access in them.
	for _, name := range [...]string{"Strict-Transport-Security", "Alt-Svc", "Public-Key-Pins", "Clear-Site-Data", "Nel", "Report-To", "Reporting-Endpoints"} {
		h.Del(name)
	}
	h.Set("X-Robots-Tag", "noindex, nofollow")
	v.cleanCookies(h)
	v.confine(h, resp.Request)
	if to := h.Get("Location"); to != "" {
		h.Set("Location", v.outward(to))
	}
	if resp.StatusCode != http.StatusSwitchingProtocols && resp.Request.Method != http.MethodHead {
		v.edit(resp)
	}
	return nil
}

func (v visit) cleanCookies(h http.Header) {
	set := h.Values("Set-Cookie")
	h.Del("Set-Cookie")
	for _, line := range set {
		c, err := http.ParseSetCookie(line)
		if err != nil || ours(c.Name) || v.base != "" {
			continue
		}
		if c.Domain != "" { // no cookie for the origins of other workspaces
			line = dropAttribute(line, "domain")
		}
		if v.apart { // otherwise the browser sends it in no frame of the app
			for _, name := range [...]string{"samesite", "secure", "partitioned"} {
				line = dropAttribute(line, name)
			}
			line += "; SameSite=None; Secure; Partitioned"
		}
		h.Add("Set-Cookie", line)
	}
}

// sandbox is what pages below a path may do. Without allow-same-origin each has an origin of its own: no cookies, no storage, no service worker.
const sandbox = "sandbox allow-scripts allow-forms allow-modals allow-popups allow-downloads allow-pointer-lock allow-presentation"

// confine says in a response's headers who may frame it, and what it may do.
func (v visit) confine(h http.Header, r *http.Request) {
	if v.base != "" {
		for _, name := range [...]string{"X-Frame-Options", "Cross-Origin-Resource-Policy", "Cross-Origin-Opener-Policy", "Cross-Origin-Embedder-Policy", "Access-Control-Allow-Origin", "Access-Control-Allow-Credentials",
			"Www-Authenticate"} { // a browser would send one program's password to others
			h.Del(name)
		}
		dropAncestors(h)
		h.Add("Content-Security-Policy", sandbox)
		h.Set("Referrer-Policy", "no-referrer") // the path has the token
		allowNull(h)
		return
	}
	if v.app != "" && r.Header.Get("Sec-Fetch-Dest") == "iframe" {
		h.Del("X-Frame-Options")
		dropAncestors(h)
		h.Add("Content-Security-Policy", "frame-ancestors 'self' "+v.app)
	}
}

// dropAncestors removes what a program says about who frames it; what else it says holds.
func dropAncestors(h http.Header) {
	was := h.Values("Content-Security-Policy")
	h.Del("Content-Security-Policy")
	for _, policy := range was {
		var keep []string
		for _, part := range strings.Split(policy, ";") {
			if name, _, _ := strings.Cut(strings.TrimSpace(part), " "); !strings.EqualFold(name, "frame-ancestors") && name != "" {
				keep = append(keep, part)
			}
		}
		if len(keep) > 0 {
			h.Add("Content-Security-Policy", strings.Join(keep, ";"))
		}
	}
}

// outward turns an address as the program knows it into the one that the browser must ask for.
func (v visit) outward(to string) string {
	for _, inner := range [...]string{v.inner, "http://127.0.0.1:" + strconv.Itoa(v.port)} {
		if to == inner || strings.HasPrefix(to, inner+"/") || strings.HasPrefix(to, inner+"?") {
			return v.own + v.base + strings.TrimPrefix(to, inner)
		}
	}
	if v.base != "" && strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") && !strings.HasPrefix(to, v.base+"/") {
		return v.base + to
	}
	return to
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
	id, _, _ = strings.Cut(id, ".") // the owner follows
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
	said := refusal{status: http.StatusBadGateway, words: "The program did not answer.", cure: "Look at its terminal, then reload.", app: v.app}
	var f *fault.Error
	if errors.As(err, &f) {
		said.words, said.cure = f.Message, "Reload once that has changed."
		if f.Code == "port_closed" {
			said.words, said.cure = "Nothing listens on port "+strconv.Itoa(v.port)+" yet.", "Start the program in the workspace; this page tries again on its own."
			w.Header().Set("Refresh", "3")
		}
	}
	p.cfg.Log.Debug("a port could not be reached", "workspace_id", v.workspaceID, "port", v.port, "error", err)
	p.refuse(w, r, said)
}

var page = template.Must(template.New("page").Parse(`<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark"><title>Preview</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:20vh auto 0;padding:0 1.5rem}h1{font-size:1.25rem}</style>
<main><h1>{{.Words}}</h1><p>{{.Cure}}</p></main></html>
`))

// refusal is what the proxy answers for itself.
type refusal struct {
	status      int
	words, cure string
	app         string // the origin that may frame it
}

// refuse answers for the proxy, not for the program.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, said refusal) {
	h := w.Header()
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors "+cmp.Or(said.app, "'none'")+"; base-uri 'none'; form-action 'none'")
	if !strings.Contains(r.Header.Get("Accept"), "text/html") {
		h.Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(said.status)
		_, _ = w.Write([]byte(said.words + " " + said.cure + "\n"))
		return
	}
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(said.status)
	_ = page.Execute(w, struct{ Words, Cure string }{said.words, said.cure})
}
