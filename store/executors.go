package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
)

// Executors keeps sandboxes and commands.
type Executors struct{ db *DB }

var (
	_ manager.Store = (*Executors)(nil)
	_ command.Store = (*Executors)(nil)
)

// NewExecutors returns the storage of sandboxes and commands in db.
func NewExecutors(db *DB) *Executors { return &Executors{db: db} }

const sandboxColumns = `id, team_id, workspace_id, kind, handle_version, handle_state, state, state_reason,
	started_at, health_at, ended_at, user_id, purpose, steps, cpus, memory_mb, price_nano, lease_until, run_ends_at, paused_for, pooled`

func scanSandbox(s Scanner) (executors.Record, error) {
	var r executors.Record
	var steps string
	err := s.Scan(&r.Handle.ID, &r.TeamID, &r.WorkspaceID, &r.Handle.Kind, &r.Handle.Version, &r.Handle.State, &r.State,
		&r.Reason, &r.StartedAt, &r.HealthAt, &r.EndedAt, &r.UserID, &r.Purpose, &steps, &r.CPUs, &r.MemoryMB, &r.PriceNano,
		&r.LeaseUntil, &r.RunEndsAt, &r.PausedFor, &r.Pooled)
	if err != nil || steps == "[]" {
		return r, err
	}
	if err := json.Unmarshal([]byte(steps), &r.Steps); err != nil {
		return r, fmt.Errorf("decoding the steps of sandbox %s: %w", r.Handle.ID, err)
	}
	return r, nil
}

// stepsText is how a sandbox's steps are stored.
func stepsText(r executors.Record) (string, error) {
	if len(r.Steps) == 0 {
		return "[]", nil
	}
	b, err := json.Marshal(r.Steps)
	if err != nil {
		return "", fmt.Errorf("encoding the steps of sandbox %s: %w", r.Handle.ID, err)
	}
	return string(b), nil
}

