package doctor

import (
	"strings"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/runner/machines"
)

// machines says whether members can connect machines, and what they can download.
func (r *report) machines(cfg *config.Config) {
	enabled, dir := fromconfig.Machines(cfg)
	if !enabled {
		r.say(good, "machines", "members' own machines are switched off (sandboxing.runner.enabled)", "")
		return
	}
	var have, lack []string
	for _, d := range machines.NewDownloads(fromconfig.DownloadDirs(dir)...).List() {
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
	if cfg.Server.PublicURL == "" && fromconfig.LoopbackOnly(cfg.Server.Listen) {
		r.say(minor, "machines", "only this machine itself reaches the server", "For other machines set server.publicUrl to the address people use, behind a reverse proxy with https: docs/operate.md")
	}
}
