package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/ui"
)

// How a check came out.
const (
	good  = "ok"
	minor = "note" // works, but somebody should know
	bad   = "FAIL" // the server would not start, or could not do its job
)

// report collects what the doctor finds and prints it as it comes.
type report struct {
	out    io.Writer
	failed int
	notes  int
}

// say prints one finding, and the cure when there is one.
func (r *report) say(result, what, found, cure string) {
	switch result {
	case bad:
		r.failed++
	case minor:
		r.notes++
	}
	fmt.Fprintf(r.out, "%-4s  %-12s  %s\n", result, what, strings.ReplaceAll(found, "\n", "\n                    "))
	if cure != "" {
		fmt.Fprintf(r.out, "                    -> %s\n", strings.ReplaceAll(cure, "\n", "\n                       "))
	}
}

// doctor looks at everything Parawork needs and changes nothing.
func (p program) doctor(ctx context.Context, args []string) error {
	fs := flag.NewFlagSet("doctor", flag.ContinueOnError)
	file := fs.String("config", "", "config.json")
	show := fs.Bool("print-config", false, "print the configuration, without secrets, and nothing else")
	checkAudit := fs.Bool("audit", false, "check the audit as well: that no entry was changed, removed or put in between")
	auditFile := fs.String("audit-file", "", "check a `FILE` that was exported from the audit, in JSON, instead")
	if err := p.parse(fs, args); err != nil {
		return err
	}
	cfg, err := config.Load(*file, p.env)
	if *show {
		if err != nil {
			return err
		}
		fmt.Fprint(p.stdout, cfg.Redacted())
		return nil
	}
	r := &report{out: p.stdout}
	r.say(good, "parawork", fmt.Sprintf("%s, %s, %s/%s", version, runtime.Version(), runtime.GOOS, runtime.GOARCH), "")
	if err != nil {
		r.say(bad, "config", err.Error(), "")
		fmt.Fprintln(p.stdout, "\nThe configuration must be mended first: everything else depends on it.")
		return errReported
	}
	if cfg.File == "" {
		r.say(good, "config", "no file: the defaults hold", "")
	} else {
		r.say(good, "config", cfg.File, "")
	}
	if cfg.UI.Dir == "" && !ui.Built() {
		r.say(minor, "web app", "not part of this build: only the API works", "Install Node 20.19 or newer and run `make build`.")
	}
	r.folder(cfg.DataDir)
	r.git(ctx)
	r.guest(p.env)
	state := r.database(ctx, cfg)
	r.key(ctx, cfg, state)
	r.reserve(cfg.DataDir)
	if *checkAudit || *auditFile != "" {
		r.audit(ctx, cfg, state, *auditFile)
	}
	r.address(ctx, cfg)
	r.signIn(ctx, cfg)
	r.roots(cfg)
	r.agents(ctx, cfg)
	p.checkPlaces(ctx, r, cfg, state)
	r.machines(cfg)
	r.mail(ctx, cfg)
	r.limits(cfg)
	r.unlimited(cfg, state.Teams)
	r.quotas(cfg, state)
	switch {
	case r.failed > 0:
		fmt.Fprintf(p.stdout, "\n%s to mend before Parawork can work.\n", count(r.failed, "thing"))
		return errReported
	case r.notes > 0:
		fmt.Fprintf(p.stdout, "\nParawork can work. %s above may matter to you.\n", count(r.notes, "note"))
	default:
		fmt.Fprintln(p.stdout, "\nEverything is fine.")
	}
	return nil
}

// count writes a number with its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	if strings.HasSuffix(noun, "x") {
		noun += "e"
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// checkPlaces says where workspaces can live. A guest that this build carries is unpacked for the time of the question.
func (p program) checkPlaces(ctx context.Context, r *report, cfg *config.Config, st store.State) {
	tmp, err := os.MkdirTemp("", "parawork-doctor-")
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	defer os.RemoveAll(tmp)
	guest, err := guestPath(tmp, p.env)
	if err != nil {
		guest = filepath.Join(tmp, "parawork-guest") // that it is missing is said already; the places say it too
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r.places(ctx, cfg, st, guest)
}
