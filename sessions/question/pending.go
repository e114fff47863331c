package question

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/journal"
)

// open opens a question, or reopens the open one with this key, and returns it; nil when it was not accepted. by delivers the
// answer. A dialog that was read off the screen may belong to the hook that asks: when the hook reports late, it takes over the
// dialog's question.
func (l *Questions) open(ctx context.Context, key, source string, a agents.Ask, by handOver) *pending {
	l.mu.Lock()
	if l.host.State().Ended() {
		l.mu.Unlock()
		return nil
	}
	if old := l.pendingOf(func(as *pending) bool { return as.q.Key == key && as.q.State == Open }); old != nil {
		old.by = by
		l.asksFor(old)
		l.mu.Unlock()
		l.Watch()
		return old
	}
	theirs := func(as *pending) bool { return strings.HasPrefix(as.q.Key, onScreen) && as.q.State == Open }
	if strings.HasPrefix(key, onScreen) {
		if l.pendingOf(func(as *pending) bool { return as.q.State == Open && !theirs(as) }) != nil {
			l.mu.Unlock()
			return nil // its hook has reported meanwhile
		}
	} else if l.pendingOf(theirs) != nil {
		defer l.withdraw(ctx, theirs)
	}
	if len(l.asked) >= maxAsked {
		l.mu.Unlock()
		l.board.cfg.Log.Warn("question dropped: too many are open", "session_id", l.about.ID)
		return nil
	}
	as := newPending(Question{ID: id.New("qst"), TeamID: l.about.TeamID, WorkspaceID: l.about.WorkspaceID, SessionID: l.about.ID, Key: key, Ask: cleanAsk(l.hidden(a)),
		Source: source, AskedAt: l.board.now(), State: Open}, by)
	as.busy = l.busy
	<-as.turn // nobody may settle what is not stored yet
	l.asked = append(l.asked, as)
	q := as.q
	l.mu.Unlock()
	defer func() { as.turn <- struct{}{} }()
	if err := l.board.cfg.Store.InsertQuestion(ctx, q); err != nil {
		l.board.cfg.Log.Error("question not stored", "session_id", l.about.ID, "error", err)
		l.mu.Lock()
		l.dropQuestion(as)
		l.mu.Unlock()
		return nil
	}
	failpoint.Reach(failpoint.QuestionStored)
	l.mu.Lock()
	as.kept = true
	l.asksFor(as)
	l.cfg.Note(journal.Question, map[string]any{"question_id": q.ID, "kind": q.Kind, "title": q.Title})
	l.mu.Unlock()
	l.board.notify(ctx, q)
	l.Watch()
	return as
}

// hidden masks an agent's question.
func (l *Questions) hidden(a agents.Ask) agents.Ask {
	mask := l.cfg.Mask
	a.Title, a.Detail, a.Options = mask(a.Title), mask(a.Detail), slices.Clone(a.Options)
	for i := range a.Options {
		a.Options[i].Label, a.Options[i].Description = mask(a.Options[i].Label), mask(a.Options[i].Description)
	}
	return a
}

func newPending(q Question, by handOver) *pending {
	as := &pending{q: q, by: by, turn: make(chan struct{}, 1)}
	as.turn <- struct{}{}
	return as
}

// source is where the question became known, in the terms of the state machine.
func (as *pending) source() agents.Source {
	switch as.q.Source {
	case AskedOnScreen:
		return agents.FromScreen
	case AskedByNotice:
		return agents.FromNotice
	}
	return agents.FromHook
}

// maxNoted is how much of an answer the journal stores.
const maxNoted = 1000

// asksFor makes the session's state wait for the answer of as. The caller holds the session's lock.
func (l *Questions) asksFor(as *pending) {
	l.cfg.Machine.Observe(time.Now(), agents.Hint{Source: as.source(), Mood: agents.Asking, Reason: safetext.Cut(as.q.Title, safetext.MaxLine)})
	l.host.Judge()
	l.host.Changed()
}

// pendingOf returns the first open question that matches, nil without one. The caller holds the session's lock.
func (l *Questions) pendingOf(fits func(*pending) bool) *pending {
	if i := slices.IndexFunc(l.asked, fits); i >= 0 {
		return l.asked[i]
	}
	return nil
}

// Oldest returns a copy of the oldest open question, nil without one. The caller holds the session's lock.
func (l *Questions) Oldest() *Question {
	as := l.pendingOf(func(as *pending) bool { return as.q.State == Open && as.held == nil && as.kept })
	if as == nil {
		return nil
	}
	q := as.q
	return &q
}

// dropQuestion removes a question from memory. The caller holds the session's lock.
func (l *Questions) dropQuestion(as *pending) {
	l.asked = slices.DeleteFunc(l.asked, func(o *pending) bool { return o == as })
}

