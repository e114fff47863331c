package preview_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/preview"
)

func TestAScriptReachesAPortWithATokenInAHeader(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	token, until, err := h.p.Token(preview.Visit{Who: "ann", Owner: "ann", WorkspaceID: mine, Port: 5173})
	if err != nil || !until.Equal(h.now.Add(time.Hour)) {
		t.Fatal(until, err)
	}
	at := host(5173, mine)
	if r := h.ask("POST", at, "/a", preview.TokenHeader, token, "Cookie", "parawork=session; theirs=1"); body(t, r) != "hello from localhost:5173/a" {
		t.Errorf("with the token: %d", r.StatusCode)
	}
	if h.seen.Header.Get(preview.TokenHeader) != "" || h.seen.Header.Get("Cookie") != "theirs=1" {
		t.Errorf("the program was given %v", h.seen.Header)
	}
	for name, r := range map[string]*http.Response{
		"another port":      h.ask("GET", host(8000, mine), "/", preview.TokenHeader, token),
		"another workspace": h.ask("GET", host(5173, other), "/", preview.TokenHeader, token),
		"as a cookie":       h.ask("GET", at, "/", "Cookie", "parawork_preview="+token),
		"no such token":     h.ask("GET", at, "/", preview.TokenHeader, "x"),
	} {
		if r.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, r.StatusCode)
		}
	}
	cookie := h.enter("ann")
	if r := h.ask("GET", at, "/", preview.TokenHeader, strings.TrimPrefix(cookie, "parawork_preview=")); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("a cookie's grant in the header: %d", r.StatusCode)
	}
	h.later(61 * time.Minute)
	if r := h.ask("GET", at, "/", preview.TokenHeader, token); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("an hour later: %d", r.StatusCode)
	}
}

// below returns a server that shows h's ports below a path, and what asks it.
func (h *harness) below() func(method, path string, headers ...string) *http.Response {
	front := httptest.NewServer(http.HandlerFunc(h.p.ServePath))
	h.t.Cleanup(front.Close)
	return func(method, path string, headers ...string) *http.Response {
		was := h.url
		h.url = front.URL
		defer func() { h.url = was }()
		return h.ask(method, strings.TrimPrefix(front.URL, "http://"), path, headers...)
	}
}

func TestBelowAPathEachPageHasAnOriginOfItsOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ask := h.below()
	ticket, err := h.p.Ticket(preview.Visit{Who: "ann", WorkspaceID: mine, Port: 5173, Path: "/start?x=1", App: "http://app.test"})
	if err != nil {
		t.Fatal(err)
	}
	root := preview.PathAddress("", mine, 5173)
	in := ask("GET", root+ticket)
	to := in.Header.Get("Location")
	if in.StatusCode != http.StatusSeeOther || !strings.HasPrefix(to, root) || !strings.HasSuffix(to, "/start?x=1") || len(in.Cookies()) != 0 {
		t.Fatalf("%d %v", in.StatusCode, in.Header)
	}
	base := strings.TrimSuffix(to, "/start?x=1")
	h.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Add("Set-Cookie", "parawork=tossed; Path=/")
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Set("X-Frame-Options", "DENY")
		w.Header().Set("Content-Security-Policy", "img-src *; frame-ancestors 'none'")
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/there", http.StatusFound)
		case "/a.css":
			w.Header().Set("Content-Type", "text/css")
			_, _ = io.WriteString(w, `@import "/b.css"; p{background:url(/x.png)} q{background:url(//cdn/x)}`)
		default:
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, `<!doctype html><html><head><script type="module" src="/@vite/client"></script><link href="//cdn/x.css"></head><img srcset="/a.png 1x, b.png 2x"><a href="http://localhost:5173/z">z</a></html>`)
		}
	}
	r := ask("GET", base+"/start?x=1", "Accept", "text/html", "Cookie", "parawork=session; other=1")
	page := body(t, r)
	for _, want := range []string{`<head><script src="` + base + `/.parawork/preview.js" data-app="http://app.test"`, `{"imports":{"/":"` + base + `/"`, `src="` + base + `/@vite/client"`,
		`href="//cdn/x.css"`, `srcset="` + base + `/a.png 1x, b.png 2x"`, base + `/z"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in %s", want, page)
		}
	}
	policies := strings.Join(r.Header.Values("Content-Security-Policy"), " | ")
	if !strings.Contains(policies, "sandbox allow-scripts") || strings.Contains(policies, "allow-same-origin") || strings.Contains(policies, "ancestors") || !strings.Contains(policies, "img-src *") {
		t.Errorf("policies %q", policies)
	}
	if len(r.Cookies()) != 0 || r.Header.Get("X-Frame-Options") != "" || h.seen.Header.Get("Cookie") != "" {
		t.Errorf("cookies %v to and %q from the program, %v", r.Cookies(), h.seen.Header.Get("Cookie"), r.Header)
	}
	if got := body(t, ask("GET", base+"/a.css")); got != `@import "`+base+`/b.css"; p{background:url(`+base+`/x.png)} q{background:url(//cdn/x)}` {
		t.Errorf("a sheet: %s", got)
	}
	if got := ask("GET", base+"/moved").Header.Get("Location"); got != base+"/there" {
		t.Errorf("a redirect leads to %q", got)
	}
	if r := ask("OPTIONS", base+"/api", "Origin", "null", "Access-Control-Request-Method", "PUT"); r.StatusCode != http.StatusNoContent || r.Header.Get("Access-Control-Allow-Origin") != "null" {
		t.Errorf("a page without an origin may not ask its own program: %d %v", r.StatusCode, r.Header)
	}
	token := base[strings.LastIndexByte(base, '/')+1:]
	for path, want := range map[string]int{
		preview.PathAddress("", mine, 8000) + token + "/":  401, // the token in another path
		preview.PathAddress("", other, 5173) + token + "/": 401,
		root + "-/":                               401,
		"/assets/x.js":                            404,
		preview.PathRoot + "0-0123456789a/":       404,
		preview.PathRoot + "65536-0123456789a/x/": 404,
	} {
		if r := ask("GET", path); r.StatusCode != want {
			t.Errorf("%s: %d", path, r.StatusCode)
		}
	}
	if r := ask("GET", base+"/sw.js", "Service-Worker", "script"); r.StatusCode != http.StatusForbidden {
		t.Errorf("a service worker: %d", r.StatusCode)
	}
	h.refuse("ann")
	h.later(3 * time.Second)
	if r := ask("GET", base+"/"); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the right was withdrawn: %d", r.StatusCode)
	}
}

