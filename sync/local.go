package filesync

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// While a workspace with a remote disk has no running sandbox, the server reads its own copy of the worktree: reading starts
// nothing and costs nothing. The copy holds what was synced.

// here reports whether a workspace is read on this server.
func (s *Service) here(ctx context.Context, workspaceID string) (here bool, state executors.State, err error) {
	if s.cfg.Trees == nil {
		return false, "", nil
	}
	remote, state, err := s.cfg.Places.RemoteDisk(ctx, workspaceID)
	return remote && state != executors.Running, state, err
}

// worktree opens the workspace's worktree on this server.
func (s *Service) worktree(ctx context.Context, workspaceID string) (*tree, error) {
	dir, err := s.cfg.Trees.Worktree(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	return openTree(dir, filepath.Join(s.cfg.DataDir, "sync", workspaceID))
}

// hereName converts a path in wire form into a name on this server, and rejects git's own folder.
func hereName(wire string) (string, error) {
	raw := guest.DecodePath(wire)
	if inGit(raw) {
		return "", fault.New(fault.Forbidden, "git_directory", "Files of .git cannot be read or written here.")
	}
	return raw, nil
}

func infoOf(raw string, fi fs.FileInfo) guest.FileInfo {
	out := guest.FileInfo{Path: guest.EncodePath(raw), Name: guest.EncodePath(path.Base(raw)), Mode: uint32(fi.Mode().Perm()), Size: fi.Size(), Mtime: fi.ModTime().UnixMilli(), Type: "other"}
	switch {
	case fi.Mode().IsRegular():
		out.Type = "file"
	case fi.IsDir():
		out.Type, out.Size = "dir", 0
	case fi.Mode()&fs.ModeSymlink != 0:
		out.Type = "symlink"
	}
	return out
}

// hereFault gives disk errors their kinds.
func hereFault(err error, wire string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrNotExist):
		return fault.Wrap(err, fault.NotFound, "file_not_found", "There is no file %q in the workspace.", wire)
	case errors.Is(err, unix.ENOTDIR):
		return fault.Wrap(err, fault.Conflict, "not_a_directory", "A part of %q is a file, not a folder.", wire)
	case errors.Is(err, unix.ELOOP), errors.Is(err, errChanging):
		return fault.Wrap(err, fault.Conflict, "not_a_file", "%q is not a regular file.", wire)
	case errors.Is(err, unix.ENOTEMPTY), errors.Is(err, unix.EEXIST):
		return fault.Wrap(err, fault.Conflict, "not_empty", "The folder %q is not empty.", wire)
	case errors.Is(err, fs.ErrPermission):
		return fault.Wrap(err, fault.Forbidden, "file_forbidden", "The server may not do this to %q.", wire)
	case diskFull(err):
		return fault.Wrap(err, fault.DiskFull, "disk_full", "The server's disk is full. Make room and try again.")
	}
	if blocked := (*errBlocked)(nil); errors.As(err, &blocked) {
		return fault.Wrap(err, fault.Conflict, "not_a_directory", "A part of %q is a file, not a folder.", wire)
	}
	return err
}

// plainHere finds a regular file on this server.
func plainHere(t *tree, raw, wire string) (present, error) {
	p, err := t.look(raw)
	switch {
	case err != nil:
		return p, hereFault(err, wire)
	case p.kind == "":
		return p, hereFault(fs.ErrNotExist, wire)
	case p.kind == "dir":
		return p, fault.New(fault.Conflict, "is_a_directory", "%q is a folder.", wire)
	case p.kind != "file":
		return p, fault.New(fault.Conflict, "not_a_file", "%q is not a regular file.", wire)
	}
	return p, nil
}

func (s *Service) readHere(ctx context.Context, workspaceID, wire string) (io.ReadCloser, guest.FileInfo, error) {
	raw, err := hereName(wire)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	t, err := s.worktree(ctx, workspaceID)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	defer t.close()
	p, err := plainHere(t, raw, wire)
	if err != nil {
		return nil, guest.FileInfo{}, err
	}
	f, err := t.open(raw, p)
	if err != nil {
		return nil, guest.FileInfo{}, hereFault(err, wire)
	}
	info, err := describe(f, raw)
	if err != nil {
		f.Close()
		return nil, guest.FileInfo{}, hereFault(err, wire)
	}
	return limited{io.LimitReader(f, info.Size), f}, info, nil
}

