package tokens_test

import (
	"context"
	"math"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

const dollar = 1_000_000_000

func n(v int64) *int64 { return &v }

var at = time.Date(2026, 11, 20, 10, 0, 0, 0, time.UTC)

func harness(t *testing.T, db *store.DB) (context.Context, *tokens.Meter, *events.Bus, string) {
	t.Helper()
	_, team := storetest.Seed(t, db)
	bus := events.New()
	m := tokens.New(tokens.Config{Store: store.NewTokens(db), Events: bus, Now: func() time.Time { return at }})
	ctx := tenant.In(t.Context(), team.ID)
	if err := m.Seed(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx, m, bus, team.ID
}

func request(team, external string) tokens.Request {
	return tokens.Request{TeamID: team, WorkspaceID: "ws_1", SessionID: "ses_1", Source: tokens.FromGateway, ExternalID: external, API: "messages",
		Model: "claude-opus-4-8", Status: 200, At: at.UnixMilli()}
}

// priced is what a request comes to; nil = nobody knows.
type priced struct {
	change func(*tokens.Request)
	want   *int64
}

func TestWhatAnAnswerCosts(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		if _, err := m.AddPrice(ctx, "u", tokens.Price{Model: "half", InputNano: 500_000, EffectiveFrom: 1}); err != nil {
			t.Fatal(err)
		}
		opus := tokens.Tokens{Input: n(6000), Output: n(511), CacheRead: n(1100), CacheWrite: n(270)}
		for name, c := range map[string]priced{
			// 6000 x 5 + 511 x 25 + 1100 x 0.5 + 270 x 6.25, for a million.
			"every kind":        {func(r *tokens.Request) { r.Tokens = opus }, n(45_012_500)},
			"dated name":        {func(r *tokens.Request) { r.Tokens, r.Model = opus, "claude-opus-4-8-20260401" }, n(45_012_500)},
			"an hour's cache":   {func(r *tokens.Request) { r.Input, r.Output, r.CacheWriteHour = n(0), n(0), n(1000) }, n(10_000_000)},
			"fast":              {func(r *tokens.Request) { r.Input, r.Output, r.Variant = n(1_000_000), n(0), "fast" }, n(10 * dollar)},
			"in the USA":        {func(r *tokens.Request) { r.Input, r.Output, r.Variant = n(1_000_000), n(0), "us" }, n(5_500_000_000)},
			"served otherwise":  {func(r *tokens.Request) { r.Input, r.Output, r.Variant = n(1), n(1), "priority" }, nil},
			"unknown model":     {func(r *tokens.Request) { r.Input, r.Output, r.Model = n(1), n(1), "mystery-1" }, nil},
			"its sister":        {func(r *tokens.Request) { r.Input, r.Output, r.Model = n(1), n(1), "claude-opus-4-9" }, nil},
			"asked by its name": {func(r *tokens.Request) { r.Input, r.Output, r.Model, r.Asked = n(1_000_000), n(0), "x", "gpt-5.5" }, n(10 * dollar)},
			"short prompt":      {func(r *tokens.Request) { r.Input, r.Output, r.Model = n(272_000), n(0), "gpt-5.5" }, n(1_360_000_000)},
			"long prompt":       {func(r *tokens.Request) { r.Input, r.CacheRead, r.Output, r.Model = n(272_000), n(1), n(0), "gpt-5.5" }, n(2_720_001_000)},
			"output unknown":    {func(r *tokens.Request) { r.Input = n(1) }, nil},
			"nothing known":     {func(r *tokens.Request) {}, nil},
			"nothing used":      {func(r *tokens.Request) { r.Tokens, r.Model = tokens.None(), "mystery-1" }, n(0)},
			"a subscription":    {func(r *tokens.Request) { r.Tokens, r.Subscription = opus, true }, nil},
			"searched the web": {func(r *tokens.Request) {
				r.Input, r.Output, r.Uses = n(0), n(0), map[string]int64{"web_search@anthropic": 3}
			}, n(30_000_000)},
			"used what has none": {func(r *tokens.Request) { r.Tokens, r.Uses = opus, map[string]int64{"code@anthropic": 1} }, nil},
			"said to be unknown": {func(r *tokens.Request) { r.Tokens, r.Unpriced = opus, true }, nil},
			"not to be believed": {func(r *tokens.Request) { r.Input, r.Output = n(1<<62), n(1) }, nil},
			"half to even, down": {func(r *tokens.Request) { r.Input, r.Output, r.Model = n(1), n(0), "half" }, n(0)},
			"half to even, up":   {func(r *tokens.Request) { r.Input, r.Output, r.Model = n(3), n(0), "half" }, n(2)},
		} {
			r := request(team, name)
			c.change(&r)
			if err := m.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
			got := find(t, ctx, m, team, name)
			if (got.CostNano == nil) != (c.want == nil) || c.want != nil && *got.CostNano != *c.want {
				t.Errorf("%s: costs %s, not %s", name, show(got.CostNano), show(c.want))
			}
		}
	})
}

