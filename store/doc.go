// Package store stores all of Parawork's data, in SQLite or PostgreSQL. All SQL is in this package, one text for both
// databases: `?` marks (rebound to $n on PostgreSQL), times as BIGINT ms UTC, ids as TEXT, JSON as TEXT, keyset paging.
//
// A service declares the calls it needs; one struct of this package per service implements them. No service imports this package: cmd wires them.
//
// Rules for queries that run on both databases:
//   - Close rows before the next statement of the same transaction: PostgreSQL has one connection a transaction.
//   - A statement that fails aborts a PostgreSQL transaction: where a conflict is expected, use ON CONFLICT, not the error.
//   - A transaction's function may run more than once: it must set its results, not add to them.
//   - Pass on the transaction's ctx, or the statement runs outside of it (and waits for it, on SQLite).
package store
