// Package bootfile passes secrets to a guest where arguments and environments are logged: in a file that the guest removes as it
// reads it.
package bootfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// maxBootFile bounds the size of the file.
const maxBootFile = 2 << 20

// BootFile is the content of the file.
type BootFile struct {
	Token string   `json:"token"`
	Env   []string `json:"env,omitempty"`  // added to the guest's environment
	Call  string   `json:"call,omitempty"` // the secret with which the guest calls its host: see guest/call
}

// Take reads the boot file at path and removes it, whether it can be read or not.
func Take(path string) (BootFile, error) {
	var l BootFile
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return l, fmt.Errorf("reading the boot file: %w", err)
	}
	defer f.Close()
	if err := os.Remove(path); err != nil {
		return l, fmt.Errorf("removing the boot file: %w", err)
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return l, fmt.Errorf("the boot file %s is not a regular file", filepath.Base(path))
	}
	b, err := io.ReadAll(io.LimitReader(f, maxBootFile+1))
	if err != nil || len(b) > maxBootFile {
		return l, errors.Join(errors.New("the boot file is too long or cannot be read"), err)
	}
	if err := json.Unmarshal(b, &l); err != nil {
		return l, fmt.Errorf("reading the boot file: %w", err)
	}
	return l, nil
}
