package billing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/tenant"
)

// freeBeat is how often it is written that something runs which costs nothing, ms.
const freeBeat = 60_000

// beatLate is how long before a heartbeat is written its sandbox may have been seen last, ms: two of the health checks' rounds.
const beatLate = 30_000

// Recover takes up what an earlier server left open. Which of it runs still, the sandboxes' keeper says when it has looked.
func (l *Ledger) Recover(ctx context.Context) error {
	latest, err := l.cfg.Store.LatestTime(ctx)
	if err != nil {
		return fmt.Errorf("reading the ledger's latest time: %w", err)
	}
	if wall := l.clock.now().UnixMilli(); latest > wall {
		if ahead := latest - wall; ahead > dayMs {
			// A clock that was so wrong is not followed: only segments of the same sandbox may not overlap, and they are kept apart.
			l.cfg.Log.Error("ledger contains times in the future: the server's clock was, or is, wrong by more than a day", "ahead_ms", ahead)
			latest = 0
		} else {
			l.cfg.Log.Warn("server's clock was set back while the server was stopped: the ledger's clock stays ahead of it", "ahead_ms", ahead)
		}
	}
	ahead, err := l.cfg.Store.Ahead(ctx)
	if err != nil {
		return fmt.Errorf("reading how far the ledger's time is ahead: %w", err)
	}
	if latest == 0 && ahead != 0 {
		// Nothing it ran ahead for is believed: nor may the next server, which will find times of ours.
		ahead = 0
		if err := l.cfg.Store.SetAhead(ctx, 0); err != nil {
			return fmt.Errorf("storing that the ledger's time is not ahead: %w", err)
		}
	}
	l.clock.start(latest, ahead)
	segments, err := l.cfg.Store.OpenSegments(ctx)
	if err != nil {
		return fmt.Errorf("reading the open segments: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range segments {
		l.open[s.SandboxID] = openOf(s)
	}
	return nil
}

// clockJump ends the open segments at from and continues them at to. Call it only while nothing else is written (turns.clockJump).
func (l *Ledger) clockJump(ctx context.Context, from, to int64) error {
	if err := l.cfg.Store.SetAhead(ctx, 0); err != nil {
		return err
	}
	return l.write(ctx, func(ctx context.Context, w *writing) error {
		segments, err := l.cfg.Store.OpenSegments(ctx)
		if err != nil {
			return err
		}
		for _, s := range segments {
			if _, err := w.carry(ctx, s, max(from, s.SeenAt), max(to, s.SeenAt), endByClock); err != nil {
				return err
			}
		}
		return nil
	})
}

// writing is one transaction's view of what is open: kept once it is committed.
type writing struct {
	l    *Ledger
	open map[string]*open // nil = closed
}

// write does fn in one transaction, and keeps what it says is open. Only in the turn of the sandboxes fn is about.
func (l *Ledger) write(ctx context.Context, fn func(ctx context.Context, w *writing) error) error {
	var w *writing
	err := l.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		w = &writing{l, make(map[string]*open)} // the transaction may be run again
		return fn(ctx, w)
	})
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for sandboxID, o := range w.open {
		if o == nil {
			delete(l.open, sandboxID)
		} else {
			l.open[sandboxID] = o
		}
	}
	return nil
}

// insert stores a new open segment, with the price that holds when it begins.
func (w *writing) insert(ctx context.Context, s Segment) error {
	s.ID, s.EndedAt, s.EndSource = id.New("seg"), 0, ""
	w.l.charge(&s, s.StartedAt)
	if s.PriceNano > mostPrice {
		return fmt.Errorf("sandbox %s has a price of %d nano-USD an hour, which cannot be", s.SandboxID, s.PriceNano)
	}
	s.CostNano = cost(s.PriceNano, s.SeenAt-s.StartedAt)
	if err := w.l.cfg.Store.InsertSegment(ctx, s); err != nil {
		return fmt.Errorf("opening a segment of sandbox %s: %w", s.SandboxID, err)
	}
	w.open[s.SandboxID] = openOf(s)
	return nil
}

// close ends a segment at at, in as many days as it lies in.
func (w *writing) close(ctx context.Context, s Segment, at int64, endSource string) error {
	s, err := w.split(ctx, s, at)
	if err != nil {
		return err
	}
	return w.end(ctx, s, at, endSource)
}

func (w *writing) end(ctx context.Context, s Segment, at int64, endSource string) error {
	s.EndedAt = max(at, s.StartedAt)
	s.SeenAt, s.EndSource = s.EndedAt, endSource
	s.CostNano = cost(s.PriceNano, s.EndedAt-s.StartedAt)
	if err := w.l.cfg.Store.UpdateSegment(ctx, s); err != nil {
		return fmt.Errorf("closing segment %s: %w", s.ID, err)
	}
	w.open[s.SandboxID] = nil
	return nil
}

