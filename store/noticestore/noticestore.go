// Package noticestore holds the SQL of notification centres and of muted workspaces.
package noticestore

import (
	"context"
	"encoding/json"

	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Notices stores notices and mutes.
type Notices struct{ db *store.DB }

var _ notify.NoticeStore = (*Notices)(nil)

// New returns the storage of notices in db.
func New(db *store.DB) *Notices { return &Notices{db} }

// Readers returns the members of a team who may work, with their rules.
func (s *Notices) Readers(ctx context.Context, teamID string) ([]notify.Reader, error) {
	rows, err := s.db.Query(ctx, `SELECT m.user_id, COALESCE(r.rules, '') FROM members m JOIN users u ON u.id = m.user_id LEFT JOIN notification_rules r ON r.user_id = m.user_id
		WHERE m.team_id = {team?} AND u.suspended_at = 0 ORDER BY m.user_id`, teamID)
	out, err := store.Collect(rows, err, func(r store.Scanner) (out notify.Reader, err error) {
		var rules string
		if err = r.Scan(&out.UserID, &rules); err != nil || rules == "" {
			return out, err
		}
		return out, json.Unmarshal([]byte(rules), &out.Rules)
	})
	return out, store.Wrap(err, "reading who is notified")
}

// InsertNotices stores notices; one that a user has already stays as it is.
func (s *Notices) InsertNotices(ctx context.Context, all []notify.Notice) error {
	for _, n := range all {
		if _, err := s.db.Exec(ctx, `INSERT INTO notices (user_id, id, team_id, kind, workspace_id, workspace_key, workspace_name, session_id, text, at, read_at) VALUES (?,?,{team?},?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
			n.UserID, n.ID, n.TeamID, n.Kind, n.WorkspaceID, n.WorkspaceKey, n.WorkspaceName, n.SessionID, n.Text, n.At, n.ReadAt); err != nil {
			return store.Wrap(err, "storing notices")
		}
	}
	return nil
}

// hers limits notices to a user's, in the teams they are a member of now, and to workspaces they may see now.
const hers = ` FROM notices n JOIN members m ON m.team_id = n.team_id AND m.user_id = n.user_id JOIN teams t ON t.id = n.team_id
	WHERE n.user_id = ? AND {team:n} AND {team:m} AND {team:t.id} AND NOT EXISTS (SELECT 1 FROM workspaces w WHERE w.id = n.workspace_id AND w.private AND w.created_by <> n.user_id AND {team:w})`

// Notices returns the newest of a user and how many are unread.
func (s *Notices) Notices(ctx context.Context, userID string, limit int) (items []notify.Notice, unread int, err error) {
	rows, err := s.db.Query(ctx, `SELECT n.id, n.user_id, n.team_id, t.slug, n.kind, n.workspace_id, n.workspace_key, n.workspace_name, n.session_id, n.text, n.at, n.read_at`+hers+
		` ORDER BY n.at DESC, n.id LIMIT ?`, userID, limit)
	items, err = store.Collect(rows, err, func(r store.Scanner) (n notify.Notice, err error) {
		return n, r.Scan(&n.ID, &n.UserID, &n.TeamID, &n.TeamSlug, &n.Kind, &n.WorkspaceID, &n.WorkspaceKey, &n.WorkspaceName, &n.SessionID, &n.Text, &n.At, &n.ReadAt)
	})
	if err != nil {
		return nil, 0, store.Wrap(err, "reading notices")
	}
	err = s.db.QueryRow(ctx, `SELECT COUNT(*)`+hers+` AND n.read_at = 0`, userID).Scan(&unread)
	return items, unread, store.Wrap(err, "counting notices")
}

// ReadNotices marks some of a user's as read, or with 0 as unread; all with no IDs.
func (s *Notices) ReadNotices(ctx context.Context, userID string, ids []string, readAt int64) error {
	query, args := `/* every team: the user's own, in whichever teams */ UPDATE notices SET read_at = ? WHERE user_id = ?`, []any{readAt, userID}
	if len(ids) > 0 {
		query += ` AND id IN (` + store.Marks(len(ids)) + `)`
		for _, id := range ids {
			args = append(args, id)
		}
	} else if readAt > 0 {
		query += ` AND read_at = 0`
	}
	_, err := s.db.Exec(ctx, query, args...)
	return store.Wrap(err, "marking notices")
}

// FailedChecks returns the required checks of a team that failed after a time, oldest first: not those of a base, nor what they printed.
func (s *Notices) FailedChecks(ctx context.Context, teamID string, after int64) ([]checks.Run, error) {
	rows, err := s.db.Query(ctx, `SELECT id, team_id, workspace_id, batch_id, name, state, started_by, ended_at FROM check_runs
		WHERE team_id = {team?} AND ended_at > ? AND required AND state IN ('failed', 'timed_out') AND queue_id <> 'baseline' ORDER BY ended_at, id`, teamID, after)
	out, err := store.Collect(rows, err, func(r store.Scanner) (c checks.Run, err error) {
		return c, r.Scan(&c.ID, &c.TeamID, &c.WorkspaceID, &c.BatchID, &c.Name, &c.State, &c.StartedBy, &c.EndedAt)
	})
	return out, store.Wrap(err, "reading failed checks")
}

// SentReviews returns what people reviewed of others' work after a time, oldest first and without comments.
func (s *Notices) SentReviews(ctx context.Context, teamID string, after int64) ([]reviews.Review, error) {
	rows, err := s.db.Query(ctx, `SELECT r.id, r.team_id, r.workspace_id, r.author_id, r.state, r.verdict, r.sent_at FROM reviews r JOIN workspaces w ON w.id = r.workspace_id JOIN users u ON u.id = r.author_id
		WHERE r.team_id = {team?} AND r.state IN ('queued', 'sent') AND r.sent_at > ? AND r.author_id <> w.created_by ORDER BY r.sent_at, r.id`, teamID, after)
	out, err := store.Collect(rows, err, func(r store.Scanner) (v reviews.Review, err error) {
		return v, r.Scan(&v.ID, &v.TeamID, &v.WorkspaceID, &v.AuthorID, &v.State, &v.Verdict, &v.SentAt)
	})
	return out, store.Wrap(err, "reading new reviews")
}

// PutMute mutes a workspace for a user.
func (s *Notices) PutMute(ctx context.Context, m notify.Mute) error {
	_, err := s.db.Exec(ctx, `INSERT INTO mutes (user_id, workspace_id, team_id, mode, until) VALUES (?,?,{team?},?,?) ON CONFLICT (user_id, workspace_id) DO UPDATE SET mode = excluded.mode, until = excluded.until`,
		m.UserID, m.WorkspaceID, m.TeamID, m.Mode, m.Until)
	return store.Wrap(err, "muting a workspace")
}

// DeleteMute ends that.
func (s *Notices) DeleteMute(ctx context.Context, userID, workspaceID string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM mutes WHERE user_id = ? AND workspace_id = ? AND {team}`, userID, workspaceID)
	return store.Wrap(err, "unmuting a workspace")
}

func scanMute(r store.Scanner) (m notify.Mute, err error) {
	return m, r.Scan(&m.UserID, &m.WorkspaceID, &m.TeamID, &m.Mode, &m.Until)
}

// Mutes returns those of a user.
func (s *Notices) Mutes(ctx context.Context, userID string) ([]notify.Mute, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id, workspace_id, team_id, mode, until FROM mutes WHERE user_id = ? AND {team} ORDER BY workspace_id`, userID)
	out, err := store.Collect(rows, err, scanMute)
	return out, store.Wrap(err, "reading muted workspaces")
}

// MutesOf returns those of a workspace, by user.
func (s *Notices) MutesOf(ctx context.Context, teamID, workspaceID string) (map[string]notify.Mute, error) {
	rows, err := s.db.Query(ctx, `SELECT user_id, workspace_id, team_id, mode, until FROM mutes WHERE team_id = {team?} AND workspace_id = ?`, teamID, workspaceID)
	all, err := store.Collect(rows, err, scanMute)
	out := make(map[string]notify.Mute, len(all))
	for _, m := range all {
		out[m.UserID] = m
	}
	return out, store.Wrap(err, "reading who muted a workspace")
}

// PruneNotices deletes notices older than before, and all but the newest most of each user.
func (s *Notices) PruneNotices(ctx context.Context, before int64, most int) error {
	if _, err := s.db.Exec(ctx, `/* every team: by age */ DELETE FROM notices WHERE at < ?`, before); err != nil {
		return store.Wrap(err, "deleting old notices")
	}
	_, err := s.db.Exec(ctx, `/* every team: by how many a user has */ DELETE FROM notices WHERE (user_id, id) IN
		(SELECT user_id, id FROM (SELECT user_id, id, ROW_NUMBER() OVER (PARTITION BY user_id ORDER BY at DESC, id) AS num FROM notices /* every team: likewise */) AS numbered WHERE num > ?)`, most)
	return store.Wrap(err, "deleting notices of which there are too many")
}
