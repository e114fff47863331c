// Package doctor looks at everything Parawork needs, says what is missing and what to do about it, and changes nothing. It has no goroutine and no
// lock.
package doctor

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
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

// Examination is what the doctor looks at.
type Examination struct {
	Config       *config.Config
	Kinds        executors.Descriptors // of places
	Unreadable   error                 // why there is no Config
	Version      string
	Env          func(string) string
	Guest        func(dataDir string) (string, error) // finds the program that runs in sandboxes, or unpacks it
	GuestCarried bool                                 // it is part of this build
	Audit        bool                                 // check the audit as well
	AuditFile    string                               // check this export of it instead
}

// Run looks at everything Parawork needs, changes nothing, and says on out what it finds. It reports whether Parawork can work.
func (x Examination) Run(ctx context.Context, out io.Writer) bool {
	cfg, err := x.Config, x.Unreadable
	r := &report{out: out}
	r.say(good, "parawork", fmt.Sprintf("%s, %s, %s/%s", x.Version, runtime.Version(), runtime.GOOS, runtime.GOARCH), "")
	if err != nil {
		r.say(bad, "config", err.Error(), "")
		fmt.Fprintln(out, "\nThe configuration must be fixed first: everything else depends on it.")
		return false
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
	r.guest(x.Env, x.GuestCarried)
	state := r.database(ctx, cfg)
	r.key(ctx, cfg, state)
	r.reserve(cfg.DataDir)
	if x.Audit {
		r.audit(ctx, cfg, state, x.AuditFile)
	}
	r.address(ctx, cfg)
	r.previews(cfg)
	r.signIn(ctx, cfg)
	r.roots(cfg)
	r.agents(ctx, cfg)
	x.places(ctx, r, state)
	r.parts(ctx, exec.LookPath)
	r.machines(cfg)
	r.mail(ctx, cfg)
	r.artifacts(ctx, cfg)
	r.limits(cfg, x.Kinds)
	r.unlimited(cfg, state.Teams)
	r.quotas(cfg, state)
	switch {
	case r.failed > 0:
		fmt.Fprintf(out, "\n%s to fix before Parawork can work.\n", instance.Count(r.failed, "thing"))
		return false
	case r.notes > 0:
		fmt.Fprintf(out, "\nParawork can work. %s above may matter to you.\n", instance.Count(r.notes, "note"))
	default:
		fmt.Fprintln(out, "\nEverything is fine.")
	}
	return true
}

// places says where workspaces can live. A guest that this build carries is unpacked for the time of the question.
func (x Examination) places(ctx context.Context, r *report, st store.State) {
	tmp, err := os.MkdirTemp("", "parawork-doctor-")
	if err != nil {
		r.say(bad, "place", err.Error(), "")
		return
	}
	defer os.RemoveAll(tmp)
	guest, err := x.Guest(tmp)
	if err != nil {
		guest = filepath.Join(tmp, "parawork-guest") // that it is missing is said already; the places say it too
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	r.places(ctx, x.Config, x.Kinds, st, guest)
}
