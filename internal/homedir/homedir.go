// Package homedir reads and writes in a folder that somebody else writes in too: the home of an agent. It trusts nothing there: a name
// cannot lead outside the folder, and only regular files are read: no FIFO, link or device.
package homedir

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/internal/atomicfile"
	"golang.org/x/sys/unix"
)

// ErrNotPlain says that something other than a regular file lies where one is expected: a link, a FIFO, a device.
var ErrNotPlain = errors.New("not a regular file")

// ErrTooLarge says that a file is larger than its reader accepts.
var ErrTooLarge = errors.New("larger than is read here")

// MaxFile limits what ReadFile reads.
const MaxFile = 8 << 20

// MaxMatches limits what Glob and List return.
const MaxMatches = 4096

// Info describes the entry of a name. A link is not followed.
type Info struct {
	Name    string      // the last part
	Type    fs.FileMode // 0 = a regular file
	Perm    fs.FileMode
	Size    int64
	ModTime time.Time
	ID      string // distinguishes this file from another one that takes its name
}

// Regular reports whether it is a regular file.
func (i Info) Regular() bool { return i.Type == 0 }

// IsDir reports whether it is a folder.
func (i Info) IsDir() bool { return i.Type == fs.ModeDir }

// File is an open file that somebody else may write to meanwhile.
type File interface {
	io.ReaderAt
	io.Closer
	// Stat returns the size, and the identity that distinguishes this file from another one that takes its name.
	Stat() (size int64, id string, err error)
}

// Dir is a folder on this machine. Names are relative to it, with slashes. Safe for concurrent use.
type Dir struct{ root *os.Root }

// Open opens the folder at an absolute path.
func Open(dir string) (*Dir, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Dir{r}, nil
}

// Close closes the folder.
func (d *Dir) Close() error { return d.root.Close() }

func infoOf(st fs.FileInfo) Info {
	i := Info{Name: st.Name(), Type: st.Mode().Type(), Perm: st.Mode().Perm(), Size: st.Size(), ModTime: st.ModTime()}
	if u, ok := st.Sys().(*syscall.Stat_t); ok {
		i.ID = fmt.Sprintf("%d:%d", u.Dev, u.Ino)
	}
	return i
}

// Stat describes the entry of a name, without following a link there.
func (d *Dir) Stat(name string) (Info, error) {
	st, err := d.root.Lstat(name)
	if err != nil {
		return Info{}, err
	}
	return infoOf(st), nil
}

// Open opens a regular file. It refuses a link, wherever it leads, and does not block on a FIFO.
func (d *Dir) Open(name string) (File, error) {
	f, _, err := d.open(name)
	if err != nil {
		return nil, err
	}
	return plainFile{f}, nil
}

func (d *Dir) open(name string) (*os.File, Info, error) {
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, Info{}, err
	}
	if !before.Mode().IsRegular() {
		return nil, Info{}, fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, Info{}, err
	}
	after, err := f.Stat()
	if err == nil && (!after.Mode().IsRegular() || !os.SameFile(before, after)) {
		err = fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	if err != nil {
		f.Close()
		return nil, Info{}, err
	}
	return f, infoOf(after), nil
}

type plainFile struct{ *os.File }

func (f plainFile) Stat() (int64, string, error) {
	st, err := f.File.Stat()
	if err != nil {
		return 0, "", err
	}
	i := infoOf(st)
	return i.Size, i.ID, nil
}

// ReadFile reads a regular file of at most MaxFile bytes.
func (d *Dir) ReadFile(name string) ([]byte, error) {
	f, _, err := d.open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(raw) > MaxFile {
		err = fmt.Errorf("%s: %w", name, ErrTooLarge)
	}
	return raw, err
}

// ReadAt reads up to most bytes of a regular file from off on, fewer where it ends.
func (d *Dir) ReadAt(name string, off int64, most int) ([]byte, Info, error) {
	f, info, err := d.open(name)
	if err != nil {
		return nil, Info{}, err
	}
	defer f.Close()
	p := make([]byte, max(0, min(int64(most), info.Size-off)))
	n, err := f.ReadAt(p, off)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return p[:n], info, err
}

