package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/remote"
)

// built is the whole system on an empty data folder, joined and not started.
func built(t *testing.T) *App {
	t.Helper()
	guest := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(guest, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := config.Default(agents.Programs(), fromconfig.Kinds(kinds.All()))
	cfg.DataDir = t.TempDir()
	h, err := Build(tenant.All(t.Context(), "test"), Options{Config: cfg, Kinds: kinds.All(), Log: slog.New(slog.DiscardHandler), Env: func(string) string { return "" },
		Guest: func(string) (string, error) { return guest, nil }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Close)
	return h
}

// The order of the participants decides what is lost when something dies, and no other test covers all of it: commits
// are synced before files, files before the snapshot of them, and sessions let go last.
func TestOrderOfParticipants(t *testing.T) {
	h := built(t)
	said := map[string][]string{}
	for _, p := range h.participants() {
		for turn, has := range map[string]bool{"making": p.Making != nil, "found": p.Found != nil, "live": p.Live != nil, "arriving": p.Arriving != nil, "home": p.Home != nil,
			"pausing": p.Pausing != nil, "ending": p.Ending != nil, "ended": p.Ended != nil, "left": p.Left != nil, "use": p.Use != nil} {
			if has {
				said[turn] = append(said[turn], p.Name)
			}
		}
	}
	for turn, want := range map[string][]string{
		"making":   {"teams", "box", "caches", "network", "limits", "images", "tools"},
		"found":    {"network"},
		"live":     {"walls", "commits", "files", "language servers", "artifacts"},
		"arriving": {"commits", "files", "ignored files", "setup"},
		"home":     {"commits"},
		"pausing":  {"files", "snapshots", "artifacts"},
		"ending":   {"commits", "files", "snapshots", "artifacts", "sessions"},
		"ended":    {"network", "commits", "limits", "artifacts"},
		"left":     {"commits"},
		"use":      {"sessions"},
	} {
		if got := said[turn]; !slices.Equal(got, want) {
			t.Errorf("%s: %q, not %q", turn, got, want)
		}
		delete(said, turn)
	}
	if len(said) > 0 {
		t.Errorf("turns without an order: %v", said)
	}
}

// What is recovered finds what it needs, and what ends does so before what it uses.
func TestOrderOfRecoveryAndOfEnding(t *testing.T) {
	h := built(t)
	var got []string
	for _, s := range h.recovery() {
		got = append(got, s.what)
	}
	if want := []string{"sweeping secrets", "recovering the ledger", "reading the counters", "reading the prices", "recovering tokens", "recovering machines", "recovering sandboxes",
		"recovering sessions", "recovering commands", "recovering workspaces", "recovering builds of images", "recovering graces", "recovering checks", "closing tool calls", "cleaning up artifacts", "recovering subagents", "recovering code", "continuing turns of the agent", "recovering jobs"}; !slices.Equal(got, want) {
		t.Errorf("recovery: %q, not %q", got, want)
	}
	got = nil
	for _, s := range h.components() {
		got = append(got, s.name)
	}
	if want := []string{"suspension", "enforce", "automations", "tending", "resets", "jobs", "sandboxes", "agent", "subagents", "runs", "first sessions", "reviews", "issues", "forge", "disk", "browsers", "artifacts", "checks", "overlap", "images", "workspaces", "payments", "reports", "mail", "notify", "tasks", "checkpoints", "edits", "languages", "code", "commands", "sessions",
		"sync", "gate", "network", "limits", "executors", "counters", "ledger", "machines", "facts", "tool calls", "audit", "memory", "caches"}; !slices.Equal(got, want) {
		t.Errorf("ending: %q, not %q", got, want)
	}
}

// Schemas are compiled at the first call of their tool: here all of them are, so that none is wrong in front of an agent.
func TestSchemasOfToolsCompile(t *testing.T) {
	h := built(t)
	if err := h.tools.Compile(); err != nil {
		t.Error(err)
	}
	for _, spec := range remote.Specs() {
		if err := tools.Compile(spec); err != nil {
			t.Error(err)
		}
	}
}
