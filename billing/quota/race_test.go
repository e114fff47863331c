package quota_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// racing is a harness whose models are metered in earnest.
func racing(t *testing.T, db *store.DB, at int64) (*harness, *tokens.Meter) {
	t.Helper()
	m := tokens.New(tokens.Config{Store: store.NewTokens(db)})
	h := &harness{t: t, ctx: everything(t), db: db, at: at, def: "enterprise", instance: -1, spent: m.Spent}
	h.open()
	return h, m
}

// 200 starts of sandboxes and questions to models race for what is left of a budget, through three servers over one database. However they
// come and end, what is spent and what is held back is never more than the budget, and what was held back is given back.
func TestNothingRacesPastABudget(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		first := newHarness(t, db)
		const limit = 10 * billing.Nano
		h, m := racing(t, db, first.at)
		h.do(m.Seed(h.ctx))
		set := func(fn func(b *quota.Budget)) {
			t.Helper()
			_, err := h.q.ChangeBudget(h.ctx, team, user, fn)
			h.do(err)
		}
		set(func(b *quota.Budget) { b.LimitNano, b.CountTokens, b.GraceSeconds = ptr(limit), true, 0 })
		servers := []*harness{h}
		for range 2 {
			other, _ := racing(t, db, first.at)
			servers = append(servers, other)
		}
		check := func() {
			t.Helper()
			var st quota.Standing
			h.do(store.NewQuota(db).Tx(h.ctx, func(ctx context.Context) (err error) { // as of one moment
				st, err = h.q.TeamStanding(ctx, team)
				return err
			}))
			if st.SpentNano+st.ReservedNano > limit {
				t.Errorf("%d are spent and %d held back of %d", st.SpentNano, st.ReservedNano, int64(limit))
			}
		}
		const racers = 200
		var all sync.WaitGroup
		gate := make(chan struct{})
		for i := range racers {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			server := servers[i%len(servers)]
			all.Go(func() {
				<-gate
				if r.IntN(3) == 0 {
					start(t, server, fmt.Sprintf("s%d", i), r)
				} else {
					question(t, server, m, fmt.Sprintf("q%d", i), r)
				}
				if r.IntN(8) == 0 {
					check()
				}
			})
		}
		close(gate)
		all.Wait()
		check()
		// What servers that died held back is given back by its age.
		for _, s := range servers {
			s.at += 2*minute + 1
		}
		running, err := store.NewQuota(db).Running(h.ctx, team)
		h.do(err)
		h.q.Changed(h.ctx, team)
		st, err := h.q.TeamStanding(h.ctx, team)
		h.do(err)
		ahead := int64(0)
		for _, r := range running {
			ahead += billing.Cost(r.PriceNano, 3*minute-1)
		}
		if d := st.ReservedNano - ahead; d < -1000 || d > 1000 { // each is rounded
			t.Errorf("%d are held back, and %d are needed by what runs", st.ReservedNano, ahead)
		}
		if st.TokensNano == 0 || st.SandboxNano == 0 {
			t.Errorf("models cost %d, sandboxes %d: something was always refused", st.TokensNano, st.SandboxNano)
		}
	})
}

// start begins a sandbox of some price, which then runs, ends, does not begin, or whose server dies.
func start(t *testing.T, h *harness, id string, r *rand.Rand) {
	s := run(id, fmt.Sprintf("usr_%d", 1+r.IntN(4)))
	s.PriceNano, s.Metered = int64(1+r.IntN(20))*billing.Nano, false
	switch err := h.l.Afford(h.ctx, s); {
	case fault.CodeOf(err) == "budget_exceeded":
		return
	case err != nil:
		t.Errorf("starting %s: %v", id, err)
		return
	}
	var err error
	switch r.IntN(4) {
	case 0:
		err = h.l.Release(h.ctx, id)
	case 1: // its server dies
	default:
		if err = h.l.Began(h.ctx, s); err == nil && r.IntN(2) == 0 {
			err = h.l.Stopped(h.ctx, s, 0, executors.ByServer)
		}
	}
	if err != nil {
		t.Errorf("sandbox %s: %v", id, err)
	}
}

