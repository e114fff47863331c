package sessions

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

// The agent's record is read when output flows: soon after it began, then so often at most, and once more when it is quiet
// again, because the record may follow the screen. While nothing is printed nothing is read.
const (
	readSoon  = 300 * time.Millisecond
	readEvery = time.Second
	readLate  = 2 * time.Second
)

// restAfter is how long a record that was replaced or cut is left alone once it was read anew.
const restAfter = 10 * time.Second

// endRead is how long the end of a session waits for the rest of its record.
const endRead = 5 * time.Second

// converse is what a session needs to follow its agent's record.
type converse struct {
	ending chan struct{}      // closed when the session ends: read the rest
	over   chan struct{}      // closed when nothing will be read any more; nil when nothing is
	now    chan chan struct{} // asks for what can be read now; what is sent is closed when that was read
	mask   func(string) string
	since  int64 // what the record says of an earlier time is left out; 0 = the session's start
}

// followRecord starts following the record of a live session, until the session ends or the room closes. Where the place is gone,
// what the agent wrote last may still lie in its home, if that is on this machine.
func (s *Service) followRecord(ctx context.Context, l *live) {
	if !s.cfg.Agents.Records(l.row.Agent) { // Agent never changes
		return
	}
	if l.worktree == "" {
		w, err := s.cfg.Workspaces.Workspace(ctx, l.row.WorkspaceID)
		if err != nil {
			s.cfg.Log.Warn("an agent's record is not followed", "session_id", l.id, "error", err)
			return
		}
		l.mu.Lock()
		l.worktree = w.Path
		l.mu.Unlock()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	l.refs++
	l.talk.over, l.talk.now = make(chan struct{}), make(chan chan struct{})
	s.mu.Unlock()
	if !s.run(func() { l.converse(s.hard) }) {
		close(l.talk.over)
		s.release(l)
	}
}

// endRecord reads what is left of the record before the session's secrets are forgotten. It is called once.
func (l *live) endRecord() {
	close(l.talk.ending)
	if l.talk.over == nil {
		return
	}
	t := time.NewTimer(endRead)
	defer t.Stop()
	select {
	case <-l.talk.over:
	case <-t.C:
		l.svc.cfg.Log.Warn("the end of an agent's record was not waited for", "session_id", l.id)
	}
}

// converse follows the agent's record. It holds one reference to l.
func (l *live) converse(ctx context.Context) {
	defer l.svc.release(l)
	defer close(l.talk.over)
	r := &reading{live: l, again: true}
	var seen int64 = -1
	flowing, settled := false, false
	for {
		changed := l.log.Changed()
		_, end := l.log.Bounds()
		var wait <-chan time.Time
		switch {
		case end != seen && flowing:
			changed, wait = nil, time.After(readEvery)
		case end != seen:
			changed, wait = nil, time.After(readSoon)
		case r.behind:
			changed, wait = nil, time.After(readEvery)
		case !settled:
			wait = time.After(readLate)
		}
		select {
		case <-changed:
		case <-wait:
			flowing, settled = end != seen, end == seen
			seen = end
			r.pass(ctx)
		case read := <-l.talk.now:
			for again := true; again; again = r.behind && r.rest.IsZero() && ctx.Err() == nil {
				r.pass(ctx)
			}
			close(read)
		case <-l.talk.ending:
			r.end(ctx)
			return
		case <-ctx.Done():
			return
		}
	}
}

// reading is the state of following one session's record.
type reading struct {
	live   *live
	reader *conversation.Reader
	writer *conversation.Writer
	of     string    // the conversation reader reads
	again  bool      // what is kept already may come again
	behind bool      // there was more to read than one pass takes
	rest   time.Time // until then nothing is read: the record was just read from its beginning again
	told   string
	moment conversation.Moment
	marks  []outputMark // how far output had come at each of the last passes

	project   string               // of the workspace, once it is known
	uncounted []conversation.Reply // the meter did not take
}

// outputMark is the end of the log at a time.
type outputMark struct{ at, end int64 }

// maxMarks bounds the passes whose marks are remembered.
const maxMarks = 64

// mark notes how far output has come.
func (r *reading) mark() {
	_, end := r.live.log.Bounds()
	if len(r.marks) == maxMarks {
		r.marks = slices.Delete(r.marks, 0, maxMarks/2)
	}
	r.marks = append(r.marks, outputMark{r.live.svc.now(), end})
}

// offsets returns what tells how far output had come when an item happened, a little early rather than late: somebody wants to
// see it come. What is older than this server's marks is looked up in the journal, in one go.
func (r *reading) offsets(items []conversation.Item) func(at int64) int64 {
	var old []int64
	for _, it := range items {
		if len(r.marks) == 0 || it.At < r.marks[0].at {
			old = append(old, it.At)
		}
	}
	known := map[int64]int64{}
	if len(old) > 0 {
		slices.Sort(old)
		var off int64
		next := 0
		upTo := func(at int64) {
			for ; next < len(old) && old[next] < at; next++ {
				known[old[next]] = off
			}
		}
		err := r.live.notes.Scan(0, func(e journal.Entry) bool {
			if e.Kind == journal.Time {
				upTo(e.At)
				off = e.Offset
			}
			return next < len(old)
		})
		if upTo(math.MaxInt64); err != nil {
			clear(known)
		}
	}
	return func(at int64) int64 {
		for _, m := range slices.Backward(r.marks) {
			if m.at <= at {
				return m.end
			}
		}
		if off, ok := known[at]; ok {
			return off
		}
		return -1
	}
}

// open makes the reader, once the conversation is known; false before.
func (r *reading) open(ctx context.Context) bool {
	l := r.live
	l.mu.Lock()
	row, worktree := l.row, l.worktree
	l.mu.Unlock()
	if row.Conversation == "" {
		return false
	}
	if r.reader != nil && r.of == row.Conversation {
		return true
	}
	rec, ok := l.svc.cfg.Agents.Record(row.Agent, row.Conversation)
	if !ok {
		return false
	}
	if r.reader != nil { // the agent began another conversation: nothing more comes of this one
		r.finish(ctx)
	}
	r.reader = conversation.NewReader(conversation.Config{Record: rec, Root: worktree, Since: max(row.StartedAt, l.talk.since), Mask: l.talk.mask})
	r.of, r.again = row.Conversation, true
	if r.writer == nil {
		r.writer = conversation.NewWriter(filepath.Join(l.svc.dir(l.id), conversation.FileName), l.svc.cfg.MaxConversationBytes)
	}
	return r.reader != nil
}

// pass reads what was added and keeps it.
func (r *reading) pass(ctx context.Context) {
	if !r.open(ctx) {
		return
	}
	if r.behind = time.Now().Before(r.rest); r.behind {
		return
	}
	src, done, err := r.live.source(ctx)
	if err != nil || src == nil {
		r.complain(err)
		return
	}
	defer done()
	defer r.mark() // what is read next is newer than this
	items, more, err := r.reader.Read(ctx, src)
	r.complain(err)
	r.keep(ctx, items)
	r.behind = more
	r.feel(!r.again)
	if r.again && !more {
		r.again = false
		r.writer.Settle()
	}
}

// end reads the rest and closes what is open.
func (r *reading) end(ctx context.Context) {
	if r.open(ctx) {
		r.finish(ctx)
	}
}

// finish reads the rest of the record that is open now.
func (r *reading) finish(ctx context.Context) {
	src, done, err := r.live.source(ctx)
	if err != nil || src == nil {
		r.complain(err)
		return
	}
	defer done()
	items, err := r.reader.End(ctx, src, r.live.svc.now())
	r.complain(err)
	r.keep(ctx, items)
}

// keep appends items to the session's timeline and says so.
func (r *reading) keep(ctx context.Context, items []conversation.Item) {
	l := r.live
	r.count(ctx)
	if r.reader.Again() {
		// Whoever replaces the record again and again is not read each time.
		r.again, r.rest = true, time.Now().Add(restAfter)
	}
	again := r.again
	n, grew, err := r.writer.Append(items, r.offsets(items), again)
	if err != nil {
		r.complain(err)
	}
	if !again {
		r.writer.Settle()
	}
	if grew && l.svc.cfg.Events != nil {
		l.mu.Lock()
		row := l.row
		l.mu.Unlock()
		l.svc.cfg.Events.Publish(ctx, events.Event{Type: "session.conversation", ID: l.id, WorkspaceID: row.WorkspaceID, TeamID: row.TeamID, Version: n})
	}
}

// complain logs an error once, until another one comes. The record is the agent's: it may hold anything, and nothing depends
// on it. A place that cannot be reached is told of elsewhere.
func (r *reading) complain(err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, fs.ErrNotExist) || fault.Is(err, fault.Unavailable) || r.told == err.Error() {
		return
	}
	r.told = err.Error()
	r.live.svc.cfg.Log.Warn("an agent's record was not read", "session_id", r.live.id, "error", err)
}

// feel tells the state what the record says of the turn, when that is news.
func (r *reading) feel(news bool) {
	m := r.reader.Moment()
	if m == r.moment {
		return
	}
	r.moment = m
	if h := state.OfRecord(m); news && h.Mood != agents.Unsaid {
		r.live.evidence(h)
	}
}
