package preview_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/preview"
	"github.com/parawork/parawork/internal/fault"
)

const (
	mine  = "ws_0123456789abcdefghjkmnpqrs"
	other = "ws_zzzzzzzzzzzzzzzzzzzzzzzzzz"
)

// harness is a Proxy before a program, and who may see what.
type harness struct {
	t       *testing.T
	p       *preview.Proxy
	url     string // of the proxy
	program *httptest.Server
	links   preview.LinkStore

	mu      sync.Mutex
	now     time.Time
	refused map[any]bool
	wakes   []bool
	dead    error
	seen    *http.Request
	answer  http.HandlerFunc
}

func newHarness(t *testing.T) *harness {
	h := &harness{t: t, now: time.UnixMilli(1_700_000_000_000), refused: map[any]bool{}}
	h.program = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.seen = r.Clone(context.Background())
		answer := h.answer
		h.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		_, _ = io.WriteString(w, "hello from "+r.Host+r.URL.RequestURI())
	}))
	t.Cleanup(h.program.Close)
	h.p = h.start()
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.p.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	h.url = front.URL
	return h
}

// start makes a Proxy, as a server that starts does.
func (h *harness) start() *preview.Proxy {
	p := preview.New(preview.Config{Domain: "preview.test", Now: func() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now },
		Links: h.links, Sharer: func(userID string) any { return userID },
		Dial: func(ctx context.Context, _ any, ws string, port int, wake bool) (net.Conn, error) {
			h.mu.Lock()
			dead := h.dead
			h.wakes = append(h.wakes, wake)
			h.mu.Unlock()
			if dead != nil {
				return nil, dead
			}
			if ws != mine || port != 5173 {
				return nil, fault.New(fault.Unavailable, "port_closed", "Nothing listens there.")
			}
			return (&net.Dialer{}).DialContext(ctx, "tcp", h.program.Listener.Addr().String())
		},
		Check: func(_ context.Context, who any, ws string) error {
			h.mu.Lock()
			defer h.mu.Unlock()
			if h.refused[who] || ws != mine {
				return fault.New(fault.NotFound, "not_found", "No.")
			}
			return nil
		}})
	h.t.Cleanup(p.Close)
	return p
}

func host(port int, ws string) string {
	return fmt.Sprintf("%d-%s.preview.test", port, strings.TrimPrefix(ws, "ws_"))
}

// ask asks an origin; headers are pairs.
func (h *harness) ask(method, at, path string, headers ...string) *http.Response {
	h.t.Helper()
	req, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, http.NoBody)
	if err != nil {
		h.t.Fatal(err)
	}
	req.Host = at
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(func() { _ = resp.Body.Close() })
	return resp
}

// raw sends the bytes of a request and returns those of the answer.
func (h *harness) raw(request string) string {
	h.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(h.t.Context(), "tcp", strings.TrimPrefix(h.url, "http://"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		h.t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		h.t.Fatal(err)
	}
	return string(answer)
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// enter opens a port for who and returns the cookie.
func (h *harness) enter(who any) string {
	h.t.Helper()
	ticket, err := h.p.Ticket(preview.Visit{Who: who, WorkspaceID: mine, Port: 5173})
	if err != nil {
		h.t.Fatal(err)
	}
	r := h.ask("GET", host(5173, mine), "/"+ticket)
	if r.StatusCode != http.StatusSeeOther || len(r.Cookies()) != 1 || r.Header.Get("Location") != "/" {
		h.t.Fatalf("entering: %d, %v", r.StatusCode, r.Header)
	}
	if again := h.ask("GET", host(5173, mine), "/"+ticket); again.StatusCode != http.StatusForbidden {
		h.t.Errorf("a ticket was good twice: %d", again.StatusCode)
	}
	c := r.Cookies()[0]
	if !c.HttpOnly || c.Domain != "" || c.SameSite != http.SameSiteLaxMode {
		h.t.Errorf("cookie %v", c)
	}
	return c.Name + "=" + c.Value
}

func (h *harness) refuse(who any) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.refused[who] = true
}

func (h *harness) later(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

func TestAPortIsSeenOnlyByWhomItWasOpenedFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := host(5173, mine)
	if r := h.ask("GET", at, "/"); r.StatusCode != http.StatusUnauthorized || h.seen != nil {
		t.Errorf("without a grant: %d, the program saw %v", r.StatusCode, h.seen)
	}
	cookie := h.enter("ann")
	r := h.ask("GET", at, "/a?b=c", "Cookie", cookie+"; theirs=1", "Authorization", "Bearer pw_user_secret", "Referer", "http://"+at+"/x")
	if got := body(t, r); got != "hello from localhost:5173/a?b=c" {
		t.Errorf("with one: %d %q", r.StatusCode, got)
	}
	if c := h.seen.Header.Get("Cookie"); c != "theirs=1" {
		t.Errorf("the program was given the cookies %q", c)
	}
	if a := h.seen.Header.Get("Authorization"); a != "" {
		t.Errorf("the program was given %q", a)
	}
	if ref := h.seen.Header.Get("Referer"); ref != "http://localhost:5173/x" {
		t.Errorf("the referer is %q", ref)
	}
	// The grant is for this port of this workspace alone.
	for _, elsewhere := range []string{host(8000, mine), host(5173, other)} {
		if r := h.ask("GET", elsewhere, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
			t.Errorf("at %s: %d", elsewhere, r.StatusCode)
		}
	}
	// The right behind it is asked for again.
	h.refuse("ann")
	h.later(3 * time.Second)
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after the right was withdrawn: %d", r.StatusCode)
	}
	// And it does not come back with the right: a grant that was refused is gone.
	old := h.enter("bob")
	h.later(13 * time.Hour)
	if r := h.ask("GET", at, "/", "Cookie", old); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("after half a day: %d", r.StatusCode)
	}
}

