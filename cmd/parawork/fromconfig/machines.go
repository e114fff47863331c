package fromconfig

import (
	"os"
	"path/filepath"
)

// DownloadDirs are where the programs for machines lie: where config.json says, else beside the server's own.
func DownloadDirs(said string) []string {
	if said != "" {
		return []string{said}
	}
	self, err := os.Executable()
	if err != nil {
		return nil
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return []string{filepath.Join(filepath.Dir(self), "downloads")}
}
