//go:build !linux

package sockpath

import (
	"os"
	"path/filepath"
)

// most is the maximum length of a sockaddr_un path on the BSDs and macOS, without its NUL.
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
