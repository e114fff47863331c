package daemon

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// maxLinks bounds a chain of links that is followed to write a file.
const maxLinks = 16

var errGitDir = fault.New(fault.Forbidden, "git_directory", "Files of .git cannot be read or written here.")

// inRoot turns a path in wire form into one below the root, and rejects paths that lead elsewhere or into .git. "" is the root
// itself, where whole is set.
func inRoot(wire string, whole bool) (string, error) {
	if wire == "" && whole {
		return ".", nil
	}
	if err := guest.CheckPath(wire); err != nil {
		return "", err
	}
	raw := guest.DecodePath(wire)
	if inGit(raw) {
		return "", errGitDir
	}
	return raw, nil
}

// inGit reports whether a part of the path is git's own folder, in any letter case: some file systems ignore case.
func inGit(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.EqualFold(part, ".git") {
			return true
		}
	}
	return false
}

// fileInfo describes a file at raw, a path below the root.
func (d *Daemon) fileInfo(raw string, info fs.FileInfo) guest.FileInfo {
	out := guest.FileInfo{Path: guest.EncodePath(raw), Name: guest.EncodePath(path.Base(raw)), Mode: uint32(info.Mode().Perm()),
		Size: info.Size(), Mtime: info.ModTime().UnixMilli(), Type: "other"}
	if raw == "." {
		out.Path, out.Name = "", ""
	}
	switch {
	case info.Mode().IsRegular():
		out.Type = "file"
	case info.IsDir():
		out.Type, out.Size = "dir", 0
	case info.Mode()&fs.ModeSymlink != 0:
		out.Type = "symlink"
		if target, err := d.root.Readlink(raw); err == nil {
			out.Link = guest.EncodePath(target)
		}
	}
	return out
}

// open opens a regular file for reading. It follows a link inside the root, and does not block on a FIFO.
func (d *Daemon) open(raw, wire string) (*os.File, fs.FileInfo, error) {
	f, err := d.root.OpenFile(raw, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENXIO) || errors.Is(err, syscall.EOPNOTSUPP) { // a socket
		return nil, nil, fault.Wrap(err, fault.Conflict, "not_a_file", "%q is not a regular file.", wire)
	}
	if err != nil {
		return nil, nil, fromDisk(err, wire)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		if info.IsDir() {
			err = fault.New(fault.Conflict, "is_a_directory", "%q is a folder.", wire)
		} else {
			err = fault.New(fault.Conflict, "not_a_file", "%q is not a regular file.", wire)
		}
	}
	if err != nil {
		_ = f.Close()
		return nil, nil, err
	}
	return f, info, nil
}

func sum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// hashFile returns the hash of the current contents, "" when there is no file.
func (d *Daemon) hashFile(raw, wire string) (string, error) {
	f, _, err := d.open(raw, wire)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("reading the current file: %w", err)
	}
	return sum(h), nil
}

// writeTarget follows links to the file to write, and returns its mode.
func (d *Daemon) writeTarget(raw, wire string) (string, fs.FileMode, error) {
	for range maxLinks {
		info, err := d.root.Lstat(raw)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return raw, 0o644, nil
		case err != nil:
			return "", 0, fromDisk(err, wire)
		case info.IsDir():
			return "", 0, fault.New(fault.Conflict, "is_a_directory", "%q is a folder.", wire)
		case info.Mode().IsRegular():
			return raw, info.Mode().Perm(), nil
		case info.Mode()&fs.ModeSymlink == 0:
			return "", 0, fault.New(fault.Conflict, "not_a_file", "%q is not a regular file.", wire)
		}
		target, err := d.root.Readlink(raw)
		if err != nil {
			return "", 0, fromDisk(err, wire)
		}
		raw = path.Join(path.Dir(raw), target)
		if path.IsAbs(target) || raw == ".." || strings.HasPrefix(raw, "../") {
			return "", 0, fault.New(fault.Invalid, "path_escapes", "%q is a link that leads out of the workspace.", wire)
		}
		if inGit(raw) {
			return "", 0, errGitDir
		}
	}
	return "", 0, fault.New(fault.Invalid, "invalid_path", "%q is a link that leads in a circle.", wire)
}

