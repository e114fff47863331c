//go:build !linux

package sockpath

import (
	"os"
	"path/filepath"
)

// most is what fits into a sockaddr_un of the BSDs and macOS, its ending NUL aside.
const most = 103

func short(dir, name string) (string, func(), error) {
	if path := filepath.Join(dir, name); Fits(path) {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			return path, func() {}, nil
		}
	}
	path, err := linked(os.TempDir(), dir, name)
	return path, func() {}, err
}
