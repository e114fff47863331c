package changes

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"syscall"
)

// Files larger than maxHash are not hashed; a NUL among the first binaryHead bytes makes a file binary, as for git.
const (
	maxHash    = 32 << 20
	binaryHead = 8000
)

// readContents hashes the files of entries that are not known from last time. A file that cannot be read, or that changed
// meanwhile, gets no hash; the next poll sees it again.
func (d *details) readContents(ctx context.Context, entries map[string]*entry) {
	root, err := os.OpenRoot(d.s.repo.root)
	if err != nil {
		return
	}
	defer root.Close()
	buf := make([]byte, 128<<10)
	for path, e := range entries {
		if ctx.Err() != nil {
			return
		}
		if e.read || !e.st.exists() {
			continue
		}
		switch {
		case e.st.link():
			target, err := root.Readlink(path)
			if err == nil {
				sum := sha256.Sum256([]byte(target))
				e.hash, e.read = hex.EncodeToString(sum[:]), true
			}
		case e.st.regular():
			e.readFile(root, path, buf)
		}
	}
}

// readFile reads e's file below root, without following a link at its end and without blocking.
func (e *entry) readFile(root *os.Root, path string, buf []byte) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer f.Close()
	if st, err := fstat(f.Fd()); err != nil || st != e.st {
		e.racy = true
		return
	}
	limit := int64(maxHash)
	if e.st.size > limit {
		limit = binaryHead
	}
	h := sha256.New()
	read := int64(0)
	for read < limit {
		n, err := f.Read(buf[:min(int64(len(buf)), limit-read)])
		if first := binaryHead - read; n > 0 && first > 0 {
			e.binary = e.binary || bytes.IndexByte(buf[:min(int64(n), first)], 0) >= 0
		}
		h.Write(buf[:n])
		read += int64(n)
		if err == io.EOF {
			break
		}
		if err != nil {
			return
		}
	}
	if e.st.size > maxHash {
		e.read = true
		return
	}
	if st, err := fstat(f.Fd()); err != nil || st != e.st || read != e.st.size {
		e.racy = true // written while we read
		return
	}
	e.hash, e.read = hex.EncodeToString(h.Sum(nil)), true
}
