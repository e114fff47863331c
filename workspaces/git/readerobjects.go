package git

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	gogitsync "github.com/go-git/go-git/v5/utils/sync"
)

// object is the type and content of an object whose id was verified.
func (r *reader) object(ctx context.Context, id string) (plumbing.ObjectType, []byte, error) {
	kind, _, content, err := r.find(ctx, id, true)
	if err == nil && plumbing.ComputeHash(kind, content).String() != id {
		err = errNotInProcess
	}
	return kind, content, err
}

// size is how large a file is.
func (r *reader) size(ctx context.Context, id string) (int64, error) {
	kind, n, _, err := r.find(ctx, id, false)
	if err == nil && kind != plumbing.BlobObject {
		err = errNotInProcess
	}
	return n, err
}

// find looks for an object in the repository's own folder, and reads its content on request.
func (r *reader) find(ctx context.Context, id string, whole bool) (plumbing.ObjectType, int64, []byte, error) {
	name, err := hashOf(id)
	if err != nil || !r.may(0) || ctx.Err() != nil {
		return 0, 0, nil, errors.Join(errNotInProcess, err, ctx.Err())
	}
	f, _, err := plain(r.common, "objects/"+id[:2]+"/"+id[2:])
	if err == nil {
		defer f.Close()
		return r.loose(f, whole)
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil, err
	}
	if err := r.listPacks(); err != nil {
		return 0, 0, nil, err
	}
	for _, p := range r.packs {
		if at, err := p.offset(r, name); err != nil {
			return 0, 0, nil, err
		} else if at > 0 {
			return p.read(r, at, whole)
		}
	}
	return 0, 0, nil, errNotInProcess
}

// may deducts bytes from what the call may still inflate, and reports whether that suffices.
func (r *reader) may(size int64) bool {
	r.left -= size + oneRead
	return r.left >= 0
}

// loose reads a loose object. (objfile.Reader searches for the end of the header without bound.)
func (r *reader) loose(f io.Reader, whole bool) (plumbing.ObjectType, int64, []byte, error) {
	z, err := gogitsync.GetZlibReader(f)
	defer gogitsync.PutZlibReader(z)
	if err != nil {
		return 0, 0, nil, err
	}
	var head [32]byte // such as "commit 241" and a NUL
	n, err := io.ReadFull(z.Reader, head[:])
	text, begin, ok := bytes.Cut(head[:n], []byte{0})
	word, digits, _ := strings.Cut(string(text), " ")
	kind, kerr := plumbing.ParseObjectType(word)
	size, serr := strconv.ParseInt(digits, 10, 64)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) || !ok || kerr != nil || serr != nil || size < 0 || whole && size > mostObject {
		return 0, 0, nil, errNotInProcess
	}
	if !whole {
		return kind, size, nil, nil
	}
	if !r.may(size) {
		return 0, 0, nil, errNotInProcess
	}
	content := make([]byte, size)
	if _, err := io.ReadFull(io.MultiReader(bytes.NewReader(begin), z.Reader), content); err != nil {
		return 0, 0, nil, err
	}
	return kind, size, content, nil
}

// pack is one pack of a repository. Its index is searched on disk: loading it, as go-git does, would take longer than starting git, and as
// much memory as the repository's author likes.
type pack struct {
	name  string // without .pack
	index *os.File
	count int64
	scan  *packfile.Scanner
}

// indexV2 is the signature of the only supported index version.
const indexV2 = "\xfftOc\x00\x00\x00\x02"

// Offsets in an index: the size of what precedes the ids, and of one id.
const (
	fanOut   = int64(len(indexV2))
	fanEnd   = fanOut + 256*4
	nameSize = 20
)

