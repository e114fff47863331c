package conversation

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Source gives access to the folder in which an agent writes. A place whose agents have their homes on this machine has a Dir;
// one with a disk of its own can be read through its guest behind the same three calls.
type Source interface {
	// Glob returns the names that match a pattern of path.Match, in order; a folder that is not there has none.
	Glob(pattern string) ([]string, error)
	// Open opens a regular file; fs.ErrNotExist when there is none by that name.
	Open(name string) (File, error)
	Close() error
}

// File is an open record.
type File interface {
	io.ReaderAt
	io.Closer
	// Stat returns the size, and what tells this file from another one that takes its name.
	Stat() (size int64, id string, err error)
}

// ErrNotPlain says that something else than a regular file lies where a record is expected: a link, a pipe, a device.
var ErrNotPlain = errors.New("not a regular file")

// Dir is a folder on this machine. Nothing outside it is ever opened.
type Dir struct{ root *os.Root }

// OpenDir opens the folder at an absolute path.
func OpenDir(dir string) (*Dir, error) {
	r, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	return &Dir{r}, nil
}

// Close gives the folder back.
func (d *Dir) Close() error { return d.root.Close() }

// maxMatches bounds what Glob returns.
const maxMatches = 4096

// Glob returns the regular files that match; links are not followed on the way.
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
			found, err := d.list(dir, part, last)
			if err != nil {
				return nil, err
			}
			next = append(next, found...)
		}
		if len(next) > maxMatches {
			next = next[len(next)-maxMatches:] // the newest, where names tell the time
		}
		names = next
	}
	return names, nil
}

func (d *Dir) list(dir, part string, files bool) ([]string, error) {
	f, err := d.root.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(64 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, nil // no folder
	}
	var out []string
	for _, e := range entries {
		if ok, err := path.Match(part, e.Name()); err != nil || !ok {
			continue
		}
		if files && e.Type().IsRegular() || !files && e.IsDir() {
			out = append(out, path.Join(dir, e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Open opens a regular file. A link is refused, wherever it leads, and a pipe does not block.
func (d *Dir) Open(name string) (File, error) {
	before, err := d.root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	f, err := d.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	after, err := f.Stat()
	if err == nil && (!after.Mode().IsRegular() || !os.SameFile(before, after)) {
		err = fmt.Errorf("%s: %w", name, ErrNotPlain)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return plainFile{f}, nil
}

type plainFile struct{ *os.File }

func (f plainFile) Stat() (int64, string, error) {
	st, err := f.File.Stat()
	if err != nil {
		return 0, "", err
	}
	var u unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &u); err != nil {
		return 0, "", err
	}
	return st.Size(), fmt.Sprintf("%d:%d", u.Dev, u.Ino), nil
}
