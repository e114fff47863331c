package sessions

import (
	"context"
	"slices"

	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/transcript"
)

// Conversation is a page of an agent's work, from its own record.
type Conversation struct {
	conversation.Page
	Record  string
	Earlier string // session this one continues, "" when it began anew
	Later   string // session that continues this one
}

// Conversation returns a page of the work of the session's agent, even long after it ended. Errors: not_found.
func (s *Service) Conversation(ctx context.Context, id string, q conversation.Query) (Conversation, error) {
	row, err := s.cfg.Store.Session(ctx, id)
	if err != nil {
		return Conversation{}, err
	}
	row = s.fresh(row)
	page, err := s.transcripts.Page(id, q)
	if err != nil {
		return Conversation{}, err
	}
	out := Conversation{Page: page, Record: transcript.Kept}
	if page.Total == 0 {
		out.Record = transcript.None
		if s.cfg.Agents.Records(row.Agent) && !row.State.Ended() {
			out.Record = transcript.Waiting
		}
	}
	if row.Conversation == "" {
		return out, nil
	}
	all, err := s.cfg.Store.Sessions(ctx, row.WorkspaceID) // newest first
	if err != nil {
		return Conversation{}, err
	}
	for _, other := range all {
		switch {
		case other.ID == row.ID || other.Conversation != row.Conversation || other.Agent != row.Agent:
		case other.StartedAt >= row.StartedAt:
			out.Later = other.ID // the nearest one wins
		case out.Earlier == "":
			out.Earlier = other.ID
		}
	}
	return out, nil
}

// ConversationSummary sums up the stored conversation of one session.
type ConversationSummary struct {
	Session Session
	transcript.Summary
}

// Conversations returns summaries of the stored conversations of a workspace's sessions, newest session first; with words, only
// of those that contain them. It returns at most limit of them, those after the session named after, and the ID to continue
// after.
func (s *Service) Conversations(ctx context.Context, workspaceID, words, after string, limit int) (summaries []ConversationSummary, next string, err error) {
	rows, err := s.cfg.Store.Sessions(ctx, workspaceID)
	if err != nil {
		return nil, "", err
	}
	if after != "" {
		i := slices.IndexFunc(rows, func(r Session) bool { return r.ID == after })
		if i < 0 {
			return nil, "", nil
		}
		rows = rows[i+1:]
	}
	for _, row := range rows {
		if err := ctx.Err(); err != nil {
			return nil, "", err
		}
		if len(summaries) == limit {
			return summaries, summaries[limit-1].Session.ID, nil
		}
		sum, err := s.transcripts.Summary(row.ID, words)
		if err != nil {
			s.cfg.Log.Warn("a stored conversation could not be read", "session_id", row.ID, "error", err)
			continue
		}
		if sum.Items > 0 && (words == "" || len(sum.Matches) > 0) {
			summaries = append(summaries, ConversationSummary{s.fresh(row), sum})
		}
	}
	return summaries, "", nil
}
