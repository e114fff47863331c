package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Reviews keeps reviews, their comments, and what people have looked at.
type Reviews struct{ db *DB }

var _ reviews.Store = (*Reviews)(nil)

// NewReviews returns the storage of reviews in db.
func NewReviews(db *DB) *Reviews { return &Reviews{db} }

const (
	reviewColumns = `id, team_id, workspace_id, author_id, state, verdict, body, from_commit, snapshot_id, tree_id, session_id, prompt_id, reason,
	created_at, updated_at, sent_at`
	commentColumns = `id, team_id, workspace_id, review_id, reply_to, author_id, path, side, line, end_line, quoted, around, commit_id, now_path, now_line,
	outdated, anchored_tree, body, state, answered_commit, answered_at, resolved_by, created_at, updated_at`
	openComments = 500 // of a workspace that are looked for
)

func scanReview(s Scanner) (r reviews.Review, err error) {
	err = s.Scan(&r.ID, &r.TeamID, &r.WorkspaceID, &r.AuthorID, &r.State, &r.Verdict, &r.Body, &r.From, &r.Revision, &r.Tree, &r.SessionID, &r.PromptID,
		&r.Reason, &r.CreatedAt, &r.UpdatedAt, &r.SentAt)
	return r, err
}

func scanComment(s Scanner) (c reviews.Comment, err error) {
	var around string
	err = s.Scan(&c.ID, &c.TeamID, &c.WorkspaceID, &c.ReviewID, &c.ReplyTo, &c.AuthorID, &c.Path, &c.Side, &c.Line, &c.EndLine, &c.Quoted, &around, &c.Commit,
		&c.NowPath, &c.NowLine, &c.Outdated, &c.AnchoredTree, &c.Body, &c.State, &c.AnsweredCommit, &c.AnsweredAt, &c.ResolvedBy, &c.CreatedAt, &c.UpdatedAt)
	if err == nil {
		err = json.Unmarshal([]byte(around), &c.Around)
	}
	return c, err
}

// Review returns a review with its comments.
func (s *Reviews) Review(ctx context.Context, id string) (reviews.Review, error) {
	return s.one(ctx, `SELECT `+reviewColumns+` FROM reviews WHERE id = ? AND {team}`, id)
}

// Draft returns a person's draft with its comments.
func (s *Reviews) Draft(ctx context.Context, workspaceID, userID string) (reviews.Review, error) {
	return s.one(ctx, `SELECT `+reviewColumns+` FROM reviews WHERE workspace_id = ? AND author_id = ? AND state = 'draft' AND {team}`, workspaceID, userID)
}

func (s *Reviews) one(ctx context.Context, query string, args ...any) (reviews.Review, error) {
	r, err := scanReview(s.db.QueryRow(ctx, query, args...))
	if fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "review_not_found", "There is no such review.")
	}
	if err != nil {
		return r, fmt.Errorf("reading review: %w", err)
	}
	all := []reviews.Review{r}
	err = s.fill(ctx, all)
	return all[0], err
}

func (s *Reviews) list(ctx context.Context, query string, args ...any) ([]reviews.Review, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanReview)
	return out, Wrap(err, "reading reviews")
}

// Reviews returns the newest reviews of a workspace, oldest first; of those that were never sent only a person's own.
func (s *Reviews) Reviews(ctx context.Context, workspaceID, userID string, most int) ([]reviews.Review, error) {
	all, err := s.list(ctx, `SELECT `+reviewColumns+` FROM reviews WHERE workspace_id = ? AND {team} AND (sent_at > 0 OR author_id = ?)
		ORDER BY created_at DESC, id DESC LIMIT ?`, workspaceID, userID, most)
	if err != nil {
		return nil, err
	}
	slices.Reverse(all)
	return all, s.fill(ctx, all)
}

// fill reads the comments of reviews, with one query.
func (s *Reviews) fill(ctx context.Context, all []reviews.Review) error {
	if len(all) == 0 {
		return nil
	}
	at := map[string]int{}
	args := make([]any, len(all))
	for i, r := range all {
		at[r.ID], args[i] = i, r.ID
	}
	comments, err := s.comments(ctx, `SELECT `+commentColumns+` FROM review_comments WHERE {team} AND review_id IN (?`+strings.Repeat(",?", len(all)-1)+`)
		ORDER BY created_at, id`, args...)
	for _, c := range comments {
		r := &all[at[c.ReviewID]]
		r.Comments = append(r.Comments, c)
	}
	return err
}

func (s *Reviews) comments(ctx context.Context, query string, args ...any) ([]reviews.Comment, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanComment)
	return out, Wrap(err, "reading comments")
}

