package main

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/guestbin"
)

// assets holds the guest's binary, put there by the build. The all: prefix takes .gitkeep along, so that the folder exists in a
// build without it.
//
//go:embed all:assets
var assets embed.FS

// guestEnv names a guest binary to use instead of the embedded one.
const guestEnv = guestbin.Env

// embeddedGuest is where the build puts the guest for this machine, packed with gzip.
func embeddedGuest() string {
	return "assets/parawork-guest-" + runtime.GOOS + "-" + runtime.GOARCH + ".gz"
}

// carriesGuest reports whether this build carries a guest for this machine.
func carriesGuest() bool {
	_, err := fs.Stat(assets, embeddedGuest())
	return err == nil
}

// guest returns a guest binary that can be run, as guestPath does.
func (p program) guest(dataDir string) (string, error) { return guestPath(dataDir, p.env) }

// guestPath returns a guest binary that can be run: the one PARAWORK_GUEST names, the embedded one unpacked into the data
// folder, or one that lies beside the server's own.
func guestPath(dataDir string, env func(string) string) (string, error) {
	if p := env(guestEnv); p != "" {
		return guestbin.Runnable(p, guestEnv+" names")
	}
	packed, err := assets.Open(embeddedGuest())
	switch {
	case err == nil:
		defer packed.Close()
		return guestbin.Unpack(filepath.Join(dataDir, "bin"), packed.(io.ReadSeeker)) // embed's files can seek
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("reading the embedded guest: %w", err)
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), "parawork-guest")
		if p, err := guestbin.Runnable(beside, "beside the server lies"); err == nil {
			return p, nil
		}
	}
	return "", fault.New(fault.Unavailable, "guest_missing",
		"This build of Parawork does not carry the guest program that runs in sandboxes. Build with `make build`, or set %s to a parawork-guest binary.", guestEnv)
}