// describe returns the facts about an open file, with its hash, and rewinds the file.
func describe(f *os.File, raw string) (guest.FileInfo, error) {
	fi, err := f.Stat()
	if err != nil {
		return guest.FileInfo{}, err
	}
	info := infoOf(raw, fi)
	h := sha256.New()
	if info.Size, err = io.Copy(h, io.LimitReader(f, fi.Size())); err != nil {
		return guest.FileInfo{}, err
	}
	info.Hash = hex.EncodeToString(h.Sum(nil))
	_, err = f.Seek(0, io.SeekStart)
	return info, err
}

// maxListed bounds how many entries of a folder are listed.
const maxListed = 10_000

func (s *Service) treeHere(ctx context.Context, workspaceID, wire string) (Folder, error) {
	raw := "."
	if wire != "" {
		var err error
		if raw, err = hereName(wire); err != nil {
			return Folder{}, err
		}
	}
	t, err := s.worktree(ctx, workspaceID)
	if err != nil {
		return Folder{}, err
	}
	defer t.close()
	if err := t.folder(raw, false); err != nil {
		return Folder{}, hereFault(err, wire)
	}
	f, err := t.root.OpenFile(raw, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return Folder{}, hereFault(err, wire)
	}
	defer f.Close()
	names, err := f.Readdirnames(maxListed + 2) // room for one too many, and .git
	if err != nil && !errors.Is(err, io.EOF) {
		return Folder{}, hereFault(err, wire)
	}
	out := Folder{Entries: []guest.FileInfo{}, Truncated: len(names) == maxListed+2}
	names = slices.DeleteFunc(names, inGit)
	slices.Sort(names)
	if len(names) > maxListed {
		names, out.Truncated = names[:maxListed], true
	}
	for _, name := range names {
		at := path.Join(raw, name)
		fi, err := t.root.Lstat(at)
		if err != nil {
			continue // it was deleted meanwhile
		}
		info := infoOf(at, fi)
		if info.Type == "symlink" {
			if target, err := t.root.Readlink(at); err == nil {
				info.Link = guest.EncodePath(target)
			}
		}
		out.Entries = append(out.Entries, info)
	}
	return out, nil
}

