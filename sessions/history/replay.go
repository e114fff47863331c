package history

import (
	"context"
	"errors"
	"io"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/screen"
)

const (
	replayBytes = 8 << 20  // bytes of output, at most, read for a moment's screen: older ones have nearly always scrolled away
	replayAbove = 1000     // lines above it
	pieceSize   = 64 << 10 // bytes of output read at a time
)

// Moment is a session's terminal at one offset of its output.
type Moment struct {
	Offset     int64 // of the byte that comes next
	Cols, Rows uint16
	Snapshot   []byte // brings a terminal of that size, whatever it showed, to this moment
}

// Moment returns what the terminal showed when output had reached offset at, in its size at that time. Errors: not_found,
// offset_beyond_end; ctx's.
func (s *Recordings) Moment(ctx context.Context, id string, at int64) (Moment, error) {
	rec, err := s.open(ctx, id)
	if err != nil {
		return Moment{}, err
	}
	defer rec.Close()
	first, end := rec.log.Bounds()
	if at < 0 || at > end {
		return Moment{}, fault.New(fault.Invalid, "offset_beyond_end", "The session has %d bytes; there is nothing at offset %d.", end, at).With("end", end)
	}
	giveBack, err := s.screenSlot(ctx)
	if err != nil {
		return Moment{}, err
	}
	defer giveBack()
	from := max(first, at-replayBytes)
	size := dimsAt(rec, from)
	shown := screen.New(screen.Config{Cols: int(size.Cols), Rows: int(size.Rows), Scrollback: replayAbove})
	if err := show(ctx, rec, from, at, shown.Resize, shown.Write); err != nil {
		return Moment{}, err
	}
	cols, rows := shown.Size()
	return Moment{Offset: max(at, first) - int64(shown.Held()), Cols: uint16(cols), Rows: uint16(rows), Snapshot: shown.Snapshot(replayAbove)}, nil
}

// dimsAt returns the terminal's size at off, as far as that is known.
func dimsAt(rec *reader, off int64) journal.Dims {
	if d, ok := rec.notes.SizeAt(off); ok {
		return d
	}
	if all := rec.notes.Sizes(); len(all) > 0 {
		return all[0].Dims
	}
	row := rec.host.Row()
	return journal.Dims{Cols: row.Cols, Rows: row.Rows}
}

// show passes the output from one offset to another to write, and its sizes, where they changed, to resize.
func show(ctx context.Context, rec *reader, from, to int64, resize func(cols, rows int), write func([]byte) (int, error)) error {
	var sizes []journal.SizeMark
	for _, m := range rec.notes.Sizes() {
		if m.Offset > from {
			sizes = append(sizes, m)
		}
	}
	buf := make([]byte, pieceSize)
	for off := from; off < to; {
		if err := ctx.Err(); err != nil {
			return err
		}
		for len(sizes) > 0 && sizes[0].Offset <= off {
			resize(int(sizes[0].Cols), int(sizes[0].Rows))
			sizes = sizes[1:]
		}
		stop := min(to, off+pieceSize)
		if len(sizes) > 0 {
			stop = min(stop, sizes[0].Offset)
		}
		n, at, err := rec.log.ReadAt(buf[:stop-off], off)
		if n == 0 || errors.Is(err, io.EOF) || at >= to {
			return nil
		}
		if err != nil {
			return err
		}
		if _, err := write(buf[:min(int64(n), to-at)]); err != nil {
			return err
		}
		off = at + int64(n)
	}
	return nil
}

// Timing records when output came: at At[i], Offset[i] bytes of it had come.
type Timing struct {
	First, End int64 // offsets of what is retained
	At, Offset []int64
	Exact      bool // no marks were left out
	Sizes      []journal.SizeMark
}

// Timing returns the time marks between two times (ms UTC; 0 = no bound), at most about most of them, evenly thinned, and all
// sizes. Errors: not_found.
func (s *Recordings) Timing(ctx context.Context, id string, from, to int64, most int) (Timing, error) {
	rec, err := s.open(ctx, id)
	if err != nil {
		return Timing{}, err
	}
	defer rec.Close()
	t := Timing{Exact: true, Sizes: rec.notes.Sizes()}
	t.First, t.End = rec.log.Bounds()
	every, skipped := 1, 0 // one of this many marks is returned
	err = rec.notes.Scan(0, func(e journal.Entry) bool {
		if e.Kind != journal.Time || e.At < from || e.Offset <= t.First {
			return ctx.Err() == nil
		}
		if to > 0 && e.At > to || e.Offset > t.End {
			return false
		}
		if skipped++; skipped < every {
			return true
		}
		skipped = 0
		if len(t.At) >= 2*most { // twice as many as wanted: leave out every second one
			t.At, t.Offset = thin(t.At), thin(t.Offset)
			every, t.Exact = every*2, false
		}
		t.At, t.Offset = append(t.At, e.At), append(t.Offset, e.Offset)
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return t, err
}

func thin(all []int64) []int64 {
	for i := range len(all) / 2 {
		all[i] = all[2*i+1]
	}
	return all[:len(all)/2]
}
