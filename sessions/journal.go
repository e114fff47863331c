package sessions

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/journal"
)

// journalName is the name of a journal's file.
const journalName = "journal"

const (
	noteEvery = 500 * time.Millisecond // how long entries of a journal wait to be written together
	keysEvery = 5000                   // ms of typing that one entry tells of
	saidOf    = 500                    // bytes of a prompt that its entry shows
)

// openJournal opens the journal of the session whose log is given.
func (s *Service) openJournal(id string, log *bytelog.Log) (*journal.Journal, error) {
	_, end := log.Bounds()
	j, err := journal.Open(journal.Config{Path: filepath.Join(s.dir(id), journalName), End: end})
	if err != nil {
		return nil, fmt.Errorf("opening the journal of session %s: %w", id, err)
	}
	return j, nil
}

// noting is the sessions whose journals wait to be written.
type noting struct {
	mu    sync.Mutex
	lives map[*live]struct{}
	wake  chan struct{}
}

func newNoting() noting { return noting{lives: map[*live]struct{}{}, wake: make(chan struct{}, 1)} }

func (n *noting) add(l *live) {
	n.mu.Lock()
	n.lives[l] = struct{}{}
	n.mu.Unlock()
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

func (n *noting) take() []*live {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*live, 0, len(n.lives))
	for l := range n.lives {
		out = append(out, l)
	}
	clear(n.lives)
	return out
}

// noteLoop writes journals a moment after something was noted. It sleeps while nothing is.
func (s *Service) noteLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.noting.wake:
		}
		if !tasks.Sleep(ctx, noteEvery) {
			return // shut writes what waits
		}
		for _, l := range s.noting.take() {
			if l.flushNotes(false) {
				s.noting.add(l)
			}
		}
	}
}

// flushNotes writes what waits in the journal, and reports whether something waits on. all: also typing that goes on.
func (l *live) flushNotes(all bool) (more bool) {
	more = l.keys.tell(l, all)
	more = l.touched.tell(l, all) || more
	err := l.notes.Flush()
	if failed := err != nil; l.keys.fails(failed) {
		if failed {
			l.svc.cfg.Log.Warn("journal of a session not written", "session_id", l.id, "error", err)
		} else {
			l.svc.cfg.Log.Info("journal of a session is written again", "session_id", l.id, "lost", l.notes.Lost())
		}
	}
	return more || l.notes.Pending()
}

// note puts into the journal what happened just now. It never blocks and may be called under mu and outMu. An ended session's
// journal takes nothing more.
func (l *live) note(kind journal.Kind, data any) {
	if l.over() {
		return
	}
	_, end := l.log.Bounds()
	l.notes.Note(kind, l.svc.now(), end, data)
	l.svc.noting.add(l)
}

// mark puts into the journal that output has reached end, and has it packed when there is enough of it. It is called under outMu.
func (l *live) mark(end int64) {
	if l.notes.Mark(l.svc.now(), end) {
		l.svc.noting.add(l)
	}
	if end-l.keptAt >= keepEach {
		l.keptAt = end
		l.svc.keeping.add(l.id)
	}
}

func (l *live) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// noteSize notes the terminal's size unless the journal has it. It is called under mu, or before l is anybody's.
func (l *live) noteSize() {
	_, end := l.log.Bounds()
	now := journal.Dims{Cols: l.row.Cols, Rows: l.row.Rows}
	if had, ok := l.notes.SizeAt(end); !ok || had != now {
		l.note(journal.Size, now)
	}
}

// noteSeat notes that v came or left. It is called under mu.
func (l *live) noteSeat(v *Viewer, left bool) {
	s := v.seat()
	l.note(journal.Seat, journal.Visit{UserID: s.UserID, Name: s.Name, Role: s.Role, Left: left})
}

// notePrompt notes that a prompt went to the agent.
func (l *live) notePrompt(prompt string) {
	l.note(journal.Prompt, map[string]any{"text": safetext.Cut(strings.ToValidUTF8(prompt, ""), saidOf), "user_id": l.row.CreatedBy})
}

// keys gathers what one person types into one entry: who and how much, never what.
type keys struct {
	mu     sync.Mutex
	k      journal.Keys
	failed bool // the journal could not be written
}

// noteKeys notes that somebody typed n bytes.
func (l *live) noteKeys(userID, name string, n int) {
	k := &l.keys
	k.mu.Lock()
	if k.k.Bytes > 0 && k.k.UserID == userID {
		k.k.Bytes += int64(n)
		k.mu.Unlock()
		return
	}
	before := k.k
	_, end := l.log.Bounds()
	k.k = journal.Keys{UserID: userID, Name: name, Bytes: int64(n), Since: l.svc.now(), From: end}
	k.mu.Unlock()
	if before.Bytes > 0 {
		l.note(journal.Input, before)
		return
	}
	l.svc.noting.add(l)
}

// tell notes the typing that was gathered long enough, and reports whether some is not yet.
func (k *keys) tell(l *live, all bool) (more bool) {
	k.mu.Lock()
	typed := k.k
	if typed.Bytes == 0 || !all && l.svc.now()-typed.Since < keysEvery {
		k.mu.Unlock()
		return typed.Bytes > 0
	}
	k.k = journal.Keys{}
	k.mu.Unlock()
	l.note(journal.Input, typed)
	return false
}

// fails keeps whether writing failed, and reports whether that is new.
func (k *keys) fails(now bool) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed = k.failed != now
	k.failed = now
	return changed
}

// JournalQuery asks for entries of a journal.
type JournalQuery struct {
	From  int64 // number of the first entry
	Limit int
	Kinds []journal.Kind // nil: all but time marks
}

// Journal returns entries of a session's journal in order, and the number to go on from; -1 after the last. Errors: not_found.
func (s *Service) Journal(ctx context.Context, id string, q JournalQuery) (items []journal.Entry, next int64, err error) {
	l, err := s.acquire(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	defer s.release(l)
	var want [256]bool
	for k := range want {
		want[k] = q.Kinds == nil && journal.Kind(k) != journal.Time
	}
	for _, k := range q.Kinds {
		want[k] = true
	}
	next = -1
	err = l.notes.Scan(q.From, func(e journal.Entry) bool {
		if !want[e.Kind] || e.Kind.String() == "" { // or of a newer server
			return true
		}
		if len(items) == q.Limit {
			next = e.Seq
			return false
		}
		e.Data = append(json.RawMessage(nil), e.Data...)
		items = append(items, e)
		return ctx.Err() == nil
	})
	if err == nil {
		err = ctx.Err()
	}
	return items, next, err
}
