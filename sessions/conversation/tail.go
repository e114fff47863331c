package conversation

import (
	"bytes"
	"context"
	"errors"
	"io"
)

const (
	maxLine  = 8 << 20  // bytes of one record; a longer one is skipped
	maxPass  = 16 << 20 // bytes read of one file in one pass
	readSize = 256 << 10
)

// tail follows a file that grows by lines.
type tail struct {
	name string
	off  int64  // of the first byte not consumed yet
	id   string // of the file off belongs to
	skip bool   // inside a line that is too long
}

// read calls take with each complete added line, without its end, valid until take returns; with last also with a last line
// without an end. again is true when another file has replaced this one, or it was truncated: then it is read from its beginning.
// more is true when there is more to read now.
func (t *tail) read(ctx context.Context, src Source, last bool, take func(at int64, line []byte)) (again, more bool, err error) {
	f, err := src.Open(t.name)
	if err != nil {
		return false, false, err
	}
	defer f.Close()
	size, id, err := f.Stat()
	if err != nil {
		return false, false, err
	}
	if id != t.id || size < t.off {
		again = t.id != ""
		t.off, t.id, t.skip = 0, id, false
	}
	var line []byte // the beginning of a line whose end has not been read yet
	began := t.off
	for at := t.off; at < size; {
		if err := ctx.Err(); err != nil {
			return again, false, err
		}
		if at-began >= maxPass {
			return again, true, nil
		}
		buf := make([]byte, min(readSize, size-at))
		n, err := f.ReadAt(buf, at)
		if err != nil && !errors.Is(err, io.EOF) {
			return again, false, err
		}
		if n == 0 {
			break
		}
		at += int64(n)
		for buf = buf[:n]; len(buf) > 0; {
			end := bytes.IndexByte(buf, '\n')
			if end < 0 {
				if !t.skip {
					line = append(line, buf...)
				}
				if t.skip || len(line) > maxLine { // do not buffer it any further
					t.skip, line, t.off = true, nil, at
				}
				break
			}
			piece := buf[:end]
			buf = buf[end+1:]
			next := at - int64(len(buf))
			if !t.skip {
				whole := piece
				if len(line) > 0 {
					whole = append(line, piece...)
				}
				if len(whole) > maxLine {
					take(t.off, nil)
				} else {
					take(t.off, whole)
				}
			} else {
				take(t.off, nil)
			}
			t.off, t.skip, line = next, false, nil
		}
	}
	if last && len(line) > 0 && !t.skip {
		take(t.off, line)
		t.off += int64(len(line))
	}
	return again, false, nil
}
