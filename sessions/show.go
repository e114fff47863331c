package sessions

import (
	"context"

	"github.com/parawork/parawork/sessions/screen"
)

const screensBuilt = 2 // at a time: each keeps a core busy

// MaxTail is how many lines of text Screen gives at most.
const MaxTail = 1000

// Screen returns what the session's terminal shows after all its output, as text, and for tail > 0 the last lines of text it
// showed; also of an ended session. It slows nobody. Errors: not_found; ctx's.
func (s *Service) Screen(ctx context.Context, id string, tail int) (text screen.Text, last []string, err error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return text, nil, err
	}
	defer s.release(l)
	if err := l.model.catchUp(ctx); err != nil {
		return text, nil, err
	}
	l.model.look(func(s *screen.Screen, _ int64) {
		text = s.Text()
		if tail > 0 {
			last = s.LastLines(min(tail, MaxTail))
		}
	})
	return text, last, nil
}
