package app

import (
	"context"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// buildMachines makes the room of members' own machines, and finds the programs for them.
func (h *App) buildMachines(publisher events.Publisher) {
	h.machines = machines.New(machines.Config{Store: store.NewMachines(h.db), Accounts: h.directory, Sealer: h.vault, Events: publisher, Enabled: h.cfg.Sandboxing.Runner.Enabled,
		Log: h.log.With("room", "machines")})
	h.downloads = machines.NewDownloads(DownloadDirs(h.cfg.Sandboxing.Runner.DownloadsDir)...)
}

// DownloadDirs are where the programs for machines lie: where config.json says, else beside the server's own.
func DownloadDirs(said string) []string {
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
func (h *App) recheck(userID string) {
	if h.suspension != nil {
		h.suspension.Poke()
	}
	h.server.Recheck(userID)
	h.machines.Recheck(tenant.All(context.Background(), "machines of one person, in all their teams"), userID)
}

// recheckAll is recheck for everybody, after another process changed something.
func (h *App) recheckAll() {
	h.server.RecheckAll()
	h.machines.Recheck(tenant.All(context.Background(), "machines of all people, in all their teams"), "")
}