// InsertSandbox stores a new open sandbox; fault.Conflict when the workspace has one already.
func (s *Executors) InsertSandbox(ctx context.Context, r executors.Record) error {
	steps, err := stepsText(r)
	if err != nil {
		return err
	}
	// The partial unique index decides; ON CONFLICT keeps a PostgreSQL transaction usable.
	res, err := s.db.Exec(ctx, `INSERT INTO sandboxes (`+sandboxColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (workspace_id) WHERE ended_at = 0 DO NOTHING`,
		r.Handle.ID, r.TeamID, r.WorkspaceID, string(r.Handle.Kind), r.Handle.Version, r.Handle.State, string(r.State),
		r.Reason, r.StartedAt, r.HealthAt, r.EndedAt, r.UserID, string(r.Purpose), steps, r.CPUs, r.MemoryMB, r.PriceNano,
		r.LeaseUntil, r.RunEndsAt, string(r.PausedFor), r.Pooled)
	if err != nil {
		return fmt.Errorf("inserting sandbox: %w", err)
	}
	if n, err := res.RowsAffected(); err != nil {
		return fmt.Errorf("inserting sandbox: %w", err)
	} else if n == 0 {
		return fault.New(fault.Conflict, "sandbox_exists", "The workspace has a sandbox already.")
	}
	return nil
}

// UpdateSandbox writes what changes in a sandbox's life. A sandbox that has ended stays as it ended.
func (s *Executors) UpdateSandbox(ctx context.Context, r executors.Record) error {
	steps, err := stepsText(r)
	if err != nil {
		return err
	}
	_, err = s.db.Exec(ctx, `UPDATE sandboxes SET handle_version = ?, handle_state = ?, state = ?, state_reason = ?,
		health_at = ?, ended_at = ?, purpose = ?, steps = ?, cpus = ?, memory_mb = ?, price_nano = ?, lease_until = ?,
		run_ends_at = ?, paused_for = ?, pooled = ? WHERE id = ? AND team_id = {team?} AND ended_at = 0`,
		r.Handle.Version, r.Handle.State, string(r.State), r.Reason, r.HealthAt, r.EndedAt, string(r.Purpose), steps, r.CPUs,
		r.MemoryMB, r.PriceNano, r.LeaseUntil, r.RunEndsAt, string(r.PausedFor), r.Pooled, r.Handle.ID, r.TeamID)
	return Wrap(err, "updating sandbox")
}

// OpenSandboxes returns every sandbox that has not ended.
func (s *Executors) OpenSandboxes(ctx context.Context) ([]executors.Record, error) {
	rows, err := s.db.Query(ctx, `SELECT `+sandboxColumns+` FROM sandboxes WHERE {team} AND ended_at = 0 ORDER BY id`)
	out, err := Collect(rows, err, scanSandbox)
	return out, Wrap(err, "reading open sandboxes")
}

// Sandbox returns a sandbox, open or ended.
func (s *Executors) Sandbox(ctx context.Context, id string) (executors.Record, error) {
	r, err := scanSandbox(s.db.QueryRow(ctx, `SELECT `+sandboxColumns+` FROM sandboxes WHERE id = ? AND {team}`, id))
	if errors.Is(err, ErrNotFound) || fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "sandbox_not_found", "There is no such sandbox.")
	}
	return r, Wrap(err, "reading a sandbox")
}

// LastSandbox returns the workspace's newest sandbox, the open one first.
func (s *Executors) LastSandbox(ctx context.Context, workspaceID string) (executors.Record, error) {
	r, err := scanSandbox(s.db.QueryRow(ctx, `SELECT `+sandboxColumns+` FROM sandboxes WHERE workspace_id = ? AND {team}
		ORDER BY CASE WHEN ended_at = 0 THEN 0 ELSE 1 END, started_at DESC, id DESC LIMIT 1`, workspaceID))
	if errors.Is(err, ErrNotFound) || fault.Is(err, fault.NotFound) {
		return r, fault.New(fault.NotFound, "sandbox_not_found", "The workspace has no sandbox. Starting a session makes one.")
	}
	return r, Wrap(err, "reading the sandbox of a workspace")
}

// LastSync returns how far a workspace's files are synced.
func (s *Executors) LastSync(ctx context.Context, workspaceID string) (executors.Sync, error) {
	var out executors.Sync
	var state string
	err := s.db.QueryRow(ctx, `SELECT state, pending, synced_at FROM sync_states WHERE workspace_id = ? AND {team}`, workspaceID).Scan(&state, &out.Pending, &out.At)
	if errors.Is(err, ErrNotFound) || fault.Is(err, fault.NotFound) {
		return executors.Sync{}, nil
	}
	if err != nil {
		return out, fmt.Errorf("reading how far a workspace is synced: %w", err)
	}
	out.Behind = state == "behind"
	if err := s.db.QueryRow(ctx, `SELECT COUNT(*) FROM synced_files WHERE workspace_id = ? AND {team} AND state <> 'synced'`, workspaceID).Scan(&out.Left); err != nil {
		return out, fmt.Errorf("counting the files of a workspace that are not home: %w", err)
	}
	return out, nil
}

// InsertCommand stores a new command.
func (s *Executors) InsertCommand(ctx context.Context, c command.Command) error {
	argv, err := json.Marshal(c.Argv)
	if err != nil {
		return fmt.Errorf("encoding argv: %w", err)
	}
	_, err = s.db.Exec(ctx, `INSERT INTO commands (id, team_id, workspace_id, sandbox_id, actor_id, argv, cwd, state,
		state_reason, background, exit_code, stdout, stderr, truncated, own_secrets, created_at, started_at, ended_at)
		VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`,
		c.ID, c.TeamID, c.WorkspaceID, c.SandboxID, c.ActorID, string(argv), c.Cwd, string(c.State),
		c.Reason, c.Background, c.ExitCode, c.Stdout, c.Stderr, c.Truncated, c.OwnSecrets, c.CreatedAt, c.StartedAt, c.EndedAt)
	return Wrap(err, "inserting command")
}

// UpdateCommand writes what changes in a command's life. A command that has ended stays as it ended.
func (s *Executors) UpdateCommand(ctx context.Context, c command.Command) error {
	_, err := s.db.Exec(ctx, `UPDATE commands SET sandbox_id = ?, state = ?, state_reason = ?, exit_code = ?, stdout = ?,
		stderr = ?, truncated = ?, started_at = ?, ended_at = ? WHERE id = ? AND team_id = {team?} AND ended_at = 0`,
		c.SandboxID, string(c.State), c.Reason, c.ExitCode, c.Stdout, c.Stderr, c.Truncated, c.StartedAt, c.EndedAt,
		c.ID, c.TeamID)
	return Wrap(err, "updating command")
}

const commandColumns = `id, team_id, workspace_id, sandbox_id, actor_id, argv, cwd, state, state_reason, background,
	exit_code, truncated, own_secrets, created_at, started_at, ended_at`

func scanCommand(s Scanner, more ...any) (command.Command, error) {
	var c command.Command
	var argv string
	var code sql.NullInt64
	dest := append([]any{&c.ID, &c.TeamID, &c.WorkspaceID, &c.SandboxID, &c.ActorID, &argv, &c.Cwd, &c.State, &c.Reason,
		&c.Background, &code, &c.Truncated, &c.OwnSecrets, &c.CreatedAt, &c.StartedAt, &c.EndedAt}, more...)
	if err := s.Scan(dest...); err != nil {
		return c, err
	}
	if code.Valid {
		n := int(code.Int64)
		c.ExitCode = &n
	}
	if err := json.Unmarshal([]byte(argv), &c.Argv); err != nil {
		return c, fmt.Errorf("decoding argv of command %s: %w", c.ID, err)
	}
	return c, nil
}

// Command returns the record of a command with its outputs.
func (s *Executors) Command(ctx context.Context, id string) (command.Command, error) {
	var stdout, stderr []byte
	c, err := scanCommand(s.db.QueryRow(ctx, `SELECT `+commandColumns+`, stdout, stderr FROM commands WHERE id = ? AND {team}`, id),
		&stdout, &stderr)
	c.Stdout, c.Stderr = stdout, stderr
	if errors.Is(err, ErrNotFound) || fault.Is(err, fault.NotFound) {
		return c, fault.New(fault.NotFound, "command_not_found", "There is no such command, or its record was dropped.")
	}
	return c, Wrap(err, "reading command")
}

// OpenCommands returns every command that has not ended, without outputs.
func (s *Executors) OpenCommands(ctx context.Context) ([]command.Command, error) {
	rows, err := s.db.Query(ctx, `SELECT `+commandColumns+` FROM commands WHERE {team} AND ended_at = 0 ORDER BY id`)
	out, err := Collect(rows, err, func(r Scanner) (command.Command, error) { return scanCommand(r) })
	return out, Wrap(err, "reading open commands")
}

// DropCommands removes commands that ended before the given time and says how many.
func (s *Executors) DropCommands(ctx context.Context, before int64) (int64, error) {
	res, err := s.db.Exec(ctx, `DELETE FROM commands WHERE {team} AND ended_at > 0 AND ended_at < ?`, before)
	if err != nil {
		return 0, fmt.Errorf("dropping old commands: %w", err)
	}
	return res.RowsAffected()
}

// RememberPlace stores which executor a user chose last in a project.
func (s *Executors) RememberPlace(ctx context.Context, teamID, projectID, userID string, kind executors.Kind) error {
	_, err := s.db.Exec(ctx, `INSERT INTO chosen_executors (project_id, user_id, team_id, executor, chosen_at) VALUES (?, ?, {team?}, ?, ?)
		ON CONFLICT (project_id, user_id) DO UPDATE SET executor = excluded.executor, chosen_at = excluded.chosen_at`,
		projectID, userID, teamID, string(kind), s.db.now().UnixMilli())
	return Wrap(err, "keeping which place was chosen")
}

// LastPlace returns the executor a user chose last in a project, "" for none.
func (s *Executors) LastPlace(ctx context.Context, projectID, userID string) (executors.Kind, error) {
	var kind string
	err := s.db.QueryRow(ctx, `SELECT executor FROM chosen_executors WHERE project_id = ? AND user_id = ? AND {team}`, projectID, userID).Scan(&kind)
	if errors.Is(err, ErrNotFound) || fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading which place was chosen last: %w", err)
	}
	return executors.Kind(kind), nil
}
