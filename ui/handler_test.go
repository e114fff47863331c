package ui

import (
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func folder(t *testing.T, files map[string]string) *Handler {
	t.Helper()
	dir := t.TempDir()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		body := files[name]
		p := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	h, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	return h
}

func ask(h http.Handler, method, target string, head ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i+1 < len(head); i += 2 {
		r.Header.Set(head[i], head[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestHandler(t *testing.T) {
	t.Parallel()
	h := folder(t, map[string]string{
		"index.html":          "<title>app</title>",
		"index.html.br":       "br-index",
		"login.html":          "<title>sign in</title>",
		"icon.svg":            "<svg/>",
		".gitkeep":            "",
		"assets/main-1.js":    "plain js",
		"assets/main-1.js.br": "br js",
		"assets/main-1.js.gz": "gz js",
		"assets/worker-1.js":  "worker",
	})
	tests := []struct {
		name, method, target string
		head                 []string
		status               int
		body                 string
		want                 map[string]string
	}{
		{"index", "GET", "/", nil, 200, "<title>app</title>", map[string]string{"Cache-Control": "no-cache", "Content-Type": "text/html; charset=utf-8", "Content-Encoding": ""}},
		{"index compressed", "GET", "/", []string{"Accept-Encoding", "gzip, br"}, 200, "br-index", map[string]string{"Content-Encoding": "br", "Vary": "Accept-Encoding"}},
		{"a page of the app", "GET", "/acme/w/PW-1?tab=changes", nil, 200, "<title>app</title>", map[string]string{"Cache-Control": "no-cache"}},
		{"sign-in", "GET", "/login?next=%2Facme", nil, 200, "<title>sign in</title>", map[string]string{"Cache-Control": "no-cache"}},
		{"its second step", "GET", "/login?step=second", nil, 200, "<title>app</title>", nil},
		{"a page with a dot", "GET", "/acme/p/a.js", nil, 200, "<title>app</title>", nil},
		{"a file beside it", "GET", "/icon.svg", nil, 200, "<svg/>", map[string]string{"Content-Type": "image/svg+xml", "Cache-Control": "no-cache"}},
		{"hidden file", "GET", "/.gitkeep", nil, 200, "<title>app</title>", nil},
		{"sibling by name", "GET", "/index.html.br", nil, 200, "<title>app</title>", nil},
		{"asset", "GET", "/assets/main-1.js", nil, 200, "plain js", map[string]string{"Cache-Control": "public, max-age=31536000, immutable", "Content-Type": "text/javascript; charset=utf-8"}},
		{"worker", "GET", "/assets/worker-1.js", nil, 200, "worker", nil},
		{"asset br", "GET", "/assets/main-1.js", []string{"Accept-Encoding", "gzip;q=0.9, br;q=1"}, 200, "br js", map[string]string{"Content-Encoding": "br"}},
		{"asset gzip", "GET", "/assets/main-1.js", []string{"Accept-Encoding", "gzip, br;q=0"}, 200, "gz js", map[string]string{"Content-Encoding": "gzip"}},
		{"asset gone", "GET", "/assets/main-0.js", nil, 404, "no such file\n", map[string]string{"Cache-Control": "no-store"}},
		{"assets folder", "GET", "/assets/", nil, 200, "<title>app</title>", nil},
		{"climbing", "GET", "/assets/../../etc/passwd", nil, 200, "<title>app</title>", nil},
		{"head", "HEAD", "/", nil, 200, "", map[string]string{"Content-Length": "18"}},
		{"post", "POST", "/", nil, 405, "method not allowed\n", map[string]string{"Allow": "GET, HEAD"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(h, tt.method, tt.target, tt.head...)
			if w.Code != tt.status || w.Body.String() != tt.body {
				t.Fatalf("got %d %q, want %d %q", w.Code, w.Body.String(), tt.status, tt.body)
			}
			for k, v := range tt.want {
				if got := w.Header().Get(k); got != v {
					t.Errorf("%s: got %q, want %q", k, got, v)
				}
			}
			// Whatever a browser may open as a page or run as a worker has it.
			small := strings.HasPrefix(tt.target, "/assets/main-1")
			if tt.status == 200 && strings.Contains(w.Header().Get("Content-Security-Policy"), "script-src 'self';") == small {
				t.Error("the content security policy is not where it should be")
			}
		})
	}
}

func TestHandlerAnswersNotModified(t *testing.T) {
	t.Parallel()
	h := folder(t, map[string]string{"index.html": "x"})
	tag := ask(h, "GET", "/").Header().Get("ETag")
	if tag == "" {
		t.Fatal("no ETag")
	}
	if w := ask(h, "GET", "/login", "If-None-Match", tag); w.Code != http.StatusNotModified {
		t.Fatalf("got %d, want 304", w.Code)
	}
}

func TestHandlerWithoutABuild(t *testing.T) {
	t.Parallel()
	h := folder(t, map[string]string{".gitkeep": ""})
	for _, method := range []string{"GET", "HEAD"} {
		w := ask(h, method, "/acme")
		if w.Code != 200 || w.Header().Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: got %d %v", method, w.Code, w.Header())
		}
		if got := strings.Contains(w.Body.String(), "make ui"); got != (method == "GET") {
			t.Errorf("%s: body names the cure: %v", method, got)
		}
	}
	if w := ask(h, "GET", "/assets/main.js"); w.Code != 404 {
		t.Errorf("asset: got %d, want 404", w.Code)
	}
}

func TestHandlerKeepsInsideItsFolder(t *testing.T) {
	t.Parallel()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(secret, filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	h, err := New(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Close() })
	if w := ask(h, "GET", "/link.txt"); strings.Contains(w.Body.String(), "secret") && w.Body.Len() < 10 {
		t.Fatal("followed a link out of the folder")
	}
}

func TestNewNamesAMissingFolder(t *testing.T) {
	t.Parallel()
	if _, err := New(Config{Dir: filepath.Join(t.TempDir(), "nothing")}); err == nil {
		t.Fatal("no error")
	}
}

// Workers are recognized by the names of their files: one with another name would run without the policy.
func TestWorkersAreNamedSo(t *testing.T) {
	t.Parallel()
	made := regexp.MustCompile(`new (?:Shared)?Worker\(\s*new URL\("([^"]+)"`)
	found := 0
	err := filepath.WalkDir("src", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".ts") && !strings.HasSuffix(name, ".tsx") {
			return err
		}
		b, err := os.ReadFile(name)
		for _, m := range made.FindAllSubmatch(b, -1) {
			if found++; neverPages(strings.TrimSuffix(path.Base(string(m[1])), path.Ext(string(m[1]))) + "-1.js") {
				t.Errorf("%s: the file of the worker %s has no worker in its name", name, m[1])
			}
		}
		return err
	})
	if err != nil || found == 0 {
		t.Errorf("%d workers, %v", found, err)
	}
}
