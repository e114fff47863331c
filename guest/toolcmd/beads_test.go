package toolcmd_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/guest/toolcmd"
)

// A project that keeps its tasks with beads goes on with its own program; others have Parawork's tasks under that name.
func TestOwnBeads(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ours, real := filepath.Join(dir, "ours"), filepath.Join(dir, "real")
	with, without := filepath.Join(dir, "with"), filepath.Join(dir, "with/.beads/without")
	self, err := os.Executable()
	err = errors.Join(err, os.MkdirAll(ours, 0o755), os.MkdirAll(real, 0o755), os.MkdirAll(filepath.Join(with, "sub"), 0o755), os.MkdirAll(filepath.Join(without, ".git"), 0o755),
		os.Symlink(self, filepath.Join(ours, "bd")), os.WriteFile(filepath.Join(real, "bd"), []byte("#!/bin/sh\n"), 0o755))
	if err != nil {
		t.Fatal(err)
	}
	path := ours + string(os.PathListSeparator) + real
	for _, c := range []struct {
		dir, verb, path, want string
	}{
		{with, "ready", path, filepath.Join(real, "bd")},
		{filepath.Join(with, "sub"), "ready", path, filepath.Join(real, "bd")},
		{without, "ready", path, ""},
		{without, "init", path, filepath.Join(real, "bd")},
		{with, "ready", ours, ""},
	} {
		if got := toolcmd.OwnBeads(c.dir, []string{c.verb}, c.path); got != c.want {
			t.Errorf("bd %s in %s: %q, want %q", c.verb, c.dir, got, c.want)
		}
	}
}
