package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/prompt"
)

const promptColumns = `id, team_id, workspace_id, session_id, position, text, state, reason, held, urgent, frame, frames, bracketed,
	created_by, created_at, sent_at`

func scanPrompt(s Scanner) (p prompt.Prompt, err error) {
	err = s.Scan(&p.ID, &p.TeamID, &p.WorkspaceID, &p.SessionID, &p.Position, &p.Text, &p.State, &p.Reason, &p.Held, &p.Urgent, &p.Frame,
		&p.Frames, &p.Bracketed, &p.CreatedBy, &p.CreatedAt, &p.SentAt)
	return p, err
}

// AddPrompt stores a prompt behind the others of its session.
func (s *Sessions) AddPrompt(ctx context.Context, p prompt.Prompt, most int) (prompt.Prompt, error) {
	err := s.db.Tx(ctx, func(ctx context.Context) error {
		var last int64
		var open int
		err := s.db.QueryRow(ctx, `SELECT COALESCE(MAX(position), 0), COALESCE(SUM(CASE WHEN state IN ('queued', 'sending', 'failed') THEN 1 ELSE 0 END), 0)
			FROM prompts WHERE session_id = ? AND {team}`, p.SessionID).Scan(&last, &open)
		if err != nil {
			return err
		}
		if open >= most {
			return fault.New(fault.Conflict, "queue_full", "%d prompts wait for this session already. Cancel some, or wait until they are sent.", most)
		}
		p.Position = last + 1
		_, err = s.db.Exec(ctx, `INSERT INTO prompts (`+promptColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, p.ID, p.TeamID, p.WorkspaceID,
			p.SessionID, p.Position, p.Text, string(p.State), p.Reason, p.Held, p.Urgent, p.Frame, p.Frames, p.Bracketed, p.CreatedBy, p.CreatedAt, p.SentAt)
		return err
	})
	return p, Wrap(err, "inserting prompt")
}

// Prompt returns one prompt; fault.NotFound when there is none.
func (s *Sessions) Prompt(ctx context.Context, id string) (prompt.Prompt, error) {
	p, err := scanPrompt(s.db.QueryRow(ctx, `SELECT `+promptColumns+` FROM prompts WHERE id = ? AND {team}`, id))
	if fault.Is(err, fault.NotFound) {
		return p, fault.New(fault.NotFound, "prompt_not_found", "There is no such prompt.")
	}
	return p, Wrap(err, "reading prompt")
}

// Prompts returns a session's prompts that are open and the newest of the others, in order.
func (s *Sessions) Prompts(ctx context.Context, sessionID string, recent int) ([]prompt.Prompt, error) {
	return s.prompts(ctx, `SELECT `+promptColumns+` FROM prompts WHERE session_id = ? AND {team} AND state IN ('queued', 'sending', 'failed')
		UNION ALL SELECT * FROM (SELECT `+promptColumns+` FROM prompts WHERE session_id = ? AND {team} AND state IN ('sent', 'cancelled')
			ORDER BY position DESC, id DESC LIMIT ?) AS recent
		ORDER BY position, id`, sessionID, sessionID, recent)
}

// NextPrompt returns the prompt that is being sent, else the first that waits; fault.NotFound when there is none.
func (s *Sessions) NextPrompt(ctx context.Context, sessionID string) (prompt.Prompt, error) {
	return scanPrompt(s.db.QueryRow(ctx, `SELECT `+promptColumns+` FROM prompts WHERE session_id = ? AND {team} AND state IN ('queued', 'sending')
		ORDER BY CASE WHEN state = 'sending' THEN 0 ELSE 1 END, position, id LIMIT 1`, sessionID))
}

func (s *Sessions) prompts(ctx context.Context, query string, args ...any) ([]prompt.Prompt, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := Collect(rows, err, scanPrompt)
	return out, Wrap(err, "reading prompts")
}

// EditPrompt lets fn change a prompt, in one transaction. With at >= 0 the prompt, queued after fn, is then put at that position
// among the queued ones of its session.
func (s *Sessions) EditPrompt(ctx context.Context, id string, at int, fn func(*prompt.Prompt) error) (prompt.Prompt, error) {
	var p prompt.Prompt
	err := s.db.Tx(ctx, func(ctx context.Context) (err error) {
		if p, err = s.Prompt(ctx, id); err != nil {
			return err
		}
		if err := fn(&p); err != nil {
			return err
		}
		_, err = s.db.Exec(ctx, `UPDATE prompts SET text = ?, state = ?, reason = ?, held = ?, urgent = ?, frame = ?, frames = ?, bracketed = ?,
			sent_at = ? WHERE id = ? AND {team}`, p.Text, string(p.State), p.Reason, p.Held, p.Urgent, p.Frame, p.Frames, p.Bracketed, p.SentAt, id)
		if err != nil || at < 0 || p.State != prompt.Queued {
			return err
		}
		p.Position, err = s.placePrompt(ctx, p, at)
		return err
	})
	return p, err
}

// placePrompt gives the queued prompts of a session the positions they have now, in another order.
func (s *Sessions) placePrompt(ctx context.Context, p prompt.Prompt, at int) (place int64, err error) {
	queue, err := s.prompts(ctx, `SELECT `+promptColumns+` FROM prompts WHERE session_id = ? AND {team} AND state = 'queued' ORDER BY position, id`, p.SessionID)
	if err != nil {
		return 0, err
	}
	places := make([]int64, len(queue))
	for i, q := range queue {
		places[i] = q.Position
	}
	queue = slices.DeleteFunc(queue, func(q prompt.Prompt) bool { return q.ID == p.ID })
	queue = slices.Insert(queue, min(at, len(queue)), p)
	for i, q := range queue {
		if q.ID == p.ID {
			place = places[i]
		}
		if q.Position == places[i] {
			continue
		}
		if _, err := s.db.Exec(ctx, `UPDATE prompts SET position = ? WHERE id = ? AND {team}`, places[i], q.ID); err != nil {
			return 0, err
		}
	}
	return place, nil
}

// HoldPrompts lets the queued prompts of a session wait for a person, or no longer when why is "". It says how many changed.
func (s *Sessions) HoldPrompts(ctx context.Context, sessionID, why string) (int64, error) {
	res, err := s.db.Exec(ctx, `UPDATE prompts SET held = ? WHERE session_id = ? AND {team} AND state = 'queued' AND held <> ?`, why, sessionID, why)
	if err != nil {
		return 0, fmt.Errorf("holding prompts: %w", err)
	}
	return res.RowsAffected()
}

// MovePrompts gives what waits for one session to another, in its order.
func (s *Sessions) MovePrompts(ctx context.Context, from, to string) (int64, error) {
	res, err := s.db.Exec(ctx, `UPDATE prompts SET session_id = ? WHERE session_id = ? AND {team} AND state = 'queued'`, to, from)
	if err != nil {
		return 0, fmt.Errorf("moving prompts: %w", err)
	}
	return res.RowsAffected()
}

// EndPrompts settles what was being sent when its session ended: sent when Enter was on its way, else failed.
func (s *Sessions) EndPrompts(ctx context.Context, sessionID, why string) error {
	_, err := s.db.Exec(ctx, `UPDATE prompts SET reason = CASE WHEN sent_at > 0 THEN '' ELSE ? END,
		state = CASE WHEN sent_at > 0 THEN 'sent' ELSE 'failed' END WHERE session_id = ? AND {team} AND state = 'sending'`, why, sessionID)
	return Wrap(err, "settling prompts")
}