// OpenDraft returns a person's draft; r becomes it when there is none.
func (s *Reviews) OpenDraft(ctx context.Context, r reviews.Review) (reviews.Review, error) {
	var out reviews.Review
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if out, err = s.Draft(ctx, r.WorkspaceID, r.AuthorID); !fault.Is(err, fault.NotFound) {
			return err
		}
		_, err = s.db.Exec(ctx, `INSERT INTO reviews (`+reviewColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, r.ID, r.TeamID, r.WorkspaceID, r.AuthorID,
			string(r.State), string(r.Verdict), r.Body, r.From, r.Revision, r.Tree, r.SessionID, r.PromptID, r.Reason, r.CreatedAt, r.UpdatedAt, r.SentAt)
		out = r
		return err
	})
	return out, Wrap(err, "opening a draft")
}

// EditReview changes a review in one transaction; fault.Conflict when it would be a second draft of its author's.
func (s *Reviews) EditReview(ctx context.Context, id string, fn func(*reviews.Review) error) (reviews.Review, error) {
	var r reviews.Review
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if r, err = s.Review(ctx, id); err != nil {
			return err
		}
		if err := fn(&r); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE reviews SET state = ?, verdict = ?, body = ?, from_commit = ?, snapshot_id = ?, tree_id = ?, session_id = ?, prompt_id = ?,
			reason = ?, updated_at = ?, sent_at = ? WHERE id = ? AND {team}`, string(r.State), string(r.Verdict), r.Body, r.From, r.Revision, r.Tree, r.SessionID,
			r.PromptID, r.Reason, r.UpdatedAt, r.SentAt, id)
		return err
	})
	return r, err
}

// DropReview removes a review with its comments.
func (s *Reviews) DropReview(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM reviews WHERE id = ? AND {team}`, id)
	return Wrap(err, "deleting review")
}

// QueuedReviews returns the reviews that wait for an agent: of one session, or of all with "".
func (s *Reviews) QueuedReviews(ctx context.Context, sessionID string) ([]reviews.Review, error) {
	// A prompt may have gone to a resumed session, of which its review does not know yet.
	return s.list(ctx, `SELECT `+reviewColumns+` FROM reviews r WHERE {team:r} AND state = 'queued' AND (? = '' OR session_id = ?
		OR EXISTS (SELECT 1 FROM prompts p WHERE p.id = r.prompt_id AND {team:p} AND p.session_id = ?)) ORDER BY created_at, id`, sessionID, sessionID, sessionID)
}

// AddComment stores a comment of a draft.
func (s *Reviews) AddComment(ctx context.Context, c reviews.Comment, most int) error {
	around, err := json.Marshal(c.Around)
	if err != nil {
		return err
	}
	return s.db.Tx(ctx, func(ctx context.Context) error {
		r, err := s.Review(ctx, c.ReviewID)
		switch {
		case err != nil:
			return err
		case !r.Takes():
			return fault.New(fault.Conflict, "review_sent", "This review was sent meanwhile. Write the comment into a new one.")
		case len(r.Comments) >= most:
			return fault.New(fault.Conflict, "too_many_comments", "A review has at most %d comments: send this one first.", most)
		}
		_, err = s.db.Exec(ctx, `INSERT INTO review_comments (`+commentColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, c.ID, c.TeamID,
			c.WorkspaceID, c.ReviewID, c.ReplyTo, c.AuthorID, c.Path, string(c.Side), c.Line, c.EndLine, c.Quoted, string(around), c.Commit, c.NowPath, c.NowLine,
			c.Outdated, c.AnchoredTree, c.Body, string(c.State), c.AnsweredCommit, c.AnsweredAt, c.ResolvedBy, c.CreatedAt, c.UpdatedAt)
		return err
	})
}

// Comment returns a comment.
func (s *Reviews) Comment(ctx context.Context, id string) (reviews.Comment, error) {
	c, err := scanComment(s.db.QueryRow(ctx, `SELECT `+commentColumns+` FROM review_comments WHERE id = ? AND {team}`, id))
	if fault.Is(err, fault.NotFound) {
		return c, fault.New(fault.NotFound, "comment_not_found", "There is no such comment.")
	}
	return c, Wrap(err, "reading comment")
}

