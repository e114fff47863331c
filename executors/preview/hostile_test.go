package preview_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/preview"
)

// Neither a member who asks for tokens without end nor a stranger who follows one link without end puts others out.
func TestOneOwnerCannotUseUpWhatAllShare(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	at := host(5173, mine)
	cookie := h.enter("ann")
	visit := preview.Visit{Who: "bob", Owner: "bob", WorkspaceID: mine, Port: 5173}
	first, _, err := h.p.Token(visit)
	if err != nil {
		t.Fatal(err)
	}
	var last string
	for range 20_001 {
		if last, _, err = h.p.Token(visit); err != nil {
			t.Fatal(err)
		}
	}
	if r := h.ask("GET", at, "/", "Cookie", cookie); r.StatusCode != 200 {
		t.Errorf("another's grant: %d", r.StatusCode)
	}
	if r := h.ask("GET", at, "/", preview.TokenHeader, first); r.StatusCode != http.StatusUnauthorized {
		t.Errorf("the owner's oldest: %d", r.StatusCode)
	}
	if r := h.ask("GET", at, "/", preview.TokenHeader, last); r.StatusCode != 200 {
		t.Errorf("the owner's newest: %d", r.StatusCode)
	}
}

// The owner of a machine may have been asked for one person: another gets a connection of their own.
func TestPeopleShareNoConnection(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	for _, who := range []string{"ann", "bob", "ann"} {
		token, _, err := h.p.Token(preview.Visit{Who: who, Owner: who, WorkspaceID: mine, Port: 5173})
		if err != nil {
			t.Fatal(err)
		}
		body(t, h.ask("GET", host(5173, mine), "/", preview.TokenHeader, token))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.wakes) != 2 {
		t.Errorf("%d connections for two people", len(h.wakes))
	}
}

func TestAResponseReachesNotBeyondItsPort(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	reach := []string{"Clear-Site-Data", "NEL", "Report-To", "Reporting-Endpoints"}
	h.answer = func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Set-Cookie", "parawork=tossed; Domain=preview.test")
		w.WriteHeader(http.StatusEarlyHints)
		w.Header().Del("Set-Cookie")
		for _, name := range reach {
			w.Header().Set(name, `{"include_subdomains":true}`)
		}
		w.Header().Set("WWW-Authenticate", "Basic")
		w.WriteHeader(http.StatusUnauthorized)
	}
	at, cookie := host(5173, mine), h.enter("ann")
	conn := h.raw("GET / HTTP/1.1\r\nHost: " + at + "\r\nCookie: " + cookie + "\r\nConnection: close\r\n\r\n")
	if strings.Contains(conn, " 103 ") || strings.Contains(conn, "tossed") || !strings.HasPrefix(conn, "HTTP/1.1 401") {
		t.Errorf("an interim response: %s", conn)
	}
	r := h.ask("GET", at, "/", "Cookie", cookie)
	for _, name := range reach {
		if r.Header.Get(name) != "" {
			t.Errorf("%s passes", name)
		}
	}
	if r.Header.Get("WWW-Authenticate") == "" {
		t.Error("a port with an origin of its own may ask for a password")
	}
	// A name of the host that is no address makes no trouble.
	if r := h.raw("GET / HTTP/1.1\r\nHost: " + at + ":x\r\nCookie: " + cookie + "\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(r, "HTTP/1.1 401") {
		t.Errorf("a strange host: %q", r)
	}
	ask := h.below()
	base := h.enterBelow(ask)
	if r := ask("GET", base+"/"); r.StatusCode != 401 || r.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("below a path one program's password goes to others: %v", r.Header)
	}
	// A page can read its path and tell it to anybody, who wakes nothing with it.
	ask("GET", base+"/", "Sec-Fetch-User", "?1", "Connection", "close")
	h.p.Close()
	ask("GET", base+"/", "Sec-Fetch-User", "?1")
	h.mu.Lock()
	defer h.mu.Unlock()
	if last := h.wakes[len(h.wakes)-1]; last {
		t.Error("whoever knows a path wakes the sandbox")
	}
}

// Pages and sheets of any size pass whole, in bounded memory: what is longer than a piece is edited in parts.
func TestLongPagesPassWhole(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ask := h.below()
	base := h.enterBelow(ask)
	long := strings.Repeat("x = '<a href=\"/no\">'; ", 20_000)
	picture := `<img src="data:image/png;base64,` + strings.Repeat("A", 300_000) + `" alt="/kept">`
	text := strings.Repeat("words ", 30_000)
	page := "<html><head><script>" + long + "</script></head><p>" + text + "</p>" + picture + `<a href="/last">z</a></html>`
	sheet := "/*" + text + "*/ p{background:url(/x.png)} " + strings.Repeat("q{background:url(data:"+strings.Repeat("A", 50_000)+")}", 3) + " @import \"/b.css\";"
	h.answer = func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/a.css" {
			w.Header().Set("Content-Type", "text/css")
			_, _ = io.WriteString(w, sheet)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = io.WriteString(w, page)
	}
	got := body(t, ask("GET", base+"/", "Accept", "text/html"))
	_, got, _ = strings.Cut(got, `</script><script type="importmap">`)
	_, got, _ = strings.Cut(got, "</script>")
	if want := strings.Replace(strings.TrimPrefix(page, "<html><head>"), `href="/last"`, `href="`+base+`/last"`, 1); got != want {
		t.Errorf("the page has %d bytes, want %d: ...%s", len(got), len(want), got[max(0, len(got)-200):])
	}
	want := strings.Replace(strings.Replace(sheet, "url(/x", "url("+base+"/x", 1), `"/b.css`, `"`+base+`/b.css`, 1)
	if got := body(t, ask("GET", base+"/a.css")); got != want {
		t.Errorf("the sheet has %d bytes, want %d: ...%s", len(got), len(want), got[max(0, len(got)-200):])
	}
}
