package store

import (
	"context"

	"github.com/parawork/parawork/accounts/suspension"
)

// Barred returns the open sandboxes of suspended teams, those of the workspaces of suspended users where nobody else's session runs, and the
// sessions that a suspended user began or that use the account of somebody who is no longer in the team.
func (s *Accounts) Barred(ctx context.Context) ([]suspension.Barred, error) {
	rows, err := s.db.Query(ctx, `/* every team: what suspended people and teams left running, of whatever team */
		SELECT b.workspace_id, '', 'team' FROM sandboxes b JOIN teams t ON t.id = b.team_id WHERE b.ended_at = 0 AND t.suspended_at > 0
		UNION ALL
		SELECT b.workspace_id, '', 'user' FROM sandboxes b JOIN teams t ON t.id = b.team_id JOIN workspaces w ON w.id = b.workspace_id JOIN users u ON u.id = w.created_by
		WHERE b.ended_at = 0 AND t.suspended_at = 0 AND u.suspended_at > 0
		AND NOT EXISTS (SELECT 1 FROM sessions s JOIN users o ON o.id = s.created_by WHERE s.workspace_id = w.id AND s.ended_at = 0 AND o.suspended_at = 0)
		UNION ALL
		SELECT '', s.id, 'user' FROM sessions s JOIN users u ON u.id = s.created_by WHERE s.ended_at = 0 AND u.suspended_at > 0
		UNION ALL
		SELECT '', s.id, 'account' FROM sessions s JOIN agent_accounts a ON a.id = s.account_id WHERE s.ended_at = 0 AND a.user_id IS NOT NULL
		AND NOT EXISTS (SELECT 1 FROM members m WHERE m.team_id = s.team_id AND m.user_id = a.user_id)`)
	return Collect(rows, err, func(r Scanner) (b suspension.Barred, err error) {
		err = r.Scan(&b.WorkspaceID, &b.SessionID, &b.Reason)
		return b, err
	})
}
