// Package testdocker gives tests a Docker engine of their own: a real dockerd with its own data, sockets and containerd, and an
// image made of this machine's programs, without a registry. It ends with the test binary, however that ends.
package testdocker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Image is the name of the image every engine has: a shell, git and the usual tools.
const Image = "parawork-test:latest"

// Bare is the name of an image without git.
const Bare = "parawork-test-bare:latest"

// Daemon is one engine.
type Daemon struct {
	Host string // unix:///...

	dir    string
	flags  []string
	keeper *exec.Cmd
	hold   io.WriteCloser // the keeper lives as long as this is open
	http   *http.Client
}

// errNot says why there is no engine to be had.
type errNot struct{ reason string }

func (e errNot) Error() string { return e.reason }

// possible says why no engine can be started here, nil when it can.
func possible() error {
	if os.Geteuid() != 0 {
		return errNot{"a Docker engine needs root; run the tests as root (CI does)"}
	}
	for _, p := range []string{"dockerd", "containerd", "runc"} {
		if _, err := exec.LookPath(p); err != nil {
			return errNot{p + " is not installed; run testing/scripts/test-setup.sh as root"}
		}
	}
	return nil
}

// Skip says why a test without an engine is skipped. Where CI is set it fails: there the engine must run.
func Skip(t testing.TB, err error) {
	t.Helper()
	if no, ok := errors.AsType[errNot](err); ok && os.Getenv("CI") == "" {
		t.Skip("no Docker engine: " + no.reason)
	}
	t.Fatalf("no Docker engine: %v", err)
}

// keeperScript starts the engine of its arguments, and ends it and everything it started when its standard input ends. A line ends the
// engine, "kill" with -9 and "stop" gracefully, and the next line starts it again.
const keeperScript = `
dir=$1; shift
start() { "$@" >>"$dir/log" 2>&1 </dev/null & pid=$!; }
start "$@"
while read -r how; do
  case $how in
    kill) kill -KILL "$pid" ;;
    *) kill -TERM "$pid" ;;
  esac
  wait "$pid" 2>/dev/null
  # Where nobody waits for orphans, the engine would take its dead containerd for a live one.
  kill -KILL $(cat "$dir/exec/containerd/containerd.pid" 2>/dev/null) 2>/dev/null
  rm -f "$dir/exec/containerd/containerd.pid" "$dir/pid" "$dir/sock"
  touch "$dir/down"
  read -r how || break
  rm "$dir/down"
  start "$@"
done
kill -TERM "$pid" 2>/dev/null
for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do kill -0 "$pid" 2>/dev/null || break; sleep 0.25; done
# What is left carries the folder's name: shims, their containers, containerd.
for i in 1 2 3; do
  for p in /proc/[0-9]*; do
    p=${p#/proc/}
    if [ "$p" != $$ ] && tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -qF "$dir"; then
      for c in $(cat /proc/$p/task/*/children 2>/dev/null); do kill -KILL "$c" 2>/dev/null; done
      kill -KILL "$p" 2>/dev/null
    fi
  done
done
awk -v d="$dir/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo | sort -r | while read -r m; do umount -l "$m"; done
rm -rf --one-file-system "$dir"
`

// Start starts an engine and gives it the image. flags go to dockerd on top of its own.
func Start(flags ...string) (*Daemon, error) { return StartWith("{}", flags...) }

