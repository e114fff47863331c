package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/parawork/parawork/internal/fault"
)

// Query says which rows of a chain are wanted.
type Query struct {
	Chain    string
	From, To int64  // ms UTC, From included, To not; 0 = unbounded
	Actor    string // an id, or part of a name, in any case
	Action   string // such as member.update, or only member for all that is done with members
	Target   string // an id, a kind, or part of a name, in any case
	Result   Result // "" = all
	ID       string // of one entry; "" = all

	Oldest bool  // oldest first; else newest first
	After  int64 // rows after (before, when newest first) this number; 0 = from the beginning
	Limit  int
}

// Bounds of a page.
const (
	defaultPage = 50
	maxPage     = 200
	exportPage  = 500
)

// List returns a page of rows, newest first, and where the next begins; "" when there is none.
func (l *Log) List(ctx context.Context, q Query, cursor string) (rows []Row, next string, err error) {
	if err := q.check(); err != nil {
		return nil, "", err
	}
	if cursor != "" {
		if q.After, err = strconv.ParseInt(cursor, 10, 64); err != nil || q.After < 1 {
			return nil, "", fault.New(fault.Invalid, "invalid_cursor", "The cursor is not one of ours. Use next_cursor of an earlier answer.").With("field", "cursor")
		}
	}
	if q.Limit <= 0 {
		q.Limit = defaultPage
	}
	q.Limit = min(q.Limit, maxPage)
	page := q
	page.Limit++
	if rows, err = l.cfg.Store.AuditRows(ctx, page); err != nil {
		return nil, "", fmt.Errorf("reading the audit: %w", err)
	}
	if len(rows) > q.Limit {
		rows = rows[:q.Limit]
		next = strconv.FormatInt(rows[len(rows)-1].Seq, 10)
	}
	return rows, next, nil
}

// Each calls fn with the rows that are wanted, oldest first, a page at a time.
func (l *Log) Each(ctx context.Context, q Query, fn func(rows []Row) error) error {
	q.Oldest, q.Limit = true, exportPage
	for {
		rows, err := l.cfg.Store.AuditRows(ctx, q)
		if err != nil {
			return fmt.Errorf("reading the audit: %w", err)
		}
		if len(rows) == 0 {
			return nil
		}
		if err := fn(rows); err != nil {
			return err
		}
		if len(rows) < q.Limit {
			return nil
		}
		q.After = rows[len(rows)-1].Seq
	}
}

func (q Query) check() error {
	switch q.Result {
	case "", Done, Refused, Failed:
	default:
		return fault.New(fault.Invalid, "invalid_parameter", "result is done, refused or failed.").With("field", "result")
	}
	if q.From != 0 && q.To != 0 && q.To <= q.From {
		return fault.New(fault.Invalid, "invalid_parameter", "to is a time after from.").With("field", "to")
	}
	return nil
}

// DataText is the row's facts as JSON.
func (r Row) DataText() string {
	if len(r.Data) == 0 {
		return "{}"
	}
	b, err := json.Marshal(r.Data)
	if err != nil { // text by text: cannot be
		return "{}"
	}
	return string(b)
}

// Time is when it was done.
func (r Row) Time() time.Time { return time.UnixMilli(r.At).UTC() }