// listPacks finds the packs of the repository itself, without alternates.
func (r *reader) listPacks() error {
	if r.listed {
		return nil
	}
	dir, err := r.common.Open("objects/pack")
	if errors.Is(err, fs.ErrNotExist) {
		return errNotInProcess
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(8 * mostPacks)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	for _, name := range names {
		if stem, ok := strings.CutSuffix(name, ".idx"); ok {
			r.packs = append(r.packs, &pack{name: "objects/pack/" + stem})
		}
	}
	if len(r.packs) > mostPacks || len(names) == 8*mostPacks {
		return errNotInProcess
	}
	r.listed = true
	return nil
}

// offset is the position of an object in the pack, 0 when it is not in it.
func (p *pack) offset(r *reader, id plumbing.Hash) (int64, error) {
	if p.index == nil {
		f, size, err := plain(r.common, p.name+".idx")
		if err != nil {
			return 0, err
		}
		r.opened = append(r.opened, f)
		var head [fanEnd]byte
		if _, err := f.ReadAt(head[:], 0); err != nil {
			return 0, err
		}
		p.count = int64(binary.BigEndian.Uint32(head[fanEnd-4:]))
		if string(head[:fanOut]) != indexV2 || size < fanEnd+p.count*(nameSize+8) {
			return 0, errNotInProcess
		}
		p.index = f
	}
	low, high := int64(0), int64(0)
	var err error
	if id[0] > 0 {
		low, err = p.number(fanOut + int64(id[0]-1)*4)
	}
	if err == nil {
		high, err = p.number(fanOut + int64(id[0])*4)
	}
	if err != nil || low > high || high > p.count {
		return 0, errors.Join(errNotInProcess, err)
	}
	for low < high {
		middle := (low + high) / 2
		var name [nameSize]byte
		if _, err := p.index.ReadAt(name[:], fanEnd+middle*nameSize); err != nil {
			return 0, err
		}
		switch c := bytes.Compare(id[:], name[:]); {
		case c < 0:
			high = middle
		case c > 0:
			low = middle + 1
		default:
			at, err := p.number(fanEnd + p.count*(nameSize+4) + middle*4)
			if err == nil && (at == 0 || at >= 1<<31) { // 64-bit offsets: a pack of more than two gigabytes
				err = errNotInProcess
			}
			return at, err
		}
	}
	return 0, nil
}

func (p *pack) number(at int64) (int64, error) {
	var b [4]byte
	_, err := p.index.ReadAt(b[:], at)
	return int64(binary.BigEndian.Uint32(b[:])), err
}

// read reads the object at an offset, and its content on request.
func (p *pack) read(r *reader, at int64, whole bool) (plumbing.ObjectType, int64, []byte, error) {
	if p.scan == nil {
		f, _, err := plain(r.common, p.name+".pack")
		if err != nil {
			return 0, 0, nil, err
		}
		r.opened = append(r.opened, f)
		p.scan = packfile.NewScanner(f)
	}
	var chain []*packfile.ObjectHeader // from the object down to the base of its delta chain
	for {
		h, err := p.scan.SeekObjectHeader(at)
		if err != nil {
			return 0, 0, nil, err
		}
		if chain = append(chain, h); len(chain) > mostDeltas || whole && (h.Length > mostObject || !r.may(h.Length)) {
			return 0, 0, nil, errNotInProcess
		}
		if h.Type == plumbing.OFSDeltaObject {
			at = h.OffsetReference
		} else if h.Type != plumbing.REFDeltaObject {
			break
		} else if at, err = p.offset(r, h.Reference); err != nil || at == 0 {
			return 0, 0, nil, errors.Join(errNotInProcess, err)
		}
	}
	kind := chain[len(chain)-1].Type
	if !whole {
		return p.sizeOf(kind, chain[0])
	}
	var content []byte
	for i := len(chain) - 1; i >= 0; i-- {
		piece, err := p.inflate(chain[i], mostObject)
		if err == nil && int64(len(piece)) != chain[i].Length {
			err = errNotInProcess
		}
		if err == nil && i < len(chain)-1 {
			if size := deltaSize(piece); size < 0 || size > mostObject || !r.may(size) {
				return 0, 0, nil, errNotInProcess
			}
			piece, err = packfile.PatchDelta(content, piece)
		}
		if err != nil {
			return 0, 0, nil, err
		}
		content = piece
	}
	return kind, int64(len(content)), content, nil
}

// sizeOf is the size of an object by its header or, for a delta, by the delta's start.
func (p *pack) sizeOf(kind plumbing.ObjectType, h *packfile.ObjectHeader) (plumbing.ObjectType, int64, []byte, error) {
	if h.Type == kind {
		return kind, h.Length, nil, nil
	}
	begin, err := p.inflate(h, 2*binary.MaxVarintLen64)
	if size := deltaSize(begin); size >= 0 {
		return kind, size, nil, nil
	}
	return 0, 0, nil, errors.Join(errNotInProcess, err)
}

// deltaSize is the size of a delta's result, -1 if malformed.
func deltaSize(delta []byte) int64 {
	_, n := binary.Uvarint(delta)
	if n <= 0 {
		return -1
	}
	size, m := binary.Uvarint(delta[n:])
	if m <= 0 || size > 1<<62 {
		return -1
	}
	return int64(size)
}

// inflate decompresses the data of an entry, up to a limit.
func (p *pack) inflate(h *packfile.ObjectHeader, most int) ([]byte, error) {
	if _, err := p.scan.SeekObjectHeader(h.Offset); err != nil {
		return nil, err
	}
	to := &atMost{most: most}
	_, _, err := p.scan.NextObject(to)
	return to.got, err
}

// atMost buffers what is written up to a bound, beyond which writes fail.
type atMost struct {
	got  []byte
	most int
}

func (w *atMost) Write(b []byte) (int, error) {
	n := min(len(b), w.most-len(w.got))
	if w.got = append(w.got, b[:n]...); n < len(b) {
		return n, errNotInProcess
	}
	return n, nil
}
