package sessions

import (
	"context"

	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/sessions/journal"
)

// Recording is what a session printed and what was noted beside it, held open for somebody who reads it, while the session runs and after
// it. It is to be closed.
type Recording struct {
	svc *Service
	l   *live
}

// Recording opens the recording of a session. Errors: not_found, and why it cannot be read now.
func (s *Service) Recording(ctx context.Context, id string) (*Recording, error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return nil, err
	}
	return &Recording{svc: s, l: l}, nil
}

// Session returns the session as it is now.
func (r *Recording) Session() Session { return r.svc.dress(r.l.snapshot()) }

// Log is the output, with secrets masked.
func (r *Recording) Log() *bytelog.Log { return r.l.log }

// Journal is when output came, and the sizes, states and people at the terminal.
func (r *Recording) Journal() *journal.Journal { return r.l.notes }

// Close lets go of the recording.
func (r *Recording) Close() { r.svc.release(r.l) }

// Go runs fn in a goroutine that Run waits for when it ends; false when it has ended.
func (s *Service) Go(fn func()) bool { return s.run(fn) }

// ScreenSlot waits for one of the places in which screens are built, of which there are few: each keeps a core busy. The place is to be given back.
func (s *Service) ScreenSlot(ctx context.Context) (giveBack func(), err error) {
	select {
	case s.screens <- struct{}{}:
		return func() { <-s.screens }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Dir is the folder in which a session's files lie.
func (s *Service) Dir(id string) string { return s.dir(id) }
