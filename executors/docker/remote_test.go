//go:build linux

package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/testdocker"
)

// remoteHost is the engine's address as one on another machine.
var remoteHost string

// remotely makes it. It lasts as long as the tests.
func remotely() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	remoteHost = "tcp://" + l.Addr().String()
	go func() { // ends with the tests
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { // ends with either end
				defer c.Close()
				e, err := net.Dial("unix", strings.TrimPrefix(engine.Host, "unix://"))
				if err != nil {
					return
				}
				defer e.Close()
				go func() { _, _ = io.Copy(e, c); _ = e.(*net.UnixConn).CloseWrite() }() // ends with c
				_, _ = io.Copy(c, e)
			}()
		}
	}()
	return nil
}

func newRemote(t *testing.T, dir string) *docker.Executor {
	t.Helper()
	return newWith(t, dir, func(c *docker.Config) { c.Host = remoteHost })
}

// A container on a remote engine sees nothing of this machine, has a disk of its own, and runs as an unprivileged user there.
func TestFarAway(t *testing.T) {
	t.Parallel()
	e := newRemote(t, t.TempDir())
	c, err := e.Capabilities(t.Context())
	if err != nil || !c.Available || !c.OwnDisk || !c.Gated || !strings.Contains(c.Isolation, "engine's machine") {
		t.Fatalf("%+v, %v", c, err)
	}
	s := spec(t)
	s.Inside, s.Env = "/work/thing", map[string]string{"GIVEN": "yes"}
	sb := create(t, e, s)
	for line, want := range map[string]string{
		"pwd; ls -A; touch here && stat -c '%u %a' . here":                                                "/work/thing\n1000 755\n1000 644\n",
		"echo $HOME $GIVEN; id -un; touch ~/x && echo ok":                                                 "/home/agent yes\nagent\nok\n",
		"cat /proc/self/mountinfo | grep -c " + s.Root:                                                    "0\n",
		"touch /etc/x /opt/parawork/x 2>/dev/null; echo $?; stat -c '%u %a' /opt/parawork/parawork-guest": "1\n0 755\n",
		"ls /var/lib/parawork":                     "guest\nsocket\n",
		"stat -c %a /tmp; touch /tmp/x && echo ok": "1777\nok\n",
		"grep CapEff /proc/self/status":            "CapEff:\t0000000000000000\n",
		"ls /sys/class/net":                        "lo\n",
	} {
		if got := run(t, sb, line); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", line, got, want)
		}
	}
	m, ok := sb.(executors.Metered)
	if f, err := m.Figures(); !ok || err != nil || f.Processes == 0 {
		t.Errorf("figures: %+v, %v", f, err)
	}
	if n, ok := sb.(executors.SinglePipe); !ok || !n.OnePipe() {
		t.Error("its pipes are not expensive")
	}
}

// A container that has ended, as all do when an engine's machine is restarted, is started again over its own disk.
func TestFarAwayIsStartedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newRemote(t, dir)
	s := spec(t)
	sb := create(t, e, s)
	run(t, sb, "echo kept >kept; echo kept >~/kept")
	h := sb.Handle()
	if out, err := exec.Command("docker", "-H", engine.Host, "kill", "parawork-"+s.ID).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := sb.Dial(t.Context())
		if err == nil {
			_ = conn.Close()
		} else if errors.Is(err, executors.ErrGone) {
			t.Fatalf("Dial says that it is gone: %v", err)
		} else if strings.Contains(err.Error(), "has ended") {
			break
		}
		if time.Now().After(limit) {
			t.Fatalf("Dial: %v", err)
		}
	}
	again, err := newRemote(t, dir).Recover(t.Context(), h)
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if got := run(t, again, "cat kept ~/kept"); got != "kept\nkept\n" {
		t.Errorf("its disk holds %q", got)
	}
	// Stopped in good order it keeps its disk, too; making it anew finds it.
	if err := e.Stop(t.Context(), again.Handle()); err != nil {
		t.Fatalf("Stop: %v", err)
	}
	third, err := e.Create(t.Context(), s)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if got := run(t, third, "cat kept"); got != "kept\n" {
		t.Errorf("after a stop its disk holds %q", got)
	}
	if err := third.Destroy(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Recover(t.Context(), h); !errors.Is(err, executors.ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// The way out of a container that cannot be shown the gate's socket is carried, also after a restart of the program.
func TestFarAwayGate(t *testing.T) {
	t.Parallel()
	gate, err := os.MkdirTemp("", "gate")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(gate) })
	l, err := net.Listen("unix", filepath.Join(gate, "egress"))
	if err != nil {
		t.Fatal(err)
	}
	proxy := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "gate of %s\n", r.URL) })}
	go func() { _ = proxy.Serve(l) }() // ends with proxy
	t.Cleanup(func() { _ = proxy.Close() })
	dir := t.TempDir()
	first := newRemote(t, dir)
	s := spec(t)
	s.Gate, s.Network = gate, executors.Network{Mode: executors.NetworkAllow, Allow: []string{"example.com"}}
	sb := create(t, first, s)
	ask := func(sb executors.Sandbox) string {
		t.Helper()
		const line = `exec 3<>/dev/tcp/127.0.0.1/3128 && printf 'GET http://example.com/ HTTP/1.1\r\nHost: example.com\r\nConnection: close\r\n\r\n' >&3 && cat <&3`
		out, end := "", guest.Process{}
		for limit := time.Now().Add(30 * time.Second); time.Now().Before(limit); time.Sleep(20 * time.Millisecond) {
			out, end = outcome(t, sb, "bash -c '"+strings.ReplaceAll(line, "'", `'\''`)+"'")
			if resp, err := http.ReadResponse(bufio.NewReader(strings.NewReader(out)), nil); err == nil && resp.StatusCode == http.StatusOK {
				b, _ := io.ReadAll(resp.Body)
				return string(b)
			}
		}
		return fmt.Sprintf("%q, %+v", out, end)
	}
	if got := ask(sb); got != "gate of http://example.com/\n" {
		t.Errorf("at first: %s", got)
	}
	h := sb.Handle()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := newRemote(t, dir).Recover(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if got := ask(again); got != "gate of http://example.com/\n" {
		t.Errorf("after a restart: %s", got)
	}
	if err := again.Destroy(context.Background()); err != nil {
		t.Fatal(err)
	}
}

