package e2b

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

const testKey = "e2b_0123456789abcdef0123456789abcdef01234567"

// server is a control plane that answers what a test says.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	calls []string
	body  []byte
}

func serve(t *testing.T, h http.HandlerFunc) (*server, *plane) {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.calls, s.body = append(s.calls, r.Method+" "+r.URL.Path), b
		s.mu.Unlock()
		if r.Header.Get("X-API-Key") != testKey {
			http.Error(w, `{"code":401,"message":"no"}`, http.StatusUnauthorized)
			return
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	set, err := Settings{APIKey: testKey, APIURL: s.URL, Headers: map[string]string{"X-Extra": "yes"}}.Normal()
	if err != nil {
		t.Fatal(err)
	}
	client := newHTTP(set)
	t.Cleanup(client.CloseIdleConnections)
	p := newPlane(set, client)
	p.wait = func(context.Context, time.Duration) error { return nil }
	return s, p
}

func (s *server) asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.calls...)
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": status, "message": message, "error_code": code})
}

const aSandbox = `{"sandboxID":"i1234567890abcdefghij","templateID":"t","envdVersion":"0.6.13","envdAccessToken":"ea","domain":null}`

func TestCreateFallsBackToTheFirstVersionAndRemembers(t *testing.T) {
	t.Parallel()
	s, p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/v2/") {
			refuse(w, http.StatusBadRequest, "", "validation error: method not allowed")
			return
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, aSandbox)
	})
	for range 2 {
		a, err := p.create(t.Context(), newSandbox{TemplateID: "x", Timeout: 600, AutoPause: true})
		if err != nil || a.SandboxID != "i1234567890abcdefghij" || a.EnvdAccessToken != "ea" {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	if got := strings.Join(s.asked(), ", "); got != "POST /v2/sandboxes, POST /sandboxes, POST /sandboxes" {
		t.Errorf("asked %s", got)
	}
	var sent map[string]any
	if err := json.Unmarshal(s.body, &sent); err != nil || sent["secure"] != true || sent["timeout"] != 600.0 || sent["autoPause"] != true {
		t.Errorf("the first version is sent %s", s.body)
	}
}

func TestASandboxThatIsOpenToEverybodyIsNotUsed(t *testing.T) {
	t.Parallel()
	_, p := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, strings.Replace(aSandbox, `"ea"`, `""`, 1))
	})
	if _, err := p.create(t.Context(), newSandbox{TemplateID: "x"}); !errors.Is(err, errOpen) {
		t.Errorf("%v", err)
	}
}

func TestWhatMayBeAskedAgain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		ask    func(p *plane) error
		calls  int
		why    Reason
	}{
		{"create is not repeated after an error", func(w http.ResponseWriter) { refuse(w, 500, "sandbox_create_failed", "x") },
			func(p *plane) error { _, err := p.create(context.Background(), newSandbox{}); return err }, 1, Outage},
		{"nor when there is no capacity", func(w http.ResponseWriter) { refuse(w, 503, "sandbox_capacity_unavailable", "x") },
			func(p *plane) error { _, err := p.create(context.Background(), newSandbox{}); return err }, 1, Capacity},
		{"a question is", func(w http.ResponseWriter) { refuse(w, 503, "", "x") },
			func(p *plane) error { _, err := p.get(context.Background(), "i1"); return err }, 4, Outage},
		{"a limit of requests is waited for", func(w http.ResponseWriter) {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "", "Rate limit exceeded")
		},
			func(p *plane) error { _, err := p.create(context.Background(), newSandbox{}); return err }, 4, RateLimited},
		{"a limit of the plan is not", func(w http.ResponseWriter) {
			refuse(w, 429, "", "you have reached the maximum number of concurrent E2B sandboxes (20)")
		},
			func(p *plane) error { _, err := p.create(context.Background(), newSandbox{}); return err }, 1, Quota},
		{"a key that is not taken", func(w http.ResponseWriter) { refuse(w, 401, "", "Invalid API key") },
			func(p *plane) error { _, err := p.check(context.Background()); return err }, 1, BadKey},
		{"a template that is not there", func(w http.ResponseWriter) { refuse(w, 404, "", "template 'x' not found") },
			func(p *plane) error { _, err := p.create(context.Background(), newSandbox{}); return err }, 1, TemplateMissing},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, p := serve(t, func(w http.ResponseWriter, _ *http.Request) { c.answer(w) })
			err := c.ask(p)
			if err == nil || len(s.asked()) != c.calls || why(err) != c.why {
				t.Errorf("%v after %d calls: %q", err, len(s.asked()), why(err))
			}
			in := inWords(err, p.set, 0, 0)
			f, ok := errors.AsType[*fault.Error](in)
			if !ok || f.Code != "place_cannot_serve" || f.Kind != fault.Unavailable || f.Details["reason"] != string(c.why) || f.Details["ways"] == nil {
				t.Errorf("in words: %#v", in)
			}
			if strings.Contains(in.Error(), testKey) {
				t.Error("the key is in the words")
			}
		})
	}
}

