package sandboxgit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// chownTree gives a folder and everything in it to a user and their group. It follows no link, and enters folders only by handle, so that a
// concurrent rename cannot redirect it. It does not give away a file that also has names outside the tree, which would lose its owner
// there: a copy replaces it. except is a name at the top level to skip.
func chownTree(ctx context.Context, dir string, uid int, except string) error {
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", dir, err)
	}
	o := &owning{ctx: ctx, uid: uid, shared: make(map[Inode]*sharedFile), queue: make(chan struct{}, 2*min(runtime.GOMAXPROCS(0), 4))}
	o.folder(os.NewFile(uintptr(fd), dir), "", except)
	o.wg.Wait()
	if o.err != nil {
		return fmt.Errorf("giving %s to user %d: %w", dir, uid, o.err)
	}
	return o.settle(dir)
}

// Inode identifies a file on a disk, independent of its paths.
type Inode struct {
	Dev uint64
	Ino uint64
}

// sharedFile is a file with several names.
type sharedFile struct {
	links uint64
	names []string // names in the tree
}

type owning struct {
	ctx   context.Context
	uid   int
	queue chan struct{} // tokens for folders walked concurrently
	wg    sync.WaitGroup

	mu     sync.Mutex
	err    error
	shared map[Inode]*sharedFile
}

func (o *owning) fail(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err = cmp.Or(o.err, err)
}

func (o *owning) failed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err != nil
}

// folder gives away an open folder and its content, and closes it.
func (o *owning) folder(d *os.File, rel, except string) {
	defer d.Close()
	if o.ctx.Err() != nil {
		o.fail(context.Cause(o.ctx))
		return
	}
	fd := int(d.Fd())
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		o.fail(err)
		return
	}
	if int(st.Uid) != o.uid || int(st.Gid) != o.uid {
		if err := unix.Fchown(fd, o.uid, o.uid); err != nil {
			o.fail(err)
			return
		}
	}
	for {
		names, err := d.Readdirnames(1024)
		for _, name := range names {
			if o.failed() {
				return
			}
			if rel == "" && name == except {
				continue
			}
			if err := o.entry(fd, filepath.Join(rel, name), name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				o.fail(fmt.Errorf("%q: %w", filepath.Join(rel, name), err))
				return
			}
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			o.fail(err)
			return
		}
	}
}

func (o *owning) entry(fd int, rel, name string) error {
	var st unix.Stat_t
	if err := unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		sub, err := unix.Openat(fd, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		d := os.NewFile(uintptr(sub), name)
		select {
		case o.queue <- struct{}{}:
			o.wg.Go(func() {
				defer func() { <-o.queue }()
				o.folder(d, rel, "")
			})
		default:
			o.folder(d, rel, "")
		}
		return nil
	case unix.S_IFBLK, unix.S_IFCHR:
		return unix.Unlinkat(fd, name, 0) // not one of a worktree's files
	case unix.S_IFREG:
		if st.Nlink > 1 && int(st.Uid) != o.uid {
			o.share(st, rel)
			return nil
		}
	}
	if int(st.Uid) == o.uid && int(st.Gid) == o.uid {
		return nil
	}
	return unix.Fchownat(fd, name, o.uid, o.uid, unix.AT_SYMLINK_NOFOLLOW)
}

func (o *owning) share(st unix.Stat_t, rel string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	key := Inode{uint64(st.Dev), uint64(st.Ino)}
	f := o.shared[key]
	if f == nil {
		f = &sharedFile{links: uint64(st.Nlink)}
		o.shared[key] = f
	}
	f.names = append(f.names, rel)
}

// settle gives away the files with several names: as they are if all names are in the tree, else as copies.
func (o *owning) settle(dir string) error {
	if len(o.shared) == 0 {
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for key, f := range o.shared {
		if uint64(len(f.names)) != f.links {
			for _, name := range f.names {
				if err := o.part(root, name); err != nil {
					return fmt.Errorf("separating %q from its other names: %w", name, err)
				}
			}
			continue
		}
		if err := o.giveShared(root, key, f); err != nil {
			return fmt.Errorf("giving %q away: %w", f.names[0], err)
		}
	}
	return nil
}

// giveShared gives a file away by its handle, after checking that it is the same file and still has all its names in the tree.
func (o *owning) giveShared(root *os.Root, key Inode, f *sharedFile) error {
	h, err := root.OpenFile(f.names[0], os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer h.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(h.Fd()), &st); err != nil {
		return err
	}
	if (Inode{uint64(st.Dev), uint64(st.Ino)}) != key || uint64(st.Nlink) != f.links {
		return errors.New("it changed meanwhile")
	}
	return h.Chown(o.uid, o.uid)
}

// part replaces a name of a shared file by a separate copy.
func (o *owning) part(root *os.Root, name string) error {
	in, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer in.Close()
	fi, err := in.Stat()
	if err != nil || !fi.Mode().IsRegular() {
		return errors.Join(err, errors.New("it changed meanwhile"))
	}
	tmp := name + ".parawork-copy"
	out, err := root.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, fi.Mode().Perm())
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err == nil {
		err = out.Chown(o.uid, o.uid)
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = root.Chtimes(tmp, fi.ModTime(), fi.ModTime())
	}
	if err == nil {
		err = root.Rename(tmp, name)
	}
	if err != nil {
		_ = root.Remove(tmp)
	}
	return err
}
