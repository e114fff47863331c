package toolstore

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/tools/subagents"
)

// Subagents stores subagents.
type Subagents struct{ db *store.DB }

var _ subagents.Store = (*Subagents)(nil)

// NewSubagents returns the storage of subagents in db.
func NewSubagents(db *store.DB) *Subagents { return &Subagents{db} }

const subagentColumns = `id, team_id, project_id, from_workspace_id, parent_session_id, root, depth, name, task, agent, model, mode, tools, place, workspace_id, branch,
	session_id, snapshot_id, status, live, stop, worked, retried, prompt_id, result, files, more_files, to_return, code, error, kept, max_cost_nano, timeout_ms, deadline_at, created_by, created_at,
	started_at, ended_at, updated_at`

func scanSubagent(s store.Scanner) (a subagents.Subagent, err error) {
	var only, files string
	if err = s.Scan(&a.ID, &a.TeamID, &a.ProjectID, &a.FromWorkspaceID, &a.ParentSessionID, &a.Root, &a.Depth, &a.Name, &a.Task, &a.Agent, &a.Model, &a.Mode, &only, &a.Where, &a.WorkspaceID, &a.Branch,
		&a.SessionID, &a.SnapshotID, &a.Status, &a.Live, &a.Stop, &a.Worked, &a.Retried, &a.PromptID, &a.Result, &files, &a.MoreFiles, &a.ToReturn, &a.Code, &a.Error, &a.Kept, &a.MaxCostNano, &a.TimeoutMs, &a.DeadlineAt,
		&a.CreatedBy, &a.CreatedAt, &a.StartedAt, &a.EndedAt, &a.UpdatedAt); err != nil {
		return a, err
	}
	if err = json.Unmarshal([]byte(only), &a.Tools); err != nil {
		return a, fmt.Errorf("tools of the subagent %s: %w", a.ID, err)
	}
	return a, store.FromJSON(files, &a.Files)
}

const busySubagent = `status IN ('spawned', 'starting', 'working', 'waiting')`

// InsertSubagent stores a new one, unless its tree has atOnce busy ones or total ones already: then fault.Conflict.
func (s *Subagents) InsertSubagent(ctx context.Context, a subagents.Subagent, atOnce, total int) error {
	only, err := json.Marshal(a.Tools)
	if err != nil {
		return fmt.Errorf("encoding tools: %w", err)
	}
	files, err := store.ToJSON(a.Files)
	if err != nil {
		return err
	}
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		have, err := s.lockRoot(ctx, a.Root, atOnce)
		if err != nil {
			return err
		}
		if have >= total {
			return fault.New(fault.Conflict, "subagents_total", "Here %d subagents were started, which is the most below one session, or in a workspace outside of sessions. Give further work to those that have ended.", have).With("max", total)
		}
		_, err = s.db.Exec(ctx, `INSERT INTO subagents (`+subagentColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, a.ID, a.TeamID, a.ProjectID,
			a.FromWorkspaceID, a.ParentSessionID, a.Root, a.Depth, a.Name, a.Task, a.Agent, a.Model, a.Mode, string(only), a.Where, a.WorkspaceID, a.Branch, a.SessionID, a.SnapshotID, string(a.Status),
			a.Live, a.Stop, a.Worked, a.Retried, a.PromptID, a.Result, files, a.MoreFiles, a.ToReturn, a.Code, a.Error, a.Kept, a.MaxCostNano, a.TimeoutMs, a.DeadlineAt, a.CreatedBy, a.CreatedAt, a.StartedAt, a.EndedAt, a.UpdatedAt)
		return err
	})
	return store.Wrap(err, "inserting subagent")
}

