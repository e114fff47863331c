package hostgit_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/hostgit"
)

// fake makes a program that stands in for git.
func fake(t *testing.T, script string) (*hostgit.Git, string) {
	t.Helper()
	dir := t.TempDir()
	p := filepath.Join(dir, "git")
	// A program that another test forks meanwhile would hold the file open for writing, and it could not be run.
	syscall.ForkLock.RLock()
	err := os.WriteFile(p, []byte("#!/bin/sh\n"+script), 0o755)
	syscall.ForkLock.RUnlock()
	if err != nil {
		t.Fatal(err)
	}
	return hostgit.New(hostgit.Config{Path: p, StateDir: filepath.Join(dir, "state"), Protocols: []string{"https"}, Env: os.Getenv}), dir
}

func real(t *testing.T) *hostgit.Git {
	t.Helper()
	p, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	return hostgit.New(hostgit.Config{Path: p, StateDir: t.TempDir(), Protocols: []string{"https"}, Env: os.Getenv})
}

func TestTimeoutEndsTheWholeGroup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	// A child that ignores TERM and keeps the output open.
	g, _ := fake(t, `(trap '' TERM; echo $$ > `+dir+`/child; while :; do sleep 0.2; done) &
wait`)
	at := time.Now()
	_, err := g.Run(t.Context(), hostgit.Call{Args: []string{"status"}, Timeout: 300 * time.Millisecond})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%v", err)
	}
	if d := time.Since(at); d > 20*time.Second {
		t.Errorf("it took %s", d)
	}
	out, err := exec.Command("pgrep", "-f", dir+"/child").Output()
	if err == nil && len(out) > 0 {
		t.Errorf("still running: %s", out)
	}
}

func TestCancelReportsItsCause(t *testing.T) {
	t.Parallel()
	g, dir := fake(t, `touch "$(dirname "$0")/started"; exec sleep 600`)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		for {
			if _, err := os.Stat(dir + "/started"); err == nil {
				cancel(why)
				return
			}
			time.Sleep(time.Millisecond) // the interval of looking
		}
	}()
	_, err := g.Run(ctx, hostgit.Call{Args: []string{"fetch"}})
	if !errors.Is(err, why) {
		t.Errorf("%v", err)
	}
}

func TestOutputIsCapped(t *testing.T) {
	t.Parallel()
	g, _ := fake(t, "exec yes")
	out, err := g.Run(t.Context(), hostgit.Call{Args: []string{"log"}, Max: 1000})
	if !errors.Is(err, hostgit.ErrTooMuch) || len(out) > 1000 {
		t.Errorf("%d bytes, %v", len(out), err)
	}
}

