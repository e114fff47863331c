package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/executors/network"
)

// AddReached adds connections to those known and keeps the newest most of each workspace.
func (s *Network) AddReached(ctx context.Context, all []network.Reached, most int) error {
	// Always in one order, so that two servers do not wait for each other.
	slices.SortFunc(all, func(a, b network.Reached) int {
		return slices.Compare([]string{a.WorkspaceID, a.Host, fmt.Sprint(a.Port)}, []string{b.WorkspaceID, b.Host, fmt.Sprint(b.Port)})
	})
	return s.db.Tx(ctx, func(ctx context.Context) error {
		touched := map[string]bool{}
		for _, r := range all {
			known, err := inserted(s.db.Exec(ctx, `UPDATE reached_hosts SET times = times + ?, last_at = ? WHERE workspace_id = ? AND {team} AND host = ? AND port = ?`,
				r.Times, r.LastAt, r.WorkspaceID, r.Host, r.Port))
			if err != nil || known {
				if err != nil {
					return err
				}
				continue
			}
			// Not of a workspace that is gone by now.
			made, err := inserted(s.db.Exec(ctx, `INSERT INTO reached_hosts (team_id, workspace_id, host, port, times, first_at, last_at)
				SELECT w.team_id, w.id, ?, ?, ?, ?, ? FROM workspaces w WHERE w.id = ? AND {team:w} AND w.deleted_at = 0`,
				r.Host, r.Port, r.Times, r.FirstAt, r.LastAt, r.WorkspaceID))
			if err != nil {
				return err
			}
			if made {
				touched[r.WorkspaceID] = true
			}
		}
		for id := range touched {
			if _, err := s.db.Exec(ctx, `DELETE FROM reached_hosts WHERE workspace_id = ? AND {team} AND (host, port) IN
				(SELECT host, port FROM reached_hosts WHERE workspace_id = ? AND {team} ORDER BY last_at DESC, host, port LIMIT 100000 OFFSET ?)`, id, id, most); err != nil {
				return err
			}
		}
		return nil
	})
}

// Reached returns what a workspace reached, the newest first.
func (s *Network) Reached(ctx context.Context, workspaceID string) ([]network.Reached, error) {
	rows, err := s.db.Query(ctx, `SELECT team_id, workspace_id, host, port, times, first_at, last_at FROM reached_hosts
		WHERE workspace_id = ? AND {team} ORDER BY last_at DESC, host, port`, workspaceID)
	return Collect(rows, err, func(r Scanner) (f network.Reached, err error) {
		err = r.Scan(&f.TeamID, &f.WorkspaceID, &f.Host, &f.Port, &f.Times, &f.FirstAt, &f.LastAt)
		return f, err
	})
}
