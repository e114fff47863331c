package audit

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Finding is something about a chain that should not be.
type Finding struct {
	Seq  int64 // of the row it is about, 0 = of the chain
	What string
}

// Report is what Verify found of one chain.
type Report struct {
	Chain    string
	Entries  int64
	First    int64 // number of the first row that is kept
	Last     int64
	Unproven int64     // number of the last row whose key was lost, so that its seal cannot be checked; 0 = every seal was
	Findings []Finding // none: nothing was changed, removed or put in between
	More     int64     // findings beyond those kept
}

// mostFindings bounds the findings of one chain.
const mostFindings = 20

func (r *Report) found(seq int64, format string, args ...any) {
	if len(r.Findings) == mostFindings {
		r.More++
		return
	}
	r.Findings = append(r.Findings, Finding{seq, fmt.Sprintf(format, args...)})
}

// Verify checks every chain: that no row was changed, removed, or put in between, and that none was cut off its end. known is false
// when there is no file of heads to hold the ends against. It changes nothing.
func (l *Log) Verify(ctx context.Context) (reports []Report, known bool, err error) {
	keys, err := l.readKeys(ctx)
	if err != nil {
		return nil, false, err
	}
	names, err := l.cfg.Store.AuditChains(ctx)
	if err != nil {
		return nil, false, fmt.Errorf("reading the chains of the audit: %w", err)
	}
	h := heads{}
	genuine := true
	if l.cfg.Heads != "" {
		// Before the rows: what is added meanwhile is after them.
		if h, known, genuine, err = readHeads(l.cfg.Heads, keys); err != nil {
			return nil, false, err
		}
	}
	all := map[string]bool{}
	for _, c := range slices.Concat(names, slices.Collect(maps.Keys(h.Chains))) {
		all[c] = true
	}
	for _, chain := range slices.Sorted(maps.Keys(all)) {
		r, err := l.verify(ctx, chain, keys, h)
		if err != nil {
			return nil, false, err
		}
		reports = append(reports, r)
	}
	if !genuine {
		reports = append(reports, Report{Findings: []Finding{{0, "The file of the chains' heads was changed by somebody else than Parawork."}}})
	}
	for _, lost := range h.Lost {
		if lost.Chain == "" {
			reports = append(reports, Report{Findings: []Finding{{0, fmt.Sprintf("The file of the chains' heads had been changed by somebody else than Parawork; noticed at %s.", when(lost.Noticed))}}})
		}
	}
	return reports, known, nil
}

// verify checks one chain.
func (l *Log) verify(ctx context.Context, chain string, keys [][]byte, h heads) (Report, error) {
	r := Report{Chain: chain}
	previous, err := l.beginning(ctx, chain, &r)
	if err != nil {
		return Report{}, err
	}
	if r.Unproven, err = l.lostThrough(ctx, chain); err != nil {
		return Report{}, err
	}
	head, headed := h.Chains[chain]
	key, dropped := 0, int64(0)
	whole := previous != nil // whether the row before is known
	if previous == nil {
		previous = new(string)
	}
	err = l.Each(ctx, Query{Chain: chain}, func(rows []Row) error {
		for _, row := range rows {
			if r.Last != 0 && row.Seq != r.Last+1 {
				r.found(row.Seq, "entries %d to %d are missing", r.Last+1, row.Seq-1)
				whole = false
			}
			r.Last = row.Seq
			r.Entries++
			fits := row.fits(keys, key, *previous)
			switch {
			case fits >= 0:
				key = fits
				if row.Action == Dropped {
					dropped, _ = strconv.ParseInt(row.Data["through"], 10, 64)
				}
			case row.Seq <= r.Unproven:
				if row.Action == Dropped {
					dropped, _ = strconv.ParseInt(row.Data["through"], 10, 64)
				}
			case whole:
				r.found(row.Seq, "the entry was changed, or was not made by Parawork")
			}
			if headed && row.Seq == head.Seq && row.Seal != head.Seal {
				r.found(row.Seq, "the entry is another than the one that was here at %s", when(head.At))
			}
			*previous, whole = row.Seal, true
		}
		return nil
	})
	if err != nil {
		return Report{}, err
	}
	if headed && r.Last < head.Seq {
		r.found(0, "the end was cut off: entry %d was there at %s, and the last is now %d. After an older backup of the database was restored this is as it must be", head.Seq, when(head.At), r.Last)
	}
	if r.First > 1 && dropped < r.First-1 {
		r.found(0, "entries 1 to %d are missing, and no entry that is sealed says that they were dropped for their age", r.First-1)
	}
	for _, lost := range h.Lost {
		if lost.Chain == chain {
			r.found(lost.Seq, "entries up to %d were there at %s and had been cut off or changed at %s", lost.Seq, when(lost.At), when(lost.Noticed))
		}
	}
	return r, nil
}

// beginning sets the first row's number and returns the seal that came before it; nil when it is not known.
func (l *Log) beginning(ctx context.Context, chain string, r *Report) (*string, error) {
	rows, err := l.cfg.Store.AuditRows(ctx, Query{Chain: chain, Oldest: true, Limit: 1})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if r.First = rows[0].Seq; r.First == 1 {
		return new(string), nil
	}
	return l.sealBefore(ctx, chain, r.First)
}

// sealBefore returns the seal of the row before the first one that is left, as the entry about the pruning records it.
func (l *Log) sealBefore(ctx context.Context, chain string, first int64) (*string, error) {
	reported, err := l.cfg.Store.AuditRows(ctx, Query{Chain: chain, Action: Dropped, Limit: 1})
	if err != nil || len(reported) == 0 || reported[0].Data["through"] != strconv.FormatInt(first-1, 10) {
		return nil, err
	}
	seal := reported[0].Data["seal"]
	return &seal, nil
}

func when(ms int64) string { return Row{At: ms}.Time().Format("2006-01-02 15:04:05 MST") }
