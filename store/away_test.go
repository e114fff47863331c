package store_test

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// A database server that is away, stops, starts or is full of connections is something to wait for; what the statement itself did is not.
func TestADatabaseThatIsAwayIsUnavailable(t *testing.T) {
	t.Parallel()
	code := func(c string) error { return fmt.Errorf("exec: %w", &pgconn.PgError{Code: c}) }
	for _, err := range []error{
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, syscall.EPIPE, driver.ErrBadConn, io.ErrUnexpectedEOF,
		code("57P01"), code("57P02"), code("57P03"), code("53300"), code("08006"), code("08001"), errors.New("failed to send: conn closed"),
	} {
		if got := store.Translate(err); !fault.Is(got, fault.Unavailable) || fault.CodeOf(got) != "database_unavailable" || !errors.Is(got, err) {
			t.Errorf("%v became %v", err, got)
		}
	}
	for _, err := range []error{context.Canceled, context.DeadlineExceeded, code("57014"), code("23503"), code("42601"), errors.New("no such column")} {
		if got := store.Translate(err); fault.CodeOf(got) == "database_unavailable" {
			t.Errorf("%v became %v", err, got)
		}
	}
}

// A database server that goes away in the middle of a list is away, not a fault of the server's.
func TestAListCutInTheMiddleIsUnavailable(t *testing.T) {
	t.Parallel()
	db, err := store.Open(t.Context(), store.Config{URL: storetest.PostgresURL(t), AllTeams: true})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.Query(t.Context(), `SELECT n, n = 100000 AND pg_terminate_backend(pg_backend_pid()) FROM generate_series(1, 200000) n`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		n++
	}
	if err := rows.Err(); n == 0 || fault.CodeOf(err) != "database_unavailable" {
		t.Errorf("after %d rows: %v", n, err)
	}
}