func (s *Service) diffHere(ctx context.Context, workspaceID, base, wire, oldWire string, lines int) (io.ReadCloser, error) {
	raw, err := hereName(wire)
	if err != nil {
		return nil, err
	}
	t, err := s.worktree(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	defer t.close()
	var out bytes.Buffer
	err = s.compareHere(ctx, t, workspaceID, HostDiff{Base: base, Path: raw, OldPath: guest.DecodePath(oldWire), Context: lines}, wire, &out)
	return io.NopCloser(&out), err
}

// compareHere writes the diff of one file on this server.
func (s *Service) compareHere(ctx context.Context, t *tree, workspaceID string, d HostDiff, wire string, w io.Writer) error {
	p, err := t.look(d.Path)
	if err != nil {
		return hereFault(err, wire)
	}
	d.Mode, d.Size = p.mode, p.size
	switch p.kind {
	case "file":
		f, err := t.open(d.Path, p)
		if err != nil {
			return hereFault(err, wire)
		}
		defer f.Close()
		d.Content = f
	case "link":
		target, err := t.root.Readlink(d.Path)
		if err != nil {
			return hereFault(err, wire)
		}
		d.Content = strings.NewReader(target)
	case "dir":
		return fault.New(fault.Invalid, "is_a_folder", "The path is a folder. Ask for the difference of one file.")
	}
	return s.cfg.Trees.HostDiff(ctx, workspaceID, d, w)
}

// mayWriteHere reports whether a change is written on this server, because there is no sandbox, or in the sandbox. A suspended
// sandbox must be woken first: it has a copy of its own.
func (s *Service) mayWriteHere(ctx context.Context, workspaceID string) (bool, error) {
	here, state, err := s.here(ctx, workspaceID)
	if err != nil || !here {
		return false, err
	}
	if state == executors.Paused {
		return false, fault.New(fault.Conflict, "workspace_paused", "The workspace's sandbox is paused. Wake the workspace to change its files.")
	}
	return state == "", nil
}

func (s *Service) writeHere(ctx context.Context, workspaceID, wire string, r io.Reader, o WriteOptions) (guest.FileInfo, error) {
	raw, err := hereName(wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	t, err := s.worktree(ctx, workspaceID)
	if err != nil {
		return guest.FileInfo{}, err
	}
	defer t.close()
	mode := modeFile
	p, err := plainHere(t, raw, wire)
	switch {
	case err == nil && o.New:
		return guest.FileInfo{}, thereFault(wire)
	case err == nil:
		mode = p.mode
	case !fault.Is(err, fault.NotFound):
		return guest.FileInfo{}, err
	}
	if o.Mode&0o100 != 0 {
		mode = modeExec
	} else if o.Mode != 0 {
		mode = modeFile
	}
	temp := "put-" + rand.Text()
	defer func() { _ = t.temp.Remove(temp) }()
	f, err := t.temp.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return guest.FileInfo{}, hereFault(err, wire)
	}
	h := sha256.New()
	_, err = io.Copy(io.MultiWriter(f, h), r)
	if err == nil {
		err = f.Chmod(permOf(mode))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return guest.FileInfo{}, hereFault(fmt.Errorf("writing the file: %w", err), wire)
	}
	if err := matchHere(t, raw, wire, o.IfMatch); err != nil {
		return guest.FileInfo{}, err
	}
	if now, err := t.look(raw); o.New && (err != nil || now.kind != "") {
		return guest.FileInfo{}, cmp.Or(err, thereFault(wire))
	}
	if err := t.place(temp, raw); err != nil {
		return guest.FileInfo{}, hereFault(err, wire)
	}
	fi, err := t.root.Lstat(raw)
	if err != nil {
		return guest.FileInfo{}, hereFault(err, wire)
	}
	info := infoOf(raw, fi)
	info.Hash = hex.EncodeToString(h.Sum(nil))
	return info, s.changedHere(ctx, t, workspaceID, raw)
}

// matchHere fails when the current file is not the one the caller read.
func matchHere(t *tree, raw, wire, ifMatch string) error {
	if ifMatch == "" {
		return nil
	}
	now := ""
	if p, err := t.look(raw); err == nil && p.kind == "file" {
		d, err := t.read(raw, p, "")
		if err != nil {
			return hereFault(err, wire)
		}
		now = d.hash
	}
	if now != ifMatch {
		return fault.New(fault.Precondition, "file_changed", "%q has changed since you read it. Read it again first.", wire).With("hash", now)
	}
	return nil
}

func (s *Service) statHere(ctx context.Context, workspaceID, wire string) (guest.FileInfo, error) {
	raw, err := hereName(wire)
	if err != nil {
		return guest.FileInfo{}, err
	}
	t, err := s.worktree(ctx, workspaceID)
	if err != nil {
		return guest.FileInfo{}, err
	}
	defer t.close()
	if p, err := t.look(raw); err != nil || p.kind == "" {
		return guest.FileInfo{}, hereFault(cmp.Or(err, error(fs.ErrNotExist)), wire)
	}
	fi, err := t.root.Lstat(raw)
	if err != nil {
		return guest.FileInfo{}, hereFault(err, wire)
	}
	info := infoOf(raw, fi)
	if info.Type == "symlink" {
		if target, err := t.root.Readlink(raw); err == nil {
			info.Link = guest.EncodePath(target)
		}
	}
	return info, nil
}

func (s *Service) removeHere(ctx context.Context, workspaceID, wire, ifMatch string) error {
	raw, err := hereName(wire)
	if err != nil {
		return err
	}
	t, err := s.worktree(ctx, workspaceID)
	if err != nil {
		return err
	}
	defer t.close()
	if p, err := t.look(raw); err != nil || p.kind == "" {
		return hereFault(cmp.Or(err, error(fs.ErrNotExist)), wire)
	}
	if err := matchHere(t, raw, wire, ifMatch); err != nil {
		return err
	}
	if err := t.root.Remove(raw); err != nil {
		return hereFault(err, wire)
	}
	return s.changedHere(ctx, t, workspaceID, raw)
}
