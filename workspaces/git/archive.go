package git

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/ignored"
)

// TransferFault is the user's error for a transfer that failed.
func TransferFault(err error) error {
	switch {
	case fault.Is(err, fault.DiskFull):
		return fault.Wrap(err, fault.DiskFull, "sandbox_disk_full", "The repository does not fit on the sandbox's disk. Choose a larger size, or another executor.")
	case fault.Is(err, fault.Unavailable), fault.Is(err, fault.Conflict):
		return fault.Wrap(err, fault.Unavailable, "send_failed", "The repository could not be copied to the sandbox: %s", Reason(err))
	}
	return err
}

// Foreign reports whether an open file has several hard links and another owner than owner, to whom the whole tree was given: then it never
// belonged to the workspace. A negative owner disables the check.
func Foreign(fi fs.FileInfo, owner int) bool {
	st, ok := fi.Sys().(*syscall.Stat_t)
	return ok && owner >= 0 && st.Nlink > 1 && int(st.Uid) != owner
}

// FolderBytes adds up the sizes of the files below one of the server's folders.
func FolderBytes(root *os.Root) int64 {
	var sum int64
	_ = fs.WalkDir(root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if fi, err := d.Info(); err == nil {
				sum += fi.Size()
			}
		}
		return nil
	})
	return sum
}

// Archive writes a bundle.
type Archive struct {
	Ctx   context.Context
	Tw    *tar.Writer
	Owner int // see Foreign
}

// Text adds a file with this text.
func (a *Archive) Text(name, text string) error {
	if err := a.Tw.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(text)), Format: tar.FormatPAX}); err != nil {
		return err
	}
	_, err := io.WriteString(a.Tw, text)
	return err
}

// File writes one file or link. It leaves out a file that no longer exists; an unreadable one is an error, because the bundle would lack
// it.
func (a *Archive) File(root *os.Root, name, prefix string) error {
	if a.Ctx.Err() != nil {
		return context.Cause(a.Ctx)
	}
	if !ignored.PlainParents(root, name) {
		return nil
	}
	fi, err := root.Lstat(name)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	h := &tar.Header{Name: prefix + name, Mode: int64(fi.Mode().Perm()), Format: tar.FormatPAX}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		h.Typeflag = tar.TypeSymlink
		if h.Linkname, err = root.Readlink(name); err != nil {
			return fmt.Errorf("reading the link %q: %w", name, err)
		}
		return a.Tw.WriteHeader(h)
	case !fi.Mode().IsRegular():
		return nil // a FIFO, a socket, a device, or a folder that replaced a file
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("reading %q: %w", name, err)
	}
	defer f.Close()
	if fi, err = f.Stat(); err != nil || !fi.Mode().IsRegular() {
		return fmt.Errorf("reading %q: it changed meanwhile", path.Base(name))
	}
	if Foreign(fi, a.Owner) {
		return nil
	}
	h.Typeflag, h.Size = tar.TypeReg, fi.Size()
	if err := a.Tw.WriteHeader(h); err != nil {
		return err
	}
	if n, err := io.CopyN(a.Tw, f, h.Size); err != nil {
		return fmt.Errorf("reading %q after %d bytes: %w", name, n, err)
	}
	return nil
}