func TestTicketsGrowOldAndBelongToOnePort(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	late, err := h.p.Ticket(preview.Visit{Who: "ann", WorkspaceID: mine, Port: 5173})
	if err != nil {
		t.Fatal(err)
	}
	wrong, err := h.p.Ticket(preview.Visit{Who: "ann", WorkspaceID: mine, Port: 8000})
	if err != nil {
		t.Fatal(err)
	}
	if r := h.ask("GET", host(5173, mine), "/"+wrong); r.StatusCode != http.StatusForbidden {
		t.Errorf("another port's ticket: %d", r.StatusCode)
	}
	h.later(2 * time.Minute)
	if r := h.ask("GET", host(5173, mine), "/"+late); r.StatusCode != http.StatusForbidden {
		t.Errorf("an old ticket: %d", r.StatusCode)
	}
}

func TestPagesOfOtherOriginsReachNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at, cookie := host(5173, mine), h.enter("ann")
	for name, test := range map[string]struct {
		method  string
		headers []string
		want    int
	}{
		"its own page":                    {"POST", []string{"Origin", "http://" + at, "Sec-Fetch-Site", "same-origin"}, 200},
		"another port of the workspace":   {"POST", []string{"Origin", "http://" + host(8000, mine), "Sec-Fetch-Site", "same-site"}, 200},
		"another workspace's page":        {"POST", []string{"Origin", "http://" + host(5173, other), "Sec-Fetch-Site", "same-site"}, 403},
		"any page":                        {"POST", []string{"Origin", "https://evil.example"}, 403},
		"a page without an origin":        {"POST", []string{"Origin", "null"}, 403},
		"an image on another's page":      {"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image", "Referer", "http://" + host(5173, other) + "/"}, 403},
		"a frame in another's page":       {"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, 403},
		"a form of another's page":        {"POST", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 403},
		"a link somebody follows":         {"GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		"an address somebody typed":       {"GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, 200},
		"a script of the workspace's own": {"GET", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script", "Referer", "http://" + host(8000, mine) + "/"}, 200},
	} {
		if r := h.ask(test.method, at, "/", append(test.headers, "Cookie", cookie)...); r.StatusCode != test.want {
			t.Errorf("%s: %d, want %d", name, r.StatusCode, test.want)
		}
	}
}

func TestAnswersStayWithinTheirOrigin(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.answer = func(w http.ResponseWriter, _ *http.Request) {
		h := w.Header()
		h.Add("Set-Cookie", "a=1; Domain=preview.test; Path=/x; HttpOnly")
		h.Add("Set-Cookie", "parawork_preview=stolen; Path=/")
		h.Add("Set-Cookie", "__Host-parawork_preview=stolen; Path=/; Secure")
		h.Set("Strict-Transport-Security", "max-age=1; includeSubDomains")
		h.Set("Alt-Svc", `h3=":443"`)
		h.Set("Location", "http://localhost:5173/login?next=/")
		w.WriteHeader(http.StatusFound)
	}
	at := host(5173, mine)
	r := h.ask("GET", at, "/", "Cookie", h.enter("ann"))
	if got := r.Header.Values("Set-Cookie"); len(got) != 1 || got[0] != "a=1; Path=/x; HttpOnly" {
		t.Errorf("cookies %q", got)
	}
	if r.Header.Get("Strict-Transport-Security") != "" || r.Header.Get("Alt-Svc") != "" {
		t.Errorf("headers %v", r.Header)
	}
	if got := r.Header.Get("Location"); got != "http://"+at+"/login?next=/" {
		t.Errorf("leads to %q", got)
	}
}

