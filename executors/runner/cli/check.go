package cli

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/policy"
	"github.com/parawork/parawork/executors/runner/tunnel"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
)

// findings collects what check finds and prints it as it comes, as the server's doctor does.
type findings struct {
	p      *Program
	failed int
}

// Results of a check.
const (
	good = "ok"
	note = "note" // works, but the owner should know
	bad  = "FAIL"
)

func (f *findings) say(result, what, found, cure string) {
	if result == bad {
		f.failed++
	}
	f.p.say("%-4s  %-10s  %s", result, what, strings.ReplaceAll(found, "\n", "\n                  "))
	if cure != "" {
		f.p.say("                  -> %s", strings.ReplaceAll(cure, "\n", "\n                     "))
	}
}

// check checks everything the command needs and changes nothing.
func (p *Program) check(ctx context.Context, args []string) error {
	var w which
	fl := flag.NewFlagSet("parawork runner check", flag.ContinueOnError)
	w.flags(fl)
	proxy := fl.String("proxy", "", "proxy to the server")
	ca := fl.String("ca", "", "authorities to trust")
	if _, err := p.parse(fl, args, 0); err != nil {
		return err
	}
	f := &findings{p: p}
	f.say(good, "program", fmt.Sprintf("parawork %s, %s/%s", p.Version, runtime.GOOS, runtime.GOARCH), "")
	id, err := p.find(w)
	if fault.CodeOf(err) == "runner_ambiguous" {
		return err
	}
	if err != nil {
		f.say(note, "identity", err.Error(), "")
		id = &identity.Identity{Server: w.server, Proxy: *proxy, CA: *ca}
	} else {
		f.say(good, "identity", fmt.Sprintf("%q at %s, in %s", id.Name, id.Server, p.short(id.Dir)), "")
	}
	pol := f.policy(id)
	f.modes(ctx, id, pol)
	f.git(ctx)
	f.disk(id)
	f.server(ctx, id)
	if f.failed > 0 {
		p.say("\n%s to fix.", plural(f.failed, "1 thing is", "%d things are"))
		return errReported
	}
	p.say("\nThis machine can work.")
	return nil
}

func (f *findings) policy(id *identity.Identity) policy.Policy {
	if id.Dir == "" {
		return policy.Default()
	}
	file := policyFile(id)
	pol, err := policy.Load(file, f.p.Env("HOME"))
	if err != nil {
		f.say(bad, "file", err.Error(), "Until then nothing new is allowed.")
		return policy.Default()
	}
	if _, err := pol.NetworkFor(id.Mode); err != nil {
		f.say(bad, "file", err.Error(), "")
	} else {
		f.say(good, "file", fmt.Sprintf("%s: access %s, for the %s", f.p.short(file), pol.Access, pol.Share), "")
	}
	for _, folder := range pol.Folders {
		if st, err := os.Stat(folder.Path); err != nil || !st.IsDir() {
			f.say(note, "folder", f.p.short(folder.Path)+" does not exist", "Create it, or remove it from folders in "+f.p.short(file)+".")
		}
	}
	if _, err := os.Lstat(filepath.Join(id.Dir, policy.StopName)); err == nil {
		f.say(note, "stopped", "the kill switch was used: nothing runs", "Start it again with parawork runner"+namely(id)+".")
	}
	if until, quiet := pol.Quiet(time.Now()); quiet {
		f.say(note, "quiet", "nothing new starts until "+until.Format("Mon 15:04"), "")
	}
	return pol
}