// charge puts what the book says of a time into a segment.
func (l *Ledger) charge(s *Segment, at int64) {
	if l.cfg.Prices == nil {
		return
	}
	q := l.cfg.Prices.Quote(s.Executor, s.CPUs, s.MemoryMB, at)
	s.PriceID, s.PriceNano = q.RowID, q.HourNano
	if q.RowID != "" { // without a row it is as it was when the run began: see counts
		s.Metered = q.Metered
	}
}

// border returns when a segment that began at startedAt ends at the latest: when its day ends, or when its executor's price changes.
func (l *Ledger) border(executor string, startedAt int64) (at int64, endSource string) {
	at, endSource = dayOf(startedAt)+dayMs, endByDay
	if l.cfg.Prices != nil {
		if next, ok := l.cfg.Prices.Next(executor, startedAt); ok && next < at {
			at, endSource = next, endByPrice
		}
	}
	return at, endSource
}

// split ends the segment at each border up to at and returns the one that is open then.
func (w *writing) split(ctx context.Context, s Segment, at int64) (Segment, error) {
	for {
		border, endSource := w.l.border(s.Executor, s.StartedAt)
		if at < border {
			return s, nil
		}
		if err := w.end(ctx, s, border, endSource); err != nil {
			return s, err
		}
		s.StartedAt, s.SeenAt, s.AdjustsID = border, border, ""
		if err := w.insert(ctx, s); err != nil {
			return s, err
		}
		var err error
		if s, err = w.opened(ctx, s.SandboxID); err != nil {
			return s, err
		}
	}
}

// carry ends a segment and opens the next one with what it is about.
func (w *writing) carry(ctx context.Context, s Segment, from, to int64, endSource string) (Segment, error) {
	if err := w.close(ctx, s, from, endSource); err != nil {
		return s, err
	}
	s.StartedAt, s.SeenAt, s.AdjustsID = to, to, ""
	return s, w.insert(ctx, s)
}

// borderOf is border for the state of a segment.
func (l *Ledger) borderOf(o *open) int64 {
	at, _ := l.border(o.executor, o.startedAt)
	return at
}

// oneLedger is why what is noted of a sandbox does not keep to one team: segments of the pool are nobody's until a team takes them, and
// a new day ends and begins everybody's.
const oneLedger = "the ledger is one for all teams"

// Began notes that a sandbox runs. An open segment goes on; a gap in its heartbeats was time it ran in, for it is found running.
func (l *Ledger) Began(ctx context.Context, s executors.UsageInterval) error {
	if s.PriceNano < 0 || s.PriceNano > mostPrice {
		return fmt.Errorf("sandbox %s has a price of %d nano-USD an hour, which cannot be", s.SandboxID, s.PriceNano)
	}
	ctx = tenant.All(ctx, oneLedger)
	if err := l.counts(ctx, &s); err != nil {
		return err
	}
	now, leave, err := l.enter(ctx, s.SandboxID)
	if err != nil {
		return err
	}
	defer leave()
	since := int64(0)
	if s.Since > 0 {
		since = l.clock.lift(s.Since)
	}
	if since > now {
		since = 0 // by a clock that is ahead of ours
	}
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		if l.cfg.Admit != nil { // what was held back for it is counted as what it is from here on
			if err := l.cfg.Admit.Drop(ctx, s.SandboxID); err != nil {
				return err
			}
		}
		have, ok, err := l.cfg.Store.OpenSegment(ctx, s.SandboxID)
		if err != nil {
			return err
		}
		if ok && since > have.SeenAt {
			// It was suspended, or this is another run: the earlier one ended when it was last seen.
			if err := w.close(ctx, have, have.SeenAt, string(executors.ByHeartbeat)); err != nil {
				return err
			}
			ok = false
		}
		if ok {
			return w.goOn(ctx, have, s, now)
		}
		last, _, err := l.cfg.Store.LastEnd(ctx, s.SandboxID)
		if err != nil {
			return err
		}
		since = cmp.Or(since, now)
		begin := max(since, last)
		next := segmentOf(s)
		next.StartedAt, next.SeenAt = begin, begin
		if err := w.insert(ctx, next); err != nil {
			return err
		}
		if begin >= now {
			return nil
		}
		if next, err = w.opened(ctx, s.SandboxID); err != nil {
			return err
		}
		return w.goOn(ctx, next, s, now)
	})
	if err != nil {
		return fmt.Errorf("noting that sandbox %s runs: %w", s.SandboxID, err)
	}
	failpoint.Reach(failpoint.SegmentOpened)
	return nil
}

