package main

import (
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/fault"
)

// What cannot be built says why, however far it got.
func TestBuildThatFailsTellsWhy(t *testing.T) {
	cfg := config.Default()
	cfg.DataDir = t.TempDir()
	missing := filepath.Join(cfg.DataDir, "no-guest")
	env := func(name string) string {
		if name == guestEnv {
			return missing
		}
		return ""
	}
	h, err := build(t.Context(), cfg, slog.New(slog.DiscardHandler), env)
	if h != nil || !fault.Is(err, fault.Unavailable) {
		t.Fatalf("built %v, %v", h, err)
	}
}
