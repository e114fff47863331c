package store

import (
	"context"

	"github.com/parawork/parawork/executors"
)

// TeamSandboxes returns the newest sandbox of each workspace of a team that is not deleted. Ids grow with time, so that the newest
// is the one with the largest.
func (s *Executors) TeamSandboxes(ctx context.Context, teamID string) ([]executors.Record, error) {
	rows, err := s.db.Query(ctx, `SELECT `+sandboxColumns+` FROM sandboxes WHERE {team} AND id IN
		(SELECT MAX(b.id) FROM sandboxes b JOIN workspaces w ON w.id = b.workspace_id
		 WHERE w.team_id = {team?} AND w.deleted_at = 0 GROUP BY b.workspace_id)`, teamID)
	return collect(rows, err, scanSandbox)
}