// Where the machine's owner allows it, programs are root in a container with a disk of its own, and may do what was named and no more.
func TestAsRoot(t *testing.T) {
	t.Parallel()
	e := newWith(t, t.TempDir(), func(c *docker.Config) { c.Root, c.Capabilities = true, []string{"NET_ADMIN"} })
	c, err := e.Capabilities(t.Context())
	if err != nil || !c.OwnDisk || !strings.Contains(c.Isolation, "agents are root, NET_ADMIN") {
		t.Fatalf("%+v, %v", c, err)
	}
	s := spec(t)
	s.Inside = "/work/thing"
	sb := create(t, e, s)
	for line, want := range map[string]string{
		"id -u; touch /etc/x here ~/x && stat -c %u here":                                              "0\n0\n",
		"for c in 12 21; do echo $(( 0x$(sed -n 's/^CapEff:.//p' /proc/self/status) >> c & 1 )); done": "1\n0\n", // NET_ADMIN, SYS_ADMIN
		"ls -A " + s.Root + " 2>/dev/null | wc -l":                                                     "0\n",
	} {
		if got := run(t, sb, line); got != want {
			t.Errorf("%s\ngot  %q\nwant %q", line, got, want)
		}
	}
	if _, err := docker.New(docker.Config{Dir: "/x", Image: "x", Capabilities: []string{"NET_RAW"}}); err == nil {
		t.Error("capabilities without root are taken")
	}
}

// What a remote engine cannot mount is refused with a reason, and nothing is left behind.
func TestFarAwayCannotShowFolders(t *testing.T) {
	t.Parallel()
	e := newRemote(t, t.TempDir())
	s := boxed(t)
	s.MountSpec.Mounts = append(s.MountSpec.Mounts, executors.Mount{Source: t.TempDir(), Target: "/lent", ReadOnly: true})
	if _, err := e.Create(t.Context(), s); fault.CodeOf(err) != "docker_no_mounts" {
		t.Errorf("%v", err)
	}
	if all, err := e.List(t.Context()); err != nil || len(all) > 0 {
		t.Errorf("left behind: %v, %v", all, err)
	}
}

// An engine is reached over ssh as Docker's own command line reaches it.
func TestOverSSH(t *testing.T) {
	t.Parallel()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	e := newWith(t, t.TempDir(), func(c *docker.Config) { c.Host = "ssh://somebody@engine.example:2222" })
	sb := create(t, e, spec(t))
	if got := run(t, sb, "echo $((6*7))"); got != "42\n" {
		t.Errorf("said %q", got)
	}
	bad := newWith(t, t.TempDir(), func(c *docker.Config) { c.Host = "ssh://nobody@engine.example" })
	if c, err := bad.Capabilities(t.Context()); err != nil || c.Available || c.Reason == "" {
		t.Errorf("%+v, %v", c, err)
	}
	for _, host := range []string{"ssh://", "ssh://-oProxyCommand=x", "ssh://-l@host", "ssh://host/path"} {
		if _, err := docker.New(docker.Config{Dir: "/x", Image: "x", Host: host}); err == nil {
			t.Errorf("%s is taken", host)
		}
	}
}

// fakeSSH stands for ssh in these tests: it reaches the engine here for one who knocks right.
func fakeSSH(dir, host string) error {
	script := "#!/bin/sh\ncase \"$*\" in\n*'-l somebody -p 2222 -- engine.example docker system dial-stdio') exec docker -H " + host +
		" system dial-stdio ;;\n*) echo 'Permission denied (publickey).' >&2; exit 255 ;;\nesac\n"
	if err := os.WriteFile(filepath.Join(dir, "ssh"), []byte(script), 0o755); err != nil {
		return err
	}
	return os.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}
