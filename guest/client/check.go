package client

import (
	"errors"
	"fmt"

	"github.com/parawork/parawork/guest"
)

// maxPorts bounds the ports in a guest's answer.
const maxPorts = 1024

func checkStats(s guest.Stats) (guest.Stats, error) {
	if s.CPUMs < 0 || s.RSSBytes < 0 || s.Processes < 0 || s.LogBytes < 0 || s.LastOutput < 0 || len(s.Ports) > maxPorts {
		return guest.Stats{}, wrong("stats", errors.New("a number is out of bounds"))
	}
	for _, p := range s.Ports {
		if p <= 0 || p > 65535 {
			return guest.Stats{}, wrong("stats", fmt.Errorf("no port: %d", p))
		}
	}
	return s, nil
}

func checkWork(w guest.Work) (guest.Work, error) {
	if w.CPUMs < 0 || w.RSSBytes < 0 || w.Processes < 0 || len(w.Programs) > guest.MaxPrograms {
		return guest.Work{}, wrong("work", errors.New("a number is out of bounds"))
	}
	w.Foreground = plain(clip(w.Foreground, 100))
	for i := range w.Programs {
		p := &w.Programs[i]
		if p.CPUMs < 0 || p.AgeMs < 0 || p.Pid <= 0 {
			return guest.Work{}, wrong("work", errors.New("a number of a program is out of bounds"))
		}
		p.Name = plain(clip(p.Name, 100))
	}
	return w, nil
}

// checkFile reports whether info can describe the file at path, "" for any.
func checkFile(info guest.FileInfo) error {
	if info.Path != "" {
		if err := guest.CheckPath(info.Path); err != nil {
			return err
		}
	}
	switch info.Type {
	case "file", "dir", "symlink", "other":
	default:
		return fmt.Errorf("unknown type %q", clip(info.Type, 50))
	}
	switch {
	case len(info.Name) > 4*guest.MaxPath || len(info.Link) > 4*guest.MaxPath:
		return errors.New("a name is too long")
	case info.Size < 0 || info.Mode > 0o7777:
		return errors.New("size or mode is out of bounds")
	case info.Hash != "" && !isHash(info.Hash):
		return errors.New("the hash is not a sha256")
	}
	return nil
}

func isHash(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}

// checkSet reports whether set can follow version since of base.
func checkSet(set guest.ChangeSet, base string) error {
	if set.Base != base {
		return errors.New("it is about another base")
	}
	if len(set.Head) > 64 || len(set.Branch) > guest.MaxPath || set.PolledAt < 0 {
		return errors.New("a field is out of bounds")
	}
	for _, ch := range set.Upserts {
		if err := guest.CheckPath(ch.Path); err != nil {
			return err
		}
		if ch.OldPath != "" {
			if err := guest.CheckPath(ch.OldPath); err != nil {
				return err
			}
		}
		if ch.Size < 0 || ch.Additions < 0 || ch.Deletions < 0 || len(ch.Status) > 32 || len(ch.Mode) > 16 || len(ch.OldMode) > 16 || len(ch.Stamp) > 64 ||
			(ch.Hash != "" && !isHash(ch.Hash)) {
			return errors.New("a change is out of bounds")
		}
	}
	for _, p := range set.Removes {
		if err := guest.CheckPath(p); err != nil {
			return err
		}
	}
	return nil
}
