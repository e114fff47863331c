package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestSQLiteIsOpenedDurably(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	for pragma, want := range map[string]string{"journal_mode": "wal", "synchronous": "2", "foreign_keys": "1", "busy_timeout": "10000"} {
		var got string
		if err := db.QueryRow(t.Context(), "PRAGMA "+pragma).Scan(&got); err != nil || got != want {
			t.Errorf("%s = %q, %v, want %q", pragma, got, err, want)
		}
	}
}

func TestSQLiteFileIsPrivateAndItsNameMayBeOdd(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a b?c#d%20e&_foreign_keys=off")
	db, err := store.Open(t.Context(), store.Config{URL: "sqlite", DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, name := range []string{"parawork.db", "parawork.db-wal"} {
		st, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if st.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", name, st.Mode())
		}
	}
	var on int
	if err := db.QueryRow(t.Context(), "PRAGMA foreign_keys").Scan(&on); err != nil || on != 1 {
		t.Errorf("foreign_keys = %d, %v", on, err)
	}
}

func TestOpenRefusesURLsItDoesNotKnowWithoutTellingPasswords(t *testing.T) {
	t.Parallel()
	for _, u := range []string{"mysql://root:hunter2@host/db", "hunter2", "postgres://u:hunter2%zz@host/db", "sqlite:", "sqlite::memory:",
		"postgres://u:hunter2@127.0.0.1:1/db?connect_timeout=2"} {
		_, err := store.Open(t.Context(), store.Config{URL: u, DataDir: t.TempDir()})
		if k := fault.KindOf(err); k != fault.Invalid && k != fault.Unavailable {
			t.Errorf("Open(%q) = %v", u, err)
		}
		if err != nil && strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error of %q tells the password: %v", u, err)
		}
	}
}

func TestMissingRowsAndClashesHaveAKind(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		u, _ := storetest.Seed(t, db)
		var name string
		err := db.QueryRow(t.Context(), `SELECT name FROM users WHERE id = ?`, "usr_none").Scan(&name)
		if !errors.Is(err, store.ErrNotFound) || !fault.Is(err, fault.NotFound) {
			t.Errorf("no row: %v", err)
		}
		_, err = db.Exec(t.Context(), `INSERT INTO users (id, email, name, password_hash, created_at) VALUES (?, ?, 'x', 'x', 0)`, "usr_2", u.Email)
		if !errors.Is(err, store.ErrConflict) || !fault.Is(err, fault.Conflict) {
			t.Errorf("unique: %v", err)
		}
		_, err = db.Exec(t.Context(), `INSERT INTO users (id, email, name, password_hash, created_at) VALUES (?, 'b@x', 'x', 'x', 0)`, u.ID)
		if !errors.Is(err, store.ErrConflict) {
			t.Errorf("primary key: %v", err)
		}
		_, err = db.Exec(t.Context(), `INSERT INTO members (team_id, user_id, role, created_at) VALUES ('none', ?, 'x', 0)`, u.ID)
		if err == nil || errors.Is(err, store.ErrConflict) {
			t.Errorf("foreign key: %v", err)
		}
	})
}

func TestTextThatPostgreSQLRefusesIsInvalid(t *testing.T) {
	t.Parallel()
	db := storetest.Postgres(t)
	for _, s := range []string{"a\x00b", "\xff"} {
		_, err := db.Exec(t.Context(), `INSERT INTO instance (key, value) VALUES (?, 'x')`, s)
		if !fault.Is(err, fault.Invalid) {
			t.Errorf("%q: %v", s, err)
		}
	}
}

func TestTxCommitsOrUndoesEverything(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewInstance(db)
		boom := errors.New("boom")
		err := db.Tx(ctx, func(ctx context.Context) error {
			if err := s.SetSetting(ctx, "a", "1"); err != nil {
				return err
			}
			return db.Tx(ctx, func(ctx context.Context) error { // joins: undone with the outer one
				if err := s.SetSetting(ctx, "b", "1"); err != nil {
					return err
				}
				return boom
			})
		})
		if !errors.Is(err, boom) {
			t.Fatalf("Tx = %v", err)
		}
		func() {
			defer func() { recover() }()
			db.Tx(ctx, func(ctx context.Context) error {
				s.SetSetting(ctx, "a", "2")
				panic("broken")
			})
		}()
		for _, k := range []string{"a", "b"} {
			if v, err := s.Setting(ctx, k); !errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s = %q, %v after undoing", k, v, err)
			}
		}
		if err := db.Tx(ctx, func(ctx context.Context) error { return s.SetSetting(ctx, "a", "3") }); err != nil {
			t.Fatal(err)
		}
		if v, err := s.Setting(ctx, "a"); v != "3" || err != nil {
			t.Errorf("a = %q, %v", v, err)
		}
	})
}

