package wire

import (
	"bufio"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Seen remembers the commands a machine has had, in a file that survives its program. Safe for concurrent use.
//
// It writes a line before a command is obeyed, without forcing it to the disk: what the program wrote survives the program, and after a
// power failure of the machine it refuses all commands from before the start instead. So nothing is done twice, and no command waits for a
// disk.
type Seen struct {
	path string
	now  func() time.Time

	mu    sync.Mutex
	file  *os.File
	boot  string
	floor int64              // ms UTC; earlier commands may have been used
	had   map[[16]byte]int64 // by hash of the id: until when it could be replayed, ms UTC
	lines int                // in the file
	due   int                // of lines: then the file is rewritten
	wrote int64              // ms UTC of the last time
	torn  bool               // the last line may be half a line
}

const (
	seenMagic = "parawork-seen-1"
	// seenSlack is how much longer a command is remembered than it is valid, for clocks that are set back.
	seenSlack = 15 * time.Minute
	// maxSeen limits what a server that floods a machine makes it remember.
	maxSeen = 500_000
	// seenSpare is how many lines the file may at least grow by before it is rewritten.
	seenSpare = 4096
	// bootUnknown is used where the boot cannot be identified: each start counts as a new boot.
	bootUnknown = "unknown"
)

// OpenSeen reads the file, or begins one. path lies in a folder of the machine's own program.
func OpenSeen(path string, now func() time.Time) (*Seen, error) {
	boot, booted := bootOf(now())
	return openSeen(path, now, boot, booted)
}

func openSeen(path string, now func() time.Time, boot string, booted time.Time) (*Seen, error) {
	s := &Seen{path: path, now: now, boot: boot, had: map[[16]byte]int64{}}
	if err := s.read(booted); err != nil {
		return nil, fmt.Errorf("reading the used commands: %w", err)
	}
	if err := s.rewrite(); err != nil {
		return nil, fmt.Errorf("writing the used commands: %w", err)
	}
	return s, nil
}

func (s *Seen) read(booted time.Time) error {
	f, err := os.OpenFile(s.path, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // no command was ever obeyed
	}
	if err != nil {
		return err
	}
	defer f.Close()
	r := bufio.NewReader(f)
	head, err := r.ReadString('\n')
	part := strings.Fields(head)
	floor, ferr := int64(0), errors.New("no floor")
	if len(part) == 3 {
		floor, ferr = strconv.ParseInt(part[2], 10, 64)
	}
	switch {
	case err != nil && !errors.Is(err, io.EOF):
		return err
	case err != nil || len(part) != 3 || part[0] != seenMagic || ferr != nil:
		s.floor = s.now().UnixMilli() // it cannot be read: the used commands are unknown
		return nil
	case part[1] == s.boot && s.boot != bootUnknown:
		s.floor = floor
	default:
		s.floor = max(floor, booted.UnixMilli()) // its last lines may never have reached the disk
	}
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			if !errors.Is(err, io.EOF) {
				return err
			}
			if line != "" { // half a line: the disk was full, or the power failed
				s.note(line)
			}
			return nil
		}
		s.note(strings.TrimSuffix(line, "\n"))
	}
}

// note remembers one line of the file.
func (s *Seen) note(line string) {
	ms, id, ok := strings.Cut(line, " ")
	until, err := strconv.ParseInt(ms, 10, 64)
	if !ok || err != nil || len(id) != 32 {
		return
	}
	var key [16]byte
	for i := range key {
		b, err := strconv.ParseUint(id[2*i:2*i+2], 16, 8)
		if err != nil {
			return
		}
		key[i] = byte(b)
	}
	s.had[key] = until
}

// rewrite drops commands that can no longer be replayed and writes the rest again. The caller holds mu, or nobody else knows s.
func (s *Seen) rewrite() error {
	now := s.now().UnixMilli()
	for k, until := range s.had {
		if until < now {
			delete(s.had, k)
		}
	}
	f, err := os.CreateTemp(filepath.Dir(s.path), filepath.Base(s.path)+".*") // 0600
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	fmt.Fprintf(w, "%s %s %d\n", seenMagic, s.boot, s.floor)
	for k, until := range s.had {
		fmt.Fprintf(w, "%d %x\n", until, k)
	}
	err = w.Flush()
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = os.Rename(f.Name(), s.path)
	}
	if err != nil {
		_ = f.Close()
		_ = os.Remove(f.Name())
		return err
	}
	if s.file != nil {
		_ = s.file.Close()
	}
	s.file, s.lines, s.due, s.wrote, s.torn = f, len(s.had), 2*len(s.had)+seenSpare, now, false
	return nil
}

// Take reports whether a command is new, and remembers it.
func (s *Seen) Take(c Command) error {
	sum := sha256.Sum256([]byte(c.ID))
	key := [16]byte(sum[:16])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return fault.New(fault.Unavailable, CodeUnavailable, "The machine's program is ending.")
	}
	if _, had := s.had[key]; had {
		return fault.New(fault.Forbidden, CodeReplayed, "The machine refuses: this command was used before.")
	}
	if c.At < s.floor {
		return fault.New(fault.Forbidden, CodeReplayed,
			"The machine refuses: this command is from before the machine's last start, and may have been used. If it is not, compare the clocks of this machine and of the server.")
	}
	full := len(s.had) >= maxSeen
	if s.torn || s.lines >= s.due || full && s.now().UnixMilli()-s.wrote > time.Minute.Milliseconds() {
		if err := s.rewrite(); err != nil {
			return unwritten(err)
		}
		full = len(s.had) >= maxSeen
	}
	if full {
		return fault.New(fault.RateLimited, CodeUnavailable, "The machine refuses: too many commands at once. Try again in a quarter of an hour.")
	}
	until := c.Until + (MaxSkew + seenSlack).Milliseconds()
	if _, err := fmt.Fprintf(s.file, "%d %x\n", until, key); err != nil {
		s.torn = true
		return unwritten(err)
	}
	s.had[key] = until
	s.lines++
	return nil
}

func unwritten(err error) error {
	return fault.Wrap(err, fault.DiskFull, CodeUnavailable, "The machine cannot record the used commands. Free some space on its disk.")
}

// Close closes the file. Later commands are refused.
func (s *Seen) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	return err
}
