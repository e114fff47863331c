package policy

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// LogName is the consent log, in the machine's own folder. Older parts have .1, .2, ... appended.
const LogName = "consent.log"

// logParts is the number of files of the log.
const logParts = 5

// Entry is one line of the consent log: what was asked, for whom, and how it ended.
type Entry struct {
	At          string   `json:"at"` // RFC 3339, UTC
	Kind        string   `json:"kind"`
	Decision    string   `json:"decision"`         // allowed, refused
	Answer      string   `json:"answer,omitempty"` // the owner's, where they were asked: yes, always, no, late
	Code        string   `json:"code,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	User        string   `json:"user,omitempty"`
	UserID      string   `json:"user_id,omitempty"`
	Purpose     string   `json:"purpose,omitempty"`
	WorkspaceID string   `json:"workspace_id,omitempty"`
	SandboxID   string   `json:"sandbox_id,omitempty"`
	Path        string   `json:"path,omitempty"`
	Argv        []string `json:"argv,omitempty"`
	Port        int      `json:"port,omitempty"`
	Text        string   `json:"text,omitempty"`
	CommandID   string   `json:"command_id,omitempty"`
}

// Limits of a line, so that a server cannot fill the log with one.
const (
	maxText = 2000
	maxArgs = 64
)

func (e *Entry) bound() {
	for _, s := range []*string{&e.Kind, &e.Code, &e.Reason, &e.User, &e.UserID, &e.Purpose, &e.WorkspaceID, &e.SandboxID, &e.Path, &e.Text, &e.CommandID} {
		*s = Clean(*s, maxText)
	}
	argv := make([]string, 0, min(len(e.Argv), maxArgs+1))
	for i, a := range e.Argv {
		if i == maxArgs {
			argv = append(argv, "...")
			break
		}
		argv = append(argv, Clean(a, maxText))
	}
	e.Argv = argv
}

// journal is the consent log. Safe for concurrent use.
type journal struct {
	path string
	now  func() time.Time

	mu   sync.Mutex
	f    *os.File
	size int64
}

func (j *journal) write(e Entry, keep Log) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.At = j.now().UTC().Format("2006-01-02T15:04:05.000Z")
	e.bound()
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	line = append(line, '\n')
	if err := j.open(); err != nil {
		return err
	}
	if j.size > 0 && j.size+int64(len(line)) > int64(keep.KeepMB)<<20/logParts {
		if err := j.rotate(keep); err != nil {
			return err
		}
	}
	n, err := j.f.Write(line)
	j.size += int64(n)
	return err
}

func (j *journal) open() error {
	if j.f != nil {
		return nil
	}
	f, err := os.OpenFile(j.path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return fmt.Errorf("opening the consent log: %w", err)
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	j.f, j.size = f, st.Size()
	return nil
}

// rotate renames every part to the next number, and drops the last and those that are too old.
func (j *journal) rotate(keep Log) error {
	_ = j.f.Close()
	j.f = nil
	for i := logParts - 1; i >= 1; i-- {
		from := j.path
		if i > 1 {
			from += "." + strconv.Itoa(i-1)
		}
		if err := os.Rename(from, j.path+"."+strconv.Itoa(i)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("rotating the consent log: %w", err)
		}
	}
	if keep.KeepDays > 0 {
		oldest := j.now().AddDate(0, 0, -keep.KeepDays)
		for i := 1; i < logParts; i++ {
			name := j.path + "." + strconv.Itoa(i)
			if st, err := os.Lstat(name); err == nil && st.ModTime().Before(oldest) {
				_ = os.Remove(name) // the next rotation tries again
			}
		}
	}
	return j.open()
}

func (j *journal) close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.f == nil {
		return nil
	}
	err := j.f.Close()
	j.f = nil
	return err
}

func readLines(r io.Reader, fn func(Entry)) error {
	s := bufio.NewScanner(r)
	s.Buffer(nil, 1<<20)
	for s.Scan() {
		var e Entry
		if json.Unmarshal(s.Bytes(), &e) == nil {
			fn(e)
		}
	}
	return s.Err()
}

// Mark is a read position in a log.
type Mark struct {
	inode uint64
	at    int64
}

// Follow calls fn for the entries of the consent log at path after a mark, and returns the next mark. The zero Mark is before everything
// stored.
func Follow(path string, from Mark, fn func(Entry)) (Mark, error) {
	if from == (Mark{}) {
		for i := logParts - 1; i >= 1; i-- {
			if err := readPart(path+"."+strconv.Itoa(i), 0, fn); err != nil {
				return from, err
			}
		}
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return from, nil
	}
	if err != nil {
		return from, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return from, err
	}
	if from.inode != 0 && from.inode != inode(st) { // it was rotated: the rest after the mark is in an older part
		if err := readPart(path+".1", from.at, fn); err != nil {
			return from, err
		}
		from.at = 0
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from.at, st.Size()-from.at))
	if err != nil {
		return from, err
	}
	whole := bytes.LastIndexByte(text, '\n') + 1 // a line may be half written
	if err := readLines(bytes.NewReader(text[:whole]), fn); err != nil {
		return from, err
	}
	return Mark{inode: inode(st), at: from.at + int64(whole)}, nil
}

// readPart reads the entries of one file of the log, from an offset.
func readPart(name string, at int64, fn func(Entry)) error {
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if err := readLines(f, fn); err != nil {
		return fmt.Errorf("reading %s: %w", name, err)
	}
	return nil
}