func show(n *int64) string {
	if n == nil {
		return "unknown"
	}
	return strconv.FormatInt(*n, 10)
}

func find(t *testing.T, ctx context.Context, m *tokens.Meter, team, external string) tokens.Request {
	t.Helper()
	all, _, err := m.Requests(ctx, tokens.Filter{TeamID: team}, page.Page{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(all, func(r tokens.Request) bool { return r.ExternalID == external })
	if i < 0 {
		t.Fatalf("%s was not kept", external)
	}
	return all[i]
}

func TestAnAnswerCountsOnceHoweverOftenItIsReported(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, bus, team := harness(t, db)
		sub := bus.Subscribe(team, 0)
		defer sub.Close()
		r := request(team, "one")
		if err := m.Begin(ctx, r); err != nil {
			t.Fatal(err)
		}
		if got := find(t, ctx, m, team, "one"); got.Error != tokens.ErrUnderWay || got.CostNano != nil || got.Input != nil {
			t.Fatalf("under way: %+v", got)
		}
		r.Input, r.Output = n(1_000_000), n(0)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if err := m.Record(ctx, r); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		r.Output = n(5) // told otherwise later: what is complete stays
		if err := m.Record(ctx, r); err != nil {
			t.Fatal(err)
		}
		sums, err := m.OfSessions(ctx, "ses_1", "ses_2")
		if err != nil || len(sums) != 1 || sums["ses_1"] != (tokens.Sum{Input: 1_000_000, CostNano: 5 * dollar, Requests: 1, Source: tokens.FromGateway}) {
			t.Fatalf("sums %+v, %v", sums, err)
		}
		if e := <-sub.C; e.Type != "tokens.updated" || e.ID != "ses_1" || e.WorkspaceID != "ws_1" {
			t.Errorf("told %+v", e)
		}
		if len(sub.C) != 0 {
			t.Error("told more than once")
		}
	})
}

func TestUnknownIsCountedAndIsNotZero(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		priced, unknown, included := request(team, "a"), request(team, "b"), request(team, "c")
		priced.Input, priced.Output = n(1000), n(0)
		unknown.Input = n(50)
		included.Input, included.Output, included.Subscription = n(7), n(1), true
		// For budgets: what was guessed, and what is paid beside the tokens or served otherwise than the table knows.
		unknown.Guess = tokens.Tokens{Input: n(9), Output: n(100)}
		additional, otherwise, nobodys := request(team, "d"), request(team, "e"), request(team, "f")
		additional.Input, additional.Output, additional.Unpriced = n(1000), n(0), true
		otherwise.Input, otherwise.Output, otherwise.Variant = n(1000), n(0), "of-its-own"
		nobodys.Input, nobodys.Output, nobodys.Model = n(1000), n(0), "nobody-knows"
		for _, r := range []tokens.Request{priced, unknown, included, additional, otherwise, nobodys} {
			if err := m.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		sums, err := m.OfWorkspaces(ctx, "ws_1")
		want := tokens.Sum{Input: 4057, Output: 1, CostNano: 5_000_000, Requests: 6, Unknown: 4, Included: 1, Source: tokens.FromGateway}
		if err != nil || sums["ws_1"] != want {
			t.Fatalf("sums %+v, %v", sums, err)
		}
		nano, missing, estimate, err := m.Spent(ctx, team, at.UnixMilli(), at.UnixMilli()+1)
		if err != nil || nano != 5_000_000 || missing != 4 || estimate != 50*5_000+100*25_000+5_000_000+2*5_000_000 {
			t.Fatalf("spent %d, unknown %d, about %d, %v", nano, missing, estimate, err)
		}
		if nano, missing, _, err = m.Spent(ctx, team, at.UnixMilli()+1, at.UnixMilli()+2); err != nil || nano != 0 || missing != 0 {
			t.Fatalf("spent later %d, %d, %v", nano, missing, err)
		}
	})
}

