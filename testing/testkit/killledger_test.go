package testkit_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testkit"
)

// ofLedger are the points at which the ledger is killed: its workspaces live where time is money.
func ofLedger(p failpoint.Point) bool {
	switch p {
	case failpoint.SegmentOpened, failpoint.SegmentBeaten, failpoint.SegmentClosed:
		return true
	}
	return false
}

// paidPlace is the configuration of an instance whose workspaces live at a stand-in for E2B.
func paidPlace(t *testing.T) string {
	t.Helper()
	s := e2btest.New(t, e2btest.Config{})
	return fmt.Sprintf(`"sandboxing":{"defaultProvider":"e2b","e2b":{"apiKey":%q,"apiUrl":%q,"sandboxUrl":%q}}`, s.Key(), s.APIURL(), s.SandboxURL())
}

// books opens the database of the instance beside its server.
func (d *death) books() (context.Context, *store.DB) {
	d.t.Helper()
	ctx := tenant.All(d.t.Context(), "a test")
	db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: d.DataDir()})
	must(d.t, err)
	d.t.Cleanup(func() { db.Close() })
	return ctx, db
}

func (d *death) makeAndRun() {
	var ws testkit.Workspace
	if d.Try("POST", "/teams/"+d.Team+"/workspaces", map[string]any{"project_id": d.project, "name": "Paid"}, &ws) == nil {
		d.ws = ws
		d.Cleanup(ws.ID)
		d.wake()
	}
}

// wake has the workspace's sandbox run, if the server lives that long.
func (d *death) wake() {
	_ = d.Try("POST", "/workspaces/"+d.ws.ID+"/exec", map[string]any{"argv": []string{"true"}, "timeout_ms": 60_000}, nil)
}

func (d *death) paidWork() {
	d.ws = d.Workspace(d.project, "Paid")
	d.execIn(d.ws, "true")
}

func (d *death) wait() {}

// charged is what holds of the ledger whenever the server died: a sandbox has one open segment at most, none overlaps another, each costs
// what its time does, and together they last no longer than there was anything, and no shorter than it ran since.
func (d *death) charged() {
	d.t.Helper()
	began := time.Now()
	d.Wait("the workspace is ready", func() bool {
		if d.API("GET", "/workspaces/"+d.ws.ID, nil, &d.ws); d.ws.State == "failed" {
			d.API("POST", "/workspaces/"+d.ws.ID+"/retry", nil, nil)
		}
		return d.ws.State == "ready" || d.ws.State == "paused"
	})
	if got := boxOf(d.Instance, d.ws); got.State == "paused" {
		d.API("POST", "/workspaces/"+d.ws.ID+"/wake", nil, nil)
	}
	d.execIn(d.ws, "sleep", "1.1") // time that must be charged
	d.API("POST", "/workspaces/"+d.ws.ID+"/destroy-sandbox", nil, nil)
	ctx, db := d.books()
	rows, err := db.Query(ctx, `SELECT sandbox_id, started_at, seen_at, ended_at, price_nano, metered, cost_nano FROM segments ORDER BY sandbox_id, started_at, id`)
	must(d.t, err)
	defer rows.Close()
	type segment struct {
		sandbox                                 string
		startedAt, seenAt, endedAt, price, nano int64
		metered                                 bool
	}
	var last segment
	var sum, n int64
	for rows.Next() {
		var s segment
		must(d.t, rows.Scan(&s.sandbox, &s.startedAt, &s.seenAt, &s.endedAt, &s.price, &s.metered, &s.nano))
		if s.endedAt == 0 {
			d.t.Errorf("it has ended, and is charged: %+v", s)
		}
		if s.sandbox == last.sandbox && s.startedAt < last.endedAt || s.endedAt < s.startedAt || !s.metered || s.price != 133_200_000 {
			d.t.Errorf("%+v after %+v", s, last)
		}
		if exact := s.price * (s.endedAt - s.startedAt); s.nano > exact/3_600_000+1 || s.nano < exact/3_600_000 {
			d.t.Errorf("%+v costs what it should not", s)
		}
		sum, n, last = sum+s.endedAt-s.startedAt, n+1, s
	}
	must(d.t, rows.Err())
	if n == 0 || sum < 1_000 || sum > time.Since(d.born).Milliseconds() {
		d.t.Errorf("%d segments of %d ms, in an instance of %s; it ran for more than a second since %s", n, sum, time.Since(d.born), began)
	}
}

// many is more than one transaction of the roll-up takes.
const many = 1100

// leaveHours writes into the ledger what ran hours ago, as if no server had added it up.
func (d *death) leaveHours() {
	ctx, db := d.books()
	now := time.Now().UnixMilli()
	start := now - now%3_600_000 - 5*3_600_000
	if start/86_400_000 != (start+2*3_600_000+90_000)/86_400_000 { // a segment lies within one day
		start -= 4 * 3_600_000
	}
	must(d.t, db.Tx(ctx, func(ctx context.Context) error {
		for i := range many {
			from, ms := start+int64(i), 2*int64(3_600_000)+int64(i)*7
			if _, err := db.Exec(ctx, `INSERT INTO segments (id, team_id, workspace_id, sandbox_id, executor, price_nano, started_at, seen_at, ended_at, end_source, cost_nano)
				VALUES (?, '', '', ?, 'e2b', 3600000, ?, ?, ?, 'server', ?)`, fmt.Sprintf("seg_%04d", i), fmt.Sprintf("sbx_%d", i), from, from+ms, from+ms, ms); err != nil {
				return err
			}
		}
		_, err := db.Exec(ctx, `DELETE FROM billing_marks WHERE name = 'rollup'`)
		return err
	}))
}

// hoursAddUp: the server that takes over goes on where the other died, and nothing is there twice.
func (d *death) hoursAddUp() {
	ctx, db := d.books()
	want := int64(0)
	for i := range int64(many) {
		want += 2*3_600_000 + i*7
	}
	d.Wait("the hours are frozen", func() bool {
		var n int64
		must(d.t, db.QueryRow(ctx, `SELECT COUNT(*) FROM billing_marks WHERE name = 'rollup'`).Scan(&n))
		var left int64
		must(d.t, db.QueryRow(ctx, `SELECT COUNT(*) FROM segments WHERE rolled_ms < ended_at - started_at`).Scan(&left))
		return n == 1 && left == 0
	})
	var ms, nano, wrong int64
	must(d.t, db.QueryRow(ctx, `SELECT SUM(run_ms), SUM(cost_nano) FROM usage_hours`).Scan(&ms, &nano))
	must(d.t, db.QueryRow(ctx, `SELECT COUNT(*) FROM usage_hours WHERE run_ms > 3600000 OR run_ms <= 0 OR hour % 3600000 <> 0`).Scan(&wrong))
	if ms != want || nano != want || wrong != 0 {
		d.t.Errorf("the hours are %d ms for %d nano-USD, not %d; %d of them cannot be", ms, nano, want, wrong)
	}
}
