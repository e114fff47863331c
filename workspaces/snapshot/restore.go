package snapshot

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/ignored"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/sandboxgit"
)

// RestoreRequest is what to restore of a snapshot, and where.
type RestoreRequest struct {
	New              bool     // into a new workspace, not the snapshot's
	Name             string   // of a new workspace; "" = the old one's, with the snapshot's time
	ID               string   // of a new workspace, chosen by a caller that must know later whether it was made; "" = a new one
	Paths            []string // raw bytes: only these files, and those below these folders; empty = all
	DryRun           bool     // only return what would change
	EvenWhileWorking bool     // even if an agent is working in it
	Ignored          bool     // also its ignored files, if there are no others of these names
}

// Restored is the result of a restore, or of its dry run.
type Restored struct {
	Workspace workspaces.Workspace
	Kept      Snap     // taken before the restore; the zero Snap for a dry run and for a new workspace
	Changed   []string // raw bytes
	Conflicts []string // files that somebody changed meanwhile: they were not restored

	Ignored     []string // raw bytes: restored ignored files
	IgnoredLeft []string // those whose names are taken: they were not restored
}

// Sandboxed writes files of workspaces whose sandbox has its own disk.
type Sandboxed interface {
	// FilesInSandbox reports whether the current files are in a running sandbox, not on this server.
	FilesInSandbox(ctx context.Context, workspaceID string) (bool, error)
	// Put writes a file there and Remove removes one, both only if the present bytes have this sha256, in hex; Put with "" only if there is
	// none, Remove with "" regardless of content. Else the error is of kind Precondition, or its code is file_exists. Paths are raw bytes.
	Put(ctx context.Context, workspaceID, path string, r io.Reader, ifMatch string, mode uint32) error
	Remove(ctx context.Context, workspaceID, path, ifMatch string) error
}

// Worker is an optional ability of Sessions.
type Worker interface {
	// Working reports whether an agent works in the workspace now.
	Working(ctx context.Context, workspaceID string) (bool, error)
}

// Wanted reports whether a path is one of paths or below one; all are when none is named.
func Wanted(name string, paths []string) bool {
	for _, p := range paths {
		if p = strings.TrimSuffix(p, "/"); name == p || strings.HasPrefix(name, p+"/") {
			return true
		}
	}
	return len(paths) == 0
}

// Apply changes files to the new side of a comparison. It removes files first, to make room for others.
func (s *Service) Apply(ctx context.Context, p workspaces.Project, w workspaces.Workspace, files []git.ChangedFile, out *Restored) error {
	var to filesOf
	s.captureState.mu.Lock()
	box := s.captureState.sandboxed
	s.captureState.mu.Unlock()
	if box != nil {
		away, err := box.FilesInSandbox(ctx, w.ID)
		if err != nil {
			return err
		}
		if away {
			to = remoteFiles{s, w, box}
		}
	}
	root, err := os.OpenRoot(w.Path)
	if err != nil {
		return git.DiskFault(err, "Opening the workspace's folder")
	}
	defer root.Close()
	if to == nil {
		to = HereFiles{root, s.sandboxes.Owner(w.ID)}
	}
	for _, gone := range [...]bool{true, false} {
		for _, f := range files {
			if gone != (f.Mode == "") {
				continue
			}
			was, same, err := s.StillAs(ctx, p, root, f)
			if err != nil {
				return err
			} else if !same {
				out.Conflicts = append(out.Conflicts, f.Path)
				continue
			}
			was.Still = func() (bool, error) {
				_, same, err := s.StillAs(ctx, p, root, f)
				return same, err
			}
			if gone {
				err = to.remove(ctx, f.Path, was)
			} else {
				err = s.repo.CommitBlobs(ctx, p.ID, []hostgit.TreeFile{{Path: f.Path, OID: f.NewBlob, Size: f.Size}}, func(_ hostgit.TreeFile, r io.Reader) error { return to.Put(ctx, f.Path, f.Mode, r, was) })
			}
			switch {
			case errors.Is(err, ErrInTheWay), fault.Is(err, fault.Precondition), fault.CodeOf(err) == "file_exists":
				out.Conflicts = append(out.Conflicts, f.Path)
			case err != nil:
				return fmt.Errorf("restoring %q: %w", guest.EncodePath(f.Path), err)
			default:
				out.Changed = append(out.Changed, f.Path)
			}
			failpoint.Reach(failpoint.SnapshotRestoring)
		}
	}
	return nil
}

