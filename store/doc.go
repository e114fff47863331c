// Package store keeps everything Parawork remembers, in SQLite or PostgreSQL. All SQL lives here, one text for both
// databases: `?` marks (rebound to $n on PostgreSQL), times as BIGINT ms UTC, ids as TEXT, JSON as TEXT, keyset paging.
//
// A service declares the calls it needs; one struct of this package per service implements them. No service imports this package: cmd wires them.
//
// Rules for queries that run on both databases:
//   - Close rows before the next statement of the same transaction: PostgreSQL has one connection a transaction.
//   - A statement that fails ends a PostgreSQL transaction: where a clash is expected, use ON CONFLICT, not the error.
//   - A transaction's function may run more than once: it must set its results, not add to them.
//   - Pass ctx of the transaction on, or the statement runs beside it (and waits for it, on SQLite).
package store