// lockRoot makes other changes of a tree wait for this transaction, and returns how many subagents it has; fault.Conflict when atOnce of
// them are busy.
func (s *Subagents) lockRoot(ctx context.Context, root string, atOnce int) (have int, err error) {
	// The root is a session or a workspace: one of the two has a row to lock.
	if _, err := s.db.Exec(ctx, `UPDATE sessions SET state = state WHERE id = ? AND {team}`, root); err != nil {
		return 0, err
	}
	if _, err := s.db.Exec(ctx, `UPDATE workspaces SET state = state WHERE id = ? AND {team}`, root); err != nil {
		return 0, err
	}
	busy := 0
	err = s.db.QueryRow(ctx, `SELECT COUNT(*), COALESCE(SUM(CASE WHEN `+busySubagent+` THEN 1 ELSE 0 END), 0) FROM subagents WHERE root = ? AND {team}`, root).Scan(&have, &busy)
	if err == nil && busy >= atOnce {
		err = fault.New(fault.Conflict, "subagents_at_once", "%d subagents are at work, which is the most below one session, or in a workspace outside of sessions. Wait until one has ended.", busy).With("max", atOnce)
	}
	return have, err
}

// Subagent returns one; fault.NotFound when there is none.
func (s *Subagents) Subagent(ctx context.Context, id string) (subagents.Subagent, error) {
	return s.one(s.db.QueryRow(ctx, `SELECT `+subagentColumns+` FROM subagents WHERE id = ? AND {team}`, id))
}

// SubagentOfSession returns the one whose session this is; fault.NotFound when there is none.
func (s *Subagents) SubagentOfSession(ctx context.Context, sessionID string) (subagents.Subagent, error) {
	return s.one(s.db.QueryRow(ctx, `SELECT `+subagentColumns+` FROM subagents WHERE session_id = ? AND {team}`, sessionID))
}

// Parents returns the sessions that started these sessions as subagents, by session.
func (s *Subagents) Parents(ctx context.Context, sessionIDs ...string) (map[string]string, error) {
	out := map[string]string{}
	if len(sessionIDs) == 0 {
		return out, nil
	}
	args := make([]any, len(sessionIDs))
	for i, id := range sessionIDs {
		args[i] = id
	}
	type pair struct{ session, parent string }
	rows, err := s.db.Query(ctx, `SELECT session_id, parent_session_id FROM subagents WHERE parent_session_id <> '' AND {team} AND session_id IN (`+store.Marks(len(args))+`)`, args...)
	all, err := store.Collect(rows, err, func(r store.Scanner) (p pair, err error) { return p, r.Scan(&p.session, &p.parent) })
	for _, p := range all {
		out[p.session] = p.parent
	}
	return out, store.Wrap(err, "reading which sessions started subagents")
}

// AdoptSubagents makes the subagents of a session, and the tree below it, those of another one.
func (s *Subagents) AdoptSubagents(ctx context.Context, from, to string) error {
	return store.Wrap(s.db.Tx(ctx, func(ctx context.Context) error {
		if _, err := s.db.Exec(ctx, `UPDATE subagents SET parent_session_id = ? WHERE parent_session_id = ? AND {team}`, to, from); err != nil {
			return err
		}
		_, err := s.db.Exec(ctx, `UPDATE subagents SET root = ? WHERE root = ? AND {team}`, to, from)
		return err
	}), "passing on subagents")
}

func (s *Subagents) one(row store.Scanner) (subagents.Subagent, error) {
	a, err := scanSubagent(row)
	if fault.Is(err, fault.NotFound) {
		return a, fault.New(fault.NotFound, "subagent_not_found", "There is no such subagent.")
	}
	return a, store.Wrap(err, "reading subagent")
}

// SubagentsOfRoot returns a whole tree, oldest first.
func (s *Subagents) SubagentsOfRoot(ctx context.Context, root string) ([]subagents.Subagent, error) {
	return s.list(ctx, `SELECT `+subagentColumns+` FROM subagents WHERE root = ? AND {team} ORDER BY created_at, id`, root)
}

