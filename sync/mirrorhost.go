package filesync

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/parawork/parawork/internal/atomicfile"
	"golang.org/x/sys/unix"
)

// tree is a worktree on the host, opened for one step. All access goes through os.Root and follows no links: it checks each
// folder on the way first. While a sandbox with its own disk has the workspace only the mirror writes there; people may, too, and
// the mirror keeps what they wrote.
type tree struct {
	root *os.Root
	temp *os.Root         // folder in which files are assembled, outside the worktree
	dirs map[string]error // folders checked in this step: nil = a folder
}

// present describes what exists under a name.
type present struct {
	kind string // "" = nothing; file, link, dir, other
	mode string // as git writes it
	size int64
	st   fileMark
}

// fileMark distinguishes one state of a file from another without reading it.
type fileMark struct {
	dev, ino           uint64
	mode               uint32
	size, mtime, ctime int64
}

// errBlocked reports that something other than a folder is on the way to a name.
type errBlocked struct{ at string }

func (e *errBlocked) Error() string { return fmt.Sprintf("%q is in the way: it is not a folder", e.at) }

func openTree(root, temp string) (*tree, error) {
	r, err := os.OpenRoot(root)
	if err != nil {
		return nil, fmt.Errorf("opening the worktree: %w", err)
	}
	if err := os.MkdirAll(temp, 0o700); err != nil {
		r.Close()
		return nil, fmt.Errorf("creating the folder of unfinished files: %w", err)
	}
	t, err := os.OpenRoot(temp)
	if err != nil {
		r.Close()
		return nil, fmt.Errorf("opening the folder of unfinished files: %w", err)
	}
	return &tree{root: r, temp: t, dirs: make(map[string]error)}, nil
}

func (t *tree) close() {
	t.root.Close()
	t.temp.Close()
}

// forget drops what is cached about folders.
func (t *tree) forget() { clear(t.dirs) }

// folder makes sure that every part of dir is a folder, and creates missing ones when make is set. It returns fs.ErrNotExist when
// one is missing, *errBlocked when one is not a folder.
func (t *tree) folder(dir string, make bool) error {
	if dir == "." {
		return nil
	}
	if err, known := t.dirs[dir]; known && (err == nil || !make) {
		return err
	}
	err := t.folder(path.Dir(dir), make)
	if err == nil {
		var fi fs.FileInfo
		switch fi, err = t.root.Lstat(dir); {
		case err == nil && !fi.IsDir():
			return &errBlocked{dir}
		case errors.Is(err, fs.ErrNotExist) && make:
			err = t.root.Mkdir(dir, 0o755)
		}
	}
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		t.dirs[dir] = err
	}
	return err
}

// look describes what exists under a name. A name behind something that is not a folder does not exist.
func (t *tree) look(name string) (present, error) {
	if err := t.folder(path.Dir(name), false); err != nil {
		if blocked := (*errBlocked)(nil); errors.As(err, &blocked) || errors.Is(err, fs.ErrNotExist) {
			return present{}, nil
		}
		return present{}, err
	}
	fi, err := t.root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return present{}, nil
	}
	if err != nil {
		return present{}, err
	}
	return presentOf(fi), nil
}

func presentOf(fi fs.FileInfo) present {
	p := present{kind: "other", size: fi.Size()}
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		p.st = fileMark{dev: uint64(st.Dev), ino: uint64(st.Ino), mode: uint32(st.Mode), size: st.Size, mtime: fi.ModTime().UnixNano(), ctime: ctimeOf(st)}
	}
	switch {
	case fi.Mode().IsRegular() && fi.Mode()&0o100 != 0:
		p.kind, p.mode = "file", modeExec
	case fi.Mode().IsRegular():
		p.kind, p.mode = "file", modeFile
	case fi.Mode()&fs.ModeSymlink != 0:
		p.kind, p.mode = "link", modeLink
	case fi.IsDir():
		p.kind, p.size = "dir", 0
	}
	return p
}

// digest identifies a file's contents: its sha256, git's object ID of it, and the object ID with the repository's line endings.
type digest struct{ hash, oid, plain string }

// read computes the digest of what look found as p under a name. like is any object ID of the repository.
func (t *tree) read(name string, p present, like string) (digest, error) {
	if p.kind == "link" {
		target, err := t.root.Readlink(name)
		if err != nil {
			return digest{}, err
		}
		return digestOf([]byte(target), like), nil
	}
	f, err := t.open(name, p)
	if err != nil {
		return digest{}, err
	}
	defer f.Close()
	if p.size <= 1<<20 {
		b, err := io.ReadAll(io.LimitReader(f, p.size+1))
		if err != nil || int64(len(b)) != p.size {
			return digest{}, errors.Join(err, errChanging)
		}
		return digestOf(b, like), nil
	}
	h, g := sha256.New(), namer(like, p.size)
	n, err := io.Copy(io.MultiWriter(h, g), f)
	if err != nil || n != p.size {
		return digest{}, errors.Join(err, errChanging)
	}
	oid := hex.EncodeToString(g.Sum(nil))
	return digest{hex.EncodeToString(h.Sum(nil)), oid, oid}, nil
}

