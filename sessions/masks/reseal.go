package masks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ResealLaunches seals with the key next what sessions must remember, which was sealed with the key before. It may be run again after a
// cut, and says how many could be opened with neither: those stay as they are. No server may run meanwhile.
func ResealLaunches(dataDir string, before, next []byte) (done, unreadable int, err error) {
	files, err := filepath.Glob(filepath.Join(dataDir, "sessions", "*", launchFile))
	if err != nil {
		return 0, 0, err
	}
	old, fresh := Launches{dataDir, before}, Launches{dataDir, next}
	for _, file := range files {
		id := filepath.Base(filepath.Dir(file))
		if _, err := fresh.Recall(id); err == nil {
			continue
		}
		l, err := old.Recall(id)
		if errors.Is(err, fs.ErrPermission) || errors.Is(err, os.ErrClosed) {
			return done, unreadable, fmt.Errorf("reading the launch of session %s: %w", id, err)
		}
		if err != nil {
			unreadable++
			continue
		}
		if err := fresh.Keep(id, l); err != nil {
			return done, unreadable, err
		}
		done++
	}
	return done, unreadable, nil
}