func TestEnvironmentIsMadeFromNothing(t *testing.T) {
	t.Setenv("GIT_DIR", "/elsewhere")
	t.Setenv("GIT_SSH_COMMAND", "touch /tmp/x")
	t.Setenv("PARAWORK_SECRET", "hunter2")
	t.Setenv("GIT_CONFIG_PARAMETERS", "'core.pager=touch'")
	g, dir := fake(t, `env; echo "$@"`)
	out, err := g.Text(t.Context(), hostgit.Call{Args: []string{"fetch"}, GitDir: dir, Network: true, Credential: &hostgit.Credential{Host: "git.example.com", Token: "swordfish"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"GIT_DIR=" + dir, "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=https", "HOME=/nonexistent", "BatchMode=yes",
		"core.hooksPath=/dev/null", "credential.https://git.example.com.helper=", "GIT_CONFIG_NOSYSTEM=1"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in %s", want, out)
		}
	}
	for _, no := range []string{"swordfish", "hunter2", "elsewhere", "/tmp/x", "GIT_CONFIG_PARAMETERS"} {
		if strings.Contains(out, no) {
			t.Errorf("%q came through", no)
		}
	}
	out, err = g.Text(t.Context(), hostgit.Call{Args: []string{"status"}})
	if err != nil || !strings.Contains(out, "GIT_DIR=/dev/null") || !strings.Contains(out, "GIT_ALLOW_PROTOCOL=none") || !strings.Contains(out, "HOME=/nonexistent") {
		t.Errorf("%s %v", out, err)
	}
}

func TestProgressAndWords(t *testing.T) {
	t.Parallel()
	g, _ := fake(t, `printf 'Receiving objects:  50%% (1/2)\rReceiving objects: 100%% (2/2)\nhint: do this\nfatal: https://me:secret@host/x \033[31mnot\033[0m found\n' >&2; exit 3`)
	var lines []string
	_, err := g.Run(t.Context(), hostgit.Call{Args: []string{"fetch"}, Progress: func(l string) { lines = append(lines, l) }})
	if hostgit.ExitCode(err) != 3 || len(lines) != 4 || lines[0] != "Receiving objects:  50% (1/2)" {
		t.Errorf("%v %q", err, lines)
	}
	if w := hostgit.Words("Receiving objects:  50% (1/2)\rhint: do this\nfatal: https://me:secret@host/x \x1b[31mnot found\n"); w != "fatal: https://host/x [31mnot found" {
		t.Errorf("%q", w)
	}
	if got := hostgit.StripUserinfo("ssh://git@host/x ssh://u:p@host/y https://tok@host/z git@host:q"); got != "ssh://git@host/x ssh://u@host/y https://host/z git@host:q" {
		t.Errorf("%q", got)
	}
}

func TestScratchSeesNoConfig(t *testing.T) {
	t.Parallel()
	g := real(t)
	dir := t.TempDir()
	if _, err := g.Run(t.Context(), hostgit.Call{GitDir: dir, Args: []string{"init", "-q", "--bare", dir}}); err != nil {
		t.Fatal(err)
	}
	fired := filepath.Join(dir, "fired")
	for _, kv := range [][2]string{{"core.alternateRefsCommand", "touch " + fired}, {"merge.evil.driver", "touch " + fired}} {
		if _, err := g.Run(t.Context(), hostgit.Call{GitDir: dir, Args: []string{"config", kv[0], kv[1]}}); err != nil {
			t.Fatal(err)
		}
	}
	parent := t.TempDir()
	d, err := g.Scratch(t.Context(), parent, dir)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := d.Run(t.Context(), hostgit.Call{Args: []string{"mktree"}, Stdin: strings.NewReader("")})
	if err != nil {
		t.Fatal(err)
	}
	if out, err := g.Text(t.Context(), hostgit.Call{GitDir: dir, Args: []string{"cat-file", "-t", strings.TrimSpace(string(tree))}}); err != nil || out != "tree" {
		t.Errorf("the object is not in the repository: %q %v", out, err)
	}
	if out, _ := d.Text(t.Context(), "config", "--get", "merge.evil.driver"); out != "" {
		t.Errorf("the repository's config is seen: %q", out)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	if left, _ := os.ReadDir(parent); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestScratchFollowsTheObjectFormat(t *testing.T) {
	t.Parallel()
	g := real(t)
	dir, parent := filepath.Join(t.TempDir(), "repo"), t.TempDir()
	for _, format := range []string{"sha1", "sha256", "sha1"} { // one repository after the other at the same place
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := g.Run(t.Context(), hostgit.Call{Dir: parent, Args: []string{"init", "-q", "--bare", "--object-format=" + format, dir}}); err != nil {
			t.Fatal(err)
		}
		for range 2 { // what is remembered, too
			d, err := g.Scratch(t.Context(), parent, dir)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := d.Text(t.Context(), "rev-parse", "--show-object-format"); err != nil || got != format {
				t.Errorf("a scratch repository over a repository of %s has %q, %v", format, got, err)
			}
			if err := d.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if _, err := g.Scratch(t.Context(), parent, filepath.Join(dir, "gone")); err == nil {
		t.Error("there was a scratch repository over nothing")
	}
}

func TestNoTerminalToPromptOn(t *testing.T) {
	t.Parallel()
	g, _ := fake(t, `if (exec </dev/tty) 2>/dev/null; then echo tty; else echo none; fi; ps -o sid= -p $$`)
	out, err := g.Text(t.Context(), hostgit.Call{Args: []string{"x"}})
	if err != nil || !strings.HasPrefix(out, "none") {
		t.Errorf("%q %v", out, err)
	}
	if sid, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(out, "none")), "\n"); sid == "" {
		t.Skip("ps is not installed")
	}
}

// A commit of a few small objects can stand for more files than a machine has bytes: git ends before it holds all their names.
func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	g, dir := real(t), t.TempDir()
	run := func(in string, args ...string) string {
		t.Helper()
		out, err := g.Text(t.Context(), hostgit.Call{GitDir: dir, Stdin: strings.NewReader(in), Args: args})
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	run("", "init", "-q", "--bare", dir)
	empty := run("", "mktree")
	kind, name := "100644 blob ", run("x", "hash-object", "-w", "--stdin")
	for range 10 {
		var tree strings.Builder
		for i := range 10 {
			fmt.Fprintf(&tree, "%s%s\t%d\n", kind, name, i)
		}
		kind, name = "040000 tree ", run(tree.String(), "mktree")
	}
	_, err := g.Run(t.Context(), hostgit.Call{GitDir: dir, Memory: 32 << 20, Args: []string{"diff-tree", "-r", "--raw", empty, name}})
	if hostgit.ExitCode(err) <= 0 || !strings.Contains(err.Error(), "memory") {
		t.Errorf("%v", err)
	}
	// Also where a call names no bound: a program that waits until it has one.
	g, _ = fake(t, `while test "$(ulimit -d)" = unlimited; do :; done; ulimit -d`)
	if out, err := g.Text(t.Context(), hostgit.Call{Args: []string{"status"}}); err != nil || out != strconv.Itoa(2<<20) {
		t.Errorf("%q KiB, %v", out, err)
	}
}