// errChanging reports that somebody writes to a host file while the server reads it.
var errChanging = errors.New("the file on the server is being written")

func digestOf(b []byte, like string) digest {
	sum := sha256.Sum256(b)
	d := digest{hash: hex.EncodeToString(sum[:]), oid: nameOf(like, b)}
	d.plain = d.oid
	if bytes.Contains(b, []byte("\r\n")) {
		d.plain = nameOf(like, bytes.ReplaceAll(b, []byte("\r\n"), []byte("\n")))
	}
	return d
}

// open opens a regular file that look found.
func (t *tree) open(name string, p present) (*os.File, error) {
	f, err := t.root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	fi, err := f.Stat()
	if err == nil && presentOf(fi).st != p.st {
		err = errChanging
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// place moves an unfinished file to its name in the worktree and creates its folders. Readers see either the old file or the new
// one.
func (t *tree) place(temp, name string) error {
	if err := t.folder(path.Dir(name), true); err != nil {
		return err
	}
	from, err := t.temp.Open(".")
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := t.root.OpenFile(path.Dir(name), os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	err = unix.Renameat(int(from.Fd()), temp, int(to.Fd()), path.Base(name))
	if errors.Is(err, unix.EXDEV) {
		return t.placeAcross(temp, name)
	}
	if err != nil {
		return &fs.PathError{Op: "rename", Path: name, Err: err}
	}
	return nil
}

// placeAcross is place for a worktree on another file system than the data folder.
func (t *tree) placeAcross(temp, name string) (err error) {
	defer func() {
		if err == nil {
			_ = t.temp.Remove(temp)
		}
	}()
	fi, err := t.temp.Lstat(temp)
	if err != nil {
		return err
	}
	if fi.Mode()&fs.ModeSymlink != 0 {
		target, err := t.temp.Readlink(temp)
		if err != nil {
			return err
		}
		beside := path.Join(path.Dir(name), ".parawork-sync-"+rand.Text())
		if err = t.root.Symlink(target, beside); err != nil {
			return err
		}
		if err = t.root.Rename(beside, name); err != nil {
			_ = t.root.Remove(beside)
		}
		return err
	}
	from, err := t.temp.OpenFile(temp, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer from.Close()
	return atomicfile.CopyIn(t.root, name, from, fi.Mode().Perm())
}

// chmod gives a file the permissions of its mode.
func (t *tree) chmod(name string, p present, mode string) error {
	f, err := t.open(name, p)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Chmod(permOf(mode))
}

func permOf(mode string) fs.FileMode {
	if mode == modeExec {
		return 0o755
	}
	return 0o644
}

// remove removes a file or link, and the folders this leaves empty.
func (t *tree) remove(name string) error {
	if err := t.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	t.prune(path.Dir(name))
	return nil
}

// prune removes empty folders, upwards.
func (t *tree) prune(dir string) {
	for ; dir != "."; dir = path.Dir(dir) {
		fi, err := t.root.Lstat(dir)
		if err != nil || !fi.IsDir() || t.root.Remove(dir) != nil {
			return
		}
		delete(t.dirs, dir)
	}
}

// clear removes a folder that contains nothing but folders. It reports whether it is gone.
func (t *tree) clear(dir string) bool {
	f, err := t.root.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	names, err := f.Readdirnames(1000)
	f.Close()
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	for _, n := range names {
		at := path.Join(dir, n)
		if fi, err := t.root.Lstat(at); err != nil || !fi.IsDir() || !t.clear(at) {
			return false
		}
	}
	delete(t.dirs, dir)
	return t.root.Remove(dir) == nil
}

// spare returns an unused name derived from a taken one. mark is part of it.
func (t *tree) spare(name, mark string) (string, error) {
	dir, base := path.Split(name)
	if room := 255 - len(".server-"+mark+"-99"); len(base) > room { // the limit of most file systems
		base = base[:room]
	}
	for i := range 99 {
		kept := dir + base + ".server-" + mark
		if i > 0 {
			kept = fmt.Sprintf("%s-%d", kept, i+1)
		}
		if _, err := t.root.Lstat(kept); errors.Is(err, fs.ErrNotExist) {
			return kept, nil
		} else if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("%q: too many versions are kept under other names", name)
}

// aside renames what exists under a name.
func (t *tree) aside(name, kept string) error {
	t.forget()
	return t.root.Rename(name, kept)
}

// inGit reports whether a part of the path is git's own folder, in any letter case.
func inGit(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}