// StartWith is Start with a daemon.json.
func StartWith(config string, flags ...string) (*Daemon, error) {
	if err := possible(); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "pwdk")
	if err != nil {
		return nil, err
	}
	d := &Daemon{Host: "unix://" + dir + "/sock", dir: dir, flags: flags}
	d.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "sock"))
	}}}
	args := append([]string{"-c", keeperScript, "keeper", dir, "dockerd", "--data-root", dir + "/data", "--exec-root", dir + "/exec",
		"--pidfile", dir + "/pid", "-H", d.Host, "--containerd-namespace", filepath.Base(dir), "--bridge=none", "--iptables=false",
		"--ip6tables=false", "--ip-forward=false", "--ip-masq=false", "--config-file", dir + "/daemon.json"}, flags...)
	if err := os.WriteFile(dir+"/daemon.json", []byte(config), 0o600); err != nil {
		return nil, err
	}
	d.keeper = exec.Command("bash", args...)
	d.keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // an interrupt ends the tests, and through them this
	if d.hold, err = d.keeper.StdinPipe(); err != nil {
		return nil, err
	}
	if err := d.keeper.Start(); err != nil {
		return nil, err
	}
	if err := d.ready(); err != nil {
		d.Stop()
		return nil, err
	}
	for name, programs := range map[string][]string{Image: programs, Bare: {"sh", "cat", "sleep"}} {
		if err := d.importRoot(name, programs); err != nil {
			d.Stop()
			return nil, fmt.Errorf("making the image %s: %w", name, err)
		}
	}
	return d, nil
}

// readyIn is how long an engine may take to answer.
const readyIn = 60 * time.Second

// ready waits until the engine answers.
func (d *Daemon) ready() error {
	deadline := time.Now().Add(readyIn)
	for {
		resp, err := d.http.Get("http://docker/_ping")
		if err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the Docker engine did not start: %s", d.log())
		}
		time.Sleep(20 * time.Millisecond) // it does not tell when it listens
	}
}

func (d *Daemon) log() string {
	b, _ := os.ReadFile(filepath.Join(d.dir, "log"))
	return string(b[max(0, len(b)-2000):])
}

// Import gives the engine another image: what Image has, and programs of this machine, by name or path, and folders on top.
func (d *Daemon) Import(name string, more ...string) error {
	return d.importRoot(name, append(slices.Clone(programs), more...))
}

// ImportOnly gives the engine another image, with nothing in it but programs of this machine, by name or path.
func (d *Daemon) ImportOnly(name string, programs ...string) error {
	return d.importRoot(name, programs)
}

func (d *Daemon) importRoot(name string, programs []string) error {
	r, w := io.Pipe()
	go func() { w.CloseWithError(WriteRoot(w, programs...)) }() // ends with the request
	defer r.Close()
	repo, tag, _ := strings.Cut(name, ":")
	resp, err := d.http.Post("http://docker/images/create?fromSrc=-&repo="+url.QueryEscape(repo)+"&tag="+tag, "application/x-tar", r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || bytes.Contains(b, []byte(`"error"`))) {
		err = fmt.Errorf("%s: %s", resp.Status, b)
	}
	return err
}

// Kill ends the engine with -9. Up starts it again.
func (d *Daemon) Kill(t testing.TB) {
	t.Helper()
	d.say(t, "kill")
	d.waitDown(t)
}

// Down ends the engine in good order. Up starts it again.
func (d *Daemon) Down(t testing.TB) {
	t.Helper()
	d.say(t, "stop")
	d.waitDown(t)
}

// Up starts an engine that is down.
func (d *Daemon) Up(t testing.TB) {
	t.Helper()
	d.say(t, "up")
	if err := d.ready(); err != nil {
		t.Fatal(err)
	}
}

func (d *Daemon) say(t testing.TB, word string) {
	t.Helper()
	if _, err := io.WriteString(d.hold, word+"\n"); err != nil {
		t.Fatalf("the Docker engine's keeper has ended: %v", err)
	}
	d.http.CloseIdleConnections()
}

// waitDown waits until the engine has ended.
func (d *Daemon) waitDown(t testing.TB) {
	t.Helper()
	for deadline := time.Now().Add(readyIn); ; {
		if _, err := os.Lstat(filepath.Join(d.dir, "down")); err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("the Docker engine does not end")
		}
		time.Sleep(10 * time.Millisecond) // nobody tells
	}
}

// Stop ends the engine, its containers, and removes its folder.
func (d *Daemon) Stop() {
	_ = d.hold.Close()
	_ = d.keeper.Wait() // its exit code says nothing
}
