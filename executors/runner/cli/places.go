package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/local"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/guestbin"
)

// guestFor returns the guest program for a mode: that of this system, and a Linux one for containers. bin is where it is unpacked.
func (p *Program) guestFor(m wire.Mode, bin string) (string, error) {
	goos := runtime.GOOS
	if m == wire.Docker {
		goos = "linux"
	}
	if path := p.Env(guestbin.Env); path != "" {
		return guestbin.Runnable(path, guestbin.Env+" names")
	}
	name := "parawork-guest-" + goos + "-" + runtime.GOARCH
	if p.Carried != nil {
		f, err := p.Carried.Open(name + ".gz")
		switch {
		case err == nil:
			defer f.Close()
			packed, ok := f.(interface {
				Read([]byte) (int, error)
				Seek(int64, int) (int64, error)
			})
			if !ok {
				return "", fmt.Errorf("the embedded guest program cannot be read")
			}
			return guestbin.Unpack(bin, packed)
		case !errors.Is(err, fs.ErrNotExist):
			return "", fmt.Errorf("reading the embedded guest program: %w", err)
		}
	}
	if self, err := p.Self(); err == nil && goos == runtime.GOOS {
		if path, err := guestbin.Runnable(filepath.Join(filepath.Dir(self), "parawork-guest"), "/ next to this program's file"); err == nil {
			return path, nil
		}
	}
	return "", fault.New(fault.Unavailable, "guest_missing", "This program does not contain the guest program that runs in sandboxes (%s). Download it from your server's Machines page, or set %s to one.", name, guestbin.Env)
}

// ending is an Executor whose sandboxes end whether or not their guests answer: a machine's kill switch waits for nobody.
type ending interface {
	executors.Executor
	executors.Destroyer
}

// place is how a machine runs sandboxes. For further abilities of the executor, ask Executor itself.
type place struct {
	Executor ending
	mode     wire.Mode
	close    func() error
}

// placeOf makes the executor of a mode. It starts nothing. dir is the machine's own folder.
func (p *Program) placeOf(m wire.Mode, pol policy.Policy, dir string, log *slog.Logger) (*place, error) {
	guest, err := p.guestFor(m, filepath.Join(dir, "bin"))
	if err != nil {
		return nil, err
	}
	sandboxes := filepath.Join(dir, "sandboxes")
	log = log.With("component", string(m))
	out := &place{mode: m, close: func() error { return nil }}
	switch m {
	case wire.Docker:
		trusted, err := docker.TrustedHere()
		if err != nil {
			return nil, err
		}
		prepare := &docker.Prepare{Agents: p.Agents, CA: trusted, System: pol.Docker.Packages}
		if n, err := pol.NetworkFor(m); err == nil && n.Mode == policy.NetworkNone {
			prepare.Offline = "the owner's policy file of this machine allows no network"
		}
		e, err := docker.New(docker.Config{Dir: sandboxes, Host: p.Env("DOCKER_HOST"), GuestPath: guest, Image: pol.Image, Prepare: prepare, Machine: true,
			Root: pol.Docker.Root, Capabilities: pol.Docker.Capabilities, Log: log})
		if err != nil {
			return nil, err
		}
		out.Executor, out.close = e, e.Close
	case wire.Bubblewrap:
		out.Executor, err = bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: sandboxes, GuestPath: guest, Paths: pol.Paths, Groups: groupsOf(dir), Log: log})
	case wire.Direct:
		out.Executor, err = local.New(local.Config{Enabled: true, Dir: sandboxes, GuestPath: guest, Groups: groupsOf(dir), Log: log})
	}
	return out, err
}

// groupsOf opens the control groups of this machine's sandboxes; nil where there are none, which Capabilities reports.
func groupsOf(dir string) *cgroup.Tree {
	sum := sha256.Sum256([]byte(dir))
	t, err := cgroup.Open("parawork/" + hex.EncodeToString(sum[:6]))
	if err != nil {
		return nil
	}
	return t
}

// tried is the result of trying a mode.
type tried struct {
	mode         wire.Mode
	reason, cure string
}

// choose returns the first of the allowed modes with isolation that works on this machine. known narrows it to one.
func (p *Program) choose(ctx context.Context, pol policy.Policy, known wire.Mode, dir string, log *slog.Logger) (wire.Mode, []tried) {
	var all []tried
	for _, m := range pol.Modes {
		if m == wire.Direct || known != "" && m != known {
			continue
		}
		reason, cure := p.whyNot(ctx, m, pol, dir, log)
		if reason == "" {
			return m, all
		}
		all = append(all, tried{m, reason, cure})
	}
	return "", all
}

// whyNot returns why a mode does not work now, "" when it does.
func (p *Program) whyNot(ctx context.Context, m wire.Mode, pol policy.Policy, dir string, log *slog.Logger) (reason, cure string) {
	pl, err := p.placeOf(m, pol, dir, log)
	if err != nil {
		return err.Error(), ""
	}
	defer pl.close()
	c, err := pl.Executor.Capabilities(ctx)
	switch {
	case err != nil:
		return err.Error(), ""
	case !c.Available:
		return c.Reason, c.Cure
	}
	return "", ""
}

// modeName names a mode for people.
func modeName(m wire.Mode) string {
	switch m {
	case wire.Docker:
		return "Docker"
	case wire.Bubblewrap:
		return "Bubblewrap"
	}
	return "no isolation"
}

// noPlace explains that nothing on this machine can run sandboxes, and what to do.
func noPlace(all []tried) error {
	var b strings.Builder
	b.WriteString("This machine has no way to isolate agents in a sandbox:\n")
	for _, t := range all {
		fmt.Fprintf(&b, "  %s: %s\n", modeName(t.mode), t.reason)
		if t.cure != "" {
			fmt.Fprintf(&b, "      -> %s\n", t.cure)
		}
	}
	if runtime.GOOS == "darwin" {
		b.WriteString("Install Docker Desktop, OrbStack or Colima and start it, then run the same line again.\n")
	} else {
		b.WriteString("Install and start Docker (https://docs.docker.com/engine/install/), or install bubblewrap (apt install bubblewrap), then run the same line again.\n")
	}
	b.WriteString("Or add --dangerous: then agents run as you, with access to all your files, keys and network. Nothing was connected.")
	return fault.New(fault.Unavailable, wire.CodeUnavailable, "%s", b.String())
}
