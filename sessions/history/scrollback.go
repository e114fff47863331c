package history

import (
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/screen"
)

// Scrollback is a page of what scrolled off a session's screen.
type Scrollback struct {
	Lines []string // oldest first
	Next  string   // for the page before; "" at the beginning
}

// ScrollbackQuery requests lines that scrolled off.
type ScrollbackQuery struct {
	Before string // Next of the page that follows; "": the newest
	Limit  int    // lines; 0: 500, at most 2000
	Plain  bool   // without colours
}

const (
	usualScrollback = 500
	mostScrollback  = 2000
	scrollbackBytes = 4 << 20 // bytes of text in one answer
	pageMost        = 8 << 20 // bytes read for one page where no screen was stored
)

// Scrollback returns what scrolled off a session's screen: every line, including what the program erased from its own scrollback,
// with wrapped lines joined. Errors: not_found, invalid_cursor; ctx's.
func (s *Recordings) Scrollback(ctx context.Context, id string, q ScrollbackQuery) (out Scrollback, err error) {
	if q.Limit <= 0 {
		q.Limit = usualScrollback
	}
	q.Limit = min(q.Limit, mostScrollback)
	r, err := s.open(ctx, id)
	if err != nil {
		return out, err
	}
	defer r.Close()
	if err := r.model.catchUp(ctx); err != nil { // so that there is a screen for each page
		return out, err
	}
	first, end := r.log.Bounds()
	until, take := end, -1 // the page ends at until; return the first take of its lines, -1: all
	if q.Before != "" {
		if until, take, err = parseCursor(q.Before, end); err != nil {
			return out, err
		}
	}
	bytes := 0
	for until > first && len(out.Lines) < q.Limit && bytes < scrollbackBytes {
		lines, from, err := r.readPage(ctx, first, until, q.Plain)
		if err != nil {
			return Scrollback{}, err
		}
		if take >= 0 {
			lines = lines[:min(take, len(lines))]
		}
		n := len(lines)
		for n > 0 && len(lines)-n < q.Limit-len(out.Lines) && bytes < scrollbackBytes {
			n--
			bytes += len(lines[n])
		}
		out.Lines = slices.Concat(lines[n:], out.Lines)
		out.Next = ""
		if n > 0 {
			out.Next = cursorOf(until, n)
			break
		}
		until, take = from, -1
		if until > first {
			out.Next = cursorOf(until, -1)
		}
	}
	return out, nil
}

func cursorOf(until int64, take int) string {
	return strconv.FormatInt(until, 10) + "." + strconv.Itoa(take)
}

func parseCursor(c string, end int64) (until int64, take int, err error) {
	a, b, ok := strings.Cut(c, ".")
	until, err1 := strconv.ParseInt(a, 10, 64)
	take, err2 := strconv.Atoi(b)
	if !ok || err1 != nil || err2 != nil || until < 0 || until > end || take < -1 {
		return 0, 0, fault.New(fault.Invalid, "invalid_cursor", "before must be the next_cursor of the page that follows.").With("field", "before")
	}
	return until, take, nil
}

// readPage returns what scrolled off between the newest stored screen before until and until, and the offset of that screen.
func (r *Recording) readPage(ctx context.Context, first, until int64, plain bool) (lines []string, from int64, err error) {
	size, _ := r.SizeAt(max(first, until-pageMost))
	from = max(first, until-pageMost)
	var snap []byte
	f, pages, _, err := r.openPages(false)
	if err == nil {
		defer f.Close()
		i, _ := slices.BinarySearchFunc(pages, until, func(p leaf, off int64) int {
			if p.off < off {
				return -1
			}
			return 1
		})
		if i > 0 && pages[i-1].off >= from {
			if b, ok := pages[i-1].read(f); ok {
				from, size, snap = pages[i-1].off, pages[i-1].size, b
			}
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, 0, err
	}
	scr := screen.New(screen.Config{Cols: int(size.Cols), Rows: int(size.Rows), Scrollback: 100_000, Archive: true})
	_, _ = scr.Write(snap)
	buf := pieces.Get().(*[readSize]byte)
	defer pieces.Put(buf)
	for off := from; off < until; {
		if err := ctx.Err(); err != nil {
			return nil, 0, err
		}
		now, change := r.SizeAt(off)
		scr.Resize(int(now.Cols), int(now.Rows))
		n, at, err := r.log.ReadAt(buf[:min(readSize, until-off, change-off)], off)
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, 0, err
		}
		if n == 0 || at >= until {
			break
		}
		if at > off {
			off = at
			continue
		}
		_, _ = scr.Write(buf[:n])
		off += int64(n)
	}
	return scr.Scrolled(plain), from, nil
}
