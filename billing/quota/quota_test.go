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

// harness is the service over a database, with a ledger and a clock of its own.
type harness struct {
	t        testing.TB
	ctx      context.Context
	db       *store.DB
	at       int64
	def      string // the default plan
	instance int64  // budget; < 0 = none
	teams    int    // that share the server
	tokens   int64
	guessed  int64                                                                                 // what answers of unknown cost may have cost
	spent    func(ctx context.Context, teamID string, from, to int64) (int64, int64, int64, error) // what models cost; nil = tokens and guessed
	changed  []string
	q        *quota.Service
	l        *billing.Ledger
	n        int // segments
}

func everything(t testing.TB) context.Context { return tenant.All(t.Context(), "a test") }

func newHarness(t testing.TB, db *store.DB) *harness {
	t.Helper()
	h := &harness{t: t, ctx: everything(t), db: db, at: time.Date(2026, 11, 10, 12, 0, 0, 0, time.UTC).UnixMilli(), def: "free", instance: -1}
	h.open()
	h.people()
	return h
}

// now is the ledger's time, but where models are metered in earnest, too.
func (h *harness) now() int64 {
	if h.spent != nil {
		return h.at
	}
	return h.l.Now()
}

// open makes the services of a new server on the stored data.
func (h *harness) open() {
	h.q = quota.New(quota.Config{Store: store.NewQuota(h.db), Now: h.now, OnServer: []string{"bubblewrap", "docker"}, PastDueDays: 7, GraceSeconds: 300,
		DefaultPlan:   func(context.Context) string { return h.def },
		Teams:         func(context.Context) (int, error) { return h.teams, nil },
		InstanceLimit: func(context.Context) (int64, bool, error) { return h.instance, h.instance >= 0, nil },
		Tokens: func(ctx context.Context, team string, from, to int64) (int64, int64, int64, error) {
			if h.spent != nil {
				return h.spent(ctx, team, from, to)
			}
			if to-from <= hour+1 {
				return 0, 0, 0, nil
			}
			return h.tokens, 2, h.guessed, nil
		}})
	h.q.OnChanged(func(teamID string) { h.changed = append(h.changed, teamID) })
	now := func() time.Time { return time.UnixMilli(h.at) }
	h.l = billing.New(billing.Config{Store: store.NewBilling(h.db), Admit: h.q, Clock: billing.NewClock(now, func() time.Duration { return time.Duration(h.at) * time.Millisecond })})
	h.do(h.l.Recover(h.ctx))
}

