package history

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/sessions/screen"
)

const screensBuilt = 2 // at a time: each uses a core

// MaxTail is the most lines of text that Screen returns.
const MaxTail = 1000

// Screen returns what the session's terminal shows after all its output, as text, and for tail > 0 the last lines of text it
// showed; also for an ended session. It slows no session. Errors: not_found; ctx's.
func (s *Recordings) Screen(ctx context.Context, id string, tail int) (text screen.Text, last []string, err error) {
	r, err := s.open(ctx, id)
	if err != nil {
		return text, nil, err
	}
	defer r.Close()
	return r.Text(ctx, tail)
}

// Text returns what Recordings.Screen does, for one session.
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

// maskRows masks values in the rows of a screen: a value that is split in the log, because a program moved the cursor between its
// bytes, may be contiguous on the screen, even across rows. hide preserves a text's length in bytes.
func maskRows(rows []string, cols int, hide func(string) string) []string {
	var all strings.Builder
	for _, r := range rows {
		all.WriteString(r)
		if utf8.RuneCountInString(r) < cols { // otherwise it may continue in the next row
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