// settleQuestion stores how a question ended and notifies everybody. The caller has its turn. It returns false when the question
// had ended before.
func (l *Questions) settleQuestion(ctx context.Context, as *pending, q Question) bool {
	l.mu.Lock()
	if as.q.State != Open {
		l.mu.Unlock()
		return false
	}
	as.q = q // it stays in memory until it is stored: a late caller gets the same from both
	h := agents.Hint{Source: agents.FromHook, Mood: agents.Busy, Reason: "continues after an answer"}
	if q.State == Withdrawn || q.Via == ViaTerminal && !l.saysBusy() {
		h.Source, h.Mood, h.Reason = as.source(), agents.Unsaid, "" // other sources report the result
	}
	if next := l.Oldest(); next != nil {
		h.Source, h.Mood, h.Reason = agents.FromHook, agents.Asking, safetext.Cut(next.Title, safetext.MaxLine)
	}
	l.cfg.Machine.Observe(time.Now(), h)
	l.host.Judge()
	l.cfg.Note(journal.Answer, map[string]any{"question_id": q.ID, "state": q.State, "answer": safetext.Cut(q.Answer, maxNoted), "user_id": q.AnsweredBy, "via": q.Via})
	l.host.Changed()
	l.mu.Unlock()
	l.keepEnd(ctx, as)
	l.board.notify(ctx, q)
	return true
}

// keepEnd stores how a question ended; later, when the store fails now.
func (l *Questions) keepEnd(ctx context.Context, as *pending) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	store := func(ctx context.Context) error {
		if _, err := l.board.cfg.Store.CloseQuestion(ctx, as.q); err != nil {
			return err
		}
		l.mu.Lock()
		l.dropQuestion(as)
		l.mu.Unlock()
		return nil
	}
	err := store(ctx)
	if err == nil {
		return
	}
	l.board.cfg.Log.Error("end of question could not be stored", "session_id", l.about.ID, "error", err)
	l.board.cfg.Tasks.Go(func() {
		hard := l.board.cfg.Context
		for wait := 250 * time.Millisecond; tasks.Sleep(hard, wait); wait = min(2*wait, 30*time.Second) {
			if store(hard) == nil {
				return
			}
		}
	})
}

// withdraw ends the open questions that match: the agent no longer waits for an answer. It waits for an answer in flight.
func (l *Questions) withdraw(ctx context.Context, fits func(*pending) bool) {
	l.closeQuestions(ctx, fits, func(_ *pending, q *Question) { q.State = Withdrawn })
}

// closeQuestions ends the open questions that match without an answer of ours. how says how they ended; nil: pending.there shows
// whether somebody answered in the terminal. Both functions are called under the session's lock.
func (l *Questions) closeQuestions(ctx context.Context, fits func(*pending) bool, how func(*pending, *Question)) {
	l.mu.Lock()
	var all []*pending
	for _, as := range l.asked {
		if as.q.State == Open && fits(as) {
			all = append(all, as)
		}
	}
	l.mu.Unlock()
	if how == nil {
		how = func(as *pending, q *Question) {
			if q.State = Withdrawn; as.there != "" {
				q.State, q.Via, q.Answer = Answered, ViaTerminal, safetext.Cut(safetext.Lines(as.there), maxAskDetail)
			}
		}
	}
	for _, as := range all {
		select {
		case <-as.turn:
		case <-ctx.Done():
			return
		}
		l.mu.Lock()
		q, free := as.q, as.free
		q.AnsweredAt = l.board.now()
		how(as, &q)
		l.mu.Unlock()
		if l.settleQuestion(ctx, as, q) && free != nil {
			free()
		}
		as.turn <- struct{}{}
	}
}

// settleHeld stores an answer that was held until others were given.
func (l *Questions) settleHeld(ctx context.Context, as *pending) {
	select {
	case <-as.turn:
	case <-ctx.Done():
		return
	}
	defer func() { as.turn <- struct{}{} }()
	l.mu.Lock()
	held := as.held
	l.mu.Unlock()
	if held != nil {
		l.settleQuestion(ctx, as, *held)
	}
}

// End withdraws the open questions of an ended session.
func (l *Questions) End(ctx context.Context) {
	now := l.board.now()
	l.mu.Lock()
	had := l.asked
	l.asked = nil
	for _, as := range had {
		if as.q.State == Open {
			as.q.State, as.q.AnsweredAt = Withdrawn, now
		}
	}
	l.mu.Unlock()
	if len(had) == 0 {
		return
	}
	if err := l.board.cfg.Store.WithdrawQuestions(ctx, l.about.ID, now); err != nil {
		l.board.cfg.Log.Error("questions of an ended session could not be closed", "session_id", l.about.ID, "error", err)
	}
	l.board.notify(ctx, had[0].q)
}

// Recall restores the questions that were open when the server stopped.
func (l *Questions) Recall(ctx context.Context) error {
	open, err := l.board.cfg.Store.OpenQuestions(ctx, l.about.TeamID)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range open {
		if q.SessionID == l.about.ID {
			as := newPending(q, nil)
			as.kept, as.recall = true, time.Now()
			l.asked = append(l.asked, as)
		}
	}
	return nil
}

// notify publishes that the inbox of the team has changed.
func (b *Board) notify(ctx context.Context, q Question) {
	if b.cfg.Events != nil {
		b.cfg.Events.Publish(ctx, events.Event{Type: "inbox.updated", ID: q.ID, WorkspaceID: q.WorkspaceID, TeamID: q.TeamID, Version: b.now()})
	}
}
