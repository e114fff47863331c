package main

import (
	"context"
	"fmt"
	"path/filepath"
	"syscall"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// beatEvery is how often the health check has a heartbeat written.
const beatEvery = 15 * time.Second

// cpuTime is what this process has used of CPUs.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// ledger measures what metering costs: heartbeats of many sandboxes, as CPU time of this process with its database in it, against the
// same rows written by one plain statement; starts and ends; and an hour added up.
func (b *bench) ledger() error {
	n, beats := b.size(10_000, 500), b.size(12, 3)
	ctx := tenant.All(context.Background(), "measuring")
	db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: filepath.Join(b.dir, "ledger")})
	if err != nil {
		return err
	}
	defer db.Close()
	now := time.Date(2026, 11, 10, 10, 0, 0, 0, time.UTC)
	since := now
	var l *billing.Ledger
	book := price.New(price.Config{Store: store.NewPrices(db), Now: func() int64 { return l.Now() },
		Defaults: []price.Row{{Executor: "e2b", VCPUSecondNano: 14_000, GiBSecondNano: 4_500, Metered: true}}})
	l = billing.New(billing.Config{Store: store.NewBilling(db), Prices: book, Clock: billing.NewClock(func() time.Time { return now }, func() time.Duration { return now.Sub(since) }),
		Budget: func(context.Context) (billing.Budget, error) {
			return billing.Budget{LimitNano: 1 << 50, Limited: true}, nil
		}})
	if err := l.Recover(ctx); err != nil {
		return err
	}
	if err := book.Load(ctx); err != nil {
		return err
	}
	of := func(i int) executors.UsageInterval {
		return executors.UsageInterval{SandboxID: fmt.Sprintf("sbx_%026d", i), TeamID: fmt.Sprintf("tm_%d", i%50), WorkspaceID: fmt.Sprintf("ws_%d", i), UserID: fmt.Sprintf("usr_%d", i%500),
			Kind: "e2b", Purpose: "agent", CPUs: 2, MemoryMB: 2048}
	}
	ids := make([]string, n)
	at := cpuTime()
	for i := range n {
		s := of(i)
		ids[i] = s.SandboxID
		if err := l.Began(ctx, s); err != nil {
			return err
		}
	}
	fmt.Printf("  a start is noted in %.2f ms of CPU time, on disk before it is answered\n", (cpuTime()-at).Seconds()*1000/float64(n))

	if _, err := db.Exec(ctx, `CREATE TABLE plain (id TEXT PRIMARY KEY, seen_at BIGINT NOT NULL, cost BIGINT NOT NULL)`); err != nil {
		return err
	}
	if _, err := db.Exec(ctx, `INSERT INTO plain SELECT sandbox_id, seen_at, 0 FROM segments`); err != nil {
		return err
	}
	var ours, plain []time.Duration
	for range beats {
		now = now.Add(beatEvery)
		at := cpuTime()
		if err := l.Beat(ctx, ids); err != nil {
			return err
		}
		ours = append(ours, cpuTime()-at)
		at = cpuTime()
		if _, err := db.Exec(ctx, `UPDATE plain SET seen_at = ?, cost = cost + 1`, now.UnixMilli()); err != nil {
			return err
		}
		plain = append(plain, cpuTime()-at)
	}
	o, p := middle(ours), middle(plain)
	share := o.Seconds() / beatEvery.Seconds() * 100 * 10_000 / float64(n)
	b.figure(fmt.Sprintf("heartbeats of %d sandboxes", n), inMs(o), inMs(p), float64(o)/float64(max(p, 1)), "<= 20x", float64(o) <= 20*float64(p))
	b.figure("  of a core, for 10,000", fmt.Sprintf("%.2f %%", share), "5 %", share/5, "<= 1", share <= 5)
	fmt.Printf("  a sandbox that runs costs the ledger %.1f us of CPU time a minute\n", o.Seconds()*1e6/float64(n)*float64(time.Minute/beatEvery))

	now = now.Add(time.Hour)
	if err := l.Beat(ctx, ids); err != nil {
		return err
	}
	now = now.Add(10 * time.Minute)
	at = cpuTime()
	if err := l.RollUp(ctx); err != nil {
		return err
	}
	took := cpuTime() - at
	b.figure(fmt.Sprintf("an hour of %d sandboxes added up", n), inMs(took), "1 % of it", took.Seconds()/36, "<= 0.1", took.Seconds() <= 3.6)
	at = cpuTime()
	for i := range n {
		if err := l.Stopped(ctx, of(i), 0, executors.ByServer); err != nil {
			return err
		}
	}
	fmt.Printf("  an end is noted in %.2f ms of CPU time\n", (cpuTime()-at).Seconds()*1000/float64(n))
	return nil
}

func inMs(d time.Duration) string { return fmt.Sprintf("%.1f ms", ms(d)) }
