package audit

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// Lost is the action of the entry that says how many entries of a chain there was no room for, neither in the database nor in the
// reserve. Its facts hold the number and the times of the first and the last of them.
const Lost = "audit.lost"

// record writes rows into the store or, when that is full, into the reserve; behind rows that wait there already, so that their order stays. It
// returns how many of them, from the first on, are stored.
func (l *Log) record(ctx context.Context, rows []Row) (kept int, err error) {
	r := l.reserve
	if r == nil {
		return l.put(ctx, rows)
	}
	if !r.wasTried() {
		l.openReserve(ctx)
	}
	for range 2 {
		if !r.holding() {
			n, perr := l.put(ctx, rows[kept:])
			if !fault.Is(perr, fault.DiskFull) {
				return kept + n, perr
			}
			err = perr
		}
		if kept += r.add(rows[kept:]); kept == len(rows) {
			return kept, nil
		}
		if !r.holding() {
			break
		}
		if terr := l.takeUp(ctx); terr != nil { // the reserve is full: perhaps there is room in the store again
			err = terr
			break
		}
	}
	r.lose(rows[kept:])
	if err == nil { // others were faster both times
		err = fault.New(fault.DiskFull, "disk_full", "The reserve of the audit is full. Make room on the disk of the database.")
	}
	return kept, err
}

// put writes rows into the store.
func (l *Log) put(ctx context.Context, rows []Row) (kept int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := l.cfg.Store.Tx(ctx, func(ctx context.Context) error { return l.write(ctx, rows) }); err != nil {
		return 0, err
	}
	return len(rows), nil
}

// putNew writes those of the rows into the store that it does not have yet, and returns how many these were: a server that was killed may have
// stored them and not come to noting it.
func (l *Log) putNew(ctx context.Context, rows []Row) (fresh int, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = l.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		var missing []Row
		asked := map[string]bool{} // a file that was copied may have one twice
		for _, r := range rows {
			if asked[r.ID] {
				continue
			}
			asked[r.ID] = true
			there, err := l.cfg.Store.AuditRows(ctx, Query{Chain: r.Chain, ID: r.ID, Limit: 1})
			if err != nil {
				return fmt.Errorf("looking for an entry of the audit: %w", err)
			}
			if len(there) == 0 {
				missing = append(missing, r)
			}
		}
		fresh = len(missing)
		return l.write(ctx, missing)
	})
	return fresh, err
}

// openReserve opens the reserve when it is not open.
func (l *Log) openReserve(ctx context.Context) {
	keys, err := l.ring(ctx)
	if err == nil {
		err = l.reserve.open(keys)
	}
	if err != nil && ctx.Err() == nil {
		l.cfg.Log.WarnContext(ctx, "audit reserve unusable: while the database is full, entries are lost", "file", l.cfg.Reserve, "error", err)
	}
}

// takeUp moves what waits in the reserve into the store, in its order, and adds entries about what was lost.
func (l *Log) takeUp(ctx context.Context) error {
	r := l.reserve
	if r == nil {
		return nil
	}
	r.taking.Lock()
	defer r.taking.Unlock()
	ctx = By(ctx, itself) // also when somebody's request has led here
	l.openReserve(ctx)
	moved, err := l.moveHeld(ctx)
	if err == nil {
		err = r.asideDamage(l.cfg.Now().UnixMilli())
	}
	reported := 0
	if err == nil {
		reported, err = l.notifyLosses(ctx)
	}
	if moved+reported > 0 {
		failpoint.Reach(failpoint.AuditTaken)
	}
	if moved > 0 {
		l.cfg.Log.InfoContext(ctx, "waiting audit entries stored", "entries", moved)
	}
	if err == nil {
		err = r.clear()
	}
	return err
}

// moveHeld moves the rows that wait, a bounded number in a transaction.
func (l *Log) moveHeld(ctx context.Context) (moved int, err error) {
	for {
		rows := l.reserve.next(mostTogether)
		if len(rows) == 0 {
			return moved, nil
		}
		n, refused, err := l.move(ctx, rows)
		for _, row := range refused {
			l.reserve.refuse(l.cfg.Now().UnixMilli(), row)
		}
		l.reserve.taken(n)
		moved += n - len(refused)
		if err != nil {
			return moved, err
		}
	}
}

// move stores rows. n is how many of them, from the first on, no longer wait; refused are those among them that the store rejects
// though it has taken one after them. What it refuses without that goes on waiting: perhaps the store takes nothing just now.
func (l *Log) move(ctx context.Context, rows []Row) (n int, refused []Row, err error) {
	if _, err = l.putNew(ctx, rows); err == nil {
		return len(rows), nil, nil
	}
	if passes(err) {
		return 0, nil, err
	}
	var doubtful []Row // refused, and nothing after them is stored yet
	var why error
	for i := range rows {
		fresh, err := l.putNew(ctx, rows[i:i+1])
		switch {
		case err != nil && passes(err):
			return n, refused, err
		case err != nil:
			doubtful, why = append(doubtful, rows[i]), err
		case fresh > 0 || len(doubtful) == 0:
			refused, doubtful = append(refused, doubtful...), nil
			n = i + 1
		}
	}
	if len(doubtful) == 0 {
		return n, refused, nil
	}
	return n, refused, why
}

// passes reports whether an error says that the store cannot take anything for now.
func passes(err error) bool {
	switch fault.KindOf(err) {
	case fault.DiskFull, fault.Unavailable, fault.Timeout:
		return true
	}
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// notifyLosses adds entries about what was lost, and returns how many.
func (l *Log) notifyLosses(ctx context.Context) (int, error) {
	losses := l.reserve.unreported()
	if len(losses) == 0 {
		return 0, nil
	}
	var rows []Row
	for _, x := range losses {
		row, err := l.row(ctx, Entry{Chain: x.Chain, Action: Lost, Result: Failed, Data: map[string]string{"count": strconv.FormatInt(x.Count, 10),
			"from": stamp(x.From), "to": stamp(x.To)}})
		if err != nil {
			return 0, err
		}
		row.ID = x.ID // so that it is stored once
		rows = append(rows, row)
	}
	if _, err := l.putNew(ctx, rows); err != nil {
		return 0, err
	}
	l.reserve.reported(losses)
	return len(losses), nil
}

func stamp(ms int64) string { return Row{At: ms}.Time().Format(time.RFC3339) }
