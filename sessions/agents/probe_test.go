package agents_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/sessions/agents"
)

func TestAccountsAreTriedWithoutSpending(t *testing.T) {
	t.Parallel()
	good := map[string]string{"claude-code": "sk-ant-api03-good-0123456789", "codex": "sk-proj-good-0123456789", "opencode": "sk-ant-api03-good-0123456789", "parawork": "sk-ant-api03-good-0123456789"}
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/v1/models") {
			t.Errorf("%s %s was asked", r.Method, r.URL)
		}
		key := r.Header.Get("X-Api-Key") + strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		switch {
		case strings.Contains(key, "broke"):
			w.WriteHeader(http.StatusPaymentRequired)
		case strings.Contains(key, "odd"):
			w.WriteHeader(http.StatusNotFound)
		case !strings.Contains(key, "good"):
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	defer vendor.Close()
	open := egress.New(egress.Config{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Timeout: 5 * time.Second}).Client
	h := newHarnessWith(t, func(c *agents.Config) { c.Client = open }, nil)
	try := func(h *harness, agent string, a agents.Account) agents.ProbeResult {
		t.Helper()
		p, err := h.Test(t.Context(), agent, "usr_1", a)
		if err != nil || p.Detail == "" || a.Secret != "" && strings.Contains(p.Detail, a.Secret) {
			t.Fatalf("%s: %+v, %v", agent, p, err)
		}
		return p.Result
	}
	for agent, key := range good {
		base := vendor.URL + "/v1"
		if agent == "claude-code" {
			base = vendor.URL
		}
		for from, want := range map[string]agents.ProbeResult{"good": agents.ProbeOK, "bad": agents.ProbeRefused, "broke": agents.ProbeRefused, "odd": agents.ProbeUnclear} {
			if got := try(h, agent, agents.Account{Kind: agents.APIKey, Secret: strings.Replace(key, "good", from, 1), BaseURL: base}); got != want {
				t.Errorf("%s with a %s key: %s, want %s", agent, from, got, want)
			}
		}
		if got := try(h, agent, agents.Account{Kind: agents.APIKey, Secret: key, BaseURL: "http://127.0.0.1:1"}); got != agents.ProbeUnreachable {
			t.Errorf("%s where nobody listens: %s", agent, got)
		}
	}
	if got := try(h, "claude-code", agents.Account{Kind: agents.APIKey, Secret: "gateway-good-0123456789", BaseURL: vendor.URL}); got != agents.ProbeOK {
		t.Errorf("a gateway's token: %s", got)
	}
	if got := try(h, "claude-code", agents.Account{Kind: agents.APIKey, Secret: "sk-ant-oat01-0123456789", BaseURL: vendor.URL}); got != agents.ProbeUntestable {
		t.Errorf("a login token: %s", got)
	}
	if got := try(h, "parawork", agents.Account{Kind: agents.APIKey, Secret: "local-good-0123456789", BaseURL: vendor.URL + "/v1"}); got != agents.ProbeOK {
		t.Errorf("a key of a compatible server: %s", got)
	}
	guarded := newHarnessWith(t, func(c *agents.Config) { c.Client = egress.New(egress.Config{}).Client }, nil)
	if got := try(guarded, "codex", agents.Account{Kind: agents.APIKey, Secret: good["codex"], BaseURL: vendor.URL + "/v1"}); got != agents.ProbeUnreachable {
		t.Errorf("an inner address: %s", got)
	}
	// Logins are looked for, not read.
	terminal := agents.Account{ID: "acc_9", Kind: agents.Terminal}
	if got := try(h, "codex", terminal); got != agents.ProbeRefused {
		t.Errorf("nobody has logged in: %s", got)
	}
	h.write(t, filepath.Join(h.homes, "usr_1", ".accounts", "acc_9", ".codex", "auth.json"), "{}", 0o000)
	if got := try(h, "codex", terminal); got != agents.ProbeOK {
		t.Errorf("somebody has logged in: %s", got)
	}
	if got := try(h, "codex", agents.Account{Kind: agents.ExistingLogin}); got != agents.ProbeRefused {
		t.Errorf("no login to copy: %s", got)
	}
	if err := os.MkdirAll(filepath.Join(h.source, ".codex"), 0o755); err != nil {
		t.Fatal(err)
	}
	h.write(t, filepath.Join(h.source, ".codex", "auth.json"), "{}", 0o600)
	if got := try(h, "codex", agents.Account{Kind: agents.ExistingLogin}); got != agents.ProbeOK {
		t.Errorf("a login to copy: %s", got)
	}
}
