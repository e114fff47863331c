// Package testguest gives tests real guests: it builds the guest's program, and makes sandboxes in which it runs.
package testguest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	_ "github.com/parawork/parawork/guest/daemon" // what the program is made of: a change there makes these tests run again
)

// Build builds the guest's program in a folder, and returns its path.
func Build(dir string) (string, error) {
	path := filepath.Join(dir, "parawork-guest")
	build := exec.CommandContext(context.Background(), "go", "build", "-o", path, "github.com/parawork/parawork/cmd/parawork-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the guest: %w\n%s", err, out)
	}
	return path, nil
}

// Run builds the guest's program into *path, for a TestMain, and runs the tests. It returns their exit code.
func Run(m *testing.M, path *string) int {
	dir, err := os.MkdirTemp("", "parawork-guest")
	if err == nil {
		defer os.RemoveAll(dir)
		err = os.Chmod(dir, 0o755) // users of sandboxes run it
	}
	if err == nil {
		*path, err = Build(dir)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
