package transcript

import (
	"context"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/sessions/conversation"
)

// Add appends items to the session's timeline and publishes that: of an agent that writes no record, because it works in the server. Items
// that are stored already in this state are left out.
func (s *Session) Add(ctx context.Context, items []conversation.Item) {
	s.adding.Lock()
	defer s.adding.Unlock()
	if s.added == nil {
		s.added = conversation.NewWriter(s.all.path(s.id), s.all.cfg.MaxBytes)
	}
	_, end := s.cfg.Log.Bounds()
	n, grew, err := s.added.Append(items, func(int64) int64 { return end }, true)
	if err != nil {
		s.all.cfg.Log.WarnContext(ctx, "a conversation could not be stored", "session_id", s.id, "error", err)
	}
	if grew && s.all.cfg.Events != nil {
		row := s.host.Row()
		s.all.cfg.Events.Publish(ctx, events.Event{Type: "session.conversation", ID: s.id, WorkspaceID: row.WorkspaceID, TeamID: row.TeamID, Version: n})
	}
}
