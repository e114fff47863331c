package transcript

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"slices"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/journal"
	"github.com/parawork/parawork/sessions/state"
)

// The agent's record is read when output flows: soon after it began, then at most at an interval, and once more when it is quiet
// again, because the record may lag behind the screen. While nothing is printed nothing is read.
const (
	readSoon  = 300 * time.Millisecond
	readEvery = time.Second
	readLate  = 2 * time.Second
)

// restAfter is how long to wait after a replaced or truncated record was read from its beginning.
const restAfter = 10 * time.Second

// endRead is how long the end of a session waits for the rest of its record.
const endRead = 5 * time.Second

// follow follows the agent's record.
func (s *Session) follow(ctx context.Context) {
	defer close(s.over)
	r := &reading{s: s, again: true}
	var seen int64 = -1
	flowing, settled := false, false
	for {
		changed := s.cfg.Log.Changed()
		_, end := s.cfg.Log.Bounds()
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
		case read := <-s.now:
			for again := true; again; again = r.behind && r.rest.IsZero() && ctx.Err() == nil {
				r.pass(ctx)
			}
			close(read)
		case <-s.ending:
			r.end(ctx)
			return
		case <-ctx.Done():
			return
		}
	}
}

// reading is the state of following one session's record.
type reading struct {
	s        *Session
	reader   *conversation.Reader
	writer   *conversation.Writer
	of       string    // the conversation that reader reads
	again    bool      // already stored items may come again
	behind   bool      // there was more to read than one pass takes
	rest     time.Time // until then nothing is read: the record was just read from its beginning again
	reported string
	moment   conversation.Moment
	marks    []outputMark // the offset of the output at each of the last passes

	project   string               // of the workspace, once it is known
	uncounted []conversation.Reply // replies the meter did not take
}

// outputMark is the end of the log at a time.
type outputMark struct{ at, end int64 }

// maxMarks bounds the passes whose marks are remembered.
const maxMarks = 64

// mark records the current offset of the output.
func (r *reading) mark() {
	_, end := r.s.cfg.Log.Bounds()
	if len(r.marks) == maxMarks {
		r.marks = slices.Delete(r.marks, 0, maxMarks/2)
	}
	r.marks = append(r.marks, outputMark{r.s.all.cfg.Now().UnixMilli(), end})
}

// offsets returns a function that gives the offset of the output when an item happened, slightly early rather than late, so that
// a replay shows the item appear. For items older than this server's marks it reads the journal, once.
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
		err := r.s.cfg.Journal.Scan(0, func(e journal.Entry) bool {
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

// open creates the reader, once the conversation is known; false before.
func (r *reading) open(ctx context.Context) bool {
	row := r.s.host.Row()
	if row.Conversation == "" {
		return false
	}
	if r.reader != nil && r.of == row.Conversation {
		return true
	}
	rec, ok := r.s.all.cfg.Agents.Record(row.Agent, row.Conversation)
	if !ok {
		return false
	}
	if r.reader != nil { // the agent began another conversation: this one gets nothing more
		r.finish(ctx)
	}
	r.reader = conversation.NewReader(conversation.Config{Record: rec, Root: row.Worktree, Since: max(row.StartedAt, r.s.since), Mask: r.s.cfg.Mask})
	r.of, r.again = row.Conversation, true
	if r.writer == nil {
		r.writer = conversation.NewWriter(r.s.all.path(r.s.id), r.s.all.cfg.MaxBytes)
	}
	return r.reader != nil
}

// pass reads and stores what was added.
func (r *reading) pass(ctx context.Context) {
	if !r.open(ctx) {
		return
	}
	if r.behind = time.Now().Before(r.rest); r.behind {
		return
	}
	src, done, err := r.s.host.Source(ctx)
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
	src, done, err := r.s.host.Source(ctx)
	if err != nil || src == nil {
		r.complain(err)
		return
	}
	defer done()
	items, err := r.reader.End(ctx, src, r.s.all.cfg.Now().UnixMilli())
	r.complain(err)
	r.keep(ctx, items)
}

// keep appends items to the session's timeline and publishes that.
func (r *reading) keep(ctx context.Context, items []conversation.Item) {
	r.count(ctx)
	if r.reader.Again() {
		// Do not read a record that is replaced again and again each time.
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
	if grew {
		r.s.all.publish(ctx, r.s.host.Row(), n)
	}
}

// complain logs an error once, until another one occurs. The record is the agent's: it may contain anything, and nothing depends
// on it. Other parts report an unreachable sandbox.
func (r *reading) complain(err error) {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, fs.ErrNotExist) || fault.Is(err, fault.Unavailable) || r.reported == err.Error() {
		return
	}
	r.reported = err.Error()
	r.s.all.cfg.Log.Warn("an agent's record could not be read", "session_id", r.s.id, "error", err)
}

// feel passes the record's report of the turn to the state machine, when there is news.
func (r *reading) feel(news bool) {
	m := r.reader.Moment()
	if m == r.moment {
		return
	}
	r.moment = m
	if h := state.OfRecord(m); news && h.Mood != agents.Unsaid {
		r.s.host.Observe(h)
	}
}
