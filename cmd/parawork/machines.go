package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// buildMachines makes the room of members' own machines, and finds the programs for them.
func (h *house) buildMachines(publisher events.Publisher) {
	h.machines = machines.New(machines.Config{Store: store.NewMachines(h.db), Accounts: h.directory, Sealer: h.vault, Events: publisher, Enabled: h.cfg.Sandboxing.Runner.Enabled,
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
	if h.suspension != nil {
		h.suspension.Poke()
	}
	h.server.Recheck(userID)
	h.machines.Recheck(tenant.All(context.Background(), "machines of one person, in all their teams"), userID)
}

// recheckAll is recheck for everybody, after another process changed something.
func (h *house) recheckAll() {
	h.server.RecheckAll()
	h.machines.Recheck(tenant.All(context.Background(), "machines of all people, in all their teams"), "")
}

// newRunnerKey makes a new key for machines. A server that runs would go on with the old one.
func (p program) newRunnerKey(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("new-runner-key")
	fs.Bool("yes", false, "")
	cfg, db, done, err := p.openAlone(ctx, fs, file, args, func() error { return p.need(fs, "yes") })
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	key, err := settleKey(ctx, cfg.DataDir, db)
	if err != nil {
		return err
	}
	sealed := vault.New(vault.Config{Store: store.NewAccounts(db), Key: key})
	n, err := machines.New(machines.Config{Store: store.NewMachines(db), Sealer: sealed, Events: events.New(), Enabled: true}).RenewServerKey(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "made a new key; to connect anew: %s (on the Machines page: ask for a new key, then run its line there)\n", count(n, "machine"))
	return nil
}

// machines says whether members can connect machines, and what they can download.
func (r *report) machines(cfg *config.Config) {
	if !cfg.Sandboxing.Runner.Enabled {
		r.say(good, "machines", "members' own machines are switched off (sandboxing.runner.enabled)", "")
		return
	}
	var have, lack []string
	for _, d := range machines.NewDownloads(downloadDirs(cfg.Sandboxing.Runner.DownloadsDir)...).List() {
		if d.Reason == "" {
			have = append(have, d.Name)
		} else {
			lack = append(lack, d.Name)
		}
	}
	found := "members can connect machines of their own"
	switch {
	case len(have) == 0:
		r.say(minor, "machines", found+", but no program for them is offered for download", "Run make downloads where this server was built, or set sandboxing.runner.downloadsDir to the folder with the programs.")
	case len(lack) > 0:
		r.say(minor, "machines", found+"; the program is offered for "+strings.Join(have, ", ")+", not for "+strings.Join(lack, ", "), "Run make downloads where this server was built.")
	default:
		r.say(good, "machines", found+"; the program is offered for "+strings.Join(have, ", "), "")
	}
	if cfg.Server.PublicURL == "" && loopbackOnly(cfg.Server.Listen) {
		r.say(minor, "machines", "only this machine itself reaches the server", "For other machines set server.publicUrl to the address people use, behind a reverse proxy with https: docs/operate.md")
	}
}
