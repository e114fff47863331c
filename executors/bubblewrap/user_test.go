//go:build linux && (amd64 || arm64)

package bubblewrap_test

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
)

// A server that is not root makes boxes as well: a part of these tests, and all of what must be impossible, as an ordinary user.
func TestOrdinaryUser(t *testing.T) {
	if os.Getenv("PARAWORK_TEST_GUEST") != "" {
		t.Skip("this is the ordinary user already")
	}
	if os.Geteuid() != 0 {
		t.Skip("the tests around this one ran as an ordinary user")
	}
	t.Parallel()
	needBoxes(t)
	const uid = 600_999_999
	home, err := os.MkdirTemp("", "parawork-user-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	attacker := filepath.Join(home, "attacker")
	build := exec.Command("go", "build", "-o", attacker, "github.com/parawork/parawork/executors/executortest/attacker")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the attacker: %v\n%s", err, out)
	}
	copyTo(t, self, filepath.Join(home, "tests"))
	copyTo(t, guestPath, filepath.Join(home, "parawork-guest"))
	tmp := filepath.Join(home, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(tmp, uid, uid); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(home, "tests"), "-test.v", "-test.skip", "TestConformance/(Terminal|Attach|Files|Exec)", "-test.run",
		"^(TestConformance|TestIsolation|TestWhatABoxSees|TestFilter|TestCapabilities|TestAllEndsWithTheGuest|TestBubblewrapItselfKilled|TestServerKilled|TestABoxWithoutARecordIsEnded)$")
	cmd.Dir = tmp
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + tmp, "TMPDIR=" + tmp, "PARAWORK_TEST_GUEST=" + filepath.Join(home, "parawork-guest"), "PARAWORK_TEST_ATTACKER=" + attacker, "CI=" + os.Getenv("CI")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "NOT TESTED") && os.Getenv("CI") != "true":
		t.Skipf("NOT TESTED: ordinary users cannot make boxes here:\n%s", out)
	case !strings.Contains(string(out), "--- PASS: TestConformance/Life/hello"):
		t.Errorf("the suite did not run:\n%s", out)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	src, err := os.Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o755)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = io.Copy(dst, src); err == nil {
		err = dst.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A box never runs as root.
func TestNeverRoot(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only a server that is root could")
	}
	e := newExecutor(t, t.TempDir())
	mine := executortest.GitRoot(t) // root's
	for name, box := range map[string]*executors.MountSpec{
		"no box":         nil,
		"no user":        {UID: -1, GID: -1, Mounts: []executors.Mount{{Source: mine, Target: mine}}},
		"root":           {UID: 0, GID: 0, Mounts: []executors.Mount{{Source: mine, Target: mine}}},
		"the root group": {UID: 600_900_000, GID: 0, Mounts: []executors.Mount{{Source: mine, Target: mine}}},
	} {
		s := spec(t)
		s.Root, s.MountSpec = mine, box
		if _, err := e.Create(t.Context(), s); err == nil {
			t.Errorf("%s: it was made", name)
		}
	}
	if list, err := e.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("left behind: %+v, %v", list, err)
	}
}