func (h *harness) exec(query string, args ...any) {
	h.t.Helper()
	if _, err := h.db.Exec(h.ctx, query, args...); err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) people() {
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

func (h *harness) do(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

// refused checks an error's code and scope, and returns its details.
func (h *harness) refused(err error, code, scope string) map[string]any {
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

func run(sandboxID, userID string) executors.UsageInterval {
	return executors.UsageInterval{SandboxID: sandboxID, TeamID: team, WorkspaceID: "ws_" + sandboxID, UserID: userID, Kind: "e2b", Purpose: "agent",
		CPUs: 1, MemoryMB: 1024, PriceNano: price, Metered: true}
}

// ran notes that a sandbox of a user ran for ms until now, as the ledger does.
func (h *harness) ran(userID string, ms int64) {
	h.t.Helper()
	h.n++
	id := fmt.Sprintf("old%d", h.n)
	h.exec(`INSERT INTO segments (id, team_id, workspace_id, sandbox_id, user_id, executor, metered, price_nano, started_at, seen_at, ended_at, end_source, cost_nano)
		VALUES (?, ?, ?, ?, ?, 'e2b', TRUE, ?, ?, ?, ?, 'server', ?)`, "seg_"+id, team, "ws_"+id, id, userID, int64(price), h.at-ms, h.at, h.at, billing.Cost(price, ms))
}

// runs notes that a sandbox runs.
func (h *harness) runs(s executors.UsageInterval) {
	h.t.Helper()
	h.do(h.l.Began(h.ctx, s))
}

func ptr(n int64) *int64 { return &n }

// Of 200 concurrent starts for the one slot that is left, one is admitted; the others get the reason.
func TestOfManyStartsForTheLastPlaceOneIsLetIn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
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
		h.do(h.l.Stopped(h.ctx, run(fmt.Sprintf("s%d", won), user), 0, executors.ByServer))
		h.do(h.l.Afford(h.ctx, run("next", user)))
		// It did not begin after all.
		h.do(h.l.Release(h.ctx, "next"))
		h.do(h.l.Afford(h.ctx, run("third", user)))
		// Its server dies: two minutes later its place is free.
		h.refused(h.l.Afford(h.ctx, run("fourth", user)), "concurrency_limit", "user_concurrency")
		h.open()
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

// What does not fit is refused with what was used, what the bound is, and when it is over.
func TestWhatDoesNotFitIsRefusedInFigures(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		resets := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

		// Hours: closed ones, those that run, and those held back.
		h.ran(user, 9*hour+58*minute)
		h.ran("usr_2", 50*hour) // another one's
		h.at += hour            // ran ends with the hour it began in
		h.runs(run("a", user))
		h.at += minute
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		h.exec(`UPDATE plans SET concurrent_user = 2 WHERE id = 'free'`)
		h.do(h.l.Afford(h.ctx, run("b", user))) // a minute is left
		h.do(h.l.Release(h.ctx, "b"))
		h.at += minute
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		d := h.refused(h.l.Afford(h.ctx, run("b", user)), "quota_exceeded", "user_hours")
		if d["used"] != 10*hour || d["limit"] != 10*hour || d["unit"] != "ms" || d["resets_at"] != resets || d["price_nano_per_hour"] != int64(price) || fmt.Sprint(d["ways"]) != "[free_place upgrade]" {
			t.Errorf("hours: %v", d)
		}
		st, err := h.q.UserStanding(h.ctx, team, user)
		if h.do(err); st.UsedMs != 10*hour || *st.Percent != 100 || st.Running != 1 || *st.ExhaustedAt != h.at {
			t.Errorf("standing %+v", st)
		}
		h.do(h.l.Stopped(h.ctx, run("a", user), 0, executors.ByServer))

		// The team's sandboxes at once.
		for i, u := range []string{"usr_3", "usr_3", "usr_4"} {
			h.do(h.l.Afford(h.ctx, run(fmt.Sprintf("t%d", i), u)))
		}
		if d := h.refused(h.l.Afford(h.ctx, run("t9", "usr_4")), "concurrency_limit", "team_concurrency"); d["used"] != int64(3) || d["limit"] != int64(3) {
			t.Errorf("team: %v", d)
		}
		h.at += 3 * minute

		// Sizes.
		big := run("big", "usr_3")
		big.CPUs = 2
		if d := h.refused(h.l.Afford(h.ctx, big), "size_not_in_plan", "size"); d["limit"] != int64(1) || d["unit"] != "cpus" || d["needed"] != int64(2) {
			t.Errorf("size: %v", d)
		}

		// How many are made in an hour: those that did not begin do not count, nor do sandboxes that wake.
		h.exec(`UPDATE plans SET creations_hour = 2, concurrent_user = NULL, concurrent_team = NULL WHERE id = 'free'`)
		h.at += hour
		made := h.at
		h.runs(admitted(h, "c1", "usr_3"))
		h.at += 10 * minute
		h.do(h.l.Beat(h.ctx, []string{"c1"}))
		h.do(h.l.Afford(h.ctx, run("c2", "usr_3")))
		h.do(h.l.Release(h.ctx, "c2"))
		h.runs(admitted(h, "c3", "usr_3"))
		if d := h.refused(h.l.Afford(h.ctx, run("c4", "usr_3")), "creation_rate_limit", "creations_user"); d["retry_after_ms"] != made+hour-h.at || d["resets_at"] != made+hour {
			t.Errorf("creations: %v at %d", d, h.at)
		}
		h.do(h.l.Stopped(h.ctx, run("c3", "usr_3"), 0, executors.ByServer))
		h.do(h.l.Afford(h.ctx, run("c3", "usr_3")))
		h.do(h.l.Release(h.ctx, "c3"))
		h.at = made + hour + 1
		h.do(h.l.Beat(h.ctx, []string{"c1"}))
		h.do(h.l.Afford(h.ctx, run("c4", "usr_3")))
		h.do(h.l.Release(h.ctx, "c4"))

		// Payments.
		h.exec(`INSERT INTO team_billing (team_id, status, past_due_since, updated_at) VALUES (?, 'past_due', ?, 1)`, team, h.at-7*24*hour+1)
		h.do(h.l.Afford(h.ctx, run("p", "usr_3")))
		h.do(h.l.Release(h.ctx, "p"))
		h.at++
		h.refused(h.l.Afford(h.ctx, run("p", "usr_3")), "payment_past_due", "payment")
		// A plan an operator gave holds, whatever is owed.
		h.exec(`UPDATE team_billing SET plan_id = 'enterprise', plan_source = 'operator' WHERE team_id = ?`, team)
		h.do(h.l.Afford(h.ctx, run("p", "usr_3")))
		h.do(h.l.Release(h.ctx, "p"))
		if v, err := h.q.TeamView(h.ctx, team); err != nil || v.Halt != nil {
			t.Errorf("work is stopped: %+v %v", v.Halt, err)
		}
		h.exec(`UPDATE team_billing SET plan_id = NULL, plan_source = '' WHERE team_id = ?`, team)
		h.exec(`UPDATE team_billing SET past_due_since = 0, suspended_for = 'dispute' WHERE team_id = ?`, team)
		h.refused(h.l.Afford(h.ctx, run("p", "usr_3")), "payment_past_due", "payment")
		h.exec(`UPDATE team_billing SET suspended_for = '' WHERE team_id = ?`, team)

		// The kill switch; places of nobody's bill go on.
		_, err = h.q.SetKillSwitch(h.ctx, true, false, "the bill", "usr_op")
		h.do(err)
		h.refused(h.l.Afford(h.ctx, run("k", "usr_3")), "kill_switch", "kill_switch")
		pool := run("warm", "")
		pool.TeamID, pool.WorkspaceID = "", ""
		h.refused(h.l.Afford(h.ctx, pool), "kill_switch", "kill_switch")
		local := run("local", "usr_3")
		local.Kind, local.PriceNano, local.Metered = "local", 0, false
		h.do(h.l.Afford(h.ctx, local))
		_, err = h.q.SetKillSwitch(h.ctx, false, false, "", "usr_op")
		h.do(err)
		h.do(h.l.Afford(h.ctx, run("k", "usr_3")))
		if len(h.changed) != 2 {
			t.Errorf("reported changes: %v", h.changed)
		}
	})
}

// admitted is a usage interval that was admitted.
func admitted(h *harness, sandboxID, userID string) executors.UsageInterval {
	h.t.Helper()
	s := run(sandboxID, userID)
	h.do(h.l.Afford(h.ctx, s))
	return s
}

// A team's budget and the instance's, with what is held back, models, overage, and when they are used up.
func TestBudgetsHold(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.def = "enterprise"
		set := func(fn func(b *quota.Budget)) {
			t.Helper()
			_, err := h.q.ChangeBudget(h.ctx, team, "usr_1", fn)
			h.do(err)
		}
		set(func(b *quota.Budget) { b.LimitNano = ptr(2 * price) })
		h.runs(admitted(h, "a", user))
		h.at += hour
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		st, err := h.q.TeamStanding(h.ctx, team)
		h.do(err)
		if st.SpentNano != price || *st.Percent != 50 || st.RateNano != price || *st.ExhaustedAt != h.at+hour || st.State != quota.OK || *st.Left() != price || st.TokensUnknown != 2 {
			t.Errorf("standing %+v", st)
		}
		// Models count where the team says so.
		h.tokens, h.guessed = price/2, price/4
		set(func(b *quota.Budget) { b.CountTokens = true })
		if st, err = h.q.TeamStanding(h.ctx, team); err != nil || st.SpentNano != price+price*3/4 || st.State != quota.Warned || st.TokensNano != price/2 || st.TokensEstimateNano != price/4 {
			t.Errorf("with models: %+v, %v", st, err)
		}
		ask := func() error {
			held, err := h.q.HoldModel(h.ctx, team, "q", func(context.Context) (int64, error) { return 1, nil })
			if held {
				h.do(h.q.SettleModel(h.ctx, team, "q", 0))
			}
			return err
		}
		h.do(ask())
		// What is held back counts: five minutes each, and a quarter of an hour is left.
		for i := range 3 {
			h.do(h.l.Afford(h.ctx, run(fmt.Sprintf("r%d", i), user)))
		}
		d := h.refused(h.l.Afford(h.ctx, run("r3", user)), "budget_exceeded", "team_budget")
		if d["used"] != st.SpentNano || d["reserved"] != int64(price/4) || d["limit"] != 2*int64(price) || d["unit"] != "nano_usd" {
			t.Errorf("held back: %v", d)
		}
		h.at += 15 * minute
		h.do(h.l.Beat(h.ctx, []string{"a"}))
		h.refused(h.l.Afford(h.ctx, run("r3", user)), "budget_exceeded", "team_budget")
		h.q.Changed(h.ctx, team) // what was answered a moment ago is not waited for
		if err := ask(); fault.CodeOf(err) != "budget_exceeded" {
			t.Errorf("models: %v", err)
		}
		// At extra cost, up to the cap.
		set(func(b *quota.Budget) { b.Overage, b.OverageCapNano = true, ptr(price) })
		h.do(ask())
		h.do(h.l.Afford(h.ctx, run("r3", user)))
		h.do(h.l.Release(h.ctx, "r3"))
		if st, err = h.q.TeamStanding(h.ctx, team); err != nil || st.State != quota.Overage || *st.Percent != 100 || *st.ExhaustedAt != h.at+hour {
			t.Errorf("overage: %+v, %v", st, err)
		}
		set(func(b *quota.Budget) { b.OverageCapNano = ptr(0) })
		if st, err = h.q.TeamStanding(h.ctx, team); err != nil || st.State != quota.Stopped || *st.ExhaustedAt != h.at {
			t.Errorf("without a cap that is left: %+v, %v", st, err)
		}
		set(func(b *quota.Budget) { b.OverageCapNano = nil })
		if st, err = h.q.TeamStanding(h.ctx, team); err != nil || st.State != quota.Overage || st.ExhaustedAt != nil || st.StopAt != nil {
			t.Errorf("without a cap: %+v, %v", st, err)
		}
		// The instance's, which knows nothing of models, and binds the pool too.
		h.instance = price*5/4 + price/12 + 1 // five minutes are left
		h.exec(`DELETE FROM reservations`)    // what began above was for the figures
		h.open()
		other := run("o", "usr_9")
		other.TeamID = "tm_2"
		h.do(h.l.Afford(h.ctx, other))
		h.refused(h.l.Afford(h.ctx, run("i", user)), "budget_exceeded", "instance_budget")
		h.do(h.l.Release(h.ctx, "o"))
		h.do(h.l.Afford(h.ctx, run("i", user)))
		// The month turns: everything is there again.
		h.do(h.l.Stopped(h.ctx, run("a", user), 0, executors.ByServer))
		h.instance, h.tokens, h.guessed = -1, 0, 0
		h.at = time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC).UnixMilli()
		if st, err = h.q.TeamStanding(h.ctx, team); err != nil || st.SpentNano != 0 || st.Period != "2026-12" || st.State != quota.OK {
			t.Errorf("in December: %+v, %v", st, err)
		}
	})
}