func TestListIsPagedAndBelievedOnlyWhereItMatches(t *testing.T) {
	t.Parallel()
	var metadata string
	_, p := serve(t, func(w http.ResponseWriter, r *http.Request) {
		metadata = r.URL.Query().Get("metadata")
		if r.URL.Query().Get("state") != "running,paused" || r.Header.Get("X-Extra") != "yes" {
			t.Errorf("asked %s, %v", r.URL, r.Header)
		}
		page := `[{"sandboxID":"i1","state":"running","metadata":{"instance":"a b&c"}},{"sandboxID":"i2","state":"running","metadata":{"instance":"other"}}]`
		if r.URL.Query().Get("nextToken") == "" {
			w.Header().Set("X-Next-Token", "n")
		} else {
			page = `[{"sandboxID":"i3","state":"paused","metadata":{"instance":"a b&c"}},{"sandboxID":"../i4","metadata":{"instance":"a b&c"}}]`
		}
		_, _ = io.WriteString(w, page)
	})
	all, err := p.list(t.Context(), map[string]string{"instance": "a b&c"})
	if err != nil || len(all) != 2 || all[0].SandboxID != "i1" || all[1].SandboxID != "i3" || all[1].State != statePaused {
		t.Fatalf("%+v, %v", all, err)
	}
	q, err := url.ParseQuery(metadata) // as the server reads it
	if err != nil {
		t.Fatal(err)
	}
	if v, err := url.QueryUnescape(q.Get("instance")); err != nil || v != "a b&c" {
		t.Errorf("metadata %q", metadata)
	}
}

func TestAnAnswerThatDoesNotComeIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	over := make(chan struct{})
	_, p := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-over:
		}
	})
	defer close(over)
	p.set.RequestTimeout, p.set.Retries = 50*time.Millisecond, 0
	if _, err := p.get(t.Context(), "i1"); !errors.Is(err, errSlow) || why(err) != Timeout {
		t.Errorf("%v", err)
	}
}

func TestAddressesAndPrices(t *testing.T) {
	t.Parallel()
	normal := func(s Settings) Settings {
		n, err := s.Normal()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for want, got := range map[string]string{
		"https://api.e2b.app":                   normal(Settings{}).APIURL,
		"https://api.my.host":                   normal(Settings{Domain: "my.host"}).APIURL,
		"http://api.inner:3000":                 normal(Settings{APIURL: "http://api.inner:3000/"}).APIURL,
		"http://localhost:3000":                 normal(Settings{Debug: true}).APIURL,
		"https://sandbox.e2b.app":               normal(Settings{}).envdURL(answer{SandboxID: "i1"}),
		"https://49983-i1.my.host":              normal(Settings{Domain: "my.host"}).envdURL(answer{SandboxID: "i1"}),
		"https://49983-i1.cluster.example":      normal(Settings{}).envdURL(answer{SandboxID: "i1", Domain: "cluster.example"}),
		"http://localhost:3002":                 normal(Settings{SandboxURL: "http://localhost:3002"}).envdURL(answer{SandboxID: "i1"}),
		"http://localhost:49983":                normal(Settings{Debug: true}).envdURL(answer{SandboxID: "i1"}),
		"parawork-base":                         normal(Settings{}).TemplateOf(2, 2048),
		"parawork-base-8x8192":                  normal(Settings{}).TemplateOf(8, 8192),
		"mine-1x1024:v2":                        normal(Settings{Template: "Mine:v2"}).TemplateOf(1, 1024),
		"parawork e2b template build --size 4x": BuildCommand(normal(Settings{}), 4, 4096)[:len("parawork e2b template build --size 4x")],
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	s := normal(Settings{})
	if got := s.PriceNano(2, 2048); got != 133_200_000 { // 2 vCPU and 2 GiB: 0.1332 USD an hour
		t.Errorf("2 vCPU and 2 GiB cost %d", got)
	}
	if sizes := s.Sizes(); len(sizes) != 4 || !sizes[1].Default || sizes[3].PriceNano != 4*s.PriceNano(2, 2048) {
		t.Errorf("sizes %+v", sizes)
	}
	env := map[string]string{"E2B_API_KEY": "k", "E2B_DOMAIN": "d", "E2B_DEBUG": "true", "E2B_API_URL": "http://a", "E2B_SANDBOX_URL": "http://s"}
	if got := (Settings{Domain: "mine"}).FromEnv(func(n string) string { return env[n] }); got.APIKey != "k" || got.Domain != "mine" || !got.Debug || got.APIURL != "http://a" || got.SandboxURL != "http://s" {
		t.Errorf("%+v", got)
	}
	for _, bad := range []Settings{{APIURL: "ftp://x"}, {SandboxURL: "x"}, {Proxy: "gopher://x"}, {APIKey: "a b"}, {APIURL: "https://u:p@x"}} {
		if _, err := bad.Normal(); err == nil {
			t.Errorf("%+v was taken", bad)
		}
	}
}