// WriteFile replaces whatever has this name by a file with these bytes: a link is replaced, not followed. The file appears atomically. Its
// folder must exist.
func (d *Dir) WriteFile(name string, b []byte) error {
	return d.Write(name, bytes.NewReader(b), 0o600)
}

// Write is WriteFile for a stream of bytes and a mode.
func (d *Dir) Write(name string, r io.Reader, perm fs.FileMode) error {
	return atomicfile.CopyIn(d.root, name, r, perm)
}

// Mkdir makes a folder and its parents, accessible only to their owner; an existing one is no error.
func (d *Dir) Mkdir(name string) error { return d.root.MkdirAll(name, 0o700) }

// Symlink makes a link. fs.ErrExist when the name exists.
func (d *Dir) Symlink(to, name string) error { return d.root.Symlink(to, name) }

// OpenFile opens a regular file, or returns where a link leads: it follows none.
func (d *Dir) OpenFile(name string) (f *os.File, link string, err error) {
	st, err := d.root.Lstat(name)
	if err != nil {
		return nil, "", err
	}
	if st.Mode()&fs.ModeSymlink != 0 {
		link, err = d.root.Readlink(name)
		return nil, link, err
	}
	f, _, err = d.open(name)
	return f, "", err
}

// Chtimes sets the modification time of a regular file.
func (d *Dir) Chtimes(name string, at time.Time) error {
	f, _, err := d.open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	ts := unix.NsecToTimeval(at.UnixNano())
	return unix.Futimes(int(f.Fd()), []unix.Timeval{ts, ts})
}

// Remove removes a file, a link or an empty folder.
func (d *Dir) Remove(name string) error { return d.root.Remove(name) }

// RemoveAll removes the entry of a name with all that is in it; a missing one is no error.
func (d *Dir) RemoveAll(name string) error { return d.root.RemoveAll(name) }

// List describes what is in a folder, in order of names. It returns at most the last MaxMatches; where names contain the time those are the
// newest. A missing folder has none.
func (d *Dir) List(name string) ([]Info, error) {
	entries, err := d.entries(name)
	if err != nil {
		return nil, err
	}
	out := make([]Info, 0, len(entries))
	for _, e := range entries {
		if st, err := d.root.Lstat(path.Join(name, e.Name())); err == nil { // else it went away
			out = append(out, infoOf(st))
		}
	}
	return out, nil
}

// entries returns the entries of a folder, in order; none of a missing one, or of something else.
func (d *Dir) entries(dir string) ([]fs.DirEntry, error) {
	f, err := d.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return cmp.Compare(a.Name(), b.Name()) })
	return entries[max(0, len(entries)-MaxMatches):], nil
}

// Glob returns the regular files whose names match a pattern of path.Match, in order; it follows no links on the way. A missing folder has
// none.
func (d *Dir) Glob(pattern string) ([]string, error) {
	names := []string{"."}
	parts := strings.Split(pattern, "/")
	for i, part := range parts {
		last := i == len(parts)-1
		var next []string
		for _, dir := range names {
			if !strings.ContainsAny(part, `*?[\`) {
				name := path.Join(dir, part)
				if st, err := d.root.Lstat(name); err == nil && (last && st.Mode().IsRegular() || !last && st.IsDir()) {
					next = append(next, name)
				}
				continue
			}
			entries, err := d.entries(dir)
			if err != nil {
				return nil, err
			}
			for _, e := range entries {
				if ok, err := path.Match(part, e.Name()); err == nil && ok && (last && e.Type().IsRegular() || !last && e.IsDir()) {
					next = append(next, path.Join(dir, e.Name()))
				}
			}
		}
		names = next[max(0, len(next)-MaxMatches):] // the newest, where names contain the time
	}
	return names, nil
}
