package store

import (
	"context"
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/tenant"
)

func TestMarksBecomeTheTeamsOfTheWork(t *testing.T) {
	t.Parallel()
	one, two, none := tenant.In(t.Context(), "t1"), tenant.In(t.Context(), "t1", "t2"), tenant.In(t.Context())
	all := tenant.All(t.Context(), "a test")
	for _, c := range []struct {
		ctx      context.Context
		query    string
		args     []any
		sqlite   string
		postgres string
		want     []any
	}{
		{one, `a = ?`, []any{1}, `a = ?`, `a = $1`, []any{1}},
		{one, `a = ? AND {team} AND b = ?`, []any{1, 2}, `a = ? AND +team_id = ? AND b = ?`, `a = $1 AND team_id = $2 AND b = $3`, []any{1, "t1", 2}},
		{two, `{team:w} AND b = ?`, []any{2}, `+w.team_id IN (?,?) AND b = ?`, `w.team_id IN ($1,$2) AND b = $3`, []any{"t1", "t2", 2}},
		{none, `{team:t.id}`, nil, `FALSE`, `FALSE`, nil},
		{all, `{team} AND a = ?`, []any{1}, `TRUE AND a = ?`, `TRUE AND a = $1`, []any{1}},
		{one, `{team|none:a}`, nil, `(+a.team_id IS NULL OR +a.team_id = ?)`, `(a.team_id IS NULL OR a.team_id = $1)`, []any{"t1"}},
		{none, `{team|none}`, nil, `(+team_id IS NULL OR FALSE)`, `(team_id IS NULL OR FALSE)`, nil},
		{two, `(?,{team?},?)`, []any{1, "t2", 3}, `(?,?,?)`, `($1,$2,$3)`, []any{1, "t2", 3}},
		{all, `{team?}`, []any{"t9"}, `?`, `$1`, []any{"t9"}},
		{one, `{team?}`, []any{nil}, `?`, `$1`, []any{nil}},
		{one, `'{team} ?' = ? -- {team} ?` + "\n" + `AND {team}`, []any{1}, `'{team} ?' = ? -- {team} ?` + "\nAND +team_id = ?", `'{team} ?' = $1 -- {team} ?` + "\nAND team_id = $2", []any{1, "t1"}},
	} {
		for dialect, want := range map[string]string{SQLite: c.sqlite, Postgres: c.postgres} {
			got, args, err := (&DB{dialect: dialect}).expand(c.ctx, c.query, c.args)
			if err != nil || got != want || !slices.Equal(args, c.want) {
				t.Errorf("%s, %s: %q %v %v, want %q %v", dialect, c.query, got, args, err, want, c.want)
			}
		}
	}
	for _, bad := range []struct {
		ctx   context.Context
		query string
		args  []any
	}{
		{t.Context(), `{team}`, nil}, {t.Context(), `{team?}`, []any{"t1"}}, {one, `{team?}`, []any{"t2"}}, {none, `{team?}`, []any{"t1"}},
		{one, `{team?}`, []any{7}}, {one, `{teams}`, nil}, {one, `{team} ?`, nil}, {one, `{team}`, []any{1}}, {one, `{team`, nil},
	} {
		if got, _, err := (&DB{dialect: SQLite}).expand(bad.ctx, bad.query, bad.args); err == nil {
			t.Errorf("%s %v became %q", bad.query, bad.args, got)
		}
	}
}
