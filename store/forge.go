package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/forge"
)

// Forge keeps pull requests, and what projects say of their forges.
type Forge struct{ db *DB }

var _ forge.Store = (*Forge)(nil)

// NewForge returns the storage of pull requests in db.
func NewForge(db *DB) *Forge { return &Forge{db} }

const pullColumns = `p.id, p.team_id, p.workspace_id, p.project_id, p.forge, p.host, p.repository, p.number, p.url, p.title, p.state, p.head, p.head_commit, p.base,
	p.mergeable, p.blocked, p.checks_state, p.checks, p.reviews, p.opened_by, p.opened_at, p.merged_at, p.merged_commit, p.synced_at, p.error`

func scanPull(s Scanner) (p forge.PullRequest, err error) {
	var checks, reviews string
	if err = s.Scan(&p.ID, &p.TeamID, &p.WorkspaceID, &p.ProjectID, &p.Forge, &p.Host, &p.Repository, &p.Number, &p.URL, &p.Title, &p.State, &p.Head, &p.HeadCommit, &p.Base,
		&p.Mergeable, &p.Blocked, &p.ChecksState, &checks, &reviews, &p.OpenedBy, &p.OpenedAt, &p.MergedAt, &p.MergedCommit, &p.SyncedAt, &p.Error); err != nil {
		return p, err
	}
	if err = FromJSON(checks, &p.Checks); err == nil {
		err = FromJSON(reviews, &p.Reviews)
	}
	return p, err
}

// ProjectForge returns what a project says of its forge.
func (s *Forge) ProjectForge(ctx context.Context, projectID string) (forge.Settings, error) {
	var text string
	var out forge.Settings
	if err := s.db.QueryRow(ctx, `SELECT forge FROM projects WHERE id = ? AND {team}`, projectID).Scan(&text); err != nil {
		return out, fmt.Errorf("reading a project's forge: %w", err)
	}
	return out, FromJSON(text, &out)
}

// SetProjectForge replaces it.
func (s *Forge) SetProjectForge(ctx context.Context, projectID string, f forge.Settings) error {
	text, err := ToJSON(f)
	if err != nil {
		return err
	}
	return changed(s.db.Exec(ctx, `UPDATE projects SET forge = ? WHERE id = ? AND {team} AND deleted_at = 0`, text, projectID))
}

// best orders a workspace's pull requests: one that is open before others, then the newest.
const best = ` ORDER BY CASE WHEN p.state IN ('draft', 'open') THEN 0 ELSE 1 END, p.opened_at DESC, p.id DESC`

// PullRequest returns a workspace's newest one, an open one before others; fault.NotFound when there is none.
func (s *Forge) PullRequest(ctx context.Context, workspaceID string) (forge.PullRequest, error) {
	return s.pull(s.db.QueryRow(ctx, `SELECT `+pullColumns+` FROM pull_requests p WHERE p.workspace_id = ? AND p.number > 0 AND {team:p}`+best+` LIMIT 1`, workspaceID))
}

// PullRequestAt returns the workspace's one of that number; fault.NotFound when there is none.
func (s *Forge) PullRequestAt(ctx context.Context, workspaceID, host, repository string, number int64) (forge.PullRequest, error) {
	return s.pull(s.db.QueryRow(ctx, `SELECT `+pullColumns+` FROM pull_requests p WHERE p.workspace_id = ? AND p.host = ? AND p.repository = ? AND p.number = ? AND {team:p}`,
		workspaceID, host, repository, number))
}

func (s *Forge) pull(row Scanner) (forge.PullRequest, error) {
	p, err := scanPull(row)
	if err != nil && !fault.Is(err, fault.NotFound) {
		err = fmt.Errorf("reading a pull request: %w", err)
	}
	return p, err
}

// PullRequests returns that of each workspace of a team that has one, or of those that are named.
func (s *Forge) PullRequests(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]forge.PullRequest, error) {
	these, args := only("p.workspace_id", workspaceIDs)
	rows, err := s.db.Query(ctx, `SELECT `+pullColumns+` FROM pull_requests p WHERE {team:p} AND `+among("p.team_id", workspaceIDs)+` AND p.number > 0`+these+best, append([]any{teamID}, args...)...)
	items, err := Collect(rows, err, scanPull)
	if err != nil {
		return nil, fmt.Errorf("reading pull requests: %w", err)
	}
	out := make(map[string]forge.PullRequest, len(items))
	for _, p := range items {
		if _, there := out[p.WorkspaceID]; !there {
			out[p.WorkspaceID] = p
		}
	}
	return out, nil
}

// OpenPullRequests returns all that are open or asked for, and those whose merge is not home yet, of workspaces that are not deleted.
func (s *Forge) OpenPullRequests(ctx context.Context) ([]forge.PullRequest, error) {
	rows, err := s.db.Query(ctx, `SELECT `+pullColumns+` FROM pull_requests p JOIN workspaces w ON w.id = p.workspace_id AND {team:w}
		WHERE {team:p} AND w.deleted_at = 0 AND (p.state IN ('draft', 'open', 'asked') OR p.state = 'merged' AND p.error <> '') ORDER BY p.opened_at, p.id`)
	items, err := Collect(rows, err, scanPull)
	return items, Wrap(err, "reading open pull requests")
}

// InsertPullRequest stores a new one.
func (s *Forge) InsertPullRequest(ctx context.Context, p forge.PullRequest) error {
	checks, reviews, err := pullLists(p)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `INSERT INTO pull_requests (id, team_id, workspace_id, project_id, forge, host, repository, number, url, title, state, head, head_commit, base,
		mergeable, blocked, checks_state, checks, reviews, opened_by, opened_at, merged_at, merged_commit, synced_at, error) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		p.ID, p.TeamID, p.WorkspaceID, p.ProjectID, string(p.Forge), p.Host, p.Repository, p.Number, p.URL, p.Title, string(p.State), p.Head, p.HeadCommit, p.Base,
		p.Mergeable, p.Blocked, p.ChecksState, checks, reviews, p.OpenedBy, p.OpenedAt, p.MergedAt, p.MergedCommit, p.SyncedAt, p.Error)
	return Wrap(err, "inserting a pull request")
}

// DropAskedPullRequest removes the row of one that has no number.
func (s *Forge) DropAskedPullRequest(ctx context.Context, id string) error {
	return changed(s.db.Exec(ctx, `DELETE FROM pull_requests WHERE id = ? AND number = 0 AND {team}`, id))
}

// SavePullRequest stores what was seen of one.
func (s *Forge) SavePullRequest(ctx context.Context, p forge.PullRequest) error {
	checks, reviews, err := pullLists(p)
	if err != nil {
		return err
	}
	err = changed(s.db.Exec(ctx, `UPDATE pull_requests SET url = ?, title = ?, state = ?, head = ?, head_commit = ?, base = ?, mergeable = ?, blocked = ?, checks_state = ?,
		checks = ?, reviews = ?, merged_at = ?, merged_commit = ?, synced_at = ?, error = ? WHERE id = ? AND {team}`,
		p.URL, p.Title, string(p.State), p.Head, p.HeadCommit, p.Base, p.Mergeable, p.Blocked, p.ChecksState, checks, reviews, p.MergedAt, p.MergedCommit, p.SyncedAt, p.Error, p.ID))
	return Wrap(err, "storing a pull request")
}

func pullLists(p forge.PullRequest) (checks, reviews string, err error) {
	if checks, err = ToJSON(p.Checks); err == nil {
		reviews, err = ToJSON(p.Reviews)
	}
	return checks, reviews, err
}
