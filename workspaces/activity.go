package workspaces

import (
	"context"
	"strings"

	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
)

// Activity returns a page of a workspace's timeline, the newest first.
func (s *Records) Activity(ctx context.Context, workspaceID string, pg page.Page) ([]Activity, string, error) {
	return s.store.Activity(ctx, workspaceID, pg)
}

// Record adds a line to a workspace's timeline. It fills in ID and At when they are empty, and sets the team to the workspace's.
func (s *Records) Record(ctx context.Context, a Activity) error {
	if a.TeamID == "" {
		w, err := s.store.Workspace(ctx, a.WorkspaceID)
		if err != nil {
			return err
		}
		a.TeamID = w.TeamID
	}
	if a.ID == "" {
		a.ID = id.New("act")
	}
	if a.At == 0 {
		a.At = s.Millis()
	}
	a.Text = strings.ReplaceAll(strings.ToValidUTF8(a.Text, "\uFFFD"), "\x00", "")
	return s.store.InsertActivity(ctx, a)
}

// Note records something that has already happened. If the timeline cannot be written, Note only logs that.
func (s *Records) Note(ctx context.Context, a Activity) {
	if err := s.Record(context.WithoutCancel(ctx), a); err != nil {
		s.cfg.Log.WarnContext(ctx, "activity could not be recorded", "workspace_id", a.WorkspaceID, "kind", a.Kind, "error", err)
	}
}

// Notify records in a workspace's timeline something the server did unasked, and has open views reload.
func (s *Records) Notify(ctx context.Context, workspaceID, kind, text string) error {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return err
	}
	if err := s.Record(context.WithoutCancel(ctx), Activity{TeamID: w.TeamID, WorkspaceID: w.ID, Kind: kind, Text: text}); err != nil {
		return err
	}
	s.PublishWorkspace(ctx, w)
	return nil
}