// goOn notes that the sandbox of an open segment is known to run at now, from then on as s says.
func (w *writing) goOn(ctx context.Context, have Segment, s executors.UsageInterval, now int64) error {
	have, err := w.split(ctx, have, now)
	if err != nil {
		return err
	}
	want := have
	want.PriceNano, want.Metered, want.CPUs, want.MemoryMB = s.PriceNano, s.Metered, s.CPUs, s.MemoryMB
	w.l.charge(&want, max(now, have.SeenAt))
	if have.PriceNano != want.PriceNano || have.Metered != want.Metered || have.CPUs != want.CPUs || have.MemoryMB != want.MemoryMB {
		at := max(now, have.SeenAt)
		if err := w.end(ctx, have, at, endByPrice); err != nil {
			return err
		}
		want.StartedAt, want.SeenAt, want.AdjustsID = at, at, ""
		return w.insert(ctx, want)
	}
	if now <= have.SeenAt {
		return nil
	}
	have.SeenAt = now
	have.CostNano = cost(have.PriceNano, now-have.StartedAt)
	w.open[have.SandboxID] = openOf(have)
	return w.l.cfg.Store.UpdateSegment(ctx, have)
}

// Beat notes that these sandboxes still run: all of it in one transaction. Then the budget is looked at.
func (l *Ledger) Beat(ctx context.Context, sandboxIDs []string) error {
	ctx = tenant.All(ctx, oneLedger)
	now, paid, err := l.beat(ctx, sandboxIDs)
	if err != nil {
		return fmt.Errorf("noting which sandboxes run: %w", err)
	}
	failpoint.Reach(failpoint.SegmentBeaten)
	if paid {
		l.watch(ctx, now)
	}
	return nil
}

func (l *Ledger) beat(ctx context.Context, sandboxIDs []string) (now int64, paid bool, err error) {
	now, old, paid, err := l.beatDue(ctx, sandboxIDs)
	if err != nil {
		return now, paid, err
	}
	for _, sandboxID := range old { // another day began: each by itself, in its turn
		if err := l.across(ctx, sandboxID); err != nil {
			return now, paid, err
		}
	}
	return now, paid, nil
}

