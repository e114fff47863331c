package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/workspaces"
)

// Usage reads the ledger for people.
type Usage struct{ db *DB }

var _ usage.Store = (*Usage)(nil)

// NewUsage returns what reads the ledger in db for people.
func NewUsage(db *DB) *Usage { return &Usage{db} }

// segmentKeys and requestKeys are what rows of each group are added up by.
var segmentKeys = map[usage.Group]string{usage.ByDay: `CAST(started_at - started_at % 86400000 AS TEXT)`, usage.ByUser: `user_id`, usage.ByProject: `project_id`,
	usage.ByExecutor: `executor`, usage.ByWorkspace: `workspace_id`, usage.ByTeam: `team_id`}

var requestKeys = map[usage.Group]string{usage.ByDay: `CAST(r.at - r.at % 86400000 AS TEXT)`, usage.ByHour: `CAST(r.at - r.at % 3600000 AS TEXT)`, usage.ByUser: `r.user_id`,
	usage.ByProject: `r.project_id`, usage.ByAgent: `r.agent`, usage.ByWorkspace: `r.workspace_id`, usage.ByTeam: `r.team_id`,
	// All members' machines count as one executor here, as in the ledger.
	usage.ByExecutor: `CASE WHEN b.kind LIKE 'runner:%' THEN 'runner' ELSE COALESCE(b.kind, '') END`}

// of narrows a statement to a team by an index; without one it is about all the teams of the work.
func of(column, teamID string, args []any) (string, []any) {
	if teamID == "" {
		return "", args
	}
	return ` AND ` + column + ` = ?`, append(args, teamID)
}

// SegmentSums adds up, by group, segments that began in [from, to).
func (s *Usage) SegmentSums(ctx context.Context, teamID string, g usage.Group, from, to int64) (map[string]usage.Amounts, error) {
	key, ok := segmentKeys[g]
	if !ok {
		return nil, fmt.Errorf("segments are not added up by %s", g)
	}
	where, args := of("team_id", teamID, []any{from, to})
	// CAST: PostgreSQL sums BIGINTs as NUMERIC.
	rows, err := s.db.Query(ctx, `SELECT `+key+`, CAST(SUM(seen_at - started_at) AS BIGINT), CAST(SUM(CASE WHEN metered THEN seen_at - started_at ELSE 0 END) AS BIGINT),
		CAST(SUM((seen_at - started_at) * cpus) AS BIGINT), CAST(SUM((seen_at - started_at) * memory_mb) AS BIGINT), CAST(SUM(cost_nano) AS BIGINT)
		FROM segments WHERE {team} AND started_at >= ? AND started_at < ?`+where+` GROUP BY 1`, args...)
	return Keyed(rows, err, func(r Scanner) (key string, a usage.Amounts, err error) {
		err = r.Scan(&key, &a.RunMs, &a.MeteredMs, &a.VCPUMs, &a.MiBMs, &a.CostNano)
		return key, a, err
	})
}

// Segments calls fn with the segments that ran in [from, to).
func (s *Usage) Segments(ctx context.Context, teamID, workspaceID string, from, to int64, fn func(usage.Part)) error {
	where, args := of("team_id", teamID, []any{from - dayMs, to, from}) // a segment lies within one day
	if workspaceID != "" {
		where, args = ` AND workspace_id = ?`, append(args, workspaceID)
	}
	rows, err := s.db.Query(ctx, `SELECT id, team_id, workspace_id, user_id, project_id, executor, metered, cpus, memory_mb, price_nano, started_at, seen_at, cost_nano
		FROM segments WHERE {team} AND started_at >= ? AND started_at < ? AND seen_at > ?`+where, args...)
	return Each(rows, err, func(r Scanner) error {
		var p usage.Part
		if err := r.Scan(&p.SegmentID, &p.TeamID, &p.WorkspaceID, &p.UserID, &p.ProjectID, &p.Executor, &p.Metered, &p.CPUs, &p.MemoryMB, &p.PriceNano,
			&p.StartedAt, &p.EndedAt, &p.CostNano); err != nil {
			return err
		}
		fn(p)
		return nil
	})
}

// Sessions returns those that were open in [from, to).
func (s *Usage) Sessions(ctx context.Context, teamID, workspaceID string, from, to int64) ([]usage.Session, error) {
	where, args := of("team_id", teamID, []any{to, from})
	if workspaceID != "" {
		where, args = ` AND workspace_id = ?`, append(args, workspaceID)
	}
	rows, err := s.db.Query(ctx, `SELECT id, workspace_id, agent, started_at, ended_at FROM sessions WHERE {team} AND started_at < ? AND (ended_at = 0 OR ended_at > ?)`+where, args...)
	return Collect(rows, err, func(r Scanner) (u usage.Session, err error) {
		return u, r.Scan(&u.ID, &u.WorkspaceID, &u.Agent, &u.StartedAt, &u.EndedAt)
	})
}