func TestWhatAServerLeftUnderWayIsUnknown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		if err := m.Begin(ctx, request(team, "one")); err != nil {
			t.Fatal(err)
		}
		if err := m.Recover(ctx); err != nil {
			t.Fatal(err)
		}
		if got := find(t, ctx, m, team, "one"); got.Error != tokens.ErrCut || got.CostNano != nil {
			t.Errorf("after the next start: %+v", got)
		}
	})
}

func TestASessionOfTheGatewayIsNotCountedFromItsRecord(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		if _, err := db.Exec(ctx, `INSERT INTO gateway_tokens (token_hash, session_id, team_id, created_at, ended_at) VALUES ('h', 'ses_1', {team?}, ?, ?)`,
			team, at.UnixMilli(), at.UnixMilli()+1000); err != nil {
			t.Fatal(err)
		}
		for name, when := range map[string]int64{"before": -1, "while": 500, "late": 30_000, "after": 120_000} {
			r := request(team, name)
			r.Source, r.At = tokens.FromTranscript, at.UnixMilli()+when
			if err := m.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		all, _, err := m.Requests(ctx, tokens.Filter{TeamID: team}, page.Page{})
		if err != nil || len(all) != 2 || all[0].ExternalID != "after" || all[1].ExternalID != "before" {
			t.Fatalf("kept %+v, %v", all, err)
		}
	})
}

func TestPricesAreAddedAndNeverChange(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, _ := harness(t, db)
		before, err := m.Prices(ctx)
		if err != nil || len(before) < 60 {
			t.Fatalf("%d prices came with the program, %v", len(before), err)
		}
		if err := m.Seed(ctx); err != nil { // the next start
			t.Fatal(err)
		}
		if again, _ := m.Prices(ctx); len(again) != len(before) {
			t.Fatalf("%d prices after the next start, not %d", len(again), len(before))
		}
		for _, bad := range []tokens.Price{{Model: ""}, {Model: "a b"}, {Model: "*"}, {Model: "x", InputNano: -1}, {Model: "x", OutputNano: 1 << 62}, {Model: "x", CacheReadNano: n(-1)},
			{Model: "x", EffectiveFrom: 1 << 60}} {
			if _, err := m.AddPrice(ctx, "u", bad); fault.CodeOf(err) != "invalid_model_price" {
				t.Errorf("%+v: %v", bad, err)
			}
		}
		p, err := m.AddPrice(ctx, "usr_1", tokens.Price{Model: "my-model*", InputNano: 7})
		if err != nil || p.EffectiveFrom != at.UnixMilli() || p.CreatedBy != "usr_1" {
			t.Fatalf("%+v, %v", p, err)
		}
		if _, err := m.AddPrice(ctx, "usr_1", tokens.Price{Model: "my-model*", InputNano: 8}); fault.CodeOf(err) != "model_price_exists" {
			t.Errorf("a second of the same time: %v", err)
		}
		for model, want := range map[string]string{"my-model-2": "my-model*", "gpt-5.6-luna-2026-09-01": "gpt-5.6-luna", "other": ""} {
			got, ok, err := m.Price(ctx, model, at.UnixMilli())
			if err != nil || ok != (want != "") || got.Model != want {
				t.Errorf("%s costs as %q, %v", model, got.Model, err)
			}
		}
		// A price holds from its day on.
		was, _, _ := m.Price(ctx, "gpt-5.6-sol", time.Date(2026, 8, 20, 0, 0, 0, 0, time.UTC).UnixMilli())
		is, _, _ := m.Price(ctx, "gpt-5.6-sol", time.Date(2026, 8, 21, 0, 0, 0, 0, time.UTC).UnixMilli())
		if was.InputNano != 5*dollar || is.InputNano != 4*dollar {
			t.Errorf("before %d, from the day on %d", was.InputNano, is.InputNano)
		}
		// An operator's own counts before the program's, whenever that began; and for long prompts too.
		if _, err := m.AddPrice(ctx, "usr_1", tokens.Price{Model: "gpt-5.6-sol", InputNano: 1, EffectiveFrom: 1}); err != nil {
			t.Fatal(err)
		}
		all, _ := m.Prices(ctx)
		if p, ok := tokens.Find(all, "gpt-5.6-sol", "", 900_000, at.UnixMilli()); !ok || p.InputNano != 1 {
			t.Errorf("with an operator's price: %+v", p)
		}
	})
}

