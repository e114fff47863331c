package history

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/sessions/screen"
)

const screensBuilt = 2 // at a time: each keeps a core busy

// MaxTail is how many lines of text Screen gives at most.
const MaxTail = 1000

// Screen returns what the session's terminal shows after all its output, as text, and for tail > 0 the last lines of text it
// showed; also of an ended session. It slows nobody. Errors: not_found; ctx's.
func (s *Recordings) Screen(ctx context.Context, id string, tail int) (text screen.Text, last []string, err error) {
	r, err := s.open(ctx, id)
	if err != nil {
		return text, nil, err
	}
	defer r.Close()
	return r.Text(ctx, tail)
}

// Text returns what Recordings.Screen does of one session.
func (r *Recording) Text(ctx context.Context, tail int) (text screen.Text, last []string, err error) {
	if err := r.model.catchUp(ctx); err != nil {
		return text, nil, err
	}
	r.model.look(func(s *screen.Screen, _ int64) {
		text = s.Text()
		if tail > 0 {
			last = s.LastLines(min(tail, MaxTail))
		}
	})
	hide, err := r.host.Hide(ctx)
	if err != nil {
		return screen.Text{}, nil, err
	}
	text.Title, text.Lines = hide(text.Title), maskRows(text.Lines, text.Cols, hide)
	for i := range last {
		last[i] = hide(last[i])
	}
	return text, last, nil
}

// maskRows masks values in the rows of a screen: what the log does not have in one piece, because a program moved the cursor between its
// bytes, may stand in one there, also over the ends of rows. hide keeps a text's length in bytes.
func maskRows(rows []string, cols int, hide func(string) string) []string {
	var all strings.Builder
	for _, r := range rows {
		all.WriteString(r)
		if utf8.RuneCountInString(r) < cols { // else it may go on in the next
			all.WriteByte('\n')
		}
	}
	rest := hide(all.String())
	out := make([]string, len(rows))
	for i, r := range rows {
		out[i], rest = rest[:len(r)], rest[len(r):]
		if utf8.RuneCountInString(r) < cols {
			rest = rest[1:]
		}
	}
	return out
}
