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
	if grew {
		s.all.publish(ctx, s.host.Row(), n)
	}
}

func (t *Transcripts) publish(ctx context.Context, row Row, version int64) {
	if t.cfg.Events != nil {
		t.cfg.Events.Publish(ctx, events.Event{Type: "session.conversation", ID: row.ID, WorkspaceID: row.WorkspaceID, TeamID: row.TeamID, Version: version})
	}
}

// Amend stores another state of items that the timeline of a session that has ended has. It adds none.
func (t *Transcripts) Amend(ctx context.Context, row Row, items []conversation.Item) {
	t.amending.Lock()
	defer t.amending.Unlock()
	n, grew, err := conversation.NewWriter(t.path(row.ID), t.cfg.MaxBytes).Amend(items)
	if err != nil {
		t.cfg.Log.WarnContext(ctx, "a conversation could not be changed", "session_id", row.ID, "error", err)
	}
	if grew {
		t.publish(ctx, row, n)
	}
}
