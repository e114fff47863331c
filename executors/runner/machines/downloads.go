package machines

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/internal/fault"
)

// Target is a system the runner program is built for.
type Target struct{ OS, Arch, Name string }

// Targets lists all of them, in display order.
var Targets = []Target{
	{"linux", "amd64", "Linux on x86-64"}, {"linux", "arm64", "Linux on ARM64"},
	{"darwin", "arm64", "macOS on Apple silicon"}, {"darwin", "amd64", "macOS on Intel"},
}

// File returns the name of a target's program among the downloads.
func (t Target) File() string { return "parawork-" + t.OS + "-" + t.Arch }

// Download is a program that can be downloaded, or the reason why not.
type Download struct {
	Target
	Size   int64
	SHA256 string // hex
	Reason string // why it is not offered, "" when it is
}

// Downloads are the runner programs that this server offers: files in folders, where the first folder that has one wins. They may be
// replaced while the server runs.
type Downloads struct {
	dirs []string

	mu     sync.Mutex
	hashes map[string]hashed
}

// hashed is the hash of a file in a known state.
type hashed struct {
	stamp string
	sum   string
}

// NewDownloads returns the programs in folders.
func NewDownloads(dirs ...string) *Downloads {
	return &Downloads{dirs: dirs, hashes: map[string]hashed{}}
}

// List returns the download of each target.
func (d *Downloads) List() []Download {
	out := make([]Download, 0, len(Targets))
	for _, t := range Targets {
		one := Download{Target: t}
		f, size, sum, _, err := d.open(t)
		switch {
		case err == nil:
			f.Close()
			one.Size, one.SHA256 = size, sum
		case errors.Is(err, fs.ErrNotExist):
			one.Reason = "Not built on this server yet: make run builds it in the background, make downloads at once."
		default:
			one.Reason = "The server cannot read it."
		}
		out = append(out, one)
	}
	return out
}

// Open opens one by its file's name. The caller closes it. Errors: not_found.
func (d *Downloads) Open(name string) (f *os.File, of Download, changed time.Time, err error) {
	for _, t := range Targets {
		if t.File() != name {
			continue
		}
		f, size, sum, changed, err := d.open(t)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		return f, Download{Target: t, Size: size, SHA256: sum}, changed, err
	}
	return nil, Download{}, time.Time{}, fault.New(fault.NotFound, "not_found", "This server does not offer that program. GET /runner/downloads lists what it has.")
}

func (d *Downloads) open(t Target) (f *os.File, size int64, sum string, changed time.Time, err error) {
	err = fs.ErrNotExist
	for _, dir := range d.dirs {
		if dir == "" {
			continue
		}
		path := filepath.Join(dir, t.File())
		if f, err = os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, 0, "", time.Time{}, err
		}
		st, err := f.Stat()
		if err == nil && !st.Mode().IsRegular() {
			err = fmt.Errorf("%s is no file", path)
		}
		if err == nil {
			sum, err = d.hash(path, f, st)
		}
		if err != nil {
			f.Close()
			return nil, 0, "", time.Time{}, err
		}
		return f, st.Size(), sum, st.ModTime(), nil
	}
	return nil, 0, "", time.Time{}, err
}

// hash returns the SHA-256 of an open file, and reads it again only when it has changed.
func (d *Downloads) hash(path string, f *os.File, st fs.FileInfo) (string, error) {
	var sys unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &sys); err != nil {
		return "", fmt.Errorf("looking at %s: %w", path, err)
	}
	stamp := fmt.Sprint(sys.Dev, sys.Ino, st.Size(), st.ModTime().UnixNano())
	d.mu.Lock()
	defer d.mu.Unlock() // also so that concurrent callers read it once
	if h := d.hashes[path]; h.stamp == stamp {
		return h.sum, nil
	}
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	sum := hex.EncodeToString(h.Sum(nil))
	d.hashes[path] = hashed{stamp, sum}
	return sum, nil
}
