package quota_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

const (
	second = int64(1000)
	minute = 60 * second
	hour   = 60 * minute

	// price is E2B's for 2 vCPU and 2 GiB: $0.1332 an hour.
	price = 133_200_000

	team, user = "tm_1", "usr_1"
)

// house is the room over a database, with a ledger and a clock of its own.
type house struct {
	t        testing.TB
	ctx      context.Context
	db       *store.DB
	at       int64
	def      string // the default plan
	instance int64  // budget; < 0 = none
	tokens   int64
	changed  []string
	q        *quota.Service
	l        *billing.Ledger
	n        int // segments
}

func newHouse(t testing.TB, db *store.DB) *house {
	t.Helper()
	h := &house{t: t, ctx: tenant.All(t.Context(), "a test"), db: db, at: time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC).UnixMilli(), def: "free", instance: -1}
	h.q = quota.New(quota.Config{Store: store.NewQuota(db), Now: func() int64 { return h.l.Now() }, PastDueDays: 7, GraceSeconds: 300,
		DefaultPlan:   func(context.Context) string { return h.def },
		InstanceLimit: func(context.Context) (int64, bool, error) { return h.instance, h.instance >= 0, nil },
		Tokens: func(_ context.Context, _ string, from, to int64) (int64, int64, error) {
			if to-from <= hour+1 {
				return 0, 0, nil
			}
			return h.tokens, 2, nil
		}})
	h.q.OnChanged(func(teamID string) { h.changed = append(h.changed, teamID) })
	now := func() time.Time { return time.UnixMilli(h.at) }
	h.l = billing.New(billing.Config{Store: store.NewBilling(db), Admit: h.q, Now: now, Elapsed: func() time.Duration { return time.Duration(h.at) * time.Millisecond }})
	h.people()
	return h
}

func (h *house) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(h.ctx, query, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *house) people() {
	h.t.Helper()
	for i := 1; i <= 2; i++ {
		h.exec(`INSERT INTO teams (id, slug, name, created_at) VALUES (?, ?, ?, 1)`, fmt.Sprintf("tm_%d", i), fmt.Sprintf("t%d", i), "Team")
	}
	for i := 1; i <= 4; i++ {
		id := fmt.Sprintf("usr_%d", i)
		h.exec(`INSERT INTO users (id, email, name, password_hash, operator, created_at) VALUES (?, ?, ?, '!', FALSE, 1)`, id, id+"@example.com", id)
		h.exec(`INSERT INTO members (team_id, user_id, role, created_at) VALUES (?, ?, 'member', 1)`, team, id)
	}
}

func (h *house) do(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// refused checks an error's code and scope, and returns its details.
func (h *house) refused(err error, code, scope string) map[string]any {
	h.t.Helper()
	if fault.CodeOf(err) != code {
		h.t.Fatalf("%v, not %s", err, code)
	}
	f := err.(*fault.Error)
	if f.Details["scope"] != scope {
		h.t.Fatalf("%v: scope %v, not %s", err, f.Details["scope"], scope)
	}
	return f.Details
}

func run(sandboxID, userID string) executors.Stretch {
	return executors.Stretch{SandboxID: sandboxID, TeamID: team, WorkspaceID: "ws_" + sandboxID, UserID: userID, Kind: "e2b", Purpose: "agent",
		CPUs: 1, MemoryMB: 1024, PriceNano: price, Metered: true}
}

// ran notes that a sandbox of a user ran for ms until now, as the ledger does.
func (h *house) ran(userID string, ms int64) {
	h.t.Helper()
	h.n++
	id := fmt.Sprintf("old%d", h.n)
	h.exec(`INSERT INTO segments (id, team_id, workspace_id, sandbox_id, user_id, executor, metered, price_nano, started_at, seen_at, ended_at, witness, cost_nano)
		VALUES (?, ?, ?, ?, ?, 'e2b', TRUE, ?, ?, ?, ?, 'server', ?)`, "seg_"+id, team, "ws_"+id, id, userID, int64(price), h.at-ms, h.at, h.at, billing.Cost(price, ms))
}

// runs notes that a sandbox runs.
func (h *house) runs(s executors.Stretch) {
	h.t.Helper()
	h.do(h.l.Began(h.ctx, s))
}

func ptr(n int64) *int64 { return &n }

// Of 200 starts at once for the one place that is left, one is let in; the others are told why.
func TestOfManyStartsForTheLastPlaceOneIsLetIn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHouse(t, db)
		const starts = 200
		errs := make([]error, starts)
		var all sync.WaitGroup
		gate := make(chan struct{})
		for i := range starts {
			all.Go(func() {
				<-gate
				errs[i] = h.l.Afford(h.ctx, run(fmt.Sprintf("s%d", i), user))
			})
		}
		close(gate)
		all.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Fatalf("both %d and %d were let in", won, i)
			default:
				d := h.refused(err, "concurrency_limit", "user_concurrency")
				if d["used"] != int64(1) || d["limit"] != int64(1) || d["unit"] != "sandboxes" {
					t.Fatalf("told %v", d)
				}
			}
		}
		if won < 0 {
			t.Fatal("nobody was let in")
		}
		// It runs: the reservation goes, and it counts as what it is.
		h.runs(run(fmt.Sprintf("s%d", won), user))
		h.refused(h.l.Afford(h.ctx, run("next", user)), "concurrency_limit", "user_concurrency")
		h.do(h.l.Still(h.ctx, run(fmt.Sprintf("s%d", won), user), 0, executors.ByServer))
		h.do(h.l.Afford(h.ctx, run("next", user)))
		// It did not begin after all.
		h.do(h.l.Release(h.ctx, "next"))
		h.do(h.l.Afford(h.ctx, run("third", user)))
		// Nobody hears of it again: two minutes later its place is free.
		h.refused(h.l.Afford(h.ctx, run("fourth", user)), "concurrency_limit", "user_concurrency")
		h.at += 2*minute + 1
		h.do(h.l.Afford(h.ctx, run("fourth", user)))
		// Another one's, and places that are not metered, are not touched by that.
		h.do(h.l.Afford(h.ctx, run("other", "usr_2")))
		free := run("local", user)
		free.Kind, free.PriceNano, free.Metered = "local", 0, false
		h.do(h.l.Afford(h.ctx, free))
	})
}