// question asks a model, is answered for some part of what it may cost, fails, or its server dies.
func question(t *testing.T, h *harness, m *tokens.Meter, id string, r *rand.Rand) {
	output := int64(1+r.IntN(100)) * 1000
	ask := tokens.Ask{Models: []string{"claude-opus-4-8"}, Output: output, At: h.at}
	held, err := h.q.HoldModel(h.ctx, team, id, func(ctx context.Context) (int64, error) { return m.Most(ctx, ask) })
	switch code := fault.CodeOf(err); {
	case code == "budget_exceeded" || code == "budget_reserved":
		return
	case err != nil || !held:
		t.Errorf("asking %s: %v, %v", id, held, err)
		return
	}
	q := tokens.Request{TeamID: team, WorkspaceID: "ws_1", SessionID: "ses_1", UserID: user, Source: tokens.FromGateway, ExternalID: id, Model: "claude-opus-4-8", At: h.at}
	if r.IntN(5) == 0 {
		return // its server dies
	}
	err = m.Begin(h.ctx, q)
	if r.IntN(4) == 0 {
		q.Error, q.Tokens = tokens.ErrUpstream, tokens.None()
	} else {
		q.Tokens = tokens.Tokens{Input: new(int64), Output: new(output - r.Int64N(output))}
	}
	// In one transaction here: between the two it counts twice, which lets nothing in but is more than the budget to who looks.
	err2 := store.NewQuota(h.db).Tx(h.ctx, func(ctx context.Context) error {
		cost, err := m.Settle(ctx, q)
		if err != nil {
			return err
		}
		return h.q.SettleModel(ctx, team, id, cost)
	})
	if err := errors.Join(err, err2); err != nil {
		t.Errorf("question %s: %v", id, err)
	}
}

// A question that others are in the way of may be asked again; one that does not fit anyway, and one more than there is, are refused for good.
func TestWhatIsHeldBackForModels(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		h := newHarness(t, db)
		hold := func(id string, most int64) (bool, error) {
			return h.q.HoldModel(h.ctx, team, id, func(context.Context) (int64, error) { return most, nil })
		}
		if held, err := h.q.HoldModel(h.ctx, team, "q0", func(context.Context) (int64, error) { t.Error("asked without need"); return 1, nil }); held || err != nil {
			t.Fatalf("without a budget: %v, %v", held, err)
		}
		_, err := h.q.ChangeBudget(h.ctx, team, user, func(b *quota.Budget) { b.LimitNano, b.CountTokens = ptr(100), true })
		h.do(err)
		_, err = hold("q1", 101)
		h.refused(err, "budget_exceeded", "team_budget")
		if held, err := hold("q1", 60); !held || err != nil {
			t.Fatalf("q1: %v, %v", held, err)
		}
		_, err = hold("q2", 41)
		if d := h.refused(err, "budget_reserved", "team_budget"); d["reserved"] != int64(60) || d["needed"] != int64(41) {
			t.Errorf("told %v", d)
		}
		if st, err := h.q.TeamStanding(h.ctx, team); err != nil || st.ReservedNano != 60 || *st.Left() != 40 {
			t.Errorf("%+v, %v", st, err)
		}
		// It is settled for less; what it cost counts at once, although the sum of the month is not read again.
		h.tokens = 30
		h.do(h.q.SettleModel(h.ctx, team, "q1", 30))
		if held, err := hold("q2", 70); !held || err != nil {
			t.Errorf("q2: %v, %v", held, err)
		}
		_, err = hold("q3", 1)
		h.refused(err, "budget_reserved", "team_budget")
		// Somebody is at it: it does not expire. Nobody is: it does.
		h.at += minute
		h.do(h.q.RenewModel(h.ctx, team, "q2"))
		h.at += minute + 30*second
		_, err = hold("q3", 70)
		h.refused(err, "budget_reserved", "team_budget")
		h.at += minute
		if held, err := hold("q3", 70); !held || err != nil {
			t.Errorf("q3: %v, %v", held, err)
		}
	})
}

// What was settled a moment ago counts once, also where the sum of the month has it already.
func TestWhatWasSettledCountsOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		first := newHarness(t, db)
		cost := int64(0)
		h := &harness{t: t, ctx: everything(t), db: db, at: first.at, def: "enterprise", instance: -1,
			spent: func(context.Context, string, int64, int64) (int64, int64, int64, error) { return cost, 0, 0, nil }}
		h.open()
		_, err := h.q.ChangeBudget(h.ctx, team, user, func(b *quota.Budget) { b.LimitNano, b.CountTokens = ptr(100), true })
		h.do(err)
		hold := func(id string, most int64) (bool, error) {
			return h.q.HoldModel(h.ctx, team, id, func(context.Context) (int64, error) { return most, nil })
		}
		_, err = hold("q1", 60)
		h.do(err)
		cost = 60 // it is stored with the team's requests, then settled, and the sum read anew
		h.do(h.q.SettleModel(h.ctx, team, "q1", 60))
		h.q.Changed(h.ctx, team)
		if held, err := hold("q2", 40); !held || err != nil {
			t.Errorf("40 of 100, of which 60 are spent: %v, %v", held, err)
		}
		_, err = hold("q3", 1)
		h.refused(err, "budget_reserved", "team_budget")
	})
}
