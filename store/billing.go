package store

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/parawork/parawork/billing"
)

// Billing keeps the ledger.
type Billing struct{ db *DB }

var _ billing.Store = (*Billing)(nil)

// NewBilling returns the storage of the ledger in db.
func NewBilling(db *DB) *Billing { return &Billing{db} }

// Tx runs fn in one transaction; see DB.Tx.
func (s *Billing) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	return s.db.Tx(ctx, fn)
}

const segmentColumns = `id, team_id, workspace_id, sandbox_id, user_id, executor, purpose, cpus, memory_mb, price_nano, started_at, seen_at,
	ended_at, end_source, cost_nano, project_id, metered, price_id, adjusts_id`

func scanSegment(r Scanner) (g billing.Segment, err error) {
	err = r.Scan(&g.ID, &g.TeamID, &g.WorkspaceID, &g.SandboxID, &g.UserID, &g.Executor, &g.Purpose, &g.CPUs, &g.MemoryMB, &g.PriceNano,
		&g.StartedAt, &g.SeenAt, &g.EndedAt, &g.EndSource, &g.CostNano,
		&g.ProjectID, &g.Metered, &g.PriceID, &g.AdjustsID)
	return g, err
}

// OpenSegments returns the segments that have not ended.
func (s *Billing) OpenSegments(ctx context.Context) ([]billing.Segment, error) {
	rows, err := s.db.Query(ctx, `SELECT `+segmentColumns+` FROM segments WHERE {team} AND ended_at = 0 ORDER BY id`)
	return Collect(rows, err, scanSegment)
}

// OpenSegment returns a sandbox's open segment; false when it has none.
func (s *Billing) OpenSegment(ctx context.Context, sandboxID string) (billing.Segment, bool, error) {
	g, err := scanSegment(s.db.QueryRow(ctx, `SELECT `+segmentColumns+` FROM segments WHERE sandbox_id = ? AND {team} AND ended_at = 0`, sandboxID))
	return Optional(g, err)
}

// LastEnd is when a sandbox's latest segment ended, and which that is; 0 = none has.
func (s *Billing) LastEnd(ctx context.Context, sandboxID string) (at int64, id string, err error) {
	err = s.db.QueryRow(ctx, `SELECT ended_at, id FROM segments WHERE sandbox_id = ? AND {team} AND ended_at <> 0 ORDER BY ended_at DESC, id DESC LIMIT 1`, sandboxID).Scan(&at, &id)
	if errors.Is(err, ErrNotFound) {
		return 0, "", nil
	}
	return at, id, err
}

// LatestTime is the latest time any segment names.
func (s *Billing) LatestTime(ctx context.Context) (at int64, err error) {
	err = s.db.QueryRow(ctx, `/* every team: the ledger has one time */ SELECT COALESCE(MAX(CASE WHEN ended_at > seen_at THEN ended_at ELSE seen_at END), 0) FROM segments
		WHERE started_at >= (SELECT COALESCE(MAX(started_at), 0) FROM segments) - ?`, 2*dayMs).Scan(&at)
	return at, err
}

// dayMs is a day. A segment lies within one.
const dayMs = 24 * 60 * 60 * 1000

