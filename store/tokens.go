package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/page"
)

// Tokens keeps what models were asked and what they cost, and who may reach them through the gateway.
type Tokens struct{ db *DB }

var _ tokens.Store = (*Tokens)(nil)

// NewTokens returns the storage of models' requests in db.
func NewTokens(db *DB) *Tokens { return &Tokens{db} }

const requestColumns = `id, team_id, workspace_id, project_id, session_id, user_id, agent, account_id, source, external_id, api, model, upstream, status, error,
	attempts, input_tokens, output_tokens, cache_read_tokens, cache_write_tokens, cache_write_hour_tokens, reasoning_tokens, price_id, cost_nano, estimate_nano, first_byte_ms,
	duration_ms, at`

func scanRequest(s Scanner) (r tokens.Request, err error) {
	err = s.Scan(&r.ID, &r.TeamID, &r.WorkspaceID, &r.ProjectID, &r.SessionID, &r.UserID, &r.Agent, &r.AccountID, &r.Source, &r.ExternalID, &r.API, &r.Model,
		&r.Upstream, &r.Status, &r.Error, &r.Attempts, &r.Input, &r.Output, &r.CacheRead, &r.CacheWrite, &r.CacheWriteHour, &r.Reasoning, &r.PriceID, &r.CostNano, &r.EstimateNano,
		&r.FirstByteMs, &r.DurationMs, &r.At)
	return r, err
}

