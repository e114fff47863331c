// Package guestbin unpacks the guest program, which other programs embed, to disk so that it can be run.
package guestbin

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/parawork/parawork/internal/atomicfile"
	"github.com/parawork/parawork/internal/fault"
)

// Env names a guest binary to use instead of the embedded one.
const Env = "PARAWORK_GUEST"

// Runnable returns the absolute path of a guest that can be run. who begins the sentence of the error: "next to the server lies".
func Runnable(path, who string) (string, error) {
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

// Unpack writes the guest under the name of its packed bytes' hash: it never overwrites a running guest's file, and does not write an
// unchanged one again. It never holds the whole program in memory.
func Unpack(dir string, packed io.ReadSeeker) (string, error) {
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
	if err := atomicfile.CopyDurable(path, raw, 0o755); err != nil {
		return "", fmt.Errorf("unpacking the guest: %w", err)
	}
	dropOldGuests(dir, path)
	return path, nil
}

// holds reports whether the program at path equals want: a partial or changed copy is written again.
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

// dropOldGuests removes all but the newest few. A running guest keeps its file's bytes although the name is gone.
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
		_ = os.Remove(filepath.Join(dir, old[oldest].Name())) // an old copy does no harm
		old = append(old[:oldest], old[oldest+1:]...)
	}
}
