package threadstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/store"
)

// View returns a thread with a part of its rows, as of one moment.
func (s *Threads) View(ctx context.Context, id string, w agent.Window) (v agent.View, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if v.Thread, err = s.Thread(ctx, id); err != nil {
			return err
		}
		first := int64(0)
		if w.Live {
			first, err = s.live(ctx, id, &v)
		} else {
			first, err = s.window(ctx, id, w, &v)
		}
		if err != nil {
			return err
		}
		if v.Calls, err = s.calls(ctx, id, w, first); err != nil {
			return err
		}
		turn, found, err := store.Optional(scanTurn(s.db.QueryRow(ctx, `SELECT `+turnColumns+` FROM thread_turns WHERE thread_id = ? AND {team} ORDER BY version DESC LIMIT 1`, id)))
		if found {
			v.Turn = &turn
		}
		return err
	})
	return v, store.Wrap(err, "reading a thread")
}

const messageColumns = `id, team_id, thread_id, turn_id, seq, role, state, user_id, parts, model, stop, usage, note, version, created_at, done_at`

// window reads the messages of a window, and returns the position of the first one when others before it are left out.
func (s *Threads) window(ctx context.Context, threadID string, w agent.Window, v *agent.View) (first int64, err error) {
	limit := math.MaxInt32
	if w.Limit > 0 {
		limit = w.Limit + 1
	}
	// What changed is few rows at the end of one index, what there is at the end of the other: + keeps the database from the wrong one.
	where := `seq < ? AND +version > ? ORDER BY seq DESC`
	if w.Since > 0 {
		where = `+seq < ? AND version > ? ORDER BY +seq DESC`
	}
	rows, err := s.db.Query(ctx, `SELECT `+messageColumns+` FROM thread_messages WHERE thread_id = ? AND {team} AND `+where+` LIMIT ?`, threadID, before(w), w.Since, limit)
	v.Messages, err = store.Collect(rows, err, scanMessage)
	if v.More = len(v.Messages) == limit; v.More {
		v.Messages = v.Messages[:w.Limit]
		first = v.Messages[w.Limit-1].Seq
	}
	slices.Reverse(v.Messages)
	return first, err
}

// before is the position before which the messages of a window are.
func before(w agent.Window) int64 { return cmp.Or(w.Before, math.MaxInt64) }

// live reads what the model is sent, and returns the position at which it begins.
func (s *Threads) live(ctx context.Context, threadID string, v *agent.View) (first int64, err error) {
	var turnID string
	var role agent.Role
	_, marked, err := store.Optional(0, s.db.QueryRow(ctx, `SELECT seq, turn_id, role FROM thread_messages
		WHERE thread_id = ? AND role IN ('summary', 'clear') AND state = 'complete' AND {team} ORDER BY seq DESC LIMIT 1`, threadID).Scan(&first, &turnID, &role))
	if err != nil {
		return 0, err
	}
	if marked && role == agent.Summary && turnID != "" {
		rows, err := s.db.Query(ctx, `SELECT `+messageColumns+` FROM thread_messages WHERE turn_id = ? AND role = 'user' AND seq < ? AND {team} ORDER BY seq`, turnID, first)
		if v.Messages, err = store.Collect(rows, err, scanMessage); err != nil {
			return 0, err
		}
	}
	rows, err := s.db.Query(ctx, `SELECT `+messageColumns+` FROM thread_messages WHERE thread_id = ? AND seq >= ? AND {team} ORDER BY seq`, threadID, first)
	all, err := store.Collect(rows, err, scanMessage)
	v.Messages = append(v.Messages, all...)
	return first, err
}

func scanMessage(r store.Scanner) (m agent.Message, err error) {
	var team, parts, usage string
	if err = r.Scan(&m.ID, &team, &m.ThreadID, &m.TurnID, &m.Seq, &m.Role, &m.State, &m.UserID, &parts, &m.Model, &m.Stop, &usage, &m.Note, &m.Version, &m.CreatedAt, &m.DoneAt); err != nil {
		return m, err
	}
	if err = store.FromJSON(parts, &m.Parts); err == nil {
		err = store.FromJSON(usage, &m.Usage)
	}
	return m, err
}

// calls returns those of messages from a position on.
func (s *Threads) calls(ctx context.Context, threadID string, w agent.Window, first int64) ([]agent.Call, error) {
	where := `m.thread_id = ? AND m.seq >= ? AND m.seq < ? AND +c.version > ?`
	if w.Since > 0 {
		where = `c.thread_id = ? AND +m.seq >= ? AND +m.seq < ? AND c.version > ?`
	}
	rows, err := s.db.Query(ctx, `SELECT c.`+strings.ReplaceAll(callColumns, ", ", ", c.")+`
		FROM thread_calls c JOIN thread_messages m ON m.id = c.message_id WHERE `+where+` AND {team:c} AND {team:m} ORDER BY m.seq, c.ordinal`, threadID, first, before(w), w.Since)
	return store.Collect(rows, err, scanCall)
}

func scanCall(r store.Scanner) (c agent.Call, err error) {
	var team, args, content, details string
	if err = r.Scan(&c.ID, &team, &c.ThreadID, &c.TurnID, &c.MessageID, &c.Ordinal, &c.CallID, &c.Tool, &args, &c.State, &content, &c.Cut, &details, &c.Version, &c.StartedAt, &c.EndedAt); err != nil {
		return c, err
	}
	c.Args = []byte(args)
	if err := store.FromJSON(content, &c.Content); err != nil {
		return c, err
	}
	return c, store.FromJSON(details, &c.Details)
}
