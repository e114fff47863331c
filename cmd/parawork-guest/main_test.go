//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
)

// TestMain lets the test binary be the program itself.
func TestMain(m *testing.M) {
	if os.Getenv("GUEST_TEST_MAIN") != "" {
		if err := os.Unsetenv("GUEST_TEST_MAIN"); err != nil {
			os.Exit(3)
		}
		main()
		return
	}
	os.Exit(m.Run())
}

// running is the program, started as an executor starts it.
type running struct {
	cmd  *exec.Cmd
	dir  string
	root string
	c    *client.Client
}

func start(t *testing.T, token func(cmd *exec.Cmd, dir string) []string) *running {
	t.Helper()
	r := &running{dir: t.TempDir(), root: t.TempDir()}
	short, err := os.MkdirTemp("", "pwg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	sock := filepath.Join(short, "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: sock, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	f, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	defer f.Close()
	r.cmd = exec.Command(os.Args[0])
	r.cmd.Env = append(os.Environ(), "GUEST_TEST_MAIN=1")
	r.cmd.ExtraFiles = []*os.File{f}
	r.cmd.Stderr = os.Stderr
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	r.cmd.Args = append([]string{os.Args[0], "serve", "--dir", r.dir, "--root", r.root, "--sandbox", "sbx_main", "--listen-fd", "3"}, token(r.cmd, r.dir)...)
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.cmd.Process.Kill(); _ = r.cmd.Wait() })
	r.c = client.New(client.Config{Token: "s3cret", SandboxID: "sbx_main", Dial: func(ctx context.Context) (io.ReadWriteCloser, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", sock)
	}})
	t.Cleanup(r.c.Close)
	return r
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestServe(t *testing.T) {
	t.Parallel()
	for name, token := range map[string]func(cmd *exec.Cmd, dir string) []string{
		"environment": func(cmd *exec.Cmd, _ string) []string {
			cmd.Env = append(cmd.Env, tokenEnv+"=s3cret")
			return nil
		},
		"file": func(_ *exec.Cmd, dir string) []string {
			path := filepath.Join(dir, "token")
			if err := os.WriteFile(path, []byte("s3cret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return []string{"--token-file", path}
		},
		"descriptor": func(cmd *exec.Cmd, _ string) []string {
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			_, _ = io.WriteString(w, "s3cret")
			_ = w.Close()
			cmd.ExtraFiles = append(cmd.ExtraFiles, r)
			return []string{"--token-fd", "4"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, token)
			ctx := within(t)
			h, err := r.c.Hello(ctx)
			if err != nil || h.Pid != r.cmd.Process.Pid || h.Root != r.root {
				t.Fatalf("hello %+v, %v", h, err)
			}
			var who struct {
				Pid, Version int
				Start        uint64
				BootID       string `json:"boot_id"`
			}
			b, err := os.ReadFile(filepath.Join(r.dir, "guest.json"))
			if err != nil || json.Unmarshal(b, &who) != nil || who.Pid != h.Pid || who.Start == 0 || who.BootID == "" || who.Version != guest.Version {
				t.Fatalf("guest.json %s, %v", b, err)
			}
			if _, err := r.c.Start(ctx, guest.ProcessSpec{ID: "a", Argv: []string{"sh", "-c", `env; cat /proc/$PPID/environ; trap "exit 5" HUP; kill -HUP $$; sleep 5`}}); err != nil {
				t.Fatal(err)
			}
			end, err := r.c.Wait(ctx, "a")
			if err != nil || end.ExitCode == nil || *end.ExitCode != 5 {
				t.Fatalf("a signal the guest catches must not be ignored by programs: %+v, %v", end, err)
			}
			o, err := r.c.Output(ctx, "a", guest.Stdout, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer o.Close()
			if out, err := io.ReadAll(o); err != nil || strings.Contains(string(out), "s3cret") && os.Getuid() != 0 {
				t.Fatalf("the token reached a program: %q, %v", out, err)
			}
			if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if err := r.cmd.Wait(); err != nil {
				t.Fatalf("after TERM: %v", err)
			}
		})
	}
}

// A guest of a sandbox without a network lets its programs out through a socket, and tells them how.
func TestTheWayOut(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "gate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "egress")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			http.Error(w, "refused as asked", http.StatusForbidden)
			return
		}
		_, _ = io.WriteString(w, "out at "+r.RequestURI)
	})}
	go func() { _ = srv.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = srv.Close() })
	r := start(t, func(cmd *exec.Cmd, _ string) []string {
		cmd.Env = append(cmd.Env, tokenEnv+"=s3cret", "HTTP_PROXY=http://the.servers.own:1")
		return []string{"--egress", socket}
	})
	ctx := within(t)
	run := func(id, line string, env map[string]string) string {
		if _, err := r.c.Start(ctx, guest.ProcessSpec{ID: id, Argv: []string{"sh", "-c", line}, Env: env}); err != nil {
			t.Fatal(err)
		}
		o, err := r.c.Output(ctx, id, guest.Stdout, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer o.Close()
		out, err := io.ReadAll(o)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	env := run("env", `for v in HTTP_PROXY http_proxy HTTPS_PROXY https_proxy ALL_PROXY all_proxy; do eval echo \$$v; done | sort -u; echo $NO_PROXY $no_proxy $NODE_USE_ENV_PROXY $PARAWORK_GATE`, nil)
	lines := strings.Split(env, "\n")
	const here = "localhost,.localhost,127.0.0.1,::1,[::1]"
	if !strings.HasPrefix(lines[0], "http://127.0.0.1:") || lines[1] != here+" "+here+" 1 "+socket {
		t.Errorf("programs have the environment %q", env)
	}
	if got := run("spec", "echo $HTTP_PROXY $NO_PROXY", map[string]string{"HTTP_PROXY": "http://its.own:2", "NO_PROXY": "x"}); got != "http://its.own:2 x\n" {
		t.Errorf("what a session says itself must win, not %q", got)
	}
	if _, err := exec.LookPath("curl"); err == nil {
		if got := run("curl", "curl -sS http://plain.example/a?b", nil); got != "out at http://plain.example/a?b" {
			t.Errorf("curl got %q", got)
		}
	}
	// git's ssh command really reaches the gate.
	got := run("ssh", `set -- $GIT_SSH_COMMAND; eval "set -- $GIT_SSH_COMMAND"; line=${3#ProxyCommand=}; line=$(echo "$line" | sed "s/%h/git.example/; s/%p/22/"); GUEST_TEST_MAIN=1 $line </dev/null 2>&1`, nil)
	if !strings.Contains(got, "parawork-guest: refused as asked") {
		t.Errorf("ssh got %q", got)
	}
}

func TestChangesOfAWorktree(t *testing.T) {
	t.Parallel()
	r := start(t, func(cmd *exec.Cmd, _ string) []string {
		cmd.Env = append(cmd.Env, tokenEnv+"=s3cret")
		return nil
	})
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = r.root
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@b", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@b")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q")
	git("commit", "-q", "--allow-empty", "-m", "base")
	base := git("rev-parse", "HEAD")
	w, err := r.c.Watch(within(t), base, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if set, err := w.Next(); err != nil || len(set.Upserts) != 0 {
		t.Fatalf("set %+v, %v", set, err)
	}
	if _, err := r.c.Start(within(t), guest.ProcessSpec{ID: "a", Argv: []string{"sh", "-c", "echo hello > new.txt; echo done"}}); err != nil {
		t.Fatal(err)
	}
	set, err := w.Next()
	if err != nil || len(set.Upserts) != 1 || set.Upserts[0].Path != "new.txt" || set.Upserts[0].Additions != 1 {
		t.Fatalf("set %+v, %v", set, err)
	}
}

func TestRefusesWhatItCannotUse(t *testing.T) {
	t.Parallel()
	for want, args := range map[string][]string{
		"usage:":            {},
		"--root":            {"serve", "--dir", "/tmp"},
		"no token":          {"serve", "--dir", "/tmp", "--root", "/tmp", "--sandbox", "x"},
		"listening socket":  {"serve", "--dir", "/tmp", "--root", "/tmp", "--sandbox", "x", "--listen-fd", "99", "--token-file", "/proc/self/comm"},
		"parawork-guest de": {"version"},
	} {
		cmd := exec.Command(os.Args[0], args...)
		cmd.Env = append(os.Environ(), "GUEST_TEST_MAIN=1")
		out, err := cmd.CombinedOutput()
		if !strings.Contains(string(out), want) || (err == nil) != (fmt.Sprint(args) == "[version]") {
			t.Errorf("%v: %v\n%s", args, err, out)
		}
	}
}
