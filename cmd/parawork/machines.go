package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/machines"
	"github.com/parawork/parawork/store"
)

// buildMachines makes the room of members' own machines, and finds the programs for them.
func (h *house) buildMachines(publisher events.Publisher) {
	h.machines = machines.New(machines.Config{Store: store.NewMachines(h.db), Accounts: h.accounts, Events: publisher, Enabled: h.cfg.Sandboxing.Runner.Enabled,
		Log: h.log.With("room", "machines")})
	h.downloads = machines.NewDownloads(downloadDirs(h.cfg.Sandboxing.Runner.DownloadsDir)...)
}

// downloadDirs are where the programs for machines lie: where config.json says, else beside the server's own.
func downloadDirs(said string) []string {
	if said != "" {
		return []string{said}
	}
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return []string{filepath.Join(filepath.Dir(self), "downloads")}
}

// recheck asks again what a user may still do, after it became less.
func (h *house) recheck(userID string) {
	h.server.Recheck(userID)
	h.machines.Recheck(context.Background(), userID)
}