// write writes a file: to a temporary one that replaces it, so that readers never see half of it. With fresh the file must not
// exist yet.
func (d *Daemon) write(wire string, r io.Reader, ifMatch string, fresh bool, mode fs.FileMode) (guest.FileInfo, error) {
	raw, err := inRoot(wire, false)
	if err != nil {
		return guest.FileInfo{}, err
	}
	target, present, err := d.writeTarget(raw, wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	mode = cmp.Or(mode, present)
	if err := d.match(target, wire, ifMatch); err != nil {
		return guest.FileInfo{}, err
	}
	if _, err := d.root.Lstat(target); fresh && err == nil {
		return guest.FileInfo{}, errThere(wire)
	}
	if dir := path.Dir(target); dir != "." {
		if err := d.root.MkdirAll(dir, 0o755); err != nil {
			return guest.FileInfo{}, fromDisk(err, wire)
		}
	}
	hash, err := d.put(target, wire, r, ifMatch, fresh, mode)
	if err != nil {
		return guest.FileInfo{}, err
	}
	info, err := d.root.Lstat(target)
	if err != nil {
		return guest.FileInfo{}, fromDisk(err, wire)
	}
	out := d.fileInfo(target, info)
	out.Hash = hash
	return out, nil
}

// put writes the new file and moves it into place. Where the disk supports nameless files, it has no name until it is complete:
// nobody takes it for one of the workspace, and nothing remains if the guest dies. Elsewhere it has a temporary name next to its
// target.
func (d *Daemon) put(target, wire string, r io.Reader, ifMatch string, fresh bool, mode fs.FileMode) (hash string, err error) {
	temp := path.Join(path.Dir(target), ".parawork-"+rand.Text())
	f, err := d.nameless(path.Dir(target))
	named := err != nil
	if named {
		f, err = d.passing(temp)
	}
	if err != nil {
		return "", fromDisk(err, temp)
	}
	defer func() {
		_ = f.Close()
		if err != nil && named {
			_ = d.root.Remove(temp)
		}
	}()
	if hash, err = fill(f, r, mode); err != nil {
		return "", err
	}
	// Again, for the file may have changed while the new one was being sent.
	if err := d.match(target, wire, ifMatch); err != nil {
		return "", err
	}
	if !named {
		err := d.name(f, target)
		if err == nil {
			return hash, nil
		}
		if errors.Is(err, fs.ErrExist) && fresh {
			return "", errThere(wire)
		}
		if errors.Is(err, fs.ErrExist) { // a nameless file cannot replace an existing one
			err = d.name(f, temp)
		}
		named = true
		if err != nil {
			if err := d.copyOut(f, temp, mode); err != nil {
				return "", fromDisk(err, wire)
			}
		}
	}
	if err := f.Close(); err != nil {
		return "", fmt.Errorf("writing the file: %w", err)
	}
	return hash, d.settle(temp, target, wire, fresh)
}

// passing creates a file under a temporary name.
func (d *Daemon) passing(temp string) (*os.File, error) {
	return d.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o600)
}

// copyOut copies a nameless file, where it can be given no name, to one with a temporary name.
func (d *Daemon) copyOut(f *os.File, temp string, mode fs.FileMode) error {
	to, err := d.passing(temp)
	if err != nil {
		return err
	}
	_, err = f.Seek(0, io.SeekStart)
	if err == nil {
		_, err = io.Copy(to, f)
	}
	if err == nil {
		err = to.Chmod(mode)
	}
	return errors.Join(err, to.Close())
}

// settle gives the new file its name. With fresh it never replaces another file.
func (d *Daemon) settle(temp, target, wire string, fresh bool) error {
	if !fresh {
		return fromDisk(d.root.Rename(temp, target), wire)
	}
	err := d.root.Link(temp, target)
	switch {
	case err == nil:
		return fromDisk(d.root.Remove(temp), wire)
	case errors.Is(err, fs.ErrExist):
		return errThere(wire)
	}
	// Not every file system has hard links.
	if _, err := d.root.Lstat(target); err == nil {
		return errThere(wire)
	}
	return fromDisk(d.root.Rename(temp, target), wire)
}

func errThere(wire string) error {
	return fault.New(fault.Conflict, "file_exists", "There is a file %q already. Choose another name, or open that one.", wire)
}

// match fails when the current file is not the one the host read.
func (d *Daemon) match(raw, wire, ifMatch string) error {
	if ifMatch == "" {
		return nil
	}
	now, err := d.hashFile(raw, wire)
	if err != nil {
		return err
	}
	if now != ifMatch {
		return fault.New(fault.Precondition, "file_changed", "%q has changed since you read it. Read it again first.", wire).With("hash", now)
	}
	return nil
}

// fill writes to the new file and returns its hash.
func fill(f *os.File, r io.Reader, mode fs.FileMode) (hash string, err error) {
	h := sha256.New()
	buf := batches.Get().(*[batch]byte)
	defer batches.Put(buf)
	if _, err := io.CopyBuffer(struct{ io.Writer }{io.MultiWriter(f, h)}, r, buf[:]); err != nil {
		return "", fmt.Errorf("writing the file: %w", err)
	}
	if err := f.Chmod(mode); err != nil {
		return "", fmt.Errorf("setting the file's mode: %w", err)
	}
	return sum(h), nil
}
