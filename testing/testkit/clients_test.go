package testkit_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/parawork/parawork/testing/testkit"
)

// The clients for TypeScript and Python do against a real server what their own tests say.
func TestClients(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for _, c := range []struct {
		dir  string
		argv []string
	}{{"../../clients/typescript", []string{"node", "--test", "test/"}}, {"../../clients/python", []string{"python3", "-m", "unittest", "tests.test_sandbox"}}} {
		if _, err := exec.LookPath(c.argv[0]); err != nil {
			t.Logf("%s is not installed: its client is not tested", c.argv[0])
			continue
		}
		if err := filepath.WalkDir(c.dir, func(path string, _ os.DirEntry, err error) error { // a client that changed is tested anew, not from Go's cache
			_, serr := os.Stat(path)
			return errors.Join(err, serr)
		}); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
		cmd.Dir = c.dir
		cmd.Env = append(os.Environ(), "PARAWORK_URL="+h.URL, "PARAWORK_TOKEN="+h.Token, "PARAWORK_TEAM="+h.Team, "PARAWORK_TEST_EXECUTOR=local", "PYTHONDONTWRITEBYTECODE=1")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", c.dir, err, out)
		}
	}
}