// Comments returns those of some comments that are there.
func (s *Reviews) Comments(ctx context.Context, ids []string) ([]reviews.Comment, error) {
	var out []reviews.Comment
	for some := range slices.Chunk(ids, changeBatch) {
		these, args := only("id", some)
		all, err := s.comments(ctx, `SELECT `+commentColumns+` FROM review_comments WHERE {team}`+these, args...)
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}

// EditComment changes what a comment says and whether it is open.
func (s *Reviews) EditComment(ctx context.Context, id string, fn func(*reviews.Comment) error) (reviews.Comment, error) {
	var c reviews.Comment
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if c, err = s.Comment(ctx, id); err != nil {
			return err
		}
		if err := fn(&c); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE review_comments SET body = ?, state = ?, resolved_by = ?, updated_at = ? WHERE id = ? AND {team}`, c.Body, string(c.State),
			c.ResolvedBy, c.UpdatedAt, id)
		return err
	})
	return c, err
}

// DropComment removes a comment.
func (s *Reviews) DropComment(ctx context.Context, id string) error {
	_, err := s.db.Exec(ctx, `DELETE FROM review_comments WHERE id = ? AND {team}`, id)
	return Wrap(err, "deleting comment")
}

// MoveComments gives the comments of a review to another.
func (s *Reviews) MoveComments(ctx context.Context, from, to string) error {
	_, err := s.db.Exec(ctx, `UPDATE review_comments SET review_id = ? WHERE review_id = ? AND {team}`, to, from)
	return Wrap(err, "moving comments")
}

// OpenComments returns the newest comments of a workspace that are not resolved, drafts too.
func (s *Reviews) OpenComments(ctx context.Context, workspaceID string) ([]reviews.Comment, error) {
	return s.comments(ctx, `SELECT `+commentColumns+` FROM review_comments c WHERE workspace_id = ? AND {team:c} AND state = 'open'
		ORDER BY created_at DESC, id DESC LIMIT ?`, workspaceID, openComments)
}

// CommentedWorkspaces returns the workspaces with comments that are not resolved, and their teams.
func (s *Reviews) CommentedWorkspaces(ctx context.Context) (map[string]string, error) {
	rows, err := s.db.Query(ctx, `SELECT DISTINCT c.workspace_id, c.team_id FROM review_comments c JOIN workspaces w ON w.id = c.workspace_id
		WHERE {team:c} AND c.state = 'open' AND w.deleted_at = 0`)
	out, err := Pairs[string, string](rows, err)
	return out, Wrap(err, "reading which workspaces have comments")
}

// Anchor stores where a comment is now and what answered it.
func (s *Reviews) Anchor(ctx context.Context, c reviews.Comment) error {
	_, err := s.db.Exec(ctx, `UPDATE review_comments SET now_path = ?, now_line = ?, outdated = ?, anchored_tree = ?, answered_commit = ?, answered_at = ?
		WHERE id = ? AND {team}`, c.NowPath, c.NowLine, c.Outdated, c.AnchoredTree, c.AnsweredCommit, c.AnsweredAt, c.ID)
	return Wrap(err, "moving a comment")
}

const reviewSnapshot = `id, kind, title, session_id, commit_id, tree_id, head, at`

func (s *Reviews) snapshots(ctx context.Context, query string, args ...any) ([]reviews.Snapshot, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, func(r Scanner) (n reviews.Snapshot, err error) {
		err = r.Scan(&n.ID, &n.Kind, &n.Title, &n.SessionID, &n.Commit, &n.Tree, &n.Head, &n.At)
		return n, err
	})
	return out, Wrap(err, "reading snapshots")
}

// Snapshots returns the newest snapshot of a workspace, and before it those of turns and commits after since, oldest first.
func (s *Reviews) Snapshots(ctx context.Context, workspaceID string, since int64, most int) ([]reviews.Snapshot, error) {
	last, err := s.snapshots(ctx, `SELECT `+reviewSnapshot+` FROM snapshots WHERE workspace_id = ? AND {team} ORDER BY at DESC, id DESC LIMIT 1`, workspaceID)
	if err != nil || len(last) == 0 {
		return last, err
	}
	some, err := s.snapshots(ctx, `SELECT `+reviewSnapshot+` FROM snapshots WHERE workspace_id = ? AND {team} AND kind IN ('turn', 'commit') AND at > ? AND id <> ?
		ORDER BY at DESC, id DESC LIMIT ?`, workspaceID, since, last[0].ID, most)
	if err != nil {
		return nil, err
	}
	slices.Reverse(some)
	return append(some, last[0]), nil
}

// SnapshotsOf returns the snapshots that have these commits, or were taken when these were made.
func (s *Reviews) SnapshotsOf(ctx context.Context, workspaceID string, commits []string) ([]reviews.Snapshot, error) {
	if len(commits) == 0 {
		return nil, nil
	}
	const most = 200
	var out []reviews.Snapshot
	for some := range slices.Chunk(commits, most) {
		marks, args := "?"+strings.Repeat(",?", len(some)-1), []any{workspaceID}
		for range 2 {
			for _, c := range some {
				args = append(args, c)
			}
		}
		got, err := s.snapshots(ctx, `SELECT `+reviewSnapshot+` FROM snapshots WHERE workspace_id = ? AND {team} AND (commit_id IN (`+marks+`)
			OR kind = 'commit' AND head IN (`+marks+`)) ORDER BY at, id`, args...)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}