func TestAFrameOfTheAppShowsAPort(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("X-Frame-Options", "DENY")
		_, _ = io.WriteString(w, "<!doctype html><title>x</title>")
	}
	at := host(5173, mine)
	enter := func() string {
		ticket, err := h.p.Ticket(preview.Visit{Who: "ann", WorkspaceID: mine, Port: 5173, App: "http://app.test"})
		if err != nil {
			t.Fatal(err)
		}
		c := h.ask("GET", at, "/"+ticket).Cookies()
		if len(c) != 1 {
			t.Fatal(c)
		}
		return c[0].Name + "=" + c[0].Value
	}
	cookie := enter()
	frame := []string{"Cookie", cookie, "Accept", "text/html", "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}
	r := h.ask("GET", at, "/", frame...)
	if page := body(t, r); !strings.HasPrefix(page, `<!doctype html><script src="/.parawork/preview.js" data-app="http://app.test"`) || r.Header.Get("X-Frame-Options") != "" ||
		r.Header.Get("Content-Security-Policy") != "frame-ancestors 'self' http://app.test" {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, page)
	}
	// Only the app's own arrival: another page that frames the port later asks in vain.
	if r := h.ask("GET", at, "/", frame...); r.StatusCode != http.StatusForbidden {
		t.Errorf("a frame of another page: %d", r.StatusCode)
	}
	// In a tab of its own a page stays as it is.
	r = h.ask("GET", at, "/", "Cookie", h.enter("ann"), "Accept", "text/html", "Sec-Fetch-Dest", "document")
	if page := body(t, r); strings.Contains(page, "parawork") || r.Header.Get("X-Frame-Options") != "DENY" {
		t.Errorf("a tab: %v %s", r.Header, page)
	}
	for _, path := range []string{"//evil.example", `/\evil.example`, "https://evil.example", "/a\r\nb"} {
		if _, err := h.p.Ticket(preview.Visit{Who: "ann", WorkspaceID: mine, Port: 5173, Path: path}); err == nil {
			t.Errorf("a ticket leads to %q", path)
		}
	}
}

// enterBelow opens the port below a path, with an answer of the program's, and returns the path.
func (h *harness) enterBelow(ask func(method, path string, headers ...string) *http.Response) string {
	h.t.Helper()
	ticket, err := h.p.Ticket(preview.Visit{Who: "ann", Owner: "ann", WorkspaceID: mine, Port: 5173})
	if err != nil {
		h.t.Fatal(err)
	}
	return strings.TrimSuffix(ask("GET", preview.PathAddress("", mine, 5173)+ticket).Header.Get("Location"), "/")
}
