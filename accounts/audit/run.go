package audit

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// Paces of Run.
const (
	flushEvery  = time.Second
	notifyEvery = time.Minute
	dropEvery   = time.Hour
	// dropTogether bounds how many rows one transaction removes.
	dropTogether = 10_000
)

// Dropped is the action of the entry that says which entries were dropped for their age. Its facts hold the number and the seal of
// the last of them, so that the chain is still proven from there on.
const Dropped = "audit.dropped"

// Run writes down how far chains have come, stores what waits in the reserve, tells what was not recorded one by one, and drops what is older
// than KeepDays, until ctx ends.
func (l *Log) Run(ctx context.Context) error {
	notify, drop := time.NewTicker(notifyEvery), time.NewTicker(dropEvery)
	defer notify.Stop()
	defer drop.Stop()
	l.takeUpNow(ctx)
	l.drop(ctx)
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
			defer cancel()
			l.notifyLeft(last)
			l.takeUpNow(last)
			l.flush(last)
			return nil
		case <-notify.C:
			l.takeUpNow(ctx)
			l.notifyLeft(ctx)
			l.flush(ctx) // of what a transaction wrote that ended late
		case <-drop.C:
			l.drop(ctx)
		case <-l.wake:
			select { // what comes close together is written down once
			case <-ctx.Done():
			case <-time.After(flushEvery):
			}
			if ctx.Err() == nil {
				l.flush(ctx)
			}
		}
	}
}

func (l *Log) flush(ctx context.Context) {
	if err := l.Flush(ctx); err != nil && ctx.Err() == nil {
		l.cfg.Log.WarnContext(ctx, "audit position not written", "error", err)
	}
}

func (l *Log) takeUpNow(ctx context.Context) {
	if err := l.takeUp(ctx); err != nil && !passes(err) {
		l.cfg.Log.WarnContext(ctx, "waiting audit entries not stored", "error", err)
	}
}

func (l *Log) drop(ctx context.Context) {
	if err := l.Drop(ctx); err != nil && ctx.Err() == nil {
		l.cfg.Log.WarnContext(ctx, "old audit entries not deleted", "error", err)
	}
}

// Drop removes entries older than KeepDays from the beginnings of the chains, and records that.
func (l *Log) Drop(ctx context.Context) error {
	if l.cfg.KeepDays <= 0 {
		return nil
	}
	chains, err := l.cfg.Store.AuditChains(ctx)
	if err != nil {
		return fmt.Errorf("reading the chains of the audit: %w", err)
	}
	before := l.cfg.Now().AddDate(0, 0, -l.cfg.KeepDays).UnixMilli()
	for _, chain := range chains {
		for more := true; more; {
			if more, err = l.dropSome(ctx, chain, before); err != nil {
				return fmt.Errorf("dropping old entries: %w", err)
			}
		}
	}
	return nil
}

// dropSome removes a bounded number of a chain's old entries; more says that there are others.
func (l *Log) dropSome(ctx context.Context, chain string, before int64) (more bool, err error) {
	err = l.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		more = false
		through, seal, err := l.cfg.Store.AuditBefore(ctx, chain, before)
		if err != nil || through == 0 {
			return err
		}
		first, err := l.cfg.Store.AuditRows(ctx, Query{Chain: chain, Oldest: true, Limit: 1})
		if err != nil || len(first) == 0 {
			return err
		}
		if most := first[0].Seq + dropTogether - 1; through > most {
			through, more = most, true
			if seal, err = l.cfg.Store.AuditSeal(ctx, chain, through); err != nil {
				return err
			}
		}
		// First the entry, so that the chain is never without an end.
		if err := l.Append(ctx, Entry{Chain: chain, Action: Dropped, Data: map[string]string{"from": strconv.FormatInt(first[0].Seq, 10),
			"through": strconv.FormatInt(through, 10), "seal": seal, "keep_days": strconv.Itoa(l.cfg.KeepDays)}}); err != nil {
			return err
		}
		return l.cfg.Store.DropAudit(ctx, chain, through)
	})
	return more, err
}