// Keep inserts a request, or completes the one of the same session, source and external id that is under way, or was thought to have been when
// a server died (CutUnderWay; what was cut in earnest has a status). What is complete stays.
func (s *Tokens) Keep(ctx context.Context, r tokens.Request) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO model_requests (`+requestColumns+`) VALUES (?,{team?},?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (session_id, source, external_id) DO UPDATE SET model = excluded.model, upstream = excluded.upstream, status = excluded.status,
		error = excluded.error, attempts = excluded.attempts, input_tokens = excluded.input_tokens, output_tokens = excluded.output_tokens,
		cache_read_tokens = excluded.cache_read_tokens, cache_write_tokens = excluded.cache_write_tokens,
		cache_write_hour_tokens = excluded.cache_write_hour_tokens, reasoning_tokens = excluded.reasoning_tokens, price_id = excluded.price_id,
		cost_nano = excluded.cost_nano, estimate_nano = excluded.estimate_nano, first_byte_ms = excluded.first_byte_ms, duration_ms = excluded.duration_ms
		WHERE excluded.error <> 'under_way' AND (model_requests.error = 'under_way' OR model_requests.error = 'cut' AND model_requests.status = 0)`,
		r.ID, r.TeamID, r.WorkspaceID, r.ProjectID, r.SessionID, r.UserID, r.Agent, r.AccountID, r.Source, r.ExternalID, r.API, r.Model, r.Upstream, r.Status,
		r.Error, r.Attempts, r.Input, r.Output, r.CacheRead, r.CacheWrite, r.CacheWriteHour, r.Reasoning, r.PriceID, r.CostNano, r.EstimateNano, r.FirstByteMs, r.DurationMs, r.At))
}

// FromGateway returns the request of a session with this ID, as the model gateway recorded it.
func (s *Tokens) FromGateway(ctx context.Context, sessionID, externalID string) (tokens.Request, error) {
	r, err := scanRequest(s.db.QueryRow(ctx, `SELECT `+requestColumns+` FROM model_requests WHERE session_id = ? AND source = 'gateway' AND external_id = ? AND {team}`, sessionID, externalID))
	return r, Wrap(err, "reading a request to a model")
}

// CutUnderWay marks what was under way when an earlier server died.
func (s *Tokens) CutUnderWay(ctx context.Context) error {
	_, err := s.db.Exec(ctx, `UPDATE model_requests SET error = 'cut' WHERE {team} AND error = 'under_way'`)
	return err
}

// sumColumns are those of a Sum behind the id. CAST: PostgreSQL sums BIGINTs as NUMERIC.
const sumColumns = `CAST(COALESCE(SUM(input_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(output_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(cache_read_tokens), 0) AS BIGINT),
	CAST(COALESCE(SUM(cache_write_tokens), 0) + COALESCE(SUM(cache_write_hour_tokens), 0) AS BIGINT), CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT), COUNT(*),
	CAST(COALESCE(SUM(CASE WHEN cost_nano IS NULL AND price_id <> 'included' THEN 1 ELSE 0 END), 0) AS BIGINT),
	CAST(COALESCE(SUM(CASE WHEN price_id = 'included' THEN 1 ELSE 0 END), 0) AS BIGINT), COALESCE(MAX(source), '')`

type idSum struct {
	id string
	tokens.Sum
}

func scanSum(s Scanner) (r idSum, err error) {
	err = s.Scan(&r.id, &r.Input, &r.Output, &r.CacheRead, &r.CacheWrite, &r.CostNano, &r.Requests, &r.Unknown, &r.Included, &r.Source)
	return r, err
}

// SumsBySession returns what sessions used, by id.
func (s *Tokens) SumsBySession(ctx context.Context, ids []string) (map[string]tokens.Sum, error) {
	return s.sums(ctx, "session_id", ids)
}

// SumsByWorkspace returns what workspaces used, by id.
func (s *Tokens) SumsByWorkspace(ctx context.Context, ids []string) (map[string]tokens.Sum, error) {
	return s.sums(ctx, "workspace_id", ids)
}

func (s *Tokens) sums(ctx context.Context, column string, ids []string) (map[string]tokens.Sum, error) {
	out := make(map[string]tokens.Sum, len(ids))
	for len(ids) > 0 {
		some := ids[:min(len(ids), beatsAtOnce)]
		ids = ids[len(some):]
		args := make([]any, len(some))
		for i, id := range some {
			args[i] = id
		}
		rows, err := s.db.Query(ctx, `SELECT `+column+`, `+sumColumns+` FROM model_requests WHERE {team} AND `+column+` IN (`+Marks(len(some))+`) GROUP BY `+column, args...)
		all, err := Collect(rows, err, scanSum)
		if err != nil {
			return nil, fmt.Errorf("adding up what models cost: %w", err)
		}
		for _, r := range all {
			out[r.id] = r.Sum
		}
	}
	return out, nil
}

// SpentOnModels is what a team's requests that began in [from, to) cost, how many do not know, and what those may have cost: but for those
// under way for which all that they may cost is held back.
func (s *Tokens) SpentOnModels(ctx context.Context, teamID string, from, to int64) (nano, unknown, estimate int64, err error) {
	err = s.db.QueryRow(ctx, `SELECT CAST(COALESCE(SUM(cost_nano), 0) AS BIGINT), CAST(COALESCE(SUM(CASE WHEN cost_nano IS NULL AND price_id <> 'included' THEN 1 ELSE 0 END), 0) AS BIGINT),
		CAST(COALESCE(SUM(CASE WHEN cost_nano IS NULL THEN estimate_nano END), 0) AS BIGINT) FROM model_requests WHERE team_id = {team?} AND at >= ? AND at < ?
		AND (error <> 'under_way' OR NOT EXISTS (SELECT 1 FROM model_holds h WHERE h.request_id = external_id AND {team:h}))`, teamID, from, to).
		Scan(&nano, &unknown, &estimate)
	return nano, unknown, estimate, err
}

// Requests lists requests, newest first.
func (s *Tokens) Requests(ctx context.Context, f tokens.Filter, pg page.Page) ([]tokens.Request, string, error) {
	query, args := `SELECT `+requestColumns+` FROM model_requests WHERE team_id = {team?}`, []any{f.TeamID}
	and := func(cond string, values ...any) { query, args = query+` AND `+cond, append(args, values...) }
	if f.SessionID != "" {
		and(`session_id = ?`, f.SessionID)
	}
	if f.Model != "" {
		and(`model = ?`, f.Model)
	}
	switch f.Error {
	case "":
	case "any":
		and(`error <> ''`)
	default:
		and(`error = ?`, f.Error)
	}
	if f.From > 0 {
		and(`at >= ?`, f.From)
	}
	if f.Until > 0 {
		and(`at < ?`, f.Until)
	}
	for _, id := range f.NotIn {
		and(`workspace_id <> ?`, id)
	}
	key, ok, err := pg.Key()
	if err != nil {
		return nil, "", err
	}
	if ok {
		and(`(at < ? OR at = ? AND id < ?)`, key.At, key.At, key.ID)
	}
	rows, err := s.db.Query(ctx, query+` ORDER BY at DESC, id DESC LIMIT ?`, append(args, pg.Size()+1)...)
	all, err := Collect(rows, err, scanRequest)
	if err != nil {
		return nil, "", fmt.Errorf("reading what models were asked: %w", err)
	}
	items, next := page.Cut(pg, all, func(r tokens.Request) page.Key { return page.Key{At: r.At, ID: r.ID} })
	return items, next, nil
}

// GatewaySpan is when a session's agent could reach the gateway; until 0 = it still can. False: never.
func (s *Tokens) GatewaySpan(ctx context.Context, sessionID string) (from, until int64, ok bool, err error) {
	err = s.db.QueryRow(ctx, `SELECT created_at, ended_at FROM gateway_tokens WHERE session_id = ? AND {team}`, sessionID).Scan(&from, &until)
	if errors.Is(err, ErrNotFound) {
		return 0, 0, false, nil
	}
	return from, until, err == nil, err
}

const modelPriceColumns = `id, model, input_nano, output_nano, cache_read_nano, cache_write_nano, cache_write_hour_nano, effective_from, created_by, created_at`

// ModelPrices returns every row, by name, the latest first.
func (s *Tokens) ModelPrices(ctx context.Context) ([]tokens.Price, error) {
	rows, err := s.db.Query(ctx, `SELECT `+modelPriceColumns+` FROM model_prices ORDER BY model, effective_from DESC`)
	return Collect(rows, err, func(r Scanner) (p tokens.Price, err error) {
		err = r.Scan(&p.ID, &p.Model, &p.InputNano, &p.OutputNano, &p.CacheReadNano, &p.CacheWriteNano, &p.CacheWriteHourNano, &p.EffectiveFrom, &p.CreatedBy, &p.CreatedAt)
		return p, err
	})
}

// AddModelPrice stores a row; false when there is one of that name and time.
func (s *Tokens) AddModelPrice(ctx context.Context, p tokens.Price) (bool, error) {
	return inserted(s.db.Exec(ctx, `INSERT INTO model_prices (`+modelPriceColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING`,
		p.ID, p.Model, p.InputNano, p.OutputNano, p.CacheReadNano, p.CacheWriteNano, p.CacheWriteHourNano, p.EffectiveFrom, p.CreatedBy, p.CreatedAt))
}
