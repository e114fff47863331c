package question

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/parawork/parawork/internal/events"
)

// Kinds of items of an inbox, in the order people see them.
const (
	InboxQuestion = "question"
	InboxFailed   = "failed"
	InboxStuck    = "stuck"
	InboxLimited  = "limited" // a limit of its provider stopped an agent
	InboxBudget   = "budget"  // work reached a limit: of a workspace, whatever its sessions do
	InboxReview   = "review"  // an agent has worked on somebody's review
	InboxFinished = "finished"
)

// InboxItem is one thing that waits for a person. Its ID is that of the question or of the ended session; the ID of a recurring
// item includes the time it began.
type InboxItem struct {
	ID, Kind     string
	WorkspaceID  string
	SessionID    string // "" when the workspace itself failed
	Agent        string
	AgentName    string
	StartedBy    string // the user who started the session
	OnlyFor      string // the only user it concerns; "" = the whole team
	Reason       string
	Since        int64
	Question     *Question // nil when only the terminal shows what the session waits for
	Until        int64     // of a limit: when it ends; 0 = unknown
	SnoozedUntil int64     // of the user the inbox is for
}

// Mark is what a user did with an item of their inbox.
type Mark struct {
	UserID, ItemID, TeamID, WorkspaceID string
	SnoozedUntil                        int64
	DoneAt                              int64
}

// Episode returns the ID of a recurring item: its subject, and when it began.
func Episode(id string, since int64) string { return id + "-" + strconv.FormatInt(since, 10) }

// Answering reports whether q is settled, but not stored as settled yet.
func (b *Board) Answering(q Question) bool {
	l := b.cfg.Sessions.InMemory(q.SessionID)
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	as := l.pendingOf(func(as *pending) bool { return as.q.ID == q.ID })
	return as == nil || as.q.State != Open || as.held != nil
}

// SortInbox orders items as people see them: currently snoozed ones last, questions first and the longest open at the top, of the
// others the newest first.
func SortInbox(items []InboxItem, now int64) {
	kinds := []string{InboxQuestion, InboxFailed, InboxStuck, InboxLimited, InboxBudget, InboxReview, InboxFinished}
	snoozed := func(it InboxItem) int {
		if it.SnoozedUntil > now {
			return 1
		}
		return 0
	}
	slices.SortFunc(items, func(a, b InboxItem) int {
		newer := cmp.Compare(b.Since, a.Since)
		if a.Kind == InboxQuestion {
			newer = -newer
		}
		return cmp.Or(snoozed(a)-snoozed(b), cmp.Compare(slices.Index(kinds, a.Kind), slices.Index(kinds, b.Kind)), newer, cmp.Compare(a.ID, b.ID))
	})
}

// Marks returns a user's marks of some items of a team's inbox, by item.
func (b *Board) Marks(ctx context.Context, userID, teamID string, itemIDs []string) (map[string]Mark, error) {
	return b.cfg.Store.Marks(ctx, userID, teamID, itemIDs)
}

// Mark stores a user's mark of an item of their inbox; an empty mark restores the item.
func (b *Board) Mark(ctx context.Context, m Mark) error {
	if err := b.cfg.Store.PutMark(ctx, m); err != nil {
		return err
	}
	if b.cfg.Events != nil {
		b.cfg.Events.Publish(ctx, events.Event{Type: "inbox.updated", ID: m.ItemID, WorkspaceID: m.WorkspaceID, TeamID: m.TeamID, Version: b.now()})
	}
	return nil
}

// QuestionByID returns a question. Errors: question_not_found.
func (b *Board) QuestionByID(ctx context.Context, id string) (Question, error) {
	return b.cfg.Store.Question(ctx, id)
}
