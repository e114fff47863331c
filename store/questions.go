package store

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
)

const questionColumns = `id, team_id, workspace_id, session_id, ask_key, kind, title, detail, options, multi, free_text, source, asked_at, state,
	answered_by, answered_at, answer, via`

func scanQuestion(s Scanner) (question.Question, error) {
	var q question.Question
	var options string
	err := s.Scan(&q.ID, &q.TeamID, &q.WorkspaceID, &q.SessionID, &q.Key, &q.Kind, &q.Title, &q.Detail, &options, &q.Multi, &q.FreeText, &q.Source,
		&q.AskedAt, &q.State, &q.AnsweredBy, &q.AnsweredAt, &q.Answer, &q.Via)
	if err != nil {
		return q, err
	}
	if err := json.Unmarshal([]byte(options), &q.Options); err != nil {
		return q, fmt.Errorf("options of question %s: %w", q.ID, err)
	}
	return q, nil
}

// InsertQuestion stores a new question.
func (s *Sessions) InsertQuestion(ctx context.Context, q question.Question) error {
	if q.Options == nil {
		q.Options = []agents.Option{}
	}
	options, err := json.Marshal(q.Options)
	if err != nil {
		return fmt.Errorf("encoding options: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO questions (`+questionColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		q.ID, q.TeamID, q.WorkspaceID, q.SessionID, q.Key, string(q.Kind), q.Title, q.Detail, string(options), q.Multi, q.FreeText, q.Source, q.AskedAt,
		string(q.State), q.AnsweredBy, q.AnsweredAt, q.Answer, q.Via)
	return Wrap(err, "inserting question")
}

// CloseQuestion writes how an open question ended; false when it was no longer open.
func (s *Sessions) CloseQuestion(ctx context.Context, q question.Question) (bool, error) {
	res, err := s.db.Exec(ctx, `UPDATE questions SET state = ?, answered_by = ?, answered_at = ?, answer = ?, via = ?
		WHERE id = ? AND team_id = {team?} AND state = 'open'`, string(q.State), q.AnsweredBy, q.AnsweredAt, q.Answer, q.Via, q.ID, q.TeamID)
	if err != nil {
		return false, fmt.Errorf("closing question: %w", err)
	}
	n, err := res.RowsAffected()
	return n > 0, err
}

// WithdrawQuestions closes every open question of a session.
func (s *Sessions) WithdrawQuestions(ctx context.Context, sessionID string, at int64) error {
	_, err := s.db.Exec(ctx, `UPDATE questions SET state = 'withdrawn', answered_at = ? WHERE session_id = ? AND {team} AND state = 'open'`, at, sessionID)
	return Wrap(err, "withdrawing questions")
}

// Question returns one question; fault.NotFound when there is none.
func (s *Sessions) Question(ctx context.Context, id string) (question.Question, error) {
	q, err := scanQuestion(s.db.QueryRow(ctx, `SELECT `+questionColumns+` FROM questions WHERE id = ? AND {team}`, id))
	if fault.Is(err, fault.NotFound) {
		return q, fault.New(fault.NotFound, "question_not_found", "There is no such question.")
	}
	return q, Wrap(err, "reading question")
}

// AnsweredQuestion returns the newest answered question of a session with a key.
func (s *Sessions) AnsweredQuestion(ctx context.Context, sessionID, key string) (question.Question, error) {
	q, err := scanQuestion(s.db.QueryRow(ctx, `SELECT `+questionColumns+` FROM questions WHERE session_id = ? AND ask_key = ? AND state = 'answered' AND {team} ORDER BY answered_at DESC LIMIT 1`, sessionID, key))
	return q, Wrap(err, "reading question")
}

// Questions returns a page of a session's questions, newest first, and the cursor of the next.
func (s *Sessions) Questions(ctx context.Context, sessionID string, pg page.Page) ([]question.Question, string, error) {
	query, args := `SELECT `+questionColumns+` FROM questions WHERE session_id = ? AND {team}`, []any{sessionID}
	key, ok, err := pg.Key()
	if err != nil {
		return nil, "", err
	}
	if ok {
		query, args = query+` AND (asked_at < ? OR asked_at = ? AND id < ?)`, append(args, key.At, key.At, key.ID)
	}
	out, err := s.questions(ctx, query+` ORDER BY asked_at DESC, id DESC LIMIT ?`, append(args, pg.Size()+1)...)
	if err != nil || len(out) <= pg.Size() {
		return out, "", err
	}
	out = out[:pg.Size()]
	last := out[len(out)-1]
	return out, page.Encode(page.Key{At: last.AskedAt, ID: last.ID}), nil
}

// OpenQuestions returns the open questions of a team, oldest first.
func (s *Sessions) OpenQuestions(ctx context.Context, teamID string) ([]question.Question, error) {
	return s.questions(ctx, `SELECT `+questionColumns+` FROM questions WHERE team_id = {team?} AND state = 'open' ORDER BY asked_at, id`, teamID)
}

func (s *Sessions) questions(ctx context.Context, query string, args ...any) ([]question.Question, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanQuestion)
	return out, Wrap(err, "reading questions")
}

// Marks returns what a user did with the items of a team's inbox, by item.
func (s *Sessions) Marks(ctx context.Context, userID, teamID string, itemIDs []string) (map[string]question.Mark, error) {
	out := make(map[string]question.Mark, len(itemIDs))
	for some := range slices.Chunk(itemIDs, marksAtOnce) {
		these, args := only("item_id", some)
		rows, err := s.db.Query(ctx, `SELECT user_id, item_id, team_id, workspace_id, snoozed_until, done_at FROM inbox_marks
			WHERE user_id = ? AND team_id = {team?}`+these, append([]any{userID, teamID}, args...)...)
		err = Each(rows, err, func(r Scanner) error {
			var m question.Mark
			err := r.Scan(&m.UserID, &m.ItemID, &m.TeamID, &m.WorkspaceID, &m.SnoozedUntil, &m.DoneAt)
			out[m.ItemID] = m
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("reading an inbox's marks: %w", err)
		}
	}
	return out, nil
}

// marksAtOnce is how many items one statement names.
const marksAtOnce = 500

// PutMark stores a mark; one without any content is removed.
func (s *Sessions) PutMark(ctx context.Context, m question.Mark) error {
	var err error
	if m.SnoozedUntil == 0 && m.DoneAt == 0 {
		_, err = s.db.Exec(ctx, `DELETE FROM inbox_marks WHERE user_id = ? AND item_id = ? AND team_id = {team?}`, m.UserID, m.ItemID, m.TeamID)
	} else {
		_, err = s.db.Exec(ctx, `INSERT INTO inbox_marks (user_id, item_id, team_id, workspace_id, snoozed_until, done_at) VALUES (?,?,{team?},?,?,?)
			ON CONFLICT (user_id, item_id) DO UPDATE SET snoozed_until = excluded.snoozed_until, done_at = excluded.done_at`,
			m.UserID, m.ItemID, m.TeamID, m.WorkspaceID, m.SnoozedUntil, m.DoneAt)
	}
	return Wrap(err, "marking an inbox item")
}
