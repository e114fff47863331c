package sessions

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
	InboxBudget   = "budget" // work reached a limit: of a workspace, whatever its sessions do
	InboxReview   = "review" // an agent has worked on somebody's review
	InboxFinished = "finished"
)

// InboxItem is one thing that waits for a person. Its ID is that of the question or of the ended session; what may come again
// is named with the time it began.
type InboxItem struct {
	ID, Kind     string
	WorkspaceID  string
	SessionID    string // "" when the workspace itself failed
	Agent        string
	AgentName    string
	StartedBy    string // the user who started the session
	OnlyFor      string // the one user it concerns; "" = it is the team's
	Reason       string
	Since        int64
	Question     *Question // nil when only the terminal shows what is waited for
	SnoozedUntil int64     // of the user the inbox is for
}

// Mark is what a user did with an item of their inbox.
type Mark struct {
	UserID, ItemID, TeamID, WorkspaceID string
	SnoozedUntil                        int64
	DoneAt                              int64
}

// Episode names an item that may come again: what it is about, and when it began.
func Episode(id string, since int64) string { return id + "-" + strconv.FormatInt(since, 10) }

// Inbox returns what the sessions of a team's active workspaces wait for, in no order and without anybody's marks; sessions that have ended
// and that userID has called done are left out. "" is nobody.
func (s *Service) Inbox(ctx context.Context, teamID, userID string) ([]InboxItem, error) {
	rows, err := s.cfg.Store.AttentionSessions(ctx, teamID, userID)
	if err != nil {
		return nil, err
	}
	open, err := s.cfg.Store.OpenQuestions(ctx, teamID)
	if err != nil {
		return nil, err
	}
	asked := map[string][]Question{}
	for _, q := range open {
		if !s.answering(q) {
			asked[q.SessionID] = append(asked[q.SessionID], q)
		}
	}
	var out []InboxItem
	for _, g := range s.grouped(rows) {
		for _, row := range g.open {
			out = append(out, itemsOf(row, asked[row.ID])...)
		}
		if g.ended != nil && !g.resumed() {
			if it, ok := itemOf(*g.ended); ok {
				it.ID = g.ended.ID
				out = append(out, it)
			}
		}
	}
	return out, nil
}

// answering reports whether the store only does not know yet that q is settled.
func (s *Service) answering(q Question) bool {
	l := s.running(q.SessionID)
	if l == nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	as := l.posedOf(func(as *posed) bool { return as.q.ID == q.ID })
	return as == nil || as.q.State != QuestionOpen || as.held != nil
}

// itemOf is the item of a session somebody should look at; false when nobody needs to.
func itemOf(row Session) (it InboxItem, ok bool) {
	why, reason, at := Attention(row)
	if why == "waiting" {
		why = InboxQuestion
	}
	return InboxItem{ID: Episode(row.ID, at), Kind: why, WorkspaceID: row.WorkspaceID, SessionID: row.ID, Agent: row.Agent, AgentName: row.AgentName,
		StartedBy: row.CreatedBy,
		Reason:    reason, Since: at}, why != ""
}

// itemsOf are the items of a session that has not ended: its questions, or whatever else it waits for.
func itemsOf(row Session, asked []Question) []InboxItem {
	it, ok := itemOf(row)
	if len(asked) == 0 && ok {
		return []InboxItem{it}
	}
	var out []InboxItem
	for _, q := range asked {
		it.ID, it.Kind, it.Since, it.Reason, it.Question = q.ID, InboxQuestion, q.AskedAt, q.Title, &q
		out = append(out, it)
	}
	return out
}

// SortInbox orders items as people see them: what is snoozed at the time now comes last, questions first and the longest open
// at the top, of the others the newest first.
func SortInbox(items []InboxItem, now int64) {
	kinds := []string{InboxQuestion, InboxFailed, InboxStuck, InboxBudget, InboxReview, InboxFinished}
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

// Marks returns what a user did with some items of a team's inbox, by item.
func (s *Service) Marks(ctx context.Context, userID, teamID string, itemIDs []string) (map[string]Mark, error) {
	return s.cfg.Store.Marks(ctx, userID, teamID, itemIDs)
}

// Mark keeps what a user did with an item of their inbox; a mark that says nothing brings the item back.
func (s *Service) Mark(ctx context.Context, m Mark) error {
	if err := s.cfg.Store.PutMark(ctx, m); err != nil {
		return err
	}
	if s.cfg.Events != nil {
		s.cfg.Events.Publish(ctx, events.Event{Type: "inbox.updated", ID: m.ItemID, WorkspaceID: m.WorkspaceID, TeamID: m.TeamID, Version: s.now()})
	}
	return nil
}

// QuestionByID returns a question. Errors: question_not_found.
func (s *Service) QuestionByID(ctx context.Context, id string) (Question, error) {
	return s.cfg.Store.Question(ctx, id)
}
