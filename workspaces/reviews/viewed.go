package reviews

import (
	"context"
	"strings"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// maxViewed is how many viewed files of a workspace are stored per user.
const maxViewed = 50_000

// Viewed returns what a user has viewed: for each path, in wire form, the mark of what was seen.
func (s *Service) Viewed(ctx context.Context, workspaceID, userID string) (map[string]string, error) {
	return s.cfg.Store.Viewed(ctx, workspaceID, userID)
}

// SetViewed records that a user has viewed a file with this mark, or that they have not. Errors: invalid_viewed, too_many_viewed.
func (s *Service) SetViewed(ctx context.Context, w workspaces.Workspace, userID, wire, mark string, viewed bool) error {
	raw := guest.DecodePath(wire)
	if !inside(raw) {
		return fault.New(fault.Invalid, "invalid_viewed", "This is not the path of a file in the workspace.").With("field", "path")
	}
	if viewed && (mark == "" || len(mark) > 200 || strings.ContainsRune(mark, 0)) {
		return fault.New(fault.Invalid, "invalid_viewed", "mark must be the one that the comparison gives for the file.").With("field", "mark")
	}
	if !viewed {
		mark = ""
	}
	err := s.cfg.Store.SetViewed(ctx, ViewedFile{TeamID: w.TeamID, WorkspaceID: w.ID, UserID: userID, Path: guest.EncodePath(raw), Mark: mark, At: s.now()}, maxViewed)
	if err == nil {
		s.notify(ctx, w.ID, w.TeamID)
	}
	return err
}
