package daemon

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/offer"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/homedir"
)

// serveContents sends the contents of files, one record after the other. A file that is written to meanwhile is reported as
// moved; only states it really had are sent.
func (d *Daemon) serveContents(w http.ResponseWriter, r *http.Request) error {
	var req guest.ContentsRequest
	if err := body(w, r, &req); err != nil {
		return err
	}
	if len(req.Items) > guest.MaxContents {
		return fault.New(fault.Invalid, "too_many_files", "At most %d files can be requested at once.", guest.MaxContents)
	}
	var open opener = d.openTree
	switch {
	case req.Scope == guest.ScopeHome && d.home == nil:
		return errNoHome
	case req.Scope == guest.ScopeHome:
		open = d.openHomeFile
	case req.Scope != "":
		return fault.New(fault.Invalid, "invalid_scope", "The scope must be empty for files of the worktree, or %s for files of the home.", guest.ScopeHome)
	}
	for _, it := range req.Items {
		if err := guest.CheckPath(it.Path); err != nil {
			return err
		}
		if it.Offset < 0 || it.Have != "" && len(it.Have) != 2*sha256.Size {
			return fault.New(fault.Invalid, "invalid_request", "An offset or a hash is invalid.")
		}
	}
	if err := offer.Begin(w); err != nil {
		return errCut
	}
	var sent int64
	buf := make([]byte, 0, 64<<10)
	for i, it := range req.Items {
		if sent >= guest.MaxContentsBytes || r.Context().Err() != nil {
			break
		}
		c, b := readContent(open, it, &buf)
		for again := 0; c.State == guest.ContentMoved && it.ID == "" && again < 2; again++ {
			c, b = readContent(open, it, &buf)
		}
		c.Index, c.Length = i, int64(len(b))
		head, err := json.Marshal(c)
		if err != nil {
			panic(err) // our own types always encode
		}
		if _, err := w.Write(guest.AppendRecord(nil, head)); err != nil {
			return errCut
		}
		if _, err := w.Write(b); err != nil {
			return errCut
		}
		sent += c.Length + int64(len(head))
	}
	return nil
}

// opener opens a regular file without following a link at its end, or returns the link's target.
type opener func(wire string) (f *os.File, link string, err error)

func (d *Daemon) openTree(wire string) (*os.File, string, error) {
	raw, err := inRoot(wire, false)
	if err != nil {
		return nil, "", err
	}
	info, err := d.root.Lstat(raw)
	if err != nil {
		return nil, "", err
	}
	if info.Mode()&fs.ModeSymlink != 0 {
		link, err := d.root.Readlink(raw)
		return nil, link, err
	}
	if !info.Mode().IsRegular() {
		return nil, "", homedir.ErrNotPlain
	}
	f, err := d.root.OpenFile(raw, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	return f, "", err
}

func (d *Daemon) openHomeFile(wire string) (*os.File, string, error) {
	return d.home.OpenFile(guest.DecodePath(wire))
}

// readContent reads what is requested of one file. The bytes are valid until buf is used again.
func readContent(open opener, it guest.ContentItem, buf *[]byte) (guest.Content, []byte) {
	f, link, err := open(it.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return guest.Content{State: guest.ContentGone}, nil
	case err != nil:
		return guest.Content{State: guest.ContentOther}, nil
	case f == nil:
		sum := sha256.Sum256([]byte(link))
		c := guest.Content{State: guest.ContentLink, Mode: "120000", Size: int64(len(link)), Hash: hex.EncodeToString(sum[:])}
		if c.Hash == it.Have {
			c.State, link = guest.ContentSame, ""
		}
		return c, []byte(link)
	}
	defer f.Close()
	st, err := fstat(f)
	if err != nil || !st.regular {
		return guest.Content{State: guest.ContentOther}, nil
	}
	c := guest.Content{Mode: st.mode, Perm: st.perm, Mtime: st.mtime / 1e6, Size: st.size}
	var b []byte
	switch {
	case it.ID == "" && it.Have != "" && st.size > guest.MaxContentPiece:
		if hash, err := hashWhole(f, st.size); err != nil {
			c.State = guest.ContentMoved
		} else if hash == it.Have {
			c.State, c.Hash = guest.ContentSame, hash
		}
	case it.ID != "" && (it.ID != st.id() || it.Offset > st.size):
		c.State = guest.ContentMoved
	}
	if c.State == "" {
		b, err = readPiece(f, &c, it.Offset, st, buf)
	}
	after, serr := fstat(f)
	switch {
	case err != nil || serr != nil || after != st:
		c.State, c.Hash, b = guest.ContentMoved, "", nil
	case c.State == guest.ContentWhole && c.Hash == it.Have:
		c.State, b = guest.ContentSame, nil
	}
	return c, b
}

// readPiece reads a whole file, or a piece of a large one.
func readPiece(f *os.File, c *guest.Content, offset int64, st fileState, buf *[]byte) ([]byte, error) {
	whole := st.size <= guest.MaxContentPiece && offset == 0
	n := int(min(st.size-offset, guest.MaxContentPiece))
	if cap(*buf) < n {
		*buf = make([]byte, n)
	}
	b := (*buf)[:n]
	if _, err := f.ReadAt(b, offset); err != nil && (!errors.Is(err, io.EOF) || n > 0) {
		return nil, err
	}
	if whole {
		sum := sha256.Sum256(b)
		c.State, c.Hash = guest.ContentWhole, hex.EncodeToString(sum[:])
		return b, nil
	}
	c.State, c.ID, c.Offset = guest.ContentPiece, st.id(), offset
	return b, nil
}

func hashWhole(f *os.File, size int64) (string, error) {
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	return hex.EncodeToString(h.Sum(nil)), err
}

// fileState distinguishes one state of a file from another.
type fileState struct {
	dev, ino           uint64
	size, mtime, ctime int64
	perm               uint32
	mode               string
	regular            bool
}

func fstat(f *os.File) (fileState, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		return fileState{}, err
	}
	out := fileState{dev: uint64(st.Dev), ino: uint64(st.Ino), size: st.Size, mtime: unix.TimespecToNsec(st.Mtim), ctime: unix.TimespecToNsec(st.Ctim),
		perm: uint32(st.Mode) & 0o777, mode: "100644", regular: uint32(st.Mode)&unix.S_IFMT == unix.S_IFREG}
	if out.perm&0o100 != 0 {
		out.mode = "100755"
	}
	return out, nil
}

// id identifies the state without revealing more.
func (s fileState) id() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d %d %d %d %d", s.dev, s.ino, s.size, s.mtime, s.ctime))
	return hex.EncodeToString(sum[:16])
}