// SubagentsOfWorkspace returns a page of those that were asked for in a workspace or work in it, newest first.
func (s *Subagents) SubagentsOfWorkspace(ctx context.Context, workspaceID string, pg page.Page) ([]subagents.Subagent, string, error) {
	query, args, err := store.Keyset(`SELECT `+subagentColumns+` FROM subagents WHERE (from_workspace_id = ? OR workspace_id = ?) AND {team}`, "created_at", []any{workspaceID, workspaceID}, pg)
	if err != nil {
		return nil, "", err
	}
	items, err := s.list(ctx, query, args...)
	if err != nil {
		return nil, "", err
	}
	items, next := page.Cut(pg, items, func(a subagents.Subagent) page.Key { return page.Key{At: a.CreatedAt, ID: a.ID} })
	return items, next, nil
}

// OpenSubagents returns those whose result a session is to be given; with "", those of all teams that are live or to be returned.
func (s *Subagents) OpenSubagents(ctx context.Context, callerID string) ([]subagents.Subagent, error) {
	if callerID != "" {
		return s.list(ctx, `SELECT `+subagentColumns+` FROM subagents WHERE parent_session_id = ? AND to_return AND {team} ORDER BY created_at, id`, callerID)
	}
	return s.list(ctx, `SELECT `+subagentColumns+` FROM subagents WHERE (live OR to_return) AND {team} ORDER BY created_at, id`)
}

func (s *Subagents) list(ctx context.Context, query string, args ...any) ([]subagents.Subagent, error) {
	rows, err := s.db.Query(ctx, query, args...)
	out, err := store.Collect(rows, err, scanSubagent)
	return out, store.Wrap(err, "reading subagents")
}

// EditSubagent lets fn change one in one transaction, and returns it as stored.
func (s *Subagents) EditSubagent(ctx context.Context, id string, fn func(*subagents.Subagent) error) (a subagents.Subagent, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		a, err = s.edit(ctx, id, fn)
		return err
	})
	return a, store.Wrap(err, "updating subagent")
}

// WorkOnSubagent is EditSubagent for one that is about to be busy again: fault.Conflict when atOnce others of its tree are.
func (s *Subagents) WorkOnSubagent(ctx context.Context, id string, atOnce int, fn func(*subagents.Subagent) error) (a subagents.Subagent, err error) {
	err = s.db.Tx(ctx, func(ctx context.Context) error {
		if a, err = s.Subagent(ctx, id); err != nil {
			return err
		}
		if !a.Status.Busy() {
			if _, err = s.lockRoot(ctx, a.Root, atOnce); err != nil {
				return err
			}
		}
		a, err = s.edit(ctx, id, fn)
		return err
	})
	return a, store.Wrap(err, "updating subagent")
}

// edit changes one within a transaction.
func (s *Subagents) edit(ctx context.Context, id string, fn func(*subagents.Subagent) error) (a subagents.Subagent, err error) {
	if _, err = s.db.Exec(ctx, `UPDATE subagents SET status = status WHERE id = ? AND {team}`, id); err != nil { // others wait for this transaction
		return a, err
	}
	if a, err = s.Subagent(ctx, id); err != nil {
		return a, err
	}
	if err = fn(&a); err != nil {
		return a, err
	}
	files, err := store.ToJSON(a.Files)
	if err != nil {
		return a, err
	}
	_, err = s.db.Exec(ctx, `UPDATE subagents SET branch = ?, session_id = ?, snapshot_id = ?, status = ?, live = ?, stop = ?, worked = ?, retried = ?, prompt_id = ?, result = ?, files = ?, more_files = ?, to_return = ?, code = ?, error = ?,
		deadline_at = ?, started_at = ?, ended_at = ?, updated_at = ? WHERE id = ? AND {team}`, a.Branch, a.SessionID, a.SnapshotID, string(a.Status), a.Live, a.Stop, a.Worked, a.Retried, a.PromptID,
		a.Result, files, a.MoreFiles, a.ToReturn, a.Code, a.Error, a.DeadlineAt, a.StartedAt, a.EndedAt, a.UpdatedAt, id)
	return a, err
}
