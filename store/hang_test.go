package store_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testpg/postgres"
)

// A PostgreSQL that accepts connections and does not answer is unavailable: for what is under way, for what waits for a connection and for what
// comes. Once it answers again, so does the store.
func TestADatabaseThatHangsIsUnavailable(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("a PostgreSQL is made to hang only on Linux: that is NOT TESTED here")
	}
	pg, err := postgres.Start(context.Background())
	if errors.Is(err, postgres.ErrNotInstalled) {
		t.Skip("PostgreSQL is not installed")
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pg.Remove)
	db, err := store.Open(t.Context(), store.Config{URL: pg.URL, AllTeams: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()

	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var all sync.WaitGroup
	unavailable := func(what string, do func(ctx context.Context) error) {
		all.Go(func() {
			if err := do(ctx); fault.CodeOf(err) != "database_unavailable" {
				t.Errorf("%s: %v", what, err)
			}
		})
	}
	begun, goOn := make(chan struct{}), make(chan struct{})
	unavailable("committing", func(ctx context.Context) error {
		return db.Tx(ctx, func(ctx context.Context) error {
			_, err := db.Exec(ctx, `UPDATE schema_migrations SET name = name`)
			close(begun)
			<-goOn
			return err
		})
	})
	<-begun
	rows, err := db.Query(ctx, `SELECT n, repeat('x', 1000) FROM generate_series(1, 100000) n`)
	if err != nil {
		t.Fatal(err)
	}
	resume, err := pg.Freeze()
	if err != nil {
		t.Fatal(err)
	}
	defer resume() // before anything is closed
	close(goOn)
	unavailable("a list under way", func(context.Context) error {
		defer rows.Close()
		for rows.Next() {
		}
		return rows.Err()
	})
	for range 50 { // more than there are connections
		unavailable("asking", db.Ping)
	}
	all.Wait()
	unavailable("asking afterwards", db.Ping)
	all.Wait()

	resume()
	for err = db.Ping(ctx); err != nil && ctx.Err() == nil; err = db.Ping(ctx) {
		time.Sleep(50 * time.Millisecond)
	}
	if err != nil {
		t.Fatalf("after it went on: %v", err)
	}
}
