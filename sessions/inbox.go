package sessions

import (
	"context"

	"github.com/parawork/parawork/sessions/question"
)

// Inbox returns what the sessions of a team's active workspaces wait for, unordered and without anybody's marks. It leaves out
// ended sessions that userID has marked as done; "" stands for no user.
func (s *Service) Inbox(ctx context.Context, teamID, userID string) ([]question.InboxItem, error) {
	rows, err := s.cfg.Store.AttentionSessions(ctx, teamID, userID)
	if err != nil {
		return nil, err
	}
	open, err := s.cfg.Store.OpenQuestions(ctx, teamID)
	if err != nil {
		return nil, err
	}
	asked := map[string][]question.Question{}
	for _, q := range open {
		if !s.Board.Answering(q) {
			asked[q.SessionID] = append(asked[q.SessionID], q)
		}
	}
	var out []question.InboxItem
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

// itemOf returns the item of a session that needs attention; false when it needs none.
func itemOf(row Session) (it question.InboxItem, ok bool) {
	why, reason, at := Attention(row)
	if why == "waiting" {
		why = question.InboxQuestion
	}
	return question.InboxItem{ID: question.Episode(row.ID, at), Kind: why, WorkspaceID: row.WorkspaceID, SessionID: row.ID, Agent: row.Agent, AgentName: row.AgentName,
		StartedBy: row.CreatedBy, Reason: reason, Since: at, Until: row.Basis.LimitEnd()}, why != ""
}

// itemsOf returns the items of a session that has not ended: its questions, or whatever else it waits for.
func itemsOf(row Session, asked []question.Question) []question.InboxItem {
	it, ok := itemOf(row)
	if len(asked) == 0 && ok {
		return []question.InboxItem{it}
	}
	var out []question.InboxItem
	for _, q := range asked {
		it.ID, it.Kind, it.Since, it.Reason, it.Question = q.ID, question.InboxQuestion, q.AskedAt, q.Title, &q
		out = append(out, it)
	}
	return out
}