// modes checks how sandboxes can be made.
func (f *findings) modes(ctx context.Context, id *identity.Identity, pol policy.Policy) {
	dir, err := os.MkdirTemp("", "parawork-check-")
	if err != nil {
		f.say(bad, "place", err.Error(), "")
		return
	}
	defer os.RemoveAll(dir)
	works := false
	for _, m := range pol.Modes {
		if m == wire.Direct && id.Mode != wire.Direct {
			continue
		}
		reason, cure := f.p.whyNot(ctx, m, pol, dir, slog.New(slog.DiscardHandler))
		switch {
		case reason == "" && m == wire.Direct:
			f.say(note, "place", "NO ISOLATION: agents can do whatever you can do here", "")
			works = true
		case reason == "":
			f.say(good, "place", modeName(m)+" can be used", "")
			works = works || id.Mode == "" || id.Mode == m
		case id.Mode == m:
			f.say(bad, "place", modeName(m)+", which this machine runs in, cannot be used: "+reason, cure)
		default:
			f.say(note, "place", modeName(m)+" cannot be used: "+reason, cure)
		}
	}
	if !works && id.Mode == "" {
		f.say(bad, "place", "nothing on this machine can isolate agents in a sandbox", "Start Docker, or install bubblewrap.")
	}
}

func (f *findings) git(ctx context.Context) {
	out, err := f.p.Exec(ctx, "git", "--version")
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, fs.ErrNotExist) {
		f.say(note, "git", "is not installed, so nobody can work on folders of this machine", "Install git.")
		return
	}
	if err != nil {
		f.say(note, "git", said(out, err).Error(), "Install git.")
		return
	}
	f.say(good, "git", strings.TrimPrefix(out, "git version "), "")
}

// leastDiskMB is less than a repository and an agent need.
const leastDiskMB = 2048

func (f *findings) disk(id *identity.Identity) {
	dir := id.Dir
	if dir == "" {
		dir = f.p.Env("HOME")
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		f.say(bad, "disk", fmt.Sprintf("%s: %v", dir, err), "")
		return
	}
	free := int64(st.Bavail) * int64(st.Bsize) >> 20
	if free < leastDiskMB {
		f.say(note, "disk", fmt.Sprintf("%d MiB are free on the disk that holds the work", free), "Free some space: repositories and what agents install go there.")
		return
	}
	f.say(good, "disk", fmt.Sprintf("%d GiB are free", free>>10), "")
}

// server connects to the server as the program does.
func (f *findings) server(ctx context.Context, id *identity.Identity) {
	if id.Server == "" {
		return
	}
	server, err := identity.Address(id.Server)
	if err != nil {
		f.say(bad, "server", err.Error(), "")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if id.Dir == "" {
		client, err := f.p.client(id.Proxy, id.CA)
		if err != nil {
			f.say(bad, "server", err.Error(), "")
			return
		}
		_, err = lookOffered(ctx, client, server)
		if err != nil && slices.Contains([]string{"", codeUpdate}, fault.CodeOf(err)) && !errors.Is(err, net.ErrClosed) {
			f.say(bad, "server", err.Error(), "Check the address; behind a proxy use --proxy or HTTPS_PROXY, with a certificate of your own --ca.")
			return
		}
		f.say(good, "server", server+" answers", "")
		return
	}
	if pid := holder(id.Dir); pid > 0 { // a second connection of this machine would cut the first
		var r report
		switch err := request(ctx, id.Dir, http.MethodGet, "/status", nil, &r); {
		case err != nil:
			f.say(bad, "program", fmt.Sprintf("process %d runs and does not answer: %v", pid, err), "End it with parawork runner stop --now, and start it again.")
		case r.Connected:
			f.say(good, "server", "online since "+clock(r.Since, time.Now()), "")
		default:
			f.say(bad, "server", "offline: "+r.Reason, "")
		}
		return
	}
	proxy, err := proxyOf(id.Proxy)
	if err != nil {
		f.say(bad, "server", err.Error(), "")
		return
	}
	roots, err := tunnel.Roots(id.CA)
	if err != nil {
		f.say(bad, "server", err.Error(), "")
		return
	}
	c, err := tunnel.Dial(ctx, tunnel.DialConfig{URL: server, RunnerID: id.RunnerID, Key: id.Key, ServerKey: id.ServerKey, Proxy: proxy, RootCAs: roots, Agent: "parawork-runner/" + f.p.Version + " check"})
	if err != nil {
		f.say(bad, "server", err.Error(), "")
		return
	}
	_ = c.Close() // the program has already verified everything
	f.say(good, "server", "it answers, and proved its key", "")
}
