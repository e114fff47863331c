package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// assets holds the guest's binary, put there by the build. The all: prefix takes .gitkeep along, so that the folder exists in a
// build without it.
//
//go:embed all:assets
var assets embed.FS

// guestEnv names a guest binary to use instead of the embedded one.
const guestEnv = "PARAWORK_GUEST"

// guestPath returns a guest binary that can be run: the one PARAWORK_GUEST names, the embedded one unpacked into the data
// folder, or one that lies beside the server's own.
func guestPath(dataDir string, env func(string) string) (string, error) {
	if p := env(guestEnv); p != "" {
		return runnable(p, guestEnv+" names")
	}
	name := "parawork-guest-" + runtime.GOOS + "-" + runtime.GOARCH
	raw, err := assets.ReadFile("assets/" + name)
	switch {
	case err == nil:
		return unpack(filepath.Join(dataDir, "bin"), raw)
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "parawork-guest")
		if p, err := runnable(beside, "beside the server lies"); err == nil {
			return p, nil
		}
	}
	return "", fault.New(fault.Unavailable, "guest_missing",
		"This build of Parawork does not carry the guest program that runs in sandboxes. Build with `make build`, or set %s to a parawork-guest binary.", guestEnv)
}

func runnable(path, who string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("finding the guest: %w", err)
	}
	info, err := os.Stat(abs)
	if err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return "", fault.Wrap(err, fault.Unavailable, "guest_missing", "%s %s, which is not a program that can be run.", who, abs)
	}
	return abs, nil
}

// keepGuests is how many unpacked guests stay: sandboxes of older servers may still run from theirs.
const keepGuests = 4

// unpack writes the guest under the name of its hash: a running guest's file is never written over, and an unchanged one not
// written again.
func unpack(dir string, raw []byte) (string, error) {
	sum := sha256.Sum256(raw)
	path := filepath.Join(dir, "parawork-guest-"+hex.EncodeToString(sum[:8]))
	if have, err := os.ReadFile(path); err == nil && bytes.Equal(have, raw) {
		if info, err := os.Stat(path); err == nil && info.Mode().Perm() == 0o755 {
			return path, nil
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the guest: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".guest-*")
	if err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(raw)
	if err = errors.Join(err, tmp.Chmod(0o755), tmp.Sync(), tmp.Close()); err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	dropOldGuests(dir, path)
	return path, nil
}

// dropOldGuests removes all but the newest few. A guest that runs keeps its file's bytes although the name is gone.
func dropOldGuests(dir, current string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	var old []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err == nil && strings.HasPrefix(e.Name(), "parawork-guest-") && e.Name() != filepath.Base(current) {
			old = append(old, info)
		}
	}
	for len(old) >= keepGuests {
		oldest := 0
		for i := range old {
			if old[i].ModTime().Before(old[oldest].ModTime()) {
				oldest = i
			}
		}
		_ = os.Remove(filepath.Join(dir, old[oldest].Name())) // an old copy is no harm
		old = append(old[:oldest], old[oldest+1:]...)
	}
}
