package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/parawork/parawork/executors/network"
)

// Network keeps what projects and workspaces say of the network, and what was refused.
type Network struct{ db *DB }

// NewNetwork makes the storage of the network room.
func NewNetwork(db *DB) *Network { return &Network{db} }

var _ network.Store = (*Network)(nil)

// Said returns what is stored of a workspace that is not deleted.
func (s *Network) Said(ctx context.Context, workspaceID string) (network.Said, error) {
	var said network.Said
	var policy, own, allowed string
	err := s.db.QueryRow(ctx, `SELECT w.team_id, w.project_id, p.network, COALESCE(b.network, '{}'), w.allowed_hosts FROM workspaces w JOIN projects p ON p.id = w.project_id
		LEFT JOIN api_sandboxes b ON b.workspace_id = w.id AND {team:b} WHERE w.id = ? AND {team:w} AND w.deleted_at = 0`, workspaceID).Scan(&said.TeamID, &said.ProjectID, &policy, &own, &allowed)
	if err != nil {
		return said, err
	}
	return said, errors.Join(FromJSON(policy, &said.Project), FromJSON(own, &said.Own), FromJSON(allowed, &said.Allowed))
}

// saidAtOnce is how many workspaces one statement names.
const saidAtOnce = 500

// SaidOf is Said of many workspaces.
func (s *Network) SaidOf(ctx context.Context, workspaceIDs []string) (map[string]network.Said, error) {
	out := make(map[string]network.Said, len(workspaceIDs))
	for some := range slices.Chunk(workspaceIDs, saidAtOnce) {
		these, args := only("w.id", some)
		rows, err := s.db.Query(ctx, `SELECT w.id, w.team_id, w.project_id, p.network, COALESCE(b.network, '{}'), w.allowed_hosts FROM workspaces w JOIN projects p ON p.id = w.project_id
			LEFT JOIN api_sandboxes b ON b.workspace_id = w.id AND {team:b} WHERE {team:w} AND w.deleted_at = 0`+these, args...)
		err = Each(rows, err, func(r Scanner) error {
			var id, policy, own, allowed string
			var said network.Said
			err := r.Scan(&id, &said.TeamID, &said.ProjectID, &policy, &own, &allowed)
			if err == nil {
				err = errors.Join(FromJSON(policy, &said.Project), FromJSON(own, &said.Own), FromJSON(allowed, &said.Allowed))
			}
			out[id] = said
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ProjectPolicies returns the policies of a team's projects that have one, by id.
func (s *Network) ProjectPolicies(ctx context.Context, teamID string) (map[string]network.Policy, error) {
	rows, err := s.db.Query(ctx, `SELECT id, network FROM projects WHERE team_id = {team?} AND deleted_at = 0 AND network NOT IN ('', '{}')`, teamID)
	return Keyed(rows, err, func(r Scanner) (id string, p network.Policy, err error) {
		var text string
		if err = r.Scan(&id, &text); err == nil {
			err = FromJSON(text, &p)
		}
		return id, p, err
	})
}

// SetProjectPolicy replaces a project's policy.
func (s *Network) SetProjectPolicy(ctx context.Context, projectID string, p network.Policy) error {
	text, err := ToJSON(p)
	if err != nil {
		return err
	}
	return changed(s.db.Exec(ctx, `UPDATE projects SET network = ? WHERE id = ? AND {team} AND deleted_at = 0`, text, projectID))
}

// EditAllowed changes what is allowed for a workspace alone.
func (s *Network) EditAllowed(ctx context.Context, workspaceID string, fn func([]string) ([]string, error)) error {
	return s.db.Tx(ctx, func(ctx context.Context) error {
		// The write takes the row's lock before the read, on both databases.
		if err := changed(s.db.Exec(ctx, `UPDATE workspaces SET state = state WHERE id = ? AND {team} AND deleted_at = 0`, workspaceID)); err != nil {
			return err
		}
		var text string
		if err := s.db.QueryRow(ctx, `SELECT allowed_hosts FROM workspaces WHERE id = ? AND {team}`, workspaceID).Scan(&text); err != nil {
			return err
		}
		var all []string
		if err := FromJSON(text, &all); err != nil {
			return err
		}
		all, err := fn(all)
		if err != nil {
			return err
		}
		if text, err = ToJSON(all); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE workspaces SET allowed_hosts = ? WHERE id = ? AND {team}`, text, workspaceID)
		return err
	})
}

// BaseURLs returns the addresses of the agents' accounts a team shares and of those of its owners and admins.
func (s *Network) BaseURLs(ctx context.Context, teamID string) ([]string, error) {
	rows, err := s.db.Query(ctx, `SELECT DISTINCT a.base_url FROM agent_accounts a WHERE a.base_url <> '' AND (a.team_id = {team?}
		OR a.user_id IN (SELECT m.user_id FROM members m WHERE m.team_id = {team?} AND m.role IN ('owner', 'admin'))) ORDER BY a.base_url`, teamID, teamID)
	return Collect(rows, err, func(r Scanner) (u string, err error) { err = r.Scan(&u); return u, err })
}

// AddRefused adds refusals to those known, keeps the newest most of each workspace, and returns the workspaces that have a new one.
func (s *Network) AddRefused(ctx context.Context, all []network.Refused, most int) ([]string, error) {
	// Always in one order, so that two servers do not wait for each other.
	slices.SortFunc(all, func(a, b network.Refused) int {
		return slices.Compare([]string{a.WorkspaceID, a.Host, fmt.Sprint(a.Port)}, []string{b.WorkspaceID, b.Host, fmt.Sprint(b.Port)})
	})
	var news map[string]bool
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		news = map[string]bool{}
		touched := map[string]bool{}
		for _, r := range all {
			res, err := s.db.Exec(ctx, `UPDATE refused_hosts SET reason = ?, times = times + ?, last_at = ? WHERE workspace_id = ? AND {team} AND host = ? AND port = ?`,
				string(r.Reason), r.Times, r.LastAt, r.WorkspaceID, r.Host, r.Port)
			if known, err := inserted(res, err); err != nil || known {
				if err != nil {
					return err
				}
				continue
			}
			// Not of a workspace that is gone by now.
			made, err := inserted(s.db.Exec(ctx, `INSERT INTO refused_hosts (team_id, workspace_id, host, port, reason, times, first_at, last_at)
				SELECT w.team_id, w.id, ?, ?, ?, ?, ?, ? FROM workspaces w WHERE w.id = ? AND {team:w} AND w.deleted_at = 0`,
				r.Host, r.Port, string(r.Reason), r.Times, r.FirstAt, r.LastAt, r.WorkspaceID))
			if err != nil {
				return err
			}
			if made {
				news[r.WorkspaceID], touched[r.WorkspaceID] = true, true
			}
		}
		for id := range touched {
			if _, err := s.db.Exec(ctx, `DELETE FROM refused_hosts WHERE workspace_id = ? AND {team} AND (host, port) IN
				(SELECT host, port FROM refused_hosts WHERE workspace_id = ? AND {team} ORDER BY last_at DESC, host, port LIMIT 100000 OFFSET ?)`, id, id, most); err != nil {
				return err
			}
		}
		return nil
	})
	return slices.Sorted(maps.Keys(news)), err
}

// Refused returns what a workspace was refused, the newest first.
func (s *Network) Refused(ctx context.Context, workspaceID string) ([]network.Refused, error) {
	rows, err := s.db.Query(ctx, `SELECT team_id, workspace_id, host, port, reason, times, first_at, last_at FROM refused_hosts
		WHERE workspace_id = ? AND {team} ORDER BY last_at DESC, host, port`, workspaceID)
	return Collect(rows, err, func(r Scanner) (f network.Refused, err error) {
		err = r.Scan(&f.TeamID, &f.WorkspaceID, &f.Host, &f.Port, &f.Reason, &f.Times, &f.FirstAt, &f.LastAt)
		return f, err
	})
}

// DropRefused forgets refusals.
func (s *Network) DropRefused(ctx context.Context, workspaceID string, all []network.Refused) error {
	for _, r := range all {
		if _, err := s.db.Exec(ctx, `DELETE FROM refused_hosts WHERE workspace_id = ? AND {team} AND host = ? AND port = ?`, workspaceID, r.Host, r.Port); err != nil {
			return err
		}
	}
	return nil
}