// tokenSums are what models were asked and what that cost, as far as it is known.
const tokenSums = `CAST(COALESCE(SUM(r.cost_nano), 0) AS BIGINT), CAST(SUM(CASE WHEN r.cost_nano IS NULL AND r.price_id <> 'included' THEN 1 ELSE 0 END) AS BIGINT),
	CAST(COALESCE(SUM(r.input_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(r.output_tokens), 0) AS BIGINT)`

func scanTokens(r Scanner) (w tokenRow, err error) {
	return w, r.Scan(&w.key, &w.a.TokensCostNano, &w.a.TokensUnknown, &w.a.InputTokens, &w.a.OutputTokens)
}

type tokenRow struct {
	key string
	a   usage.Amounts
}

func byKey(all []tokenRow, err error) (map[string]usage.Amounts, error) {
	out := make(map[string]usage.Amounts, len(all))
	for _, w := range all {
		out[w.key] = w.a
	}
	return out, err
}

// TokenSums adds up, by group, what models were asked in [from, to).
func (s *Usage) TokenSums(ctx context.Context, teamID string, g usage.Group, from, to int64) (map[string]usage.Amounts, error) {
	key, ok := requestKeys[g]
	if !ok {
		return nil, fmt.Errorf("requests are not added up by %s", g)
	}
	where, args := of("r.team_id", teamID, []any{from, to})
	join := ""
	if g == usage.ByExecutor { // where the session ran that asked
		join = ` LEFT JOIN sessions e ON e.id = r.session_id AND {team:e} LEFT JOIN sandboxes b ON b.id = e.sandbox_id AND {team:b}`
	}
	rows, err := s.db.Query(ctx, `SELECT `+key+`, `+tokenSums+` FROM model_requests r`+join+` WHERE {team:r} AND r.at >= ? AND r.at < ?`+where+` GROUP BY 1`, args...)
	return byKey(Collect(rows, err, scanTokens))
}

// SessionTokens adds up what the sessions of a workspace asked models.
func (s *Usage) SessionTokens(ctx context.Context, workspaceID string) (map[string]usage.Amounts, error) {
	rows, err := s.db.Query(ctx, `SELECT r.session_id, `+tokenSums+` FROM model_requests r WHERE {team:r} AND r.workspace_id = ? GROUP BY 1`, workspaceID)
	return byKey(Collect(rows, err, scanTokens))
}

// FirstUse is when the earliest segment or request began; 0 = there is none.
func (s *Usage) FirstUse(ctx context.Context, teamID string) (int64, error) {
	var first int64
	for _, of := range []struct{ one, all string }{
		{`SELECT COALESCE(MIN(started_at), 0) FROM segments WHERE team_id = {team?}`, `/* every team: of the instance */ SELECT COALESCE(MIN(started_at), 0) FROM segments`},
		{`SELECT COALESCE(MIN(at), 0) FROM model_requests WHERE team_id = {team?}`, `/* every team: of the instance */ SELECT COALESCE(MIN(at), 0) FROM model_requests`},
	} {
		var at int64
		query, args := of.all, []any(nil)
		if teamID != "" {
			query, args = of.one, []any{teamID}
		}
		if err := s.db.QueryRow(ctx, query, args...).Scan(&at); err != nil {
			return 0, err
		}
		if at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first, nil
}

// Running is what a workspace's sandbox costs an hour now.
func (s *Usage) Running(ctx context.Context, workspaceID string) (hourNano int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(price_nano), 0) AS BIGINT) FROM segments WHERE {team} AND workspace_id = ? AND ended_at = 0`, workspaceID).Scan(&hourNano)
	return hourNano, err
}

// namesAtOnce is how many names one statement reads.
const namesAtOnce = 500

// Names are what the keys of a group are called.
func (s *Usage) Names(ctx context.Context, g usage.Group, keys []string) (map[string]string, error) {
	out := make(map[string]string, len(keys))
	query := map[usage.Group]string{
		usage.ByUser:      `SELECT id, name, 0 FROM users WHERE id IN (`,
		usage.ByTeam:      `/* every team: operators see the usage of all */ SELECT id, name, 0 FROM teams WHERE id IN (`,
		usage.ByProject:   `SELECT id, name, 0 FROM projects WHERE {team} AND id IN (`,
		usage.ByWorkspace: `SELECT id, name, num FROM workspaces WHERE {team} AND id IN (`,
	}[g]
	if query == "" { // kinds are their own names
		for _, k := range keys {
			out[k] = k
		}
		return out, nil
	}
	type row struct {
		id, name string
		num      int64
	}
	for some := range slices.Chunk(keys, namesAtOnce) {
		args := make([]any, len(some))
		for i, k := range some {
			args[i] = k
		}
		rows, err := s.db.Query(ctx, query+Marks(len(some))+`)`, args...)
		all, err := Collect(rows, err, func(r Scanner) (w row, err error) { return w, r.Scan(&w.id, &w.name, &w.num) })
		if err != nil {
			return nil, err
		}
		for _, w := range all {
			if out[w.id] = w.name; w.num > 0 {
				out[w.id] = workspaces.Workspace{Num: w.num}.Key() + " " + w.name
			}
		}
	}
	return out, nil
}