// Read, check, write: with less than serializable transactions some of the counts would be lost.
func TestTxIsSerializable(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := store.NewInstance(db)
		if err := s.SetSetting(t.Context(), "n", "0"); err != nil {
			t.Fatal(err)
		}
		const workers, each = 6, 15
		var wg sync.WaitGroup
		var done atomic.Int64
		for range workers {
			wg.Go(func() {
				for range each {
					err := db.Tx(t.Context(), func(ctx context.Context) error {
						v, err := s.Setting(ctx, "n")
						if err != nil {
							return err
						}
						var n int
						fmt.Sscan(v, &n)
						return s.SetSetting(ctx, "n", fmt.Sprint(n+1))
					})
					if err == nil {
						done.Add(1)
					} else if db.Dialect() == store.SQLite {
						t.Errorf("Tx: %v", err)
					}
				}
			})
		}
		wg.Wait()
		if v, _ := s.Setting(t.Context(), "n"); v != fmt.Sprint(done.Load()) || done.Load() < workers {
			t.Errorf("n = %s after %d transactions", v, done.Load())
		}
	})
}

func TestReadsGoOnWhileATransactionWrites(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := store.NewInstance(db)
		err := db.Tx(t.Context(), func(ctx context.Context) error {
			if err := s.SetSetting(ctx, "k", "new"); err != nil {
				return err
			}
			outside, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			if _, err := s.Setting(outside, "k"); !errors.Is(err, store.ErrNotFound) {
				return fmt.Errorf("a reader beside the transaction saw %v", err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestWaitingForTheWriterEndsWithItsContext(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	err := db.Tx(t.Context(), func(context.Context) error {
		beside, cancel := context.WithCancel(t.Context())
		cancel()
		if err := db.Tx(beside, func(context.Context) error { return nil }); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("Tx beside = %v", err)
		}
		if _, err := db.Exec(beside, `DELETE FROM instance`); !errors.Is(err, context.Canceled) {
			return fmt.Errorf("Exec beside = %v", err)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(t.Context(), `DELETE FROM instance`); err != nil {
		t.Fatal(err)
	}
}

func TestFullDiskHasAKindAndSpoilsNothing(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	s := store.NewInstance(db)
	err := db.Tx(t.Context(), func(ctx context.Context) error {
		var pages int
		if err := db.QueryRow(ctx, `PRAGMA page_count`).Scan(&pages); err != nil {
			return err
		}
		// The transaction's connection may grow by two pages: to SQLite that is a full disk.
		if err := db.QueryRow(ctx, fmt.Sprintf(`PRAGMA max_page_count = %d`, pages+2)).Scan(&pages); err != nil {
			return err
		}
		return s.SetSetting(ctx, "k", strings.Repeat("x", 1<<20))
	})
	if !fault.Is(err, fault.DiskFull) {
		t.Errorf("got %v", err)
	}
	if _, err := s.Setting(t.Context(), "k"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("half of it is there: %v", err)
	}
}

// PostgreSQL asks for a transaction to be run again as often as it meets others, which under load is many times in a row.
func TestTxRunsAgainAsLongAsItMeetsOthers(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := store.NewInstance(db)
		tries := 0
		err := db.Tx(t.Context(), func(ctx context.Context) error {
			if err := s.SetSetting(ctx, "a", strconv.Itoa(tries)); err != nil {
				return err
			}
			if tries++; tries < 20 {
				return &pgconn.PgError{Code: "40001", Message: "could not serialize access"}
			}
			return nil
		})
		if err != nil {
			t.Fatalf("after %d tries: %v", tries, err)
		}
		if v, err := s.Setting(t.Context(), "a"); v != "19" || err != nil {
			t.Errorf("a = %q, %v", v, err)
		}
	})
}
