package filesync

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/parawork/parawork/guest"
)

// got is an unfinished file: complete, but not in the worktree yet.
type got struct {
	temp string
	mode string
	hash string
	size int64
}

// part is a large file that has arrived in part.
type part struct {
	temp string
	id   string
	off  int64
	hash hash.Hash
}

// fetch copies the contents of items into the folder of unfinished files.
func (m *mirror) fetch(ctx context.Context, tr *tree, items []*item) error {
	blobs, err := m.blobs(ctx, tr, items)
	if err != nil {
		return err
	}
	for queue := items; len(queue) > 0; {
		n := min(len(queue), guest.MaxContents)
		rest, err := m.round(ctx, tr, queue[:n], blobs)
		if err != nil {
			return err
		}
		queue = append(rest, queue[n:]...)
	}
	return nil
}

// round asks once, and returns what must be requested again.
func (m *mirror) round(ctx context.Context, tr *tree, items []*item, blobs map[*item]*got) (rest []*item, err error) {
	req := guest.ContentsRequest{Items: make([]guest.ContentItem, 0, len(items))}
	for _, it := range items {
		q := guest.ContentItem{Path: guest.EncodePath(it.path), Have: it.sum.hash}
		if b := blobs[it]; b != nil {
			q.Have = b.hash
		}
		if p := m.parts[it.path]; p != nil {
			q.ID, q.Offset, q.Have = p.id, p.off, ""
		}
		req.Items = append(req.Items, q)
	}
	x, err := m.source.contents(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("asking for contents: %w", err)
	}
	defer x.Close()
	next := 0
	for {
		c, r, err := x.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("reading contents: %w", err)
		}
		if c.Index < next || c.Index >= len(items) {
			return nil, fmt.Errorf("%w: contents nobody asked for", errLie)
		}
		rest = append(rest, items[next:c.Index]...)
		next = c.Index + 1
		it := items[c.Index]
		more, err := m.take1(tr, it, c, r, blobs[it])
		if err := m.perFile(it, err); err != nil {
			return nil, fmt.Errorf("writing %s: %w", quoted(it.path), err)
		}
		if more {
			rest = append([]*item{it}, rest...)
		}
	}
	if next == 0 {
		return nil, fmt.Errorf("%w: no contents", errLie)
	}
	return append(rest, items[next:]...), nil
}

// take1 takes what arrived of one file. more reports that there is more to come.
func (m *mirror) take1(tr *tree, it *item, c guest.Content, r io.Reader, blob *got) (more bool, err error) {
	if c.State != guest.ContentPiece {
		m.dropPart(tr, it.path)
	}
	switch c.State {
	case guest.ContentSame:
		it.mode = c.Mode
		if blob != nil {
			it.got, blob.mode = blob, c.Mode
			if err := m.fit(tr, blob); err != nil {
				return false, err
			}
			it.unrow = true
			if c.Mode != it.base.Mode {
				it.unrow, it.row = false, m.rowOf(it, blob.hash, blob.size)
			}
			return false, nil
		}
		it.row = m.rowOf(it, it.sum.hash, c.Size)
		return false, nil
	case guest.ContentMoved, guest.ContentGone:
		it.moving = true
		return false, nil
	case guest.ContentOther:
		it.reason = "It is not a regular file, or the sandbox itself may not read it."
		m.skip(it, FileRefused)
		return false, nil
	}
	if c.Size > m.s.cfg.MaxFile {
		it.reason = fmt.Sprintf("It is larger than %d MB.", m.s.cfg.MaxFile>>20)
		m.skip(it, FileTooLarge)
		return false, nil
	}
	switch c.State {
	case guest.ContentLink:
		it.got, err = m.link(tr, c, r)
	case guest.ContentWhole:
		it.got, err = m.whole(tr, c, r)
	default:
		it.got, more, err = m.piece(tr, it.path, c, r)
	}
	if it.got != nil && err == nil {
		it.mode = it.got.mode
		it.row = m.rowOf(it, it.got.hash, it.got.size)
	}
	return more, err
}

func (m *mirror) name() string {
	m.counter++
	return fmt.Sprintf("w-%d", m.counter)
}

func (m *mirror) link(tr *tree, c guest.Content, r io.Reader) (*got, error) {
	b, err := io.ReadAll(io.LimitReader(r, guest.MaxPath+1))
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(b)
	if hex.EncodeToString(sum[:]) != c.Hash {
		return nil, fmt.Errorf("%w: a link of another name", errLie)
	}
	return m.linkTo(tr, string(b), c.Hash)
}

