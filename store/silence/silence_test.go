package silence_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/parawork/parawork/store/silence"
	"github.com/parawork/parawork/testing/testpg/postgres"
)

// A statement that takes many times as long as a server may be silent is not cut while the server answers others.
func TestALongStatementIsNotCut(t *testing.T) {
	t.Parallel()
	pg, err := postgres.Start(context.Background())
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skip("PostgreSQL is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pg.Remove)
	cfg, err := pgx.ParseConfig(pg.URL)
	if err != nil {
		t.Fatal(err)
	}
	silence.Watch(cfg, 50*time.Millisecond, time.Minute)
	db := stdlib.OpenDB(*cfg)
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `SELECT pg_sleep(1)`); err != nil {
		t.Error(err)
	}
}
