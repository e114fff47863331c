package agent

import (
	"context"
	"unicode/utf8"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
)

// subscript wakes those who follow a thread.
type subscript struct {
	refs int
	rows int64         // grows with every change of stored rows
	wake chan struct{} // closed and replaced at each change
}

// changed notifies everybody that rows of a thread have changed.
func (s *Service) changed(ctx context.Context, t Thread) {
	s.mu.Lock()
	if f := s.feeds[t.ID]; f != nil {
		f.rows++
	}
	s.mu.Unlock()
	s.stirred(t.ID)
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "thread.changed", ID: t.ID, WorkspaceID: t.WorkspaceID, TeamID: t.TeamID, Version: s.now()})
	}
}

// stirred wakes those who follow a thread.
func (s *Service) stirred(threadID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f := s.feeds[threadID]; f != nil {
		close(f.wake)
		f.wake = make(chan struct{})
	}
}

// Update is what a follower gets: the rows that changed since the last one, and how the message that is being written goes on.
type Update struct {
	View
	Delta *Delta
}

// Delta is the next piece of a part of a message.
type Delta struct {
	MessageID string
	Part      int
	Kind      providers.PartKind
	Offset    int // bytes of the part before it
	Text      string
	Tool      string // of a call whose arguments are being written
}

// mostFollowed bounds the messages of one update: View.More says that older ones are left out.
const mostFollowed = 500

// Follow calls each with what changes in a thread after a version, until ctx ends or each fails. A follower that is slow gets several
// changes at once. A delta belongs to a message that the follower has, and continues it at its offset: of one that was being written before
// Follow began, the first is all that there is.
func (s *Service) Follow(ctx context.Context, threadID string, since int64, each func(Update) error) error {
	t, err := s.cfg.Store.Thread(ctx, threadID)
	if err != nil {
		return err
	}
	ctx = tenant.In(ctx, t.TeamID)
	f := s.subscribe(threadID)
	defer s.unsubscribe(threadID, f)
	var seen shown
	for had := int64(-1); ; { // rows that the follower has
		s.mu.Lock()
		wake, rows, r := f.wake, f.rows, s.turns[threadID]
		s.mu.Unlock()
		if rows != had {
			v, err := s.cfg.Store.View(ctx, threadID, Window{Since: since, Limit: mostFollowed})
			if err != nil {
				return err
			}
			if v.Thread.Version > since || had < 0 {
				since = v.Thread.Version
				if err := each(Update{View: v}); err != nil {
					return err
				}
			}
			had = rows
		}
		next, deltas := seen.next(r)
		s.mu.Lock()
		moved := f.rows != had
		s.mu.Unlock()
		if moved { // the message may be one that the follower does not have yet
			continue
		}
		seen = next
		for _, d := range deltas {
			if err := each(Update{Delta: &d}); err != nil {
				return err
			}
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (s *Service) subscribe(threadID string) *subscript {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.feeds[threadID]
	if f == nil {
		f = &subscript{wake: make(chan struct{})}
		s.feeds[threadID] = f
	}
	f.refs++
	return f
}

func (s *Service) unsubscribe(threadID string, f *subscript) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f.refs--; f.refs == 0 {
		delete(s.feeds, threadID)
	}
}

// shown is what a follower has of the message that is being written.
type shown struct {
	message string
	lengths []int
}

// next returns what was written since, and what the follower has with it.
func (s shown) next(r *running) (shown, []Delta) {
	if r == nil {
		return s, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.writing
	if m == nil {
		return s, nil
	}
	out := shown{message: m.ID, lengths: make([]int, len(m.Parts))}
	if s.message == m.ID {
		copy(out.lengths, s.lengths)
	}
	var deltas []Delta
	for i, p := range m.Parts {
		d := Delta{MessageID: m.ID, Part: i, Kind: p.Kind, Offset: out.lengths[i], Text: p.Text}
		if p.Kind == providers.ToolCall {
			d.Tool, d.Text = p.Name, p.RawArgs // once they are complete, the row has them
		}
		d.Text = wholeRunes(d.Text)
		if len(d.Text) <= d.Offset {
			continue
		}
		out.lengths[i] = len(d.Text)
		d.Text = d.Text[d.Offset:]
		deltas = append(deltas, d)
	}
	return out, deltas
}

// wholeRunes is text without a character at its end of which bytes are missing.
func wholeRunes(text string) string {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if !utf8.FullRuneInString(text[len(text)-n:]) {
				return text[:len(text)-n]
			}
			break
		}
	}
	return text
}

// View returns a part of a thread.
func (s *Service) View(ctx context.Context, threadID string, w Window) (View, error) {
	return s.cfg.Store.View(ctx, threadID, w)
}

// Thread returns a thread.
func (s *Service) Thread(ctx context.Context, id string) (Thread, error) {
	return s.cfg.Store.Thread(ctx, id)
}

// ThreadOf returns the thread of a session. Errors: not_found, also before the session's terminal has connected for the first time.
func (s *Service) ThreadOf(ctx context.Context, row sessions.Session) (Thread, error) {
	return s.cfg.Store.ThreadOf(ctx, row.WorkspaceID, row.Conversation)
}
