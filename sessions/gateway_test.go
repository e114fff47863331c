package sessions_test

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
)

// gatewayDouble stands for the gateway: it tells what reaches it.
type gatewayDouble struct {
	mu    sync.Mutex
	ended map[string]bool
}

func (g *gatewayDouble) Mint(_ context.Context, sessionID, _ string) (string, error) {
	return "pwg-token-of-" + sessionID, nil
}

func (g *gatewayDouble) End(_ context.Context, sessionID string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.ended[sessionID] = true
	return nil
}

func (g *gatewayDouble) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = fmt.Fprintf(w, "%s|%s|%s|%s", r.URL.Path, r.Header.Get("Authorization"), r.Header.Get("X-Api-Key"), body)
	})
}

// environ is what the agent of a session wrote of its environment into the worktree.
func (h *harness) environ(t *testing.T, name string) map[string]string {
	t.Helper()
	eventually(t, "the agent tells its environment", func() bool { return strings.Contains(h.file(name), "\nTHE=END\n") })
	env := map[string]string{}
	for line := range strings.Lines(h.file(name)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		env[k] = v
	}
	return env
}

// asks sends a request to the gateway as a program of the sandbox does.
func asks(t *testing.T, url string, header map[string]string, body string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "POST", url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	transport := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: transport, Timeout: patience}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAgentsGoThroughTheGateway(t *testing.T) {
	t.Parallel()
	const key = "sk-ant-api03-the-real-key-that-never-leaves"
	h := newHarness(t)
	double := &gatewayDouble{ended: map[string]bool{}}
	h.tune = func(c *sessions.Config) { c.Gateway = double }
	notify := []string{"-c", `{ env; echo THE=END; } >env-$0.tmp && mv env-$0.tmp env-$0; exec sleep 1000`}
	h.settings["mine"] = agents.Settings{Enabled: true, Command: "sh", DefaultArgs: notify, AccountEnv: "MY_KEY", BaseURLEnv: "MY_BASE", AccountAPI: agents.AnthropicAPI}
	h.accounts["mine"] = accounts.AgentAccount{ID: "acc", Agent: "mine", Kind: accounts.APIKey, BaseURL: "https://models.example/v9"}
	h.secrets["mine"] = key
	s := h.start()
	first := s.begin(t, sessions.StartRequest{Agent: "mine", Argv: []string{"1"}})
	second := s.begin(t, sessions.StartRequest{Agent: "mine", Argv: []string{"2"}})
	env := h.environ(t, "env-1")
	token, base := "pwg-token-of-"+first.ID, env["PARAWORK_GATEWAY_URL"]
	if env["MY_KEY"] != token || env["PARAWORK_GATEWAY_TOKEN"] != token || env["MY_BASE"] != base+"/anthropic" || !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Fatalf("%v", env)
	}
	if other := h.environ(t, "env-2"); other["MY_KEY"] != "pwg-token-of-"+second.ID || other["PARAWORK_GATEWAY_URL"] != base {
		t.Errorf("%v", other)
	}

	// The key is nowhere the sandbox, its output, the database or the data folder show it.
	nowhere := func() {
		t.Helper()
		for _, dir := range []string{h.dir} {
			err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
				if err != nil || !e.Type().IsRegular() {
					return nil
				}
				if b, err := os.ReadFile(name); err == nil && strings.Contains(string(b), key) {
					t.Errorf("the key is in %s", name)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		}
		for _, proc := range mustGlob(t, "/proc/[0-9]*/environ") {
			if strings.Contains(proc, fmt.Sprint("/", os.Getpid(), "/")) {
				continue
			}
			if b, err := os.ReadFile(proc); err == nil && strings.Contains(string(b), key) {
				t.Errorf("the key is in %s", proc)
			}
		}
	}
	nowhere()

	bearer := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	if got := asks(t, base+"/anthropic/v1/messages", bearer(token), "hello"); got != "/anthropic/v1/messages|Bearer "+token+"||hello" {
		t.Error(got)
	}
	if got := asks(t, base+"/anthropic/v1/messages", map[string]string{"X-Api-Key": "pwg-token-of-" + second.ID}, ""); got != "/anthropic/v1/messages||pwg-token-of-"+second.ID+"|" {
		t.Error(got)
	}
	// A token of somewhere else is none here, also beside one that is good.
	if got := asks(t, base+"/x", map[string]string{"Authorization": "Bearer pwg-token-of-ses_elsewhere", "X-Api-Key": token}, ""); got != "/x||"+token+"|" {
		t.Error(got)
	}
	if got := asks(t, base+"/x", bearer(key), ""); got != "/x|||" {
		t.Error(got)
	}

	// The next server takes up the same token.
	s.end()
	waits := make(chan string, 1)
	go func() { waits <- asks(t, base+"/later", bearer(token), "") }()
	s = h.start()
	select {
	case got := <-waits:
		if got != "/later|Bearer "+token+"||" {
			t.Error(got)
		}
	case <-time.After(patience):
		t.Fatal("what was asked while the server was away was not answered")
	}

	// It ends with its session.
	if _, err := s.Stop(t.Context(), h.actor, first.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	if got := asks(t, base+"/x", bearer(token), ""); got != "/x|||" {
		t.Error(got)
	}
	double.mu.Lock()
	if !double.ended[first.ID] || double.ended[second.ID] {
		t.Errorf("ended: %v", double.ended)
	}
	double.mu.Unlock()
	nowhere()

	// An account whose agent the gateway does not know, and one that config sends elsewhere, go their own way.
	h.settings["other"] = agents.Settings{Enabled: true, Command: "sh", DefaultArgs: notify, AccountEnv: "MY_KEY"}
	h.accounts["other"] = accounts.AgentAccount{ID: "acc2", Agent: "other", Kind: accounts.APIKey}
	h.secrets["other"] = "another-key"
	s.end()
	s = h.start()
	s.begin(t, sessions.StartRequest{Agent: "other", Argv: []string{"3"}})
	if env := h.environ(t, "env-3"); env["MY_KEY"] != "another-key" || env["PARAWORK_GATEWAY_URL"] != "" {
		t.Errorf("%v", env)
	}
	if _, err := s.Start(t.Context(), h.actor, h.ws.ID, sessions.StartRequest{Agent: "mine", AccountID: "none"}); !fault.Is(err, fault.Invalid) {
		t.Error(err)
	}
}

func mustGlob(t *testing.T, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return names
}
