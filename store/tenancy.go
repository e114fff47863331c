package store

import (
	"context"
	"database/sql"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Marks are how a statement says whose rows it is about. What they stand for comes from the scope of the work in its context
// (internal/tenant), never from the statement; queries without a scope touch nothing.
//
//	{team}          team_id is one of the teams of the work
//	{team:w}        w.team_id is
//	{team:t.id}     this very column is
//	{team|none:a}   a.team_id is, or the row is no team's: people's own
//	{team?}         a `?` whose value must be one of them: of a new row, or in `team_id = {team?}`
//
// A statement that is about every team on purpose says so, and why, in a comment: /* every team: the instance has one budget */.
// TestASVS_8_4_1_EveryStatementCarriesItsTeam reads all statements and fails on one that does neither.
const markOpen = "{team"

// errNoScope is a bug: work that touches a team's rows did not say for whom it is done.
var errNoScope = fault.New(fault.Internal, "internal", "This work does not say whose rows it is about. Please report this.")

// errForeign is a bug, too: a row of a team the work is not for.
var errForeign = fault.New(fault.Internal, "internal", "This work is not for that team. Please report this.")

// scopeOf is what the work of ctx may touch.
func (db *DB) scopeOf(ctx context.Context) (tenant.Scope, bool) {
	if s, ok := tenant.Of(ctx); ok {
		return s, true
	}
	return db.bare, db.bare.All()
}

// expand puts the work's teams in the place of a statement's marks, and numbers the `?` for PostgreSQL. Literals, quoted names and
// comments stay as they are.
func (db *DB) expand(ctx context.Context, query string, args []any) (string, []any, error) {
	db.asked.Add(1)
	if !strings.Contains(query, markOpen) {
		return db.rebind(query), args, nil
	}
	scope, ok := db.scopeOf(ctx)
	if !ok {
		return "", nil, errNoScope
	}
	w := writer{db: db, scope: scope, args: args, out: make([]any, 0, len(args)+len(scope.Teams()))}
	w.Grow(len(query) + 32)
	for i := 0; i < len(query); {
		end := i + 1
		switch c := query[i]; {
		case c == '?':
			w.pass()
			i++
			continue
		case strings.HasPrefix(query[i:], markOpen):
			end = after(query, i, "}")
			if err := w.mark(query[i+len(markOpen) : end]); err != nil {
				return "", nil, err
			}
			i = end
			continue
		case c == '\'' || c == '"':
			end = after(query, i+1, string(c))
		case strings.HasPrefix(query[i:], "--"):
			end = after(query, i, "\n")
		case strings.HasPrefix(query[i:], "/*"):
			end = after(query, i+2, "*/")
		}
		w.WriteString(query[i:end])
		i = end
	}
	if w.next != len(args) {
		return "", nil, fault.New(fault.Internal, "internal", "A statement has %d placeholders for %d arguments.", w.next, len(args))
	}
	return w.String(), w.out, nil
}

// writer writes one statement with the work's teams in it.
type writer struct {
	strings.Builder
	db    *DB
	scope tenant.Scope
	args  []any // as they were given
	next  int   // of args
	out   []any // as they are passed
}

// pass hands the next argument on.
func (w *writer) pass() {
	if w.next < len(w.args) {
		w.give(w.args[w.next])
	}
	w.next++
}

// give writes a placeholder for an argument.
func (w *writer) give(arg any) {
	w.out = append(w.out, arg)
	if w.db.dialect == Postgres {
		w.WriteString("$" + strconv.Itoa(len(w.out)))
		return
	}
	w.WriteByte('?')
}

// mark writes what a mark stands for. rest is all of it behind "{team".
func (w *writer) mark(rest string) error {
	what, closed := strings.CutSuffix(rest, "}")
	if what == "?" && closed {
		if w.next < len(w.args) && !w.mine(w.args[w.next]) {
			return errForeign
		}
		w.pass()
		return nil
	}
	kind, column, named := strings.Cut(what, ":")
	switch {
	case !named:
		column = "team_id"
	case !strings.Contains(column, "."):
		column += ".team_id"
	}
	if kind != "" && kind != "|none" || !closed {
		return fault.New(fault.Internal, "internal", "A statement has an unknown mark: {team%s.", rest)
	}
	if w.scope.All() {
		w.WriteString("TRUE")
		return nil
	}
	// The mark decides about rows and does not look for them: in SQLite the + keeps it from taking another index for that.
	if w.db.dialect == SQLite {
		column = "+" + column
	}
	if kind == "|none" {
		w.WriteString("(" + column + " IS NULL OR ")
	}
	switch teams := w.scope.Teams(); len(teams) {
	case 0:
		w.WriteString("FALSE")
	case 1:
		w.WriteString(column + " = ")
		w.give(teams[0])
	default:
		w.WriteString(column + " IN (")
		for i, t := range teams {
			if i > 0 {
				w.WriteByte(',')
			}
			w.give(t)
		}
		w.WriteByte(')')
	}
	if kind == "|none" {
		w.WriteByte(')')
	}
	return nil
}

// mine reports whether a row of this team may be touched. None is: the row is a person's own.
func (w *writer) mine(arg any) bool {
	if w.scope.All() {
		return true
	}
	switch v := arg.(type) {
	case nil:
		return true
	case string:
		return slices.Contains(w.scope.Teams(), v)
	case sql.NullString:
		return !v.Valid || slices.Contains(w.scope.Teams(), v.String)
	}
	return false
}
