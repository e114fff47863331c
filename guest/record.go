package guest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ProcessDir is the folder of a process's record and logs in the guest's own folder.
func ProcessDir(dir, id string) string { return filepath.Join(dir, "processes", id) }

// RecordName is the name of a process's record in its ProcessDir.
const RecordName = "record.json"

// maxRecord bounds a record file.
const maxRecord = 64 << 10

// ReadProcessRecord reads what a guest recorded about a process in its own folder dir: how it ended, or that it was still running
// when the record was last written. It is for when the guest no longer answers. The error is os.ErrNotExist when there is no
// record. An agent may be able to write to the folder: it follows no link and never blocks.
func ReadProcessRecord(dir, id string) (Process, error) {
	if err := CheckID(id); err != nil {
		return Process{}, err
	}
	f, err := os.OpenFile(filepath.Join(ProcessDir(dir, id), RecordName), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return Process{}, fmt.Errorf("reading the record of process %s: %w", id, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxRecord {
		return Process{}, fmt.Errorf("the record of process %s is not a small regular file", id)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxRecord))
	if err != nil {
		return Process{}, fmt.Errorf("reading the record of process %s: %w", id, err)
	}
	var p Process
	if err := json.Unmarshal(b, &p); err != nil {
		return Process{}, fmt.Errorf("reading the record of process %s: %w", id, err)
	}
	if err := p.Check(id); err != nil {
		return Process{}, fmt.Errorf("reading the record of process %s: %w", id, err)
	}
	return p, nil
}

// maxID is the longest process id.
const maxID = 64

// CheckID reports whether id is valid for a process: 1 to 64 letters, digits, _ and -.
func CheckID(id string) error {
	if id == "" || len(id) > maxID {
		return fmt.Errorf("a process id has 1 to %d characters", maxID)
	}
	for _, r := range id {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-') {
			return fmt.Errorf("process id %q has characters other than letters, digits, _ and -", id)
		}
	}
	return nil
}

// maxReason bounds a guest's text on why a process ended.
const maxReason = 4096

// Check reports whether p is a possible state of process id ("" = any).
func (p Process) Check(id string) error {
	if id != "" && p.ID != id {
		return fmt.Errorf("it names process %q", p.ID)
	}
	if err := CheckID(p.ID); err != nil {
		return err
	}
	switch {
	case p.State != Running && p.State != Exited:
		return fmt.Errorf("unknown state %q", p.State)
	case len(p.Reason) > maxReason || len(p.Signal) > 32:
		return errors.New("reason or signal is too long")
	case p.Pid < 0 || p.StartedAt < 0 || p.EndedAt < 0:
		return errors.New("negative pid or time")
	}
	for s, end := range p.Ends {
		if s != Terminal && s != Stdout && s != Stderr {
			return fmt.Errorf("unknown stream %q", s)
		}
		if end < 0 {
			return fmt.Errorf("negative end of %s", s)
		}
	}
	for s, b := range p.Early {
		if p.State != Exited || len(b) > MaxEarly || int64(len(b)) != p.Ends[s] || s != Stdout && s != Stderr {
			return fmt.Errorf("output of %s that cannot be complete", s)
		}
	}
	if strings.ContainsRune(p.Signal, '\n') {
		return errors.New("signal name of more than one line")
	}
	return nil
}