// The largest size is the plan's; where the usual one is larger, the largest that fits is the usual one for that user.
func TestSizesOfAPlan(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	place := func(def int) executors.Capabilities {
		c := executors.Capabilities{Kind: "e2b", Metered: true}
		for _, n := range []int{1, 2, 4, 8} {
			c.Sizes = append(c.Sizes, executors.Size{CPUs: n, MemoryMB: int64(n) * 1024, Available: true, Default: n == def})
		}
		return c
	}
	for _, c := range []struct {
		plan            string
		def, want, most int
	}{{"free", 2, 1, 1}, {"pro", 2, 2, 2}, {"pro", 4, 2, 2}, {"enterprise", 4, 4, 8}, {"pro", 1, 1, 2}} {
		h.def = c.plan
		sizes, err := h.q.Sizes(h.ctx, team, user, place(c.def))
		h.do(err)
		for _, z := range sizes {
			if z.Default != (z.CPUs == c.want) || (z.Refused == nil) != (z.CPUs <= c.most) {
				t.Errorf("%s with %d as usual: %+v", c.plan, c.def, z)
			}
			if z.Refused != nil && (z.Refused.Code != "size_not_in_plan" || z.Refused.Details["hint"] == "") {
				t.Errorf("%s: %v", c.plan, z.Refused)
			}
		}
	}
	// A place that is not metered has its sizes for everybody, and one that has none that fits keeps its usual one, which is refused.
	h.def = "free"
	free := place(2)
	free.Metered = false
	if sizes, err := h.q.Sizes(h.ctx, team, user, free); err != nil || sizes[3].Refused != nil || !sizes[1].Default {
		t.Errorf("not metered: %+v, %v", sizes, err)
	}
	large := place(2)
	large.Sizes = large.Sizes[1:]
	if sizes, err := h.q.Sizes(h.ctx, team, user, large); err != nil || sizes[0].Refused == nil || !sizes[0].Default {
		t.Errorf("none fits: %+v, %v", sizes, err)
	}
}

