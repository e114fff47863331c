package fetch_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/fetch"
)

const refusal = "evil.test is not on the list of hosts this workspace may reach. An admin of the team can allow it."

// proxy is a sandbox's way out: it serves the pages of site.test, and refuses other hosts as executors/gate does.
func proxy(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodConnect {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			_, _ = fmt.Fprintf(conn, "HTTP/1.1 403 Parawork: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", refusal)
			_ = conn.Close()
		}
		return
	}
	if r.Host != "site.test" {
		http.Error(w, "Parawork: "+refusal, http.StatusForbidden)
		return
	}
	switch r.URL.Path {
	case "/page":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(page))
	case "/latin":
		w.Header().Set("Content-Type", "text/plain; charset=iso-8859-1")
		_, _ = w.Write([]byte("caf\xe9"))
	case "/data":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"a": 1}`))
	case "/binary":
		_, _ = w.Write([]byte("\x89PNG\r\n\x1a\n\x00\x00"))
	case "/huge":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write(bytes.Repeat([]byte("ä"), 4<<20))
	case "/moved":
		http.Redirect(w, r, "/page", http.StatusFound)
	case "/round":
		http.Redirect(w, r, "/round", http.StatusFound)
	case "/away":
		http.Redirect(w, r, "http://other.test/page?q=1", http.StatusFound)
	case "/file":
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	case "/nested":
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(strings.Repeat("<div><ul><a href=x>", 20_000) + "deep"))
	case "/links/" + strings.Repeat("x", 7000) + "/":
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<title>" + strings.Repeat("t", 100_000) + "</title>" + strings.Repeat("<a href=b>c ", 40_000)))
	case "/slow":
		<-r.Context().Done()
	default:
		http.Error(w, "no such page", http.StatusNotFound)
	}
}

const page = `<!doctype html><html><head><title>The  page</title><style>p{}</style><script>if (a<b) x()</script></head><body>
<nav><a href="/home">Home</a><a href="javascript:x()">Menu</a><a href="#x"></a></nav>
<h1>First &amp; last</h1><p>Some <b>bold</b> words,
and <a href="sub/x.html?a=1&amp;b=2">a <i>link</i></a>.</p><ul><li>one</li><li>two<ul><li>inner</li></ul></li></ul>
<pre>func f() {
	return
}</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table><p>Use <code>x &lt; y</code><br>here<img src=x alt="a picture"></p></body></html>`

const asText = "[Home](http://site.test/home)Menu\n\n# First & last\n\nSome bold words, and [a link](http://site.test/sub/x.html?a=1&b=2).\n\n- one\n- two\n  - inner\n\n" +
	"```\nfunc f() {\n\treturn\n}\n```\n\n| a | b\n| 1 | 2\n\nUse `x < y`\nhere![a picture]"

func TestMain(m *testing.M) {
	s := httptest.NewServer(http.HandlerFunc(proxy))
	for name, value := range map[string]string{"HTTP_PROXY": s.URL, "HTTPS_PROXY": s.URL, "NO_PROXY": "169.254.169.254"} {
		if err := os.Setenv(name, value); err != nil {
			panic(err)
		}
	}
	code := m.Run()
	s.CloseClientConnections()
	s.Close()
	os.Exit(code)
}

func get(t *testing.T, ctx context.Context, url string, most int) (guest.Fetched, string) {
	t.Helper()
	var out bytes.Buffer
	if err := fetch.Run(ctx, fetch.Config{URL: url, Most: most, Out: &out}); err != nil {
		t.Fatal(err)
	}
	head, text, _ := strings.Cut(out.String(), "\n")
	var f guest.Fetched
	if err := json.Unmarshal([]byte(head), &f); err != nil {
		t.Fatalf("%v: %q", err, head)
	}
	return f, text
}

func TestPages(t *testing.T) {
	t.Parallel()
	f, text := get(t, t.Context(), "http://site.test/moved", 10_000)
	if f.URL != "http://site.test/page" || f.Status != 200 || f.MIME != "text/html" || f.Title != "The page" || f.Cut || f.Bytes != int64(len(page)) {
		t.Errorf("%+v", f)
	}
	if text != asText {
		t.Errorf("%q, not\n%q", text, asText)
	}
	for path, want := range map[string]string{"latin": "café", "data": `{"a": 1}`, "binary": "", "none": "no such page\n"} {
		if _, got := get(t, t.Context(), "http://site.test/"+path, 10_000); got != want {
			t.Errorf("%s: %q, not %q", path, got, want)
		}
	}
	if f, got := get(t, t.Context(), "http://site.test/huge", 1001); !f.Cut || got != strings.Repeat("ä", 500) || f.Bytes < 5<<20 {
		t.Errorf("%d bytes, %+v", len(got), f)
	}
	if f, got := get(t, t.Context(), "http://site.test/nested", 1<<20); f.Error != "" || len(got) > guest.MaxFetchedText {
		t.Errorf("%d bytes, %+v", len(got), f)
	}
}

// A page whose links are longer than itself takes no memory for them.
func TestLinksThatGrow(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f, text := get(t, t.Context(), "http://site.test/links/"+strings.Repeat("x", 7000)+"/", guest.MaxFetchedText)
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 100<<20 || !f.Cut || len(text) != guest.MaxFetchedText || len(f.Title) != 1000 {
		t.Errorf("%d bytes were taken for a text of %d and a title of %d", took, len(text), len(f.Title))
	}
}

// What the sandbox may not reach is refused in the words of its policy, and only pages of the web are fetched.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"http://evil.test/", "https://evil.test/"} {
		if f, text := get(t, t.Context(), url, 1000); !f.Refused || f.Error != refusal || text != "" {
			t.Errorf("%s: %+v %q", url, f, text)
		}
	}
	for url, words := range map[string]string{"http://site.test/away": "fetch http://other.test/page?q=1 if", "http://site.test/round": "more than 10 times", "http://site.test/file": "only http and https", "file:///etc/passwd": "only http and https", "http://": "no host",
		"http://a:b@site.test/": "user name", "http://[": "cannot be read", "gopher://x": "only http", "http://127.0.0.1:1/": "connection refused",
		"http://169.254.169.254/latest/meta-data/": "metadata"} {
		if f, text := get(t, t.Context(), url, 1000); !strings.Contains(f.Error, words) || f.Refused || text != "" {
			t.Errorf("%s: %+v %q", url, f, text)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if f, _ := get(t, ctx, "http://site.test/slow", 1000); !strings.Contains(f.Error, "no answer") {
		t.Errorf("%+v", f)
	}
}