// Found is what was found under a name before writing there.
type Found struct {
	sum   string               // sha256 hex of a file's bytes; "" = none
	link  bool                 // it is a link
	Still func() (bool, error) // checks again whether it is the same
}

// StillAs reports whether a file on this server equals the old side of a comparison, and what it is. It reads the whole file, however
// large: a snapshot leaves out files that are too large and has an older version of them, and callers may overwrite large files too.
func (s *Service) StillAs(ctx context.Context, p workspaces.Project, root *os.Root, f git.ChangedFile) (was Found, same bool, err error) {
	fi, err := root.Lstat(f.Path)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return was, f.OldBlob == "", nil
	}
	if err != nil {
		return was, false, fmt.Errorf("reading %q: %w", guest.EncodePath(f.Path), err)
	}
	switch {
	case fi.IsDir():
		return was, f.OldBlob == "", nil // its files are handled separately
	case fi.Mode()&fs.ModeSymlink != 0:
		was.link = true
		to, err := root.Readlink(f.Path)
		return was, err == nil && sandboxgit.BlobName(f.OldBlob, []byte(to)) == f.OldBlob, nil
	case !fi.Mode().IsRegular() || f.OldBlob == "":
		return was, false, nil
	}
	file, err := root.OpenFile(f.Path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return was, false, nil //nolint:nilerr // it is another already
	}
	defer file.Close()
	sum := sha256.New()
	if fi.Size() > 8*sandboxgit.SmallFile {
		size, err := s.git.Text(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"cat-file", "-s", f.OldBlob}})
		if err != nil {
			return was, false, git.GitFault(err, fault.Unavailable, "repository_unreadable", "Reading a file of the snapshot")
		}
		if size != strconv.FormatInt(fi.Size(), 10) {
			return was, false, nil
		}
		h := git.BlobHash(f.OldBlob, fi.Size())
		n, err := io.Copy(io.MultiWriter(h, sum), io.LimitReader(file, fi.Size()+1))
		was.sum = hex.EncodeToString(sum.Sum(nil))
		return was, err == nil && n == fi.Size() && hex.EncodeToString(h.Sum(nil)) == f.OldBlob, nil
	}
	have, err := io.ReadAll(io.LimitReader(file, 8*sandboxgit.SmallFile+1))
	if err != nil {
		return was, false, nil //nolint:nilerr // it is another already
	}
	sum.Write(have)
	was.sum = hex.EncodeToString(sum.Sum(nil))
	if sandboxgit.BlobName(f.OldBlob, have) == f.OldBlob {
		return was, true, nil
	}
	return was, sandboxgit.BlobName(f.OldBlob, []byte(strings.ReplaceAll(string(have), "\r\n", "\n"))) == f.OldBlob, nil
}

// ErrInTheWay means that there is something at a file's path that no snapshot has.
var ErrInTheWay = errors.New("something else is in the way")

// filesOf writes files of a worktree.
type filesOf interface {
	// put and remove change what was found under the name; if it has changed, the error is ErrInTheWay, or Sandboxed's.
	Put(ctx context.Context, path, mode string, r io.Reader, was Found) error
	remove(ctx context.Context, path string, was Found) error
}

// HereFiles are files of a worktree on this server. It follows no link out of it.
type HereFiles struct {
	Root *os.Root
	UID  int // owner; -1 = the server's user
}

func (h HereFiles) own(name string) error {
	if h.UID < 0 {
		return nil
	}
	return h.Root.Lchown(name, h.UID, h.UID)
}

func (h HereFiles) folders(name string) error {
	var missing []string
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		fi, err := h.Root.Lstat(dir)
		if err == nil && fi.IsDir() {
			break
		}
		if err == nil {
			return ErrInTheWay
		}
		missing = append(missing, dir)
	}
	for i := len(missing) - 1; i >= 0; i-- {
		if err := h.Root.Mkdir(missing[i], 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
			return git.DiskFault(err, "Making a folder")
		}
		if err := h.own(missing[i]); err != nil {
			return git.DiskFault(err, "Making a folder")
		}
	}
	return nil
}