// InsertSegment stores a new open segment.
func (s *Billing) InsertSegment(ctx context.Context, g billing.Segment) error {
	if g.ProjectID == "" && g.WorkspaceID != "" {
		err := s.db.QueryRow(ctx, `SELECT project_id FROM workspaces WHERE id = ? AND {team}`, g.WorkspaceID).Scan(&g.ProjectID)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return fmt.Errorf("reading whose project a workspace is: %w", err)
		}
	}
	_, err := s.db.Exec(ctx, `INSERT INTO segments (`+segmentColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)`, g.ID, g.TeamID, g.WorkspaceID,
		g.SandboxID, g.UserID, g.Executor, g.Purpose, g.CPUs, g.MemoryMB, g.PriceNano, g.StartedAt, g.SeenAt, g.EndedAt, g.EndSource, g.CostNano, g.ProjectID, g.Metered,
		g.PriceID, g.AdjustsID)
	return err
}

// UpdateSegment writes what changes in an open segment.
func (s *Billing) UpdateSegment(ctx context.Context, g billing.Segment) error {
	return changed(s.db.Exec(ctx, `UPDATE segments SET seen_at = ?, ended_at = ?, end_source = ?, cost_nano = ? WHERE id = ? AND {team} AND ended_at = 0`,
		g.SeenAt, g.EndedAt, g.EndSource, g.CostNano, g.ID))
}

// beatsAtOnce is how many sandboxes one statement names.
const beatsAtOnce = 500

// BeatSegments writes that sandboxes ran at seenAt. Costs are rounded half up here: a closed segment's is written exactly.
func (s *Billing) BeatSegments(ctx context.Context, sandboxIDs []string, seenAt int64) error {
	for len(sandboxIDs) > 0 {
		some := sandboxIDs[:min(len(sandboxIDs), beatsAtOnce)]
		sandboxIDs = sandboxIDs[len(some):]
		args := []any{seenAt, seenAt, seenAt}
		for _, id := range some {
			args = append(args, id)
		}
		_, err := s.db.Exec(ctx, `UPDATE segments SET seen_at = ?, cost_nano = (price_nano * (CAST(? AS BIGINT) - started_at) + 1800000) / 3600000
			WHERE {team} AND ended_at = 0 AND seen_at < ? AND sandbox_id IN (`+Marks(len(some))+`)`, args...)
		if err != nil {
			return fmt.Errorf("writing heartbeats: %w", err)
		}
	}
	return nil
}

// marks are n question marks for a list.
func Marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") }

// keyAhead names how far the ledger's time is ahead of the server's clock.
const keyAhead = "ledger_ahead_ms"

// Ahead is how far the ledger's time was ahead of the server's clock, ms.
func (s *Billing) Ahead(ctx context.Context) (int64, error) {
	v, err := NewInstance(s.db).Setting(ctx, keyAhead)
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(v, 10, 64)
}

// SetAhead stores it.
func (s *Billing) SetAhead(ctx context.Context, ms int64) error {
	return NewInstance(s.db).SetSetting(ctx, keyAhead, strconv.FormatInt(ms, 10))
}

// Spent is what segments that began in [from, to) cost.
func (s *Billing) Spent(ctx context.Context, from, to int64) (nano int64, err error) {
	// CAST: PostgreSQL sums BIGINTs as NUMERIC.
	err = s.db.QueryRow(ctx, `/* every team: the instance has one budget */ SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT) FROM segments WHERE started_at >= ? AND started_at < ?`, from, to).Scan(&nano)
	return nano, err
}

// NoteAlert stores that a threshold was passed; false when it was already.
func (s *Billing) NoteAlert(ctx context.Context, a billing.Alert) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO limit_alerts (scope, scope_id, team_id, period, percent, used, limit_at, noted_at)
		VALUES ('instance_budget', '', {team?}, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, "", a.Period, a.Percent, a.SpentNano, a.LimitNano, a.At))
}

// DropAlerts forgets a period's thresholds above percent.
func (s *Billing) DropAlerts(ctx context.Context, period string, percent int) error {
	_, err := s.db.Exec(ctx, `DELETE FROM limit_alerts WHERE scope = 'instance_budget' AND team_id = {team?} AND period = ? AND percent > ?`, "", period, percent)
	return err
}

// Costs is what workspaces have cost so far, by id.
func (s *Billing) Costs(ctx context.Context, workspaceIDs []string) (map[string]int64, error) {
	if len(workspaceIDs) == 0 {
		return map[string]int64{}, nil
	}
	args := make([]any, len(workspaceIDs))
	for i, id := range workspaceIDs {
		args[i] = id
	}
	rows, err := s.db.Query(ctx, `SELECT workspace_id, CAST(SUM(cost_nano) AS BIGINT) FROM segments
		WHERE {team} AND workspace_id IN (`+Marks(len(args))+`) AND cost_nano > 0 GROUP BY workspace_id`, args...)
	return Pairs[string, int64](rows, err)
}

// ByWorkspace is what the dearest workspaces cost in segments that began in [from, to).
func (s *Billing) ByWorkspace(ctx context.Context, from, to int64, most int) ([]billing.WorkspaceCost, error) {
	rows, err := s.db.Query(ctx, `/* every team: the report of the instance */ SELECT g.workspace_id, COALESCE(w.num, 0), CASE WHEN w.private THEN '' ELSE COALESCE(w.name, '') END, COALESCE(t.slug, ''), g.nano, g.ms FROM
		(SELECT workspace_id, team_id, CAST(SUM(cost_nano) AS BIGINT) AS nano, CAST(SUM(seen_at - started_at) AS BIGINT) AS ms FROM segments
			WHERE started_at >= ? AND started_at < ? AND workspace_id <> '' GROUP BY workspace_id, team_id) g
		LEFT JOIN workspaces w ON w.id = g.workspace_id LEFT JOIN teams t ON t.id = g.team_id
		WHERE g.nano > 0 ORDER BY g.nano DESC, g.workspace_id LIMIT ?`, from, to, most)
	return Collect(rows, err, func(r Scanner) (c billing.WorkspaceCost, err error) {
		return c, r.Scan(&c.WorkspaceID, &c.Num, &c.Name, &c.Team, &c.CostNano, &c.RunMs)
	})
}

// ByUser is what the sandboxes cost that people asked for.
func (s *Billing) ByUser(ctx context.Context, from, to int64, most int) ([]billing.UserCost, error) {
	rows, err := s.db.Query(ctx, `/* every team: the report of the instance */ SELECT g.user_id, COALESCE(u.name, ''), g.nano, g.ms FROM
		(SELECT user_id, CAST(SUM(cost_nano) AS BIGINT) AS nano, CAST(SUM(seen_at - started_at) AS BIGINT) AS ms FROM segments
			WHERE started_at >= ? AND started_at < ? AND workspace_id <> '' GROUP BY user_id) g
		LEFT JOIN users u ON u.id = g.user_id
		WHERE g.nano > 0 ORDER BY g.nano DESC, g.user_id LIMIT ?`, from, to, most)
	return Collect(rows, err, func(r Scanner) (c billing.UserCost, err error) {
		return c, r.Scan(&c.UserID, &c.Name, &c.CostNano, &c.RunMs)
	})
}

// ByTeam is what teams cost.
func (s *Billing) ByTeam(ctx context.Context, from, to int64, most int) ([]billing.TeamCost, error) {
	rows, err := s.db.Query(ctx, `/* every team: the report of the instance */ SELECT g.team_id, COALESCE(t.slug, ''), COALESCE(t.name, ''), g.nano, g.ms FROM
		(SELECT team_id, CAST(SUM(cost_nano) AS BIGINT) AS nano, CAST(SUM(seen_at - started_at) AS BIGINT) AS ms FROM segments
			WHERE started_at >= ? AND started_at < ? GROUP BY team_id) g
		LEFT JOIN teams t ON t.id = g.team_id
		WHERE g.nano > 0 ORDER BY g.nano DESC, g.team_id LIMIT ?`, from, to, most)
	return Collect(rows, err, func(r Scanner) (c billing.TeamCost, err error) {
		return c, r.Scan(&c.TeamID, &c.Slug, &c.Name, &c.CostNano, &c.RunMs)
	})
}

// ByExecutor returns what each executor cost.
func (s *Billing) ByExecutor(ctx context.Context, from, to int64) ([]billing.ExecutorCost, error) {
	rows, err := s.db.Query(ctx, `/* every team: the report of the instance */ SELECT executor, CAST(SUM(cost_nano) AS BIGINT), CAST(SUM(seen_at - started_at) AS BIGINT),
		CAST(SUM(CASE WHEN workspace_id = '' THEN cost_nano ELSE 0 END) AS BIGINT) FROM segments
		WHERE started_at >= ? AND started_at < ? GROUP BY executor ORDER BY executor`, from, to)
	return Collect(rows, err, func(r Scanner) (c billing.ExecutorCost, err error) {
		return c, r.Scan(&c.Executor, &c.CostNano, &c.RunMs, &c.PoolCostNano)
	})
}

// Living returns how many workspaces live in each executor.
func (s *Billing) Living(ctx context.Context) (map[string]int64, error) {
	rows, err := s.db.Query(ctx, `/* every team: the report of the instance */ SELECT executor, COUNT(*) FROM workspaces WHERE deleted_at = 0 AND archived_at = 0 AND `+isWork+` GROUP BY executor`)
	return Pairs[string, int64](rows, err)
}

// TeamsRunning are the teams with a paid sandbox that runs.
func (s *Billing) TeamsRunning(ctx context.Context) ([]string, error) {
	return Column[string](s.db.Query(ctx, `/* every team: whom to tell that the instance's budget is used up */ SELECT DISTINCT team_id FROM segments WHERE ended_at = 0 AND price_nano > 0 AND team_id <> '' ORDER BY team_id`))
}

// WorkspacesRunning are the workspaces with a paid sandbox that runs.
func (s *Billing) WorkspacesRunning(ctx context.Context) ([]string, error) {
	return Column[string](s.db.Query(ctx, `/* every team: what to stop when the budget of the instance is used up */ SELECT DISTINCT workspace_id FROM segments WHERE ended_at = 0 AND price_nano > 0 AND workspace_id <> '' ORDER BY workspace_id`))
}
