package bundle

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// fresh is the name of .git while a worktree is created.
const fresh = ".git-parawork-bundle"

// notifyEvery is the least time between two progress reports to the host.
const notifyEvery = 100 * time.Millisecond

// unpacker writes one bundle below the root.
type unpacker struct {
	s        *Store
	b        *transfer
	root     *os.Root
	reported time.Time

	plan    guest.BundlePlan
	gitDir  string // below the root
	gone    []byte
	staged  []byte
	shallow []byte
	packs   []string          // files of packs that do not have their final names yet
	dirs    map[string]bool   // folders below the root that are known to be folders
	links   map[string]string // links by name, created last
	files   int64
	bytes   int64
}

func broken(format string, args ...any) error {
	return fault.New(fault.Conflict, "bundle_corrupt", "The bundle cannot be unpacked: "+format+".", args...)
}

func full(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

func (u *unpacker) run(ctx context.Context, r io.Reader) error {
	u.dirs, u.links = make(map[string]bool), make(map[string]string)
	tr := tar.NewReader(bufio.NewReaderSize(r, 256<<10))
	h, err := tr.Next()
	if err != nil || h.Name != guest.BundlePlanEntry {
		return errors.Join(err, broken("it does not begin with its plan"))
	}
	if err := json.NewDecoder(io.LimitReader(tr, 1<<20)).Decode(&u.plan); err != nil {
		return errors.Join(err, broken("its plan cannot be read"))
	}
	switch u.plan.Kind {
	case guest.BundleWorktree:
		u.gitDir = fresh
		there, err := u.clear()
		if err != nil || there {
			return err
		}
	case guest.BundleObjects:
		u.gitDir = ".git"
		if fi, err := u.root.Stat(".git/objects/pack"); err != nil || !fi.IsDir() {
			return errors.Join(err, fault.New(fault.Conflict, "no_repository", "The worktree has no git folder to add the objects to."))
		}
	default:
		return broken("this guest does not support bundles of kind %q", u.plan.Kind)
	}
	out := false
	for n := 0; ; n++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return errors.Join(err, broken("it is not an archive"))
		}
		if n > guest.MaxBundleEntries {
			return broken("it holds more than %d files", guest.MaxBundleEntries)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !out && strings.HasPrefix(h.Name, guest.BundleTree) {
			out = true
			if err := u.lay(ctx); err != nil {
				return err
			}
		}
		if err := u.entry(h, tr); err != nil {
			return err
		}
	}
	if !out {
		if err := u.lay(ctx); err != nil {
			return err
		}
	}
	return u.finish()
}

// clear removes from the root what an earlier attempt left. there reports that the worktree already exists: nobody but this
// package names a folder .git here before somebody works in it.
func (u *unpacker) clear() (there bool, err error) {
	d, err := u.root.Open(".")
	if err != nil {
		return false, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	if err != nil {
		return false, err
	}
	if slices.Contains(names, ".git") {
		if _, err := os.Stat(u.mark()); err != nil {
			return false, fault.New(fault.Conflict, "root_not_empty", "There is already a repository where the worktree is to be created.")
		}
		return true, nil
	}
	for _, name := range names {
		if err := u.root.RemoveAll(name); err != nil {
			return false, err
		}
	}
	return false, os.WriteFile(u.mark(), nil, 0o600)
}

// mark is the file that records that the worktree is being created from this bundle.
func (u *unpacker) mark() string { return filepath.Join(u.s.cfg.Dir, u.b.id+".making") }

// entry takes one entry of the archive.
func (u *unpacker) entry(h *tar.Header, r io.Reader) error {
	if u.bytes += h.Size; u.bytes > guest.MaxBundle {
		return broken("it is too large")
	}
	list := map[string]*[]byte{guest.BundleGone: &u.gone, guest.BundleStaged: &u.staged, guest.BundleShallow: &u.shallow}[h.Name]
	if list != nil {
		if h.Size > guest.MaxBundleList {
			return broken("a list is too long")
		}
		b, err := io.ReadAll(io.LimitReader(r, h.Size))
		*list = b
		return err
	}
	if rest, ok := strings.CutPrefix(h.Name, guest.BundleGit); ok {
		u.notify(guest.UnpackGit, u.bytes, max(u.plan.Bytes, u.bytes), false)
		return u.gitEntry(h, strings.TrimSuffix(rest, "/"), r)
	}
	rest, ok := strings.CutPrefix(h.Name, guest.BundleTree)
	if !ok || u.plan.Kind != guest.BundleWorktree {
		return broken("%q is not part of a bundle", h.Name)
	}
	u.files++
	u.notify(guest.UnpackFiles, u.files, max(u.plan.Files, u.files), false)
	return u.treeEntry(h, strings.TrimSuffix(rest, "/"), r)
}

// plain reports whether a name stays below its base and is in canonical form: a name with a detour could pass for another.
func plain(name string) bool { return filepath.IsLocal(name) && name == path.Clean(name) }

// ours reports whether a name belongs to the worktree's own files, as opposed to git's.
func ours(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return plain(name) && first != ".git" && first != fresh
}

// gitEntry writes a file of git's folder.
func (u *unpacker) gitEntry(h *tar.Header, name string, r io.Reader) error {
	if !plain(name) {
		return broken("%q leads out of the worktree", h.Name)
	}
	to := path.Join(u.gitDir, name)
	if u.plan.Kind == guest.BundleObjects {
		base := path.Base(name)
		if path.Dir(name) != "objects/pack" || !strings.HasPrefix(base, "pack-") || h.Typeflag != tar.TypeReg {
			return broken("%q is not a pack file", h.Name)
		}
		to = path.Join(u.gitDir, "objects/pack", "tmp_"+base)
		u.packs = append(u.packs, base)
		_ = u.root.Remove(to)
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.root.MkdirAll(to, 0o755)
	case tar.TypeReg:
		if err := u.root.MkdirAll(path.Dir(to), 0o755); err != nil {
			return err
		}
		return u.write(to, fs.FileMode(h.Mode).Perm()|0o400, r)
	}
	return broken("%q is neither a file nor a folder", h.Name)
}

func (u *unpacker) write(name string, mode fs.FileMode, r io.Reader) error {
	f, err := u.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, mode|0o200)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil && mode&0o200 == 0 {
		err = f.Chmod(mode)
	}
	return errors.Join(err, f.Close())
}

