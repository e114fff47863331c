package main

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
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

// embeddedGuest is where the build puts the guest for this machine, packed with gzip.
func embeddedGuest() string {
	return "assets/parawork-guest-" + runtime.GOOS + "-" + runtime.GOARCH + ".gz"
}

// guestPath returns a guest binary that can be run: the one PARAWORK_GUEST names, the embedded one unpacked into the data
// folder, or one that lies beside the server's own.
func guestPath(dataDir string, env func(string) string) (string, error) {
	if p := env(guestEnv); p != "" {
		return runnable(p, guestEnv+" names")
	}
	packed, err := assets.Open(embeddedGuest())
	switch {
	case err == nil:
		defer packed.Close()
		return unpack(filepath.Join(dataDir, "bin"), packed.(io.ReadSeeker)) // embed's files can seek
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

// unpack writes the guest under the name of its packed bytes' hash: a running guest's file is never written over, and an unchanged
// one not written again. Nothing is held in memory whole.
func unpack(dir string, packed io.ReadSeeker) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(h, packed); err != nil {
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	if _, err := packed.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	raw, err := gzip.NewReader(packed)
	if err != nil {
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the guest: %w", err)
	}
	path := filepath.Join(dir, "parawork-guest-"+hex.EncodeToString(h.Sum(nil)[:8]))
	if same, err := holds(path, raw); err == nil && same {
		return path, nil
	}
	if _, err := packed.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	if err := raw.Reset(packed); err != nil {
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	tmp, err := os.CreateTemp(dir, ".guest-*")
	if err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	defer os.Remove(tmp.Name())
	_, err = io.Copy(tmp, raw)
	if err = errors.Join(err, tmp.Chmod(0o755), tmp.Sync(), tmp.Close()); err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	dropOldGuests(dir, path)
	return path, nil
}

// holds reports whether the program at path is exactly what want reads: a torn or changed copy is written anew.
func holds(path string, want io.Reader) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Mode() != 0o755 {
		return false, err
	}
	a, b := make([]byte, 32<<10), make([]byte, 32<<10)
	for {
		n, errA := io.ReadFull(want, a)
		m, errB := io.ReadFull(f, b)
		if n != m || !bytes.Equal(a[:n], b[:m]) {
			return false, nil
		}
		if errA != nil || errB != nil { // both short: the end of both
			ended := func(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }
			return ended(errA) && ended(errB), nil
		}
	}
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
