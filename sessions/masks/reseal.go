package masks

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// ResealLaunches seals with the key next what was sealed with the key before. After an interruption it may be run again. It
// returns how many launches neither key opens: those stay unchanged. No server may run meanwhile.
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
