package store

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// txKey carries the running transaction of one DB in a context.
type txKey struct{ db *DB }

func (db *DB) current(ctx context.Context) *sql.Tx {
	tx, _ := ctx.Value(txKey{db}).(*sql.Tx)
	return tx
}

// PostgreSQL lets one of several serializable transactions that meet go on and asks for the others to be run again. Under load that happens many
// times in a row, so the bound is a time, not a number of tries: what gives up answers a request with an error that waiting would have spared it.
const (
	rerunFor   = 10 * time.Second
	rerunPause = 100 * time.Millisecond // the longest pause between two tries
)

// Tx runs fn in one serializable transaction: every statement made with fn's ctx is part of it. It commits when fn returns
// nil, and undoes everything when fn fails or panics. Called inside another Tx it joins that one. fn may run several times
// (PostgreSQL), so it must have no effect outside the database and must not use ctx after it returned. What still meets others
// after ten seconds fails with fault.Unavailable, database_busy.
func (db *DB) Tx(ctx context.Context, fn func(ctx context.Context) error) error {
	if db.current(ctx) != nil {
		return fn(ctx)
	}
	began := time.Now()
	for attempt := 1; ; attempt++ {
		err := db.once(ctx, fn)
		if err == nil || !retryable(err) {
			return err
		}
		if time.Since(began) > rerunFor {
			return fault.Wrap(err, fault.Unavailable, "database_busy", "The database is busy. Try again.")
		}
		wait := rand.N(min(time.Duration(attempt)*4*time.Millisecond, rerunPause))
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (db *DB) once(ctx context.Context, fn func(ctx context.Context) error) (err error) {
	if err := db.lockWriter(ctx); err != nil {
		return err
	}
	defer db.unlockWriter()
	opts := &sql.TxOptions{}
	if db.dialect == Postgres {
		opts.Isolation = sql.LevelSerializable
	}
	tx, err := db.sql.BeginTx(ctx, opts)
	if err != nil {
		return fmt.Errorf("beginning a transaction: %w", translate(err))
	}
	done := false
	defer func() {
		if !done { // fn failed or panicked
			tx.Rollback()
		}
	}()
	if err := fn(context.WithValue(ctx, txKey{db}, tx)); err != nil {
		return err
	}
	done = true
	if err := tx.Commit(); err != nil {
		tx.Rollback()
		return fmt.Errorf("committing: %w", translate(err))
	}
	return nil
}

// lockWriter waits for the turn to write. PostgreSQL needs none.
func (db *DB) lockWriter(ctx context.Context) error {
	if db.writer == nil {
		return nil
	}
	select {
	case db.writer <- struct{}{}:
		return nil
	default:
	}
	select {
	case db.writer <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("waiting for the database: %w", context.Cause(ctx))
	}
}

func (db *DB) unlockWriter() {
	if db.writer != nil {
		<-db.writer
	}
}
