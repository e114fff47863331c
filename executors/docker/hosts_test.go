//go:build linux

package docker_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/docker/hosts"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/testing/testdocker"
)

// sshServer is a machine with the tests' engine, reached over SSH.
type sshServer struct{ testdocker.SSHServer }

func startSSHServer(t *testing.T) sshServer {
	t.Helper()
	if engineErr != nil {
		testdocker.Skip(t, engineErr)
	}
	return sshServer{testdocker.StartSSH(t, engine.Host)}
}

// settings are those of hosts with these names, which are all this server.
func (s sshServer) settings(t *testing.T, names ...string) hosts.Settings {
	t.Helper()
	var lines []string
	for _, name := range names {
		lines = append(lines, name+" "+s.Address+" "+s.Fingerprint)
	}
	all, err := hosts.ParseHosts(lines)
	if err != nil {
		t.Fatal(err)
	}
	return hosts.Settings{Hosts: all, Key: s.Key, Image: testdocker.Image}
}

func newHosts(t *testing.T, dir string, settings func() hosts.Settings) *hosts.Executor {
	t.Helper()
	e, err := hosts.New(hosts.Config{Dir: filepath.Join(dir, "sandboxes"), GuestPath: guestPath, Settings: func(context.Context) hosts.Settings { return settings() },
		Prepare: func(docker.Prepare) docker.Prepare {
			return docker.Prepare{Agents: []recipe.Package{}, Offline: "the test has no network"}
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	return e
}

// A container on another machine, at an engine that is reached over SSH. Without a server for SSH the tests of remote engines below remain.
func TestConformanceOfHosts(t *testing.T) {
	t.Parallel()
	s := startSSHServer(t)
	executortest.Run(t, executortest.Config{Remote: true, Abilities: []string{"Destroyer", "RemnantKeeper", "Remover", "RunRecorder", "Stopper"}, SandboxAbilities: []string{"Limiter", "Metered", "Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor {
			return newHosts(t, dir, func() hosts.Settings { return s.settings(t, "build-1", "build-2") })
		}})
}

// Sandboxes made at the same time go to different hosts, and each is found where it is: after a restart, and after its host left the
// settings and came back.
func TestHosts(t *testing.T) {
	t.Parallel()
	s, dir := startSSHServer(t), t.TempDir()
	e := newHosts(t, dir, func() hosts.Settings { return s.settings(t, "build-1", "build-2") })
	where := func(id string) string {
		found, err := filepath.Glob(filepath.Join(dir, "sandboxes/.docker-hosts/*", id))
		if err != nil || len(found) != 1 {
			t.Fatalf("%s is at %v, %v", id, found, err)
		}
		return filepath.Base(filepath.Dir(found[0]))
	}
	specs, made := []executors.Spec{spec(t), spec(t)}, map[string]bool{}
	for _, sp := range specs {
		sp.Limits.MemoryMB = 512 << 10 // what one takes shows although it has not taken it yet
		sb, err := e.Create(t.Context(), sp)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = e.End(context.Background(), sp.ID) })
		made[where(sb.Handle().ID)] = true
	}
	if len(made) != 2 {
		t.Errorf("both are on %v", made)
	}
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available || !strings.Contains(c.Name, "build-1, build-2") {
		t.Errorf("%+v, %v", c, err)
	}
	_ = e.Close()

	names := []string{"build-1", "build-2"}
	next := newHosts(t, dir, func() hosts.Settings { return s.settings(t, names...) })
	h := executors.Handle{Kind: hosts.Kind, ID: specs[0].ID, Version: docker.HandleVersion}
	host := where(h.ID)
	names = []string{map[string]string{"build-1": "build-2", "build-2": "build-1"}[host]}
	if _, err := next.Recover(t.Context(), h); fault.CodeOf(err) != "docker_host_removed" || errors.Is(err, executors.ErrGone) {
		t.Errorf("its host is not in the settings: %v", err)
	}
	if all, err := next.List(t.Context()); err != nil || len(all) != 2 {
		t.Errorf("listed %v, %v", all, err)
	}
	names = []string{"build-1", "build-2"}
	sb, err := next.Recover(t.Context(), h)
	if err != nil {
		t.Fatal(err)
	}
	if got := run(t, sb, "echo $((6*7))"); got != "42\n" {
		t.Errorf("said %q", got)
	}
	if err := next.Remove(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	if _, err := next.Recover(t.Context(), h); !errors.Is(err, executors.ErrGone) {
		t.Errorf("after its end: %v", err)
	}
}

// A place without a host is not set up, which is no fault; one whose hosts do not answer is.
func TestHostsThatAreNotSetUp(t *testing.T) {
	t.Parallel()
	var set hosts.Settings
	e := newHosts(t, t.TempDir(), func() hosts.Settings { return set })
	if c, err := e.Capabilities(t.Context()); err != nil || c.Available || !c.NotSetUp || c.Reason == "" {
		t.Errorf("without a host: %+v, %v", c, err)
	}
	all, err := hosts.ParseHosts([]string{"build-1 ssh://root@127.0.0.1:1 SHA256:" + strings.Repeat("A", 43)})
	if err != nil {
		t.Fatal(err)
	}
	set = hosts.Settings{Hosts: all, Key: "nonsense", Image: testdocker.Image}
	if c, err := e.Capabilities(t.Context()); err != nil || c.Available || c.NotSetUp {
		t.Errorf("with one that does not answer: %+v, %v", c, err)
	}
}

// A host is tried before it is kept, and what is wrong with it is said.
func TestHostsAreTried(t *testing.T) {
	t.Parallel()
	s := startSSHServer(t)
	values := func(line, key string) schema.Values {
		return hosts.Descriptor().Settings.Defaults().With("hosts", []string{line}).With("privateKey", key)
	}
	test := hosts.Descriptor().Test
	// A field of one line takes the line breaks out of a key.
	if words, err := test(t.Context(), values("build-1 "+s.Address+" "+s.Fingerprint, strings.ReplaceAll(s.Key, "\n", ""))); err != nil || !strings.Contains(words, "build-1 has Docker") {
		t.Errorf("%q, %v", words, err)
	}
	other := "SHA256:" + strings.Repeat("A", 43)
	dir := t.TempDir()
	for name, args := range map[string][]string{"stranger": {"-N", ""}, "locked": {"-N", "a passphrase"}} {
		if out, err := exec.Command("ssh-keygen", append([]string{"-q", "-t", "ed25519", "-f", filepath.Join(dir, name)}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	read := func(name string) string {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	for _, c := range []struct{ line, key, code, says string }{
		{"build-1 " + s.Address, s.Key, "docker_host_not_pinned", s.Fingerprint},
		{"build-1 " + s.Address + " " + other, s.Key, "docker_host_key_changed", "Nothing was sent"},
		{"build-1 " + s.Address + " " + s.Fingerprint, read("stranger"), "docker_host_login", "authorized_keys"},
		{"build-1 " + s.Address + " " + s.Fingerprint, read("locked"), "docker_host_key_locked", "passphrase"},
		{"build-1 " + s.Address + " " + s.Fingerprint, "nonsense", "docker_host_key_invalid", "BEGIN"},
		{"build-1 ssh://root@127.0.0.1:1 " + s.Fingerprint, s.Key, "docker_host_unreachable", "127.0.0.1:1"},
	} {
		if _, err := test(t.Context(), values(c.line, c.key)); fault.CodeOf(err) != c.code || !strings.Contains(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v", c.code, err)
		}
	}
	for _, line := range []string{"build-1", "Build_1 ssh://a@b", "b tcp://host:2376", "b ssh://host", "b ssh://a:b@host", "b ssh://a@host/path", "b ssh://a@host SHA256:x", "b ssh://a@host MD5:00 more"} {
		if problems := values(line, "").Problems(); len(problems) == 0 {
			t.Errorf("%q is taken", line)
		}
	}
}