// treeEntry writes a file, folder or link of the worktree, and replaces what is there.
func (u *unpacker) treeEntry(h *tar.Header, name string, r io.Reader) error {
	if !ours(name) {
		return broken("%q leads out of the worktree", h.Name)
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		return u.folder(name)
	case tar.TypeSymlink: // created after everything else, so that no file is written through a link
		u.links[name] = h.Linkname
		return nil
	case tar.TypeReg:
		if err := u.away(name); err != nil {
			return err
		}
		mode := fs.FileMode(h.Mode).Perm()
		if err := u.write(name, mode, r); err != nil {
			return err
		}
		return u.root.Chmod(name, mode)
	}
	return broken("%q is neither a file, a folder nor a link", h.Name)
}

// folder makes sure that there is a folder, and not a link, under a name.
func (u *unpacker) folder(name string) error {
	if name == "." || u.dirs[name] {
		return nil
	}
	if err := u.folder(path.Dir(name)); err != nil {
		return err
	}
	fi, err := u.root.Lstat(name)
	if err == nil && !fi.IsDir() {
		if err = u.root.Remove(name); err == nil {
			err = fs.ErrNotExist
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = u.root.Mkdir(name, 0o755)
	}
	u.dirs[name] = err == nil
	return err
}

// away removes what exists under a name.
func (u *unpacker) away(name string) error {
	err := u.root.Remove(name)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for dir := range u.dirs {
		if dir == name || strings.HasPrefix(dir, name+"/") {
			delete(u.dirs, dir)
		}
	}
	return u.root.RemoveAll(name)
}

// lay writes the files of HEAD, removes deleted ones, and updates the index with the staged changes.
func (u *unpacker) lay(ctx context.Context) error {
	if u.plan.Kind != guest.BundleWorktree {
		return nil
	}
	u.notify(guest.UnpackCheckout, 0, 0, true)
	if err := u.checkout(ctx); err != nil {
		return err
	}
	for name := range bytes.SplitSeq(u.gone, []byte{0}) {
		if n := string(name); n != "" {
			if !ours(n) {
				return broken("%q leads out of the worktree", n)
			}
			if err := u.remove(n); err != nil {
				return err
			}
		}
	}
	if len(u.staged) > 0 {
		if err := u.git(ctx, u.staged, nil, "update-index", "-z", "--index-info"); err != nil {
			return err
		}
	}
	return nil
}

// remove removes a file, and the folders above it that this leaves empty, as git does.
func (u *unpacker) remove(name string) error {
	if err := u.root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
		return err
	}
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		if u.root.Remove(dir) != nil {
			break
		}
	}
	return nil
}

// finish creates the links and gives things their final names.
func (u *unpacker) finish() error {
	for name, to := range u.links {
		if err := u.away(name); err != nil {
			return err
		}
		if err := u.root.Symlink(to, name); err != nil {
			return err
		}
	}
	if u.plan.Kind == guest.BundleWorktree {
		return u.root.Rename(fresh, ".git")
	}
	rank := func(name string) int { return slices.Index([]string{".pack", ".rev", ".idx"}, path.Ext(name)) }
	slices.SortStableFunc(u.packs, func(a, b string) int { return rank(a) - rank(b) }) // git sees a pack once its index exists
	for _, name := range u.packs {
		if err := u.root.Rename(".git/objects/pack/tmp_"+name, ".git/objects/pack/"+name); err != nil {
			return err
		}
	}
	return u.cut()
}

// lockTries is how often to try a lock of git's, 50 ms apart.
const lockTries = 200

// cut adds commits whose parents are missing to git's shallow file.
func (u *unpacker) cut() error {
	if len(u.shallow) == 0 {
		return nil
	}
	const name, lock = ".git/shallow", ".git/shallow.lock"
	f, err := u.root.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	for try := 0; errors.Is(err, fs.ErrExist) && try < lockTries; try++ {
		select {
		case <-u.s.ctx.Done():
			return context.Cause(u.s.ctx)
		case <-time.After(50 * time.Millisecond):
		}
		f, err = u.root.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o644)
	}
	if err != nil {
		return fmt.Errorf("locking git's shallow file: %w", err)
	}
	was, err := u.root.ReadFile(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		_ = f.Close()
		return errors.Join(err, u.root.Remove(lock))
	}
	lines := slices.DeleteFunc(strings.Split(string(was)+"\n"+string(u.shallow), "\n"), func(l string) bool { return l == "" })
	slices.Sort(lines)
	_, err = f.WriteString(strings.Join(slices.Compact(lines), "\n") + "\n")
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, u.root.Remove(lock))
	}
	return u.root.Rename(lock, name)
}

// notify records the progress.
func (u *unpacker) notify(step string, done, all int64, now bool) {
	if t := time.Now(); !now && u.b.reported.Step == step && t.Sub(u.reported) < notifyEvery {
		return
	} else {
		u.reported = t
	}
	u.b.mu.Lock()
	defer u.b.mu.Unlock()
	u.b.reported.Step, u.b.reported.Done, u.b.reported.All = step, done, all
	close(u.b.change)
	u.b.change = make(chan struct{})
}