func (m *mirror) linkTo(tr *tree, target, hash string) (*got, error) {
	if target == "" || strings.IndexByte(target, 0) >= 0 {
		return nil, unix.EINVAL
	}
	g := &got{temp: m.name(), mode: modeLink, hash: hash, size: int64(len(target))}
	return g, tr.temp.Symlink(target, g.temp)
}

func (m *mirror) whole(tr *tree, c guest.Content, r io.Reader) (*got, error) {
	g := &got{temp: m.name(), mode: c.Mode, size: c.Size}
	var err error
	if g.hash, err = m.fill(tr, g.temp, r, c.Size, c.Mode); err != nil {
		return nil, err
	}
	if g.hash != c.Hash {
		return nil, fmt.Errorf("%w: contents that do not match the announced hash", errLie)
	}
	return g, nil
}

// fill writes a new unfinished file of known size.
func (m *mirror) fill(tr *tree, temp string, r io.Reader, size int64, mode string) (hash string, err error) {
	f, err := tr.temp.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(f, h), io.LimitReader(r, size))
	if err == nil && n != size {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), f.Chmod(permOf(mode))
}

// fit gives an unfinished file the permissions of its mode.
func (m *mirror) fit(tr *tree, g *got) error {
	if g.mode == modeLink {
		return nil
	}
	return tr.temp.Chmod(g.temp, permOf(g.mode))
}

// piece takes a piece of a large file. An interrupted transfer continues where it stopped.
func (m *mirror) piece(tr *tree, path string, c guest.Content, r io.Reader) (*got, bool, error) {
	p := m.parts[path]
	if p == nil || p.id != c.ID || p.off != c.Offset {
		m.dropPart(tr, path)
		if c.Offset != 0 {
			return nil, true, nil
		}
		p = &part{temp: "part-" + m.name(), id: c.ID, hash: sha256.New()}
		m.parts[path] = p
	}
	f, err := tr.temp.OpenFile(p.temp, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, false, err
	}
	buf := make([]byte, 128<<10)
	for left := c.Length; left > 0 && err == nil; {
		var n int
		n, err = io.ReadFull(r, buf[:min(left, int64(len(buf)))])
		if err == nil {
			_, err = f.WriteAt(buf[:n], p.off)
		}
		if err == nil {
			p.hash.Write(buf[:n])
			p.off, left = p.off+int64(n), left-int64(n)
		}
	}
	if err == nil && p.off == c.Size {
		err = f.Chmod(permOf(c.Mode))
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil || p.off < c.Size {
		return nil, true, err
	}
	g := &got{temp: m.name(), mode: c.Mode, hash: hex.EncodeToString(p.hash.Sum(nil)), size: c.Size}
	delete(m.parts, path)
	return g, false, tr.temp.Rename(p.temp, g.temp)
}

func (m *mirror) dropPart(tr *tree, path string) {
	if p := m.parts[path]; p != nil {
		_ = tr.temp.Remove(p.temp)
		delete(m.parts, path)
	}
}

// blobs reads from the repository what the base has of items that are unchanged in the sandbox, so that their bytes need not be
// transferred.
func (m *mirror) blobs(ctx context.Context, tr *tree, items []*item) (map[*item]*got, error) {
	out := make(map[*item]*got)
	var ask []BaseFile
	of := make(map[string]*item)
	for _, it := range items {
		if _, known := m.files[it.path]; it.kind == "base" && !known && it.base != nil {
			ask = append(ask, *it.base)
			of[it.path] = it
		}
	}
	if len(ask) == 0 {
		return out, nil
	}
	err := m.s.cfg.Trees.BaseBlobs(ctx, m.id, ask, func(b BaseFile, r io.Reader) error {
		it := of[b.Path]
		if it == nil {
			return fmt.Errorf("a file nobody asked for: %s", quoted(b.Path))
		}
		if b.Mode == modeLink {
			raw, err := io.ReadAll(io.LimitReader(r, guest.MaxPath+1))
			if err != nil || len(raw) > guest.MaxPath {
				return err
			}
			sum := sha256.Sum256(raw)
			g, err := m.linkTo(tr, string(raw), hex.EncodeToString(sum[:]))
			if err == nil {
				out[it] = g
			}
			return m.perFile(it, err)
		}
		g := &got{temp: m.name(), mode: b.Mode, size: b.Size}
		var err error
		if g.hash, err = m.fill(tr, g.temp, r, b.Size, b.Mode); err == nil {
			out[it] = g
		}
		return err
	})
	if err != nil {
		return nil, m.fail("reading files of the base", err)
	}
	return out, nil
}
