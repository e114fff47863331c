//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/bubblewrap"
)

func TestCapabilities(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "parawork-scripts-") // a box's user must be able to walk to it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	version := "[ \"$1\" = --version ] && echo bubblewrap 0.11.0 && exit\n"
	for name, test := range map[string]struct {
		cfg          bubblewrap.Config
		reason, cure string
	}{
		"switched off":     {bubblewrap.Config{}, "switched off", "sandboxing.bubblewrap.enabled"},
		"no guest program": {bubblewrap.Config{Enabled: true, GuestPath: filepath.Join(dir, "none")}, "guest program is missing", "make build"},
		"not installed":    {bubblewrap.Config{Enabled: true, Bwrap: "no-such-bwrap"}, "not installed", "apt-get install bubblewrap"},
		"too old":          {bubblewrap.Config{Enabled: true, Bwrap: script("old", "echo bubblewrap 0.6.1\n")}, "0.6 is too old", "0.8 or newer"},
		"no words":         {bubblewrap.Config{Enabled: true, Bwrap: script("mute", "exit 1\n")}, "does not say its version", "0.8 or newer"},
		"no namespaces":    {bubblewrap.Config{Enabled: true, Bwrap: script("refused", version+"echo 'bwrap: No permissions to create new namespace, likely because' >&2; exit 1\n")}, "", ""},
		"hidden proc":      {bubblewrap.Config{Enabled: true, Bwrap: script("proc", version+"echo \"bwrap: Can't mount proc on /newroot/proc: Operation not permitted\" >&2; exit 1\n")}, "", ""},
		"something else":   {bubblewrap.Config{Enabled: true, Bwrap: script("else", version+"echo 'bwrap: out of luck' >&2; exit 1\n")}, "out of luck", ""},
	} {
		test.cfg.Dir = dir
		test.cfg.GuestPath = cmp.Or(test.cfg.GuestPath, guestPath)
		e, err := bubblewrap.New(test.cfg)
		if err != nil {
			t.Fatal(err)
		}
		c, err := e.Capabilities(t.Context())
		if err != nil || c.Available || c.Reason == "" || c.Cure == "" || !strings.Contains(c.Reason, test.reason) || !strings.Contains(c.Cure, test.cure) {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
	e := newExecutor(t, t.TempDir())
	c, err := e.Capabilities(t.Context())
	if err != nil || !c.Available || c.Reason != "" || !c.Isolated || !c.Host || !c.Network || c.Boundary != "process" || c.StartMs <= 0 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestMissingPathsAreReported(t *testing.T) {
	t.Parallel()
	needBoxes(t)
	gone := filepath.Join(t.TempDir(), "gone")
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: t.TempDir(), GuestPath: guestPath, Paths: []string{gone}})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available || !strings.Contains(c.Warning, gone) {
		t.Errorf("%+v, %v", c, err)
	}
	for _, bad := range []string{"opt", "/", "/opt/.."} {
		if _, err := bubblewrap.New(bubblewrap.Config{Dir: "/x", Paths: []string{bad}}); err == nil {
			t.Errorf("path %q was taken", bad)
		}
	}
}

// A probe nobody waits for any more leaves nothing behind: not bubblewrap, nor what it has started.
func TestProbeIsEndedWhole(t *testing.T) {
	t.Parallel()
	needBoxes(t)
	dir, err := os.MkdirTemp("", "parawork-scripts-") // a box's user must be able to walk to it
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	script, pids := filepath.Join(dir, "bwrap"), filepath.Join(dir, "pids")
	syscall.ForkLock.RLock() // no other test's program has it open for writing when it is run
	err = os.WriteFile(script, []byte("#!/bin/sh\n[ \"$1\" = --version ] && echo bubblewrap 0.11.0 && exit\n"+
		"[ -p /proc/self/fd/5 ] && exit 1\n/bin/sleep 1000 &\necho $$ $! done >"+pids+"\nwait\n"), 0o755)
	syscall.ForkLock.RUnlock()
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := bubblewrap.New(bubblewrap.Config{Enabled: true, Dir: t.TempDir(), GuestPath: guestPath, Bwrap: script})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	go func() {
		_, err := e.Capabilities(ctx)
		asked <- err
	}()
	var started []string
	for limit := time.Now().Add(30 * time.Second); len(started) < 3; time.Sleep(5 * time.Millisecond) {
		b, _ := os.ReadFile(pids) // not there yet
		started = strings.Fields(string(b))
		select {
		case err := <-asked:
			t.Fatalf("the probe ended: %v", err)
		default:
		}
		if time.Now().After(limit) {
			t.Fatal("the probe did not begin")
		}
	}
	cancel()
	if err := <-asked; err == nil {
		t.Error("a probe that was cancelled says what it found")
	}
	for _, pid := range started[:2] {
		if b, err := os.ReadFile("/proc/" + pid + "/stat"); err == nil && !strings.Contains(string(b), ") Z ") {
			t.Errorf("%s still runs: %s", pid, b)
		}
	}
}
