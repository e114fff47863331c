package history

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/bytelog"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/journal"
)

// journalName is the name of a journal's file.
const journalName = "journal"

const (
	noteEvery = 500 * time.Millisecond // how long entries of a journal wait to be written together
	keysEvery = 5000                   // ms of typing that one entry covers
)

// openJournal opens the journal of the session with the given log.
func (s *Recordings) openJournal(id string, log *bytelog.Log) (*journal.Journal, error) {
	_, end := log.Bounds()
	j, err := journal.Open(journal.Config{Path: filepath.Join(s.dir(id), journalName), End: end})
	if err != nil {
		return nil, fmt.Errorf("opening the journal of session %s: %w", id, err)
	}
	return j, nil
}

// noting lists the sessions whose journals wait to be written.
type noting struct {
	mu   sync.Mutex
	all  map[*Recording]struct{}
	wake chan struct{}
}

func newNoting() noting { return noting{all: map[*Recording]struct{}{}, wake: make(chan struct{}, 1)} }

func (n *noting) add(r *Recording) {
	n.mu.Lock()
	n.all[r] = struct{}{}
	n.mu.Unlock()
	tasks.Wake(n.wake)
}

func (n *noting) take() []*Recording {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := make([]*Recording, 0, len(n.all))
	for r := range n.all {
		out = append(out, r)
	}
	clear(n.all)
	return out
}

// noteLoop writes journals a moment after something was noted. It sleeps otherwise.
func (s *Recordings) noteLoop(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.noting.wake:
		}
		if !tasks.Sleep(ctx, noteEvery) {
			return // Close writes what waits
		}
		for _, r := range s.noting.take() {
			if r.Flush(false) {
				s.noting.add(r)
			}
		}
	}
}

// Flush writes what waits in the journal, and reports whether something still waits. all: including typing that continues.
func (r *Recording) Flush(all bool) (more bool) {
	more = r.keys.notify(r, all)
	more = r.touched.notify(r, all) || more
	err := r.notes.Flush()
	if failed := err != nil; r.keys.fails(failed) {
		if failed {
			r.all.cfg.Log.Warn("journal of a session could not be written", "session_id", r.id, "error", err)
		} else {
			r.all.cfg.Log.Info("journal of a session is written again", "session_id", r.id, "lost", r.notes.Lost())
		}
	}
	return more || r.notes.Pending()
}

// Note adds a current event to the journal. It never blocks and may be called under any lock of the session. The journal of an
// ended session accepts nothing more.
func (r *Recording) Note(kind journal.Kind, data any) {
	if r.over() {
		return
	}
	_, end := r.log.Bounds()
	r.notes.Note(kind, r.all.now(), end, data)
	r.all.noting.add(r)
}

// Mark records in the journal that output has reached end, and has it packed when there is enough of it. Only the appender calls
// it.
func (r *Recording) Mark(end int64) {
	if r.notes.Mark(r.all.now(), end) {
		r.all.noting.add(r)
	}
	if end-r.keptAt >= keepEach {
		r.keptAt = end
		r.Pack()
	}
}

// NoteSize records the terminal's size unless the journal has it.
func (r *Recording) NoteSize(now guest.Size) {
	_, end := r.log.Bounds()
	d := journal.Dims{Cols: now.Cols, Rows: now.Rows}
	if had, ok := r.notes.SizeAt(end); !ok || had != d {
		r.Note(journal.Size, d)
	}
}

// keys gathers one person's typing into one entry: who and how much, never what.
type keys struct {
	mu     sync.Mutex
	k      journal.Keys
	failed bool // the journal could not be written
}

// NoteKeys records that a person typed n bytes.
func (r *Recording) NoteKeys(userID, name string, n int) {
	k := &r.keys
	k.mu.Lock()
	if k.k.Bytes > 0 && k.k.UserID == userID {
		k.k.Bytes += int64(n)
		k.mu.Unlock()
		return
	}
	before := k.k
	_, end := r.log.Bounds()
	k.k = journal.Keys{UserID: userID, Name: name, Bytes: int64(n), Since: r.all.now(), From: end}
	k.mu.Unlock()
	if before.Bytes > 0 {
		r.Note(journal.Input, before)
		return
	}
	r.all.noting.add(r)
}

// notify writes typing that was gathered long enough, and reports whether some still waits.
func (k *keys) notify(r *Recording, all bool) (more bool) {
	k.mu.Lock()
	typed := k.k
	if typed.Bytes == 0 || !all && r.all.now()-typed.Since < keysEvery {
		k.mu.Unlock()
		return typed.Bytes > 0
	}
	k.k = journal.Keys{}
	k.mu.Unlock()
	r.Note(journal.Input, typed)
	return false
}

// fails records whether writing failed, and reports whether that is new.
func (k *keys) fails(now bool) (changed bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	changed = k.failed != now
	k.failed = now
	return changed
}

// JournalQuery requests entries of a journal.
type JournalQuery struct {
	From  int64 // number of the first entry
	Limit int
	Kinds []journal.Kind // nil: all but time marks
}

// Journal returns entries of a session's journal in order, and the number to continue from; -1 after the last. Errors: not_found.
func (s *Recordings) Journal(ctx context.Context, id string, q JournalQuery) (items []journal.Entry, next int64, err error) {
	r, err := s.open(ctx, id)
	if err != nil {
		return nil, 0, err
	}
	defer r.Close()
	var want [256]bool
	for k := range want {
		want[k] = q.Kinds == nil && journal.Kind(k) != journal.Time
	}
	for _, k := range q.Kinds {
		want[k] = true
	}
	next = -1
	err = r.notes.Scan(q.From, func(e journal.Entry) bool {
		if !want[e.Kind] || e.Kind.String() == "" { // or from a newer server
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