func TestRequestsInPages(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		for i := range 5 {
			r := request(team, strconv.Itoa(i))
			r.At += int64(i / 2)
			r.Tokens, r.WorkspaceID = tokens.None(), "ws_"+strconv.Itoa(i%2)
			if i == 4 {
				r.Error = tokens.ErrBudget
			}
			if err := m.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		var got []string
		for p := (page.Page{Limit: 2}); ; {
			items, next, err := m.Requests(ctx, tokens.Filter{TeamID: team, SessionID: "ses_1"}, p)
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range items {
				got = append(got, r.ExternalID)
			}
			if p.Cursor = next; next == "" {
				break
			}
		}
		if !slices.Equal(got, []string{"4", "3", "2", "1", "0"}) {
			t.Errorf("in pages: %v", got)
		}
		for name, f := range map[string]tokens.Filter{"any error": {Error: "any"}, "this error": {Error: tokens.ErrBudget}, "not this place": {NotIn: []string{"ws_1"}, From: at.UnixMilli() + 2},
			"until": {Until: at.UnixMilli()}, "model": {Model: "x"}} {
			f.TeamID = team
			items, _, err := m.Requests(ctx, f, page.Page{})
			want := 1
			if name == "until" || name == "model" {
				want = 0
			}
			if err != nil || len(items) != want {
				t.Errorf("%s: %d, %v", name, len(items), err)
			}
		}
	})
}

// A server that begins while another one goes on marks that one's requests as cut: what they used counts still.
func TestWhatWasThoughtCutIsCompleted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		going, cut := request(team, "going"), request(team, "cut")
		cut.Error, cut.Status = tokens.ErrCut, 200
		for _, err := range []error{m.Begin(ctx, going), m.Record(ctx, cut), m.Recover(ctx)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := find(t, ctx, m, team, "going"); got.Error != tokens.ErrCut {
			t.Fatalf("marked %+v", got)
		}
		for _, r := range []tokens.Request{going, cut} {
			r.Input, r.Output, r.Error, r.Status = n(1000), n(0), "", 200
			if err := m.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		if got := find(t, ctx, m, team, "going"); got.Error != "" || got.CostNano == nil || *got.CostNano != 5_000_000 {
			t.Errorf("kept %+v", got)
		}
		if got := find(t, ctx, m, team, "cut"); got.Error != tokens.ErrCut || got.CostNano != nil { // what is complete stays
			t.Errorf("what was cut became %+v", got)
		}
	})
}

// What a provider says that cannot be is not believed: sums of it would fail for all of the team.
func TestCountsBeyondBeliefAreUnknown(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx, m, _, team := harness(t, db)
		for _, id := range []string{"a", "b", "c"} {
			r := request(team, id)
			r.Input, r.Output, r.CacheRead, r.CacheWrite = n(math.MaxInt64), n(1), n(math.MaxInt64), n(-5)
			r.Additional = []tokens.Additional{{Tokens: tokens.Tokens{Input: n(math.MaxInt64), Output: n(math.MaxInt64)}}}
			r.Guess = tokens.Tokens{Input: n(math.MaxInt64), Output: n(1)}
			if err := m.Record(ctx, r); err != nil {
				t.Fatal(err)
			}
		}
		sums, err := m.OfWorkspaces(ctx, "ws_1")
		if want := (tokens.Sum{Output: 3, Requests: 3, Unknown: 3, Source: tokens.FromGateway}); err != nil || sums["ws_1"] != want {
			t.Errorf("sums %+v, %v", sums, err)
		}
	})
}
