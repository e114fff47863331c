package store

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// TeamSandboxes returns the newest sandbox of each workspace of a team that is not deleted. Ids grow with time, so that the newest
// is the one with the largest. Where workspaces are named, of those alone.
func (s *Executors) TeamSandboxes(ctx context.Context, teamID string, workspaceIDs ...string) ([]executors.Record, error) {
	these, args := only("b.workspace_id", workspaceIDs)
	rows, err := s.db.Query(ctx, `SELECT `+sandboxColumns+` FROM sandboxes WHERE {team} AND id IN
		(SELECT MAX(b.id) FROM sandboxes b JOIN workspaces w ON w.id = b.workspace_id
		 WHERE {team:w} AND `+among("w.team_id", workspaceIDs)+` AND w.deleted_at = 0`+these+` GROUP BY b.workspace_id)`, append([]any{teamID}, args...)...)
	return Collect(rows, err, scanSandbox)
}
