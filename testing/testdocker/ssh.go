package testdocker

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// SSHServer is a real OpenSSH server on this machine, where the command docker reaches an engine.
type SSHServer struct {
	Address     string // ssh://root@127.0.0.1:port
	Fingerprint string // of its host key, SHA256:...
	Key         string // a private key that may log in
}

// StartSSH starts a server in front of the engine at host (unix:///...) and stops it when the test ends. It skips tests where there is no
// sshd, or for users who are not root.
func StartSSH(t testing.TB, host string) SSHServer {
	t.Helper()
	sshd, err := exec.LookPath("/usr/sbin/sshd")
	if err != nil || os.Getuid() != 0 {
		t.Skip("SKIPPED: a real SSH server needs OpenSSH's sshd (Debian: openssh-server) and root")
	}
	dir := t.TempDir()
	for _, name := range []string{"host", "user"} {
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", filepath.Join(dir, name)).CombinedOutput(); err != nil {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if err := errors.Join(l.Close(), os.MkdirAll("/run/sshd", 0o755), os.WriteFile(filepath.Join(dir, "config"), fmt.Appendf(nil, `ListenAddress 127.0.0.1:%d
HostKey %s/host
AuthorizedKeysFile %s/user.pub
PidFile none
StrictModes no
UsePAM no
MaxStartups 100
PermitRootLogin prohibit-password
SetEnv DOCKER_HOST=%s
`, port, dir, dir, host), 0o600)); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(sshd, "-D", "-e", "-f", filepath.Join(dir, "config"))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	out, err := exec.Command("ssh-keygen", "-lf", filepath.Join(dir, "host.pub")).Output()
	if err != nil {
		t.Fatal(err)
	}
	key, err := os.ReadFile(filepath.Join(dir, "user"))
	if err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for limit := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		if c, err := net.Dial("tcp", address); err == nil {
			_ = c.Close()
			break
		}
		if time.Now().After(limit) {
			t.Fatal("sshd does not listen")
		}
	}
	return SSHServer{"ssh://root@" + address, strings.Fields(string(out))[1], string(key)}
}