// beatDue notes which sandboxes run whose segments go on, and returns those whose day or price has ended.
func (l *Ledger) beatDue(ctx context.Context, sandboxIDs []string) (now int64, old []string, paid bool, err error) {
	now, leave, err := l.enter(ctx, "")
	if err != nil {
		return now, nil, false, err
	}
	defer leave()
	var due []string
	l.mu.Lock()
	for _, sandboxID := range sandboxIDs {
		o := l.open[sandboxID]
		switch {
		case o == nil:
			continue
		case now >= l.borderOf(o):
			old = append(old, sandboxID)
		case o.billable() || now-o.seenAt >= freeBeat:
			due = append(due, sandboxID)
		}
		paid = paid || o.billable()
	}
	l.mu.Unlock()
	if len(due) == 0 {
		return now, old, paid, nil
	}
	due = slices.Compact(slices.Sorted(slices.Values(due)))
	err = l.cfg.Store.Tx(ctx, func(ctx context.Context) error { return l.cfg.Store.BeatSegments(ctx, due, now) })
	if err != nil {
		return now, old, paid, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, sandboxID := range due { // one that has ended meanwhile stays so, in the database too
		if o := l.open[sandboxID]; o != nil && o.startedAt <= now {
			later := *o
			later.seenAt = max(now, o.seenAt)
			l.open[sandboxID] = &later
		}
	}
	return now, old, paid, nil
}

// ofOpen does something with the open segment of a sandbox, in one transaction; nothing when there is none.
func (l *Ledger) ofOpen(ctx context.Context, sandboxID string, do func(ctx context.Context, w *writing, s Segment, now int64) error) error {
	now, leave, err := l.enter(ctx, sandboxID)
	if err != nil {
		return err
	}
	defer leave()
	return l.write(ctx, func(ctx context.Context, w *writing) error {
		s, ok, err := l.cfg.Store.OpenSegment(ctx, sandboxID)
		if err != nil {
			return err
		}
		if !ok {
			w.open[sandboxID] = nil
			return nil
		}
		return do(ctx, w, s, now)
	})
}

// across notes that a sandbox runs now, which lies in another day than its segment, or at another price.
func (l *Ledger) across(ctx context.Context, sandboxID string) error {
	return l.ofOpen(ctx, sandboxID, func(ctx context.Context, w *writing, s Segment, now int64) (err error) {
		if s, err = w.split(ctx, s, now); err != nil {
			return err
		}
		o := openOf(s)
		o.seenAt = max(now, o.seenAt)
		w.open[sandboxID] = o
		return l.cfg.Store.BeatSegments(ctx, []string{sandboxID}, now)
	})
}

// Stopped records that a sandbox no longer runs, as the source by reports it. A run that only the executor reports is recorded whole.
func (l *Ledger) Stopped(ctx context.Context, of executors.UsageInterval, at int64, by executors.StopSource) error {
	ctx = tenant.All(ctx, oneLedger)
	sandboxID := of.SandboxID
	unseen := by == executors.ByExecutor && of.Since > 0 && at > of.Since
	now, leave, err := l.enter(ctx, sandboxID)
	if err != nil {
		return err
	}
	defer leave()
	if !l.knows(sandboxID) && !unseen {
		return nil
	}
	err = l.write(ctx, func(ctx context.Context, w *writing) error {
		s, ok, err := l.cfg.Store.OpenSegment(ctx, sandboxID)
		if err != nil {
			return err
		}
		if !ok {
			w.open[sandboxID] = nil
			if !unseen {
				return nil
			}
			return w.unseen(ctx, of, min(l.clock.lift(of.Since), now), min(l.clock.lift(at), now))
		}
		end, least := now, s.SeenAt
		switch {
		case by == executors.ByHeartbeat:
			end = s.SeenAt
		case at > 0:
			end = min(l.clock.lift(at), now)
		}
		if by == executors.ByExecutor && end < s.SeenAt && s.SeenAt-end <= beatLate {
			// It may have ended before its last heartbeat was written. Frozen hours stay as they are.
			frozen, err := l.Frozen(ctx)
			if err != nil {
				return err
			}
			least = min(frozen, s.SeenAt)
		}
		// Otherwise nobody's clock but ours is believed where ours knows better: it was seen to run.
		return w.close(ctx, s, max(end, least), string(by))
	})
	if err != nil {
		return fmt.Errorf("noting that sandbox %s does not run any more: %w", sandboxID, err)
	}
	failpoint.Reach(failpoint.SegmentClosed)
	return nil
}

// unseen notes a run that began and ended while nobody looked. What of it was noted already, within what clocks may differ by, is not
// noted again.
func (w *writing) unseen(ctx context.Context, of executors.UsageInterval, from, to int64) error {
	last, id, err := w.l.cfg.Store.LastEnd(ctx, of.SandboxID)
	if err != nil {
		return err
	}
	s := segmentOf(of)
	if from < last { // its beginning is noted, and that it ended earlier than it did
		from, s.AdjustsID = last, id
	}
	if to-from <= slack.Milliseconds() {
		return nil
	}
	s.StartedAt, s.SeenAt = from, from
	if err := w.insert(ctx, s); err != nil {
		return err
	}
	s, err = w.opened(ctx, of.SandboxID)
	if err != nil {
		return err
	}
	return w.close(ctx, s, to, string(executors.ByExecutor))
}

// opened is the segment that was just opened.
func (w *writing) opened(ctx context.Context, sandboxID string) (Segment, error) {
	s, ok, err := w.l.cfg.Store.OpenSegment(ctx, sandboxID)
	if err == nil && !ok {
		err = errors.New("it is not there")
	}
	if err != nil {
		return s, fmt.Errorf("reading the segment of sandbox %s that was just opened: %w", sandboxID, err)
	}
	return s, nil
}

// segmentOf returns a segment for a usage interval.
func segmentOf(s executors.UsageInterval) Segment {
	return Segment{TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, SandboxID: s.SandboxID, UserID: s.UserID, Executor: string(s.Kind),
		Purpose: s.Purpose, CPUs: s.CPUs, MemoryMB: s.MemoryMB, PriceNano: s.PriceNano, Metered: s.Metered}
}

// Settle ends the segments of all sandboxes but these, by their last heartbeats: nobody would ever say when they ended.
func (l *Ledger) Settle(ctx context.Context, sandboxIDs []string) error {
	ctx = tenant.All(ctx, oneLedger)
	known := make(map[string]bool, len(sandboxIDs))
	for _, sandboxID := range sandboxIDs {
		known[sandboxID] = true
	}
	l.mu.Lock()
	var lost []string
	for sandboxID := range l.open {
		if !known[sandboxID] {
			lost = append(lost, sandboxID)
		}
	}
	l.mu.Unlock()
	for _, sandboxID := range lost {
		if err := l.settle(ctx, sandboxID); err != nil {
			return fmt.Errorf("ending the segment of sandbox %s, which nobody knows: %w", sandboxID, err)
		}
	}
	return nil
}

// settle ends the segment of a sandbox nobody knows.
func (l *Ledger) settle(ctx context.Context, sandboxID string) error {
	l.cfg.Log.Warn("open segment of an unknown sandbox", "sandbox_id", sandboxID)
	return l.ofOpen(ctx, sandboxID, func(ctx context.Context, w *writing, s Segment, _ int64) error {
		return w.close(ctx, s, s.SeenAt, string(executors.ByHeartbeat))
	})
}

// knows reports whether this process knows a sandbox to have an open segment.
func (l *Ledger) knows(sandboxID string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.open[sandboxID] != nil
}
