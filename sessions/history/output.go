package history

import (
	"context"
	"errors"
	"io"

	"github.com/parawork/parawork/internal/fault"
)

// Output returns up to limit bytes of a session's output from offset from on, live or ended. offset is that of b[0]: larger than
// from when the bytes between were dropped. end is the offset of the next byte to come. Errors: not_found, offset_beyond_end.
func (s *Recordings) Output(ctx context.Context, id string, from int64, limit int) (b []byte, offset, end int64, err error) {
	r, err := s.open(ctx, id)
	if err != nil {
		return nil, 0, 0, err
	}
	defer r.Close()
	first, end := r.log.Bounds()
	if from < 0 || from > end {
		return nil, 0, end, fault.New(fault.Invalid, "offset_beyond_end", "The session has %d bytes; there is nothing at offset %d.", end, from).With("end", end)
	}
	offset = max(from, first)
	b = make([]byte, 0, min(int64(max(limit, 0)), end-offset))
	for len(b) < cap(b) {
		n, at, err := r.log.ReadAt(b[len(b):cap(b)], offset+int64(len(b)))
		if at > offset+int64(len(b)) && n > 0 {
			if len(b) > 0 { // a gap inside: the next call begins after it
				break
			}
			offset = at
		}
		b = b[:len(b)+n]
		if n == 0 || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, 0, 0, err
		}
	}
	return b, offset, end, nil
}
