package tunnel_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/executors/runner/tunnel"
)

// lines is a log.
type lines struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}

// A bug at the machine ends one answer, not the connection, and is written down there.
func TestABugInAnAnswerIsWrittenDown(t *testing.T) {
	t.Parallel()
	d := newDoor(newKeys(t))
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	var log lines
	cfg := d.dial(srv.URL)
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	c, err := tunnel.Dial(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/bug", func(http.ResponseWriter, *http.Request) { panic("nobody thought of this") })
	mux.HandleFunc("GET /v1/cut", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	mux.Handle("/", machine())
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = tunnel.Serve(ctx, c, mux) })
	t.Cleanup(func() { cancel(); work.Wait() })
	l := d.link(t)
	for _, path := range []string{"/v1/cut", "/v1/bug"} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := l.RoundTrip(req); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s was answered %s", path, resp.Status)
		}
	}
	if got := ask(t, l, "GET", "/v1/hello", nil); got != "hello " {
		t.Errorf("afterwards: %q", got)
	}
	cancel()
	work.Wait()
	if got := log.String(); strings.Count(got, "this is a bug") != 1 || !strings.Contains(got, "nobody thought of this") || !strings.Contains(got, "/v1/bug") {
		t.Errorf("the log says %s", got)
	}
}