// An operator's word goes before what is paid for; taken back, what is paid for holds, then the default.
func TestWhoGivesAPlan(t *testing.T) {
	t.Parallel()
	h := newHarness(t, storetest.SQLite(t))
	is := func(plan, source string) {
		t.Helper()
		p, got, err := h.q.PlanOf(h.ctx, team)
		if err != nil || p.ID != plan || got.Source != source {
			t.Errorf("%s by %q, not %s by %q (%v)", p.ID, got.Source, plan, source, err)
		}
	}
	is("free", "")
	h.do(h.q.SetPlan(h.ctx, team, "pro", quota.ByStripe, 3))
	is("pro", quota.ByStripe)
	h.exec(`UPDATE team_billing SET status = 'active' WHERE team_id = ?`, team)
	h.do(h.q.SetPlan(h.ctx, team, "enterprise", quota.ByOperator, 0))
	h.do(h.q.SetPlan(h.ctx, team, "pro", quota.ByStripe, 4))
	is("enterprise", quota.ByOperator)
	h.do(h.q.SetPlan(h.ctx, team, "", quota.ByOperator, 0))
	is("pro", quota.ByStripe)
	h.do(h.q.SetPlan(h.ctx, team, "", quota.ByStripe, 0))
	is("free", "")
	if err := h.q.SetPlan(h.ctx, team, "gold", quota.ByOperator, 0); fault.CodeOf(err) != "plan_not_found" {
		t.Errorf("a plan there is not: %v", err)
	}
	h.def = "gone"
	is("enterprise", "")

	// Seats.
	h.do(h.q.Seats(h.ctx, team))
	h.exec(`UPDATE plans SET seats = 4 WHERE id = 'free'`)
	h.def = "free"
	h.do(h.q.Seats(h.ctx, team))
	h.exec(`UPDATE plans SET seats = 3 WHERE id = 'free'`)
	if d := h.refused(h.q.Seats(h.ctx, team), "seats_taken", "seats"); d["limit"] != int64(3) {
		t.Errorf("seats: %v", d)
	}

	// What an admin gave by hand holds within the plan, whatever becomes of it; what an operator gave goes beyond it.
	h.def = "pro"
	h.do(h.q.SetUsers(h.ctx, team, []quota.UserChange{{UserID: user, Set: map[string]*int64{quota.HoursMonth: ptr(50), quota.Concurrent: ptr(5)}}}, "usr_2", false))
	h.do(h.q.SetUsers(h.ctx, team, []quota.UserChange{{UserID: user, Set: map[string]*int64{quota.CPUs: nil}}}, "usr_op", true))
	h.def = "free"
	q, _, err := h.q.Effective(h.ctx, team, user)
	if h.do(err); *q.HoursMonth != 10 || *q.Concurrent != 1 || q.CPUs != nil {
		t.Errorf("effective %+v", q)
	}
	// An admin may lower what an operator gave, and take the whole of it back.
	h.do(h.q.SetUsers(h.ctx, team, []quota.UserChange{{UserID: user, Set: map[string]*int64{quota.CPUs: ptr(6)}}}, "usr_2", false))
	if q, _, err = h.q.Effective(h.ctx, team, user); err != nil || *q.CPUs != 6 {
		t.Errorf("effective %+v, %v", q, err)
	}
	err = h.q.SetUsers(h.ctx, team, []quota.UserChange{{UserID: user, Set: map[string]*int64{quota.CPUs: nil}}}, "usr_2", false)
	if fault.CodeOf(err) != "quota_above_plan" {
		t.Errorf("an admin without bound: %v", err)
	}
	h.do(h.q.SetUsers(h.ctx, team, []quota.UserChange{{UserID: user, Inherit: quota.Fields}}, "usr_2", false))
	if q, _, err = h.q.Effective(h.ctx, team, user); err != nil || *q.CPUs != 1 {
		t.Errorf("effective %+v, %v", q, err)
	}
}

