package app

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/guestbin"
	"github.com/parawork/parawork/sessions/agents"
)

// What cannot be built says why, however far it got.
func TestBuildThatFailsTellsWhy(t *testing.T) {
	cfg := config.Default(agents.Programs(), fromconfig.Kinds(kinds.All()))
	cfg.DataDir = t.TempDir()
	missing := filepath.Join(cfg.DataDir, "no-guest")
	h, err := Build(t.Context(), Options{Config: cfg, Kinds: kinds.All(), Log: slog.New(slog.DiscardHandler), Env: func(string) string { return "" },
		Guest: func(string) (string, error) { return guestbin.Runnable(missing, "a test names") }})
	if h != nil || !fault.Is(err, fault.Unavailable) {
		t.Fatalf("built %v, %v", h, err)
	}
}
