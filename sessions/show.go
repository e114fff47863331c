package sessions

import (
	"context"
	"errors"
	"io"

	"github.com/parawork/parawork/sessions/screen"
)

const (
	screenBytes  = 32 << 20 // of output, at most, are read for a screen: older bytes have long scrolled away
	screensBuilt = 2        // at a time: each keeps a core busy
)

// Screen returns what a terminal of the session's present size shows after all its output, as text; also of an ended session.
// It reads the log like a viewer and slows nobody. Errors: not_found; ctx's.
func (s *Service) Screen(ctx context.Context, id string) (screen.Text, error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return screen.Text{}, err
	}
	defer s.release(l)
	select {
	case s.screens <- struct{}{}:
		defer func() { <-s.screens }()
	case <-ctx.Done():
		return screen.Text{}, ctx.Err()
	}
	l.mu.Lock()
	cols, rows := l.row.Cols, l.row.Rows
	l.mu.Unlock()
	shown := screen.New(screen.Config{Cols: int(cols), Rows: int(rows), Scrollback: -1})
	first, end := l.log.Bounds()
	buf := make([]byte, readSize)
	for off := max(first, end-screenBytes); off < end; {
		if err := ctx.Err(); err != nil {
			return screen.Text{}, err
		}
		n, at, err := l.log.ReadAt(buf[:min(readSize, end-off)], off)
		if n == 0 || errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return screen.Text{}, err
		}
		shown.Write(buf[:n])
		off = at + int64(n)
	}
	return shown.Text(), nil
}
