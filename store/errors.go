package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/mattn/go-sqlite3"

	"github.com/parawork/parawork/internal/fault"
)

// The errors of a statement. Callers wrap them with a better message, or return them.
var (
	// ErrNotFound says that no row matched. A fault.NotFound.
	ErrNotFound = fault.New(fault.NotFound, "not_found", "It does not exist, or you do not have access to it.")
	// ErrConflict says that a UNIQUE rule forbids the row. A fault.Conflict.
	ErrConflict = fault.New(fault.Conflict, "already_exists", "That exists already.")
)

// PostgreSQL's SQLSTATE codes that are looked at.
const (
	pgUnique        = "23505"
	pgSerialization = "40001"
	pgDeadlock      = "40P01"
	pgBadText       = "22021"
	pgDiskFull      = "53100"
	pgTooMany       = "53300"
	pgCancelled     = "57014" // a statement, not the server
	// Classes of codes.
	pgConnection   = "08"
	pgIntervention = "57" // 57P01 to 57P03: the server stops, has crashed, starts
)

// translate gives the errors a caller can act on a kind; others pass unchanged.
func translate(err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return ErrNotFound
	}
	if e, ok := errors.AsType[sqlite3.Error](err); ok {
		switch {
		case e.ExtendedCode == sqlite3.ErrConstraintUnique || e.ExtendedCode == sqlite3.ErrConstraintPrimaryKey:
			return fmt.Errorf("%w (%w)", ErrConflict, err)
		case e.Code == sqlite3.ErrFull:
			return diskFull(err)
		case e.Code == sqlite3.ErrBusy || e.Code == sqlite3.ErrLocked:
			return fault.Wrap(err, fault.Unavailable, "database_busy", "The database is busy. Try again.")
		}
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch e.Code {
		case pgUnique:
			return fmt.Errorf("%w (%w)", ErrConflict, err)
		case pgBadText:
			return fault.Wrap(err, fault.Invalid, "invalid_text", "The text holds a zero byte or is not UTF-8.")
		case pgDiskFull:
			return diskFull(err)
		}
	}
	if unreachable(err) {
		return fault.Wrap(err, fault.Unavailable, "database_unavailable", "The database cannot be reached just now. Nothing was changed that was not confirmed; try again in a moment.")
	}
	return err
}

// unreachable reports whether an error says that the database server is away, is starting or stopping, or takes nobody more: what waiting helps
// against.
func unreachable(err error) bool {
	if _, ok := errors.AsType[*fault.Error](err); ok {
		return false
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) && !isNet(err) {
		return false // the caller's own
	}
	if e, ok := errors.AsType[*pgconn.PgError](err); ok {
		return strings.HasPrefix(e.Code, pgConnection) || strings.HasPrefix(e.Code, pgIntervention) && e.Code != pgCancelled || e.Code == pgTooMany
	}
	return isNet(err) || errors.Is(err, driver.ErrBadConn) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) || closedUnder(err)
}

// isNet reports whether an error is of the network or of connecting.
func isNet(err error) bool {
	if _, ok := errors.AsType[*pgconn.ConnectError](err); ok {
		return true
	}
	_, ok := errors.AsType[net.Error](err)
	return ok && !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// closedUnder knows pgx's words, which have no type, for a connection that was cut under a statement.
func closedUnder(err error) bool {
	return strings.HasSuffix(err.Error(), "conn closed") || strings.HasSuffix(err.Error(), "unexpected EOF")
}

func diskFull(err error) error {
	return fault.Wrap(err, fault.DiskFull, "disk_full", "The disk of the database is full. Make room and try again.")
}

// retryable reports whether the whole transaction may succeed when run again.
func retryable(err error) bool {
	e, ok := errors.AsType[*pgconn.PgError](err)
	return ok && (e.Code == pgSerialization || e.Code == pgDeadlock)
}