// Waking a sandbox is not making one, however long ago it was made; and one that did not wake was made all the same.
func TestWakingIsNotMaking(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		h.exec(`UPDATE plans SET creations_hour = 1, concurrent_user = NULL WHERE id = 'free'`)
		old := run("old", user)
		h.do(h.l.Afford(h.ctx, old))
		h.runs(old)
		h.do(h.l.Stopped(h.ctx, old, 0, executors.ByServer))
		h.at += 2 * hour
		h.do(h.l.Afford(h.ctx, old))
		h.runs(old)
		h.do(h.l.Stopped(h.ctx, old, 0, executors.ByServer))
		fresh := run("new", user)
		h.do(h.l.Afford(h.ctx, fresh)) // the first of this hour
		h.runs(fresh)
		h.do(h.l.Stopped(h.ctx, fresh, 0, executors.ByServer))
		h.do(h.l.Afford(h.ctx, fresh))
		h.do(h.l.Release(h.ctx, fresh.SandboxID)) // it did not wake
		h.refused(h.l.Afford(h.ctx, run("third", user)), "creation_rate_limit", "creations_user")
	})
}

// A start that takes its time, as one that fetches an image does, keeps its place; one whose server died gives it back.
func TestASlowStartKeepsItsPlace(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db) // free: one at once
		h.do(h.l.Afford(h.ctx, run("slow", user)))
		for range 3 {
			h.at += 5 * minute
			h.refused(h.l.Afford(h.ctx, run("other", user)), "concurrency_limit", "user_concurrency")
		}
		h.do(h.l.Release(h.ctx, "slow"))
		h.do(h.l.Afford(h.ctx, run("other", user)))

		at := h.at
		h = &harness{t: t, ctx: h.ctx, db: db, def: "free", instance: -1, at: at + 2*minute}
		h.open()
		h.do(h.l.Afford(h.ctx, run("again", user)))
		h.at += 70 * minute // nobody has heard of it
		h.do(h.l.Afford(h.ctx, run("last", user)))
	})
}

// Two servers over one database let one start in between them.
func TestTwoServersLetOneIn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		other := &harness{t: t, ctx: h.ctx, db: db, def: "free", instance: -1, at: h.at}
		other.open()
		const starts = 20
		errs := make([]error, 2*starts)
		var all sync.WaitGroup
		gate := make(chan struct{})
		for i := range errs {
			l := h.l
			if i%2 == 1 {
				l = other.l
			}
			all.Go(func() {
				<-gate
				errs[i] = l.Afford(h.ctx, run(fmt.Sprintf("s%d", i), user))
			})
		}
		close(gate)
		all.Wait()
		in := 0
		for _, err := range errs {
			if err == nil {
				in++
			} else {
				h.refused(err, "concurrency_limit", "user_concurrency")
			}
		}
		if in != 1 {
			t.Errorf("%d were let in", in)
		}
	})
}
