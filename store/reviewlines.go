package store

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/reviews"
)

// ReviewSummaries returns a line for every workspace of a team that has reviews, or for those that are named; drafts are those of userID.
func (s *Reviews) ReviewSummaries(ctx context.Context, teamID, userID string, workspaceIDs ...string) (map[string]reviews.Summary, error) {
	these, args := only("r.workspace_id", workspaceIDs)
	out := map[string]reviews.Summary{}
	// The last word counts; whether it holds depends on what the files are now.
	rows, err := s.db.Query(ctx, `SELECT r.workspace_id, r.author_id, r.verdict, r.sent_at, r.tree_id = COALESCE((SELECT x.tree_id FROM snapshots x
			WHERE x.workspace_id = r.workspace_id AND {team:x} ORDER BY x.at DESC, x.id DESC LIMIT 1), '')
		FROM reviews r WHERE {team:r} AND `+among("r.team_id", workspaceIDs)+` AND r.sent_at > 0 AND r.state IN ('queued', 'sent') AND r.verdict IN ('approve', 'changes')`+these+`
		ORDER BY r.sent_at, r.id`, append([]any{teamID}, args...)...)
	err = Each(rows, err, func(r Scanner) error {
		var ws, verdict string
		var sum reviews.Summary
		var same bool
		err := r.Scan(&ws, &sum.By, &verdict, &sum.At, &same)
		switch {
		case verdict == string(reviews.Changes):
			sum.State = reviews.StandsChanges
		case same:
			sum.State = reviews.StandsApproved
		default:
			sum.State = reviews.StandsStale
		}
		out[ws] = sum
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading verdicts: %w", err)
	}
	counts, err := s.db.Query(ctx, `SELECT c.workspace_id, SUM(CASE WHEN r.state IN ('queued', 'sent') AND c.reply_to = '' THEN 1 ELSE 0 END),
			SUM(CASE WHEN r.state = 'draft' AND r.author_id = ? THEN 1 ELSE 0 END)
		FROM review_comments c JOIN reviews r ON r.id = c.review_id WHERE {team:c} AND `+among("c.team_id", workspaceIDs)+` AND c.state = 'open'`+these+` GROUP BY c.workspace_id`, append([]any{userID, teamID}, args...)...)
	err = Each(counts, err, func(r Scanner) error {
		var ws string
		var open, drafts int
		if err := r.Scan(&ws, &open, &drafts); err != nil || open+drafts == 0 {
			return err
		}
		sum := out[ws]
		sum.OpenComments, sum.Drafts = open, drafts
		out[ws] = sum
		return nil
	})
	return out, Wrap(err, "counting comments")
}

// AnsweredReviews returns the newest review of each person in a workspace that an agent was given and has ended a turn on since; those whose
// comments are all resolved are done.
func (s *Reviews) AnsweredReviews(ctx context.Context, teamID string) ([]reviews.Answered, error) {
	rows, err := s.db.Query(ctx, `SELECT r.id, r.workspace_id, r.author_id, r.session_id,
			COALESCE((SELECT MIN(x.at) FROM snapshots x WHERE x.workspace_id = r.workspace_id AND {team:x} AND x.kind = 'turn' AND x.session_id = r.session_id
				AND x.at > r.sent_at), 0),
			(SELECT COUNT(*) FROM review_comments c WHERE c.review_id = r.id AND {team:c}),
			(SELECT COUNT(*) FROM review_comments c WHERE c.review_id = r.id AND {team:c} AND c.state = 'open'),
			(SELECT COUNT(*) FROM review_comments c WHERE c.review_id = r.id AND {team:c} AND c.state = 'open' AND c.answered_commit <> '')
		FROM reviews r WHERE r.team_id = {team?} AND r.state = 'sent' AND r.prompt_id <> '' AND NOT EXISTS (SELECT 1 FROM reviews n
			WHERE n.workspace_id = r.workspace_id AND {team:n} AND n.author_id = r.author_id AND n.sent_at > r.sent_at)
		ORDER BY r.sent_at, r.id`, teamID)
	var out []reviews.Answered
	err = Each(rows, err, func(r Scanner) error {
		var a reviews.Answered
		var all int
		err := r.Scan(&a.ReviewID, &a.WorkspaceID, &a.AuthorID, &a.SessionID, &a.At, &all, &a.Comments, &a.Changed)
		if a.At > 0 && (all == 0 || a.Comments > 0) {
			out = append(out, a)
		}
		return err
	})
	return out, Wrap(err, "reading answered reviews")
}

// Viewed returns what a person has looked at in a workspace: marks by path.
func (s *Reviews) Viewed(ctx context.Context, workspaceID, userID string) (map[string]string, error) {
	rows, err := s.db.Query(ctx, `SELECT path, mark FROM viewed_files WHERE workspace_id = ? AND user_id = ? AND {team}`, workspaceID, userID)
	out, err := Pairs[string, string](rows, err)
	return out, Wrap(err, "reading viewed files")
}

// SetViewed notes that a person has looked at a file as it was, or no longer has.
func (s *Reviews) SetViewed(ctx context.Context, v reviews.ViewedFile, most int) error {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `DELETE FROM viewed_files WHERE workspace_id = ? AND user_id = ? AND path = ? AND {team}`, v.WorkspaceID, v.UserID, v.Path); err != nil {
			return err
		}
		if v.Mark == "" {
			return nil
		}
		var n int
		if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM viewed_files WHERE workspace_id = ? AND user_id = ? AND {team}`, v.WorkspaceID, v.UserID).Scan(&n); err != nil {
			return err
		}
		if n >= most {
			return fault.New(fault.Conflict, "too_many_viewed", "You have marked %d files of this workspace as viewed, which is the most.", most)
		}
		_, err := s.db.Exec(ctx, `INSERT INTO viewed_files (team_id, workspace_id, user_id, path, mark, at) VALUES ({team?},?,?,?,?,?)`, v.TeamID, v.WorkspaceID, v.UserID,
			v.Path, v.Mark, v.At)
		return err
	})
	return Wrap(err, "noting a viewed file")
}