func TestAProgramThatDoesNotListenIsSaidInWords(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	cookie := h.enter("ann")
	h.mu.Lock()
	h.dead = fault.New(fault.Unavailable, "port_closed", "<script>")
	h.mu.Unlock()
	r := h.ask("GET", host(5173, mine), "/", "Cookie", cookie, "Accept", "text/html", "Sec-Fetch-Mode", "navigate")
	if got := body(t, r); r.StatusCode != http.StatusBadGateway || !strings.Contains(got, "Nothing listens on port 5173 yet") || r.Header.Get("Refresh") == "" {
		t.Errorf("%d %v %s", r.StatusCode, r.Header, got)
	}
	h.mu.Lock()
	h.dead = errors.New("inner words of ours")
	h.mu.Unlock()
	r = h.ask("GET", host(5173, mine), "/", "Cookie", cookie, "Sec-Fetch-Mode", "cors")
	if got := body(t, r); r.StatusCode != http.StatusBadGateway || strings.Contains(got, "inner words") {
		t.Errorf("%d %s", r.StatusCode, got)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wakes) != 2 || !h.wakes[0] || h.wakes[1] {
		t.Errorf("woken %v: what people look at wakes a sandbox, what a page asks in the background does not", h.wakes)
	}
}

func TestAWebSocketPassesAndAnswersStream(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	more := make(chan struct{})
	h.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			_, _ = io.WriteString(w, "first\n")
			w.(http.Flusher).Flush()
			<-more
			_, _ = io.WriteString(w, "second\n")
			return
		}
		if r.Header.Get("Origin") != "http://localhost:5173" {
			http.Error(w, "origin "+r.Header.Get("Origin"), http.StatusForbidden)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = rw.WriteString("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
		_ = rw.Flush()
		line, _ := rw.ReadString('\n')
		_, _ = rw.WriteString("you said " + line)
		_ = rw.Flush()
	}
	at, cookie := host(5173, mine), h.enter("ann")
	r := h.ask("GET", at, "/stream", "Cookie", cookie)
	lines := bufio.NewReader(r.Body)
	if l, err := lines.ReadString('\n'); l != "first\n" {
		t.Errorf("the first line: %q, %v", l, err)
	}
	close(more)
	if l, err := lines.ReadString('\n'); l != "second\n" {
		t.Errorf("the second line: %q, %v", l, err)
	}

	u, err := url.Parse(h.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nOrigin: http://%s\r\nCookie: %s\r\n\r\n", at, at, cookie)
	in := bufio.NewReader(conn)
	resp, err := http.ReadResponse(in, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%+v, %v", resp, err)
	}
	_ = resp.Body.Close()
	fmt.Fprint(conn, "hello\n")
	if l, err := in.ReadString('\n'); l != "you said hello\n" {
		t.Errorf("the socket answered %q, %v", l, err)
	}
}

// A right that is withdrawn ends what is being answered, also where it is no WebSocket: a stream of events goes on for hours.
func TestAStreamEndsWithTheRight(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.p.CheckEvery(10 * time.Millisecond)
	h.answer = func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: first\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	}
	cookie := h.enter("ada")
	resp := h.ask("GET", host(5173, mine), "/events", "Cookie", cookie, "Sec-Fetch-Site", "same-origin")
	first := make([]byte, len("data: first\n\n"))
	if _, err := io.ReadFull(resp.Body, first); err != nil || resp.StatusCode != 200 {
		t.Fatalf("%d %v", resp.StatusCode, err)
	}
	h.refuse("ada")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, resp.Body)
	}()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the stream goes on")
	}
}

func TestNamesOfPorts(t *testing.T) {
	t.Parallel()
	p := newHarness(t).p
	for name, want := range map[string]bool{
		host(5173, mine): true, strings.ToUpper(host(5173, mine)): true, host(5173, mine) + ":8080": true, host(5173, mine) + ".": true,
		host(0, mine): false, host(65536, mine): false, "preview.test": false, "5173-.preview.test": false, "x." + host(1, mine): false, "5173-0123456789abc.evil.test": false,
	} {
		if got := p.Serves(name); got != want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got := p.Address("https", "app.example:8443", mine, 80); got != "https://"+host(80, mine)+":8443/" || !p.Serves(strings.TrimSuffix(strings.TrimPrefix(got, "https://"), "/")) {
		t.Errorf("address %q", got)
	}
}