// Put writes a file of the worktree on this server.
func (h HereFiles) Put(_ context.Context, name, mode string, r io.Reader, was Found) error {
	if BadName(name) {
		return ErrInTheWay
	}
	if err := h.folders(name); err != nil {
		return err
	}
	if !ignored.PlainParents(h.Root, name) {
		return ErrInTheWay
	}
	if fi, err := h.Root.Lstat(name); err == nil && fi.IsDir() {
		if err := h.Root.Remove(name); err != nil { // an empty folder makes room
			return ErrInTheWay
		}
	}
	temp := path.Join(path.Dir(name), ".parawork-"+id.New("tmp"))
	defer func() { _ = h.Root.Remove(temp) }()
	if mode == "120000" {
		to, err := io.ReadAll(io.LimitReader(r, 1<<16))
		if err == nil {
			err = h.Root.Symlink(string(to), temp)
		}
		if err != nil {
			return git.DiskFault(err, "Writing a link")
		}
	} else if err := h.write(temp, mode, r); err != nil {
		return git.DiskFault(err, "Writing a file")
	}
	if err := h.own(temp); err != nil {
		return git.DiskFault(err, "Writing a file")
	}
	if was.Still != nil { // writing may have taken a while: check again
		if same, err := was.Still(); err != nil || !same {
			return cmp.Or(err, ErrInTheWay)
		}
	}
	return git.DiskFault(h.Root.Rename(temp, name), "Writing a file")
}

func (h HereFiles) write(temp, mode string, r io.Reader) error {
	perm := fs.FileMode(0o644)
	if mode == "100755" {
		perm = 0o755
	}
	f, err := h.Root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, perm)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Chmod(perm)
	}
	return errors.Join(err, f.Close())
}

func (h HereFiles) remove(_ context.Context, name string, _ Found) error {
	if !ignored.PlainParents(h.Root, name) {
		return nil
	}
	if err := h.Root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return git.DiskFault(err, "Removing a file")
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) { // git does not know empty folders
		if h.Root.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// remoteFiles are files in a sandbox with its own disk.
type remoteFiles struct {
	s   *Service
	w   workspaces.Workspace
	box Sandboxed
}

func (f remoteFiles) Put(ctx context.Context, name, mode string, r io.Reader, was Found) error {
	if was.link { // it makes room for what comes
		if err := f.room(ctx, name, removeLink); err != nil {
			return err
		}
	}
	if mode != "120000" {
		if err := f.room(ctx, name, emptyFolder); err != nil {
			return err
		}
		perm := uint32(0o644)
		if mode == "100755" {
			perm = 0o755
		}
		return f.box.Put(ctx, f.w.ID, name, r, was.sum, perm)
	}
	to, err := io.ReadAll(io.LimitReader(r, 1<<16))
	if err != nil {
		return err
	}
	if dir := path.Dir(name); dir != "." {
		if err := f.run(ctx, "mkdir", "-p", "--", "./"+dir); err != nil {
			return err
		}
	}
	if was.sum != "" {
		if err := f.box.Remove(ctx, f.w.ID, name, was.sum); err != nil {
			return err
		}
	}
	return f.room(ctx, name, emptyFolder+`; ln -sn -- "$2" "$1"`, string(to))
}

// room runs a script that makes room for a file, $1.
func (f remoteFiles) room(ctx context.Context, name, script string, args ...string) error {
	err := f.run(ctx, append([]string{"sh", "-c", script, "room", "./" + name}, args...)...)
	if git.ExitCode(err) == inTheWay {
		return ErrInTheWay
	}
	return err
}

// inTheWay is the exit code of a script that would have to remove what nobody has seen.
const inTheWay = 99

// emptyFolder removes an empty folder, $1, to make room: git does not know them. A link to a folder does not count.
const emptyFolder = `if [ -d "$1" ] && [ ! -L "$1" ]; then rmdir -- "$1" || exit 99; fi`

// removeLink removes a link, $1, if it still is one: what replaced it since this server saw it stays.
const removeLink = `[ -e "$1" ] || [ -L "$1" ] || exit 0; [ -L "$1" ] || exit 99; rm -- "$1"`

// emptyFolders removes the given folders, from the innermost on, until one is not empty.
const emptyFolders = `for d; do rmdir -- "$d" 2>/dev/null || exit 0; done`

func (f remoteFiles) remove(ctx context.Context, name string, was Found) error {
	if was.link {
		if err := f.room(ctx, name, removeLink); err != nil {
			return err
		}
	} else if err := f.box.Remove(ctx, f.w.ID, name, was.sum); err != nil && !fault.Is(err, fault.NotFound) {
		return err
	}
	argv := []string{"sh", "-c", emptyFolders, "remove"}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		argv = append(argv, "./"+dir)
	}
	if len(argv) == 4 {
		return nil
	}
	return f.run(ctx, argv...)
}

func (f remoteFiles) run(ctx context.Context, argv ...string) error {
	b, err := f.s.sandboxes.Open(ctx, f.w)
	if err != nil {
		return err
	}
	return b.Command(ctx, argv...)
}
