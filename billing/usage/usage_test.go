package usage_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/billing/usage"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

const (
	minute = int64(60_000)
	hour   = 60 * minute
	day    = 24 * hour
	rate   = int64(133_200_000) // nano-USD an hour
)

// book is a database with a ledger written by hand.
type book struct {
	t   *testing.T
	ctx context.Context
	db  *store.DB
	now int64
	s   *usage.Service
	n   int
}

func newBook(t *testing.T, db *store.DB) *book {
	b := &book{t: t, ctx: t.Context(), db: db, now: time.Date(2026, 11, 18, 12, 0, 0, 0, time.UTC).UnixMilli()}
	b.s = usage.New(store.NewUsage(db), func() int64 { return b.now })
	return b
}

func (b *book) exec(query string, args ...any) {
	b.t.Helper()
	if _, err := b.db.Exec(b.ctx, query, args...); err != nil {
		b.t.Fatal(err)
	}
}

// segment writes one, within a day; open = it has not ended.
func (b *book) segment(team, workspace, user, project, executor string, metered bool, from, ms int64, open bool) {
	b.n++
	price, ended := int64(0), from+ms
	if metered {
		price = rate
	}
	if open {
		ended = 0
	}
	b.exec(`INSERT INTO segments (id, team_id, workspace_id, sandbox_id, user_id, executor, project_id, metered, cpus, memory_mb, price_nano, started_at, seen_at, ended_at, end_source, cost_nano)
		VALUES (?,?,?,?,?,?,?,?,2,2048,?,?,?,?,?,?)`, fmt.Sprintf("seg_%d", b.n), team, workspace, fmt.Sprintf("sbx_%d", b.n), user, executor, project, metered,
		price, from, from+ms, ended, map[bool]string{true: "", false: "server"}[open], billing.Cost(price, ms))
}

// request writes what a model was asked; cost < 0 = unknown.
func (b *book) request(team, workspace, user, project, session, agent string, at, cost int64) {
	b.n++
	var nano any
	if cost >= 0 {
		nano = cost
	}
	b.exec(`INSERT INTO model_requests (id, team_id, workspace_id, project_id, session_id, user_id, agent, source, external_id, input_tokens, output_tokens, cost_nano, at)
		VALUES (?,?,?,?,?,?,?,'gateway',?,100,10,?,?)`, fmt.Sprintf("req_%d", b.n), team, workspace, project, session, user, agent, fmt.Sprint(b.n), nano, at)
}

func (b *book) report(q usage.Query) usage.Report {
	b.t.Helper()
	r, err := b.s.Report(b.ctx, q)
	if err != nil {
		b.t.Fatal(err)
	}
	return r
}

func (b *book) at(day, hour int) int64 {
	return time.Date(2026, 11, day, hour, 0, 0, 0, time.UTC).UnixMilli()
}

func item(r usage.Report, key string) usage.Item {
	for _, i := range r.Items {
		if i.Key == key {
			return i
		}
	}
	return usage.Item{}
}

func TestUsageByEveryGroup(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBook(t, db)
		b.segment("tm_1", "ws_1", "usr_1", "prj_1", "e2b", true, b.at(3, 10), 90*minute+1, false)
		b.segment("tm_1", "ws_2", "usr_2", "prj_1", "e2b", true, b.at(4, 0), 7*minute, false)
		b.segment("tm_1", "ws_2", "usr_2", "prj_2", "local", false, b.at(4, 1), hour, false)
		b.segment("tm_1", "ws_3", "usr_1", "prj_2", "e2b", true, b.at(18, 11), 55*minute, true)
		b.segment("tm_2", "ws_9", "usr_1", "prj_9", "e2b", true, b.at(3, 10), hour, false)
		b.segment("", "", "", "", "e2b", true, b.at(3, 10), 2*hour, false) // of the pool
		b.request("tm_1", "ws_1", "usr_1", "prj_1", "ses_1", "claude-code", b.at(3, 10)+minute, 5_000_001)
		b.request("tm_1", "ws_1", "usr_1", "prj_1", "ses_1", "claude-code", b.at(3, 11), -1)
		b.request("tm_2", "ws_9", "usr_1", "prj_9", "ses_9", "codex", b.at(3, 11), 7)
		want := usage.Amounts{RunMs: 212*minute + 1, MeteredMs: 152*minute + 1, CostNano: billing.Cost(rate, 90*minute+1) + billing.Cost(rate, 7*minute) + billing.Cost(rate, 55*minute),
			TokensCostNano: 5_000_001, TokensUnknown: 1, InputTokens: 200, OutputTokens: 20}
		want.VCPUMs, want.MiBMs = 2*want.RunMs, 2048*want.RunMs
		for _, g := range usage.Groups {
			if g == usage.ByTeam {
				continue
			}
			q := usage.Query{TeamID: "tm_1", Group: g}
			if g == usage.ByHour {
				q.From, q.To = b.at(1, 0), b.at(20, 0)
			}
			r := b.report(q)
			sum := usage.Amounts{}
			for _, i := range r.Items {
				sum.Add(i.Amounts)
			}
			if r.Totals != want || sum != want {
				t.Errorf("by %s: %+v, items %+v, not %+v", g, r.Totals, sum, want)
			}
		}
		days := b.report(usage.Query{TeamID: "tm_1"})
		if len(days.Items) != 30 || days.Items[2].Name != "2026-11-03" || days.Items[2].CostNano != billing.Cost(rate, 90*minute+1) || days.Items[2].TokensUnknown != 1 || days.Items[5].RunMs != 0 {
			t.Errorf("%+v", days.Items)
		}
		if r := b.report(usage.Query{TeamID: "tm_1", Group: usage.ByExecutor}); item(r, "local").RunMs != hour || item(r, "local").CostNano != 0 || item(r, "").TokensUnknown != 1 {
			t.Errorf("%+v", r.Items)
		}
		all := b.report(usage.Query{Group: usage.ByTeam})
		if len(all.Items) != 3 || item(all, "").CostNano != 2*rate || item(all, "tm_2").TokensCostNano != 7 || item(all, "tm_1").Amounts != want {
			t.Errorf("%+v", all.Items)
		}
		if r := b.report(usage.Query{TeamID: "tm_1", Group: usage.ByWorkspace, Hidden: map[string]bool{"ws_1": true, "ws_3": true}}); len(r.Items) != 2 ||
			item(r, usage.Private).RunMs != 145*minute+1 || item(r, usage.Private).TokensCostNano != 5_000_001 || r.Totals != want {
			t.Errorf("%+v", r.Items)
		}
	})
}

// Parts of a segment add up to it, wherever it is cut.
func TestPartsAddUp(t *testing.T) {
	t.Parallel()
	b := newBook(t, storetest.SQLite(t))
	b.segment("tm_1", "ws_1", "usr_1", "prj_1", "e2b", true, b.at(3, 1)+12_345, 22*hour+777, false)
	whole := b.report(usage.Query{TeamID: "tm_1"}).Totals
	r := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1))
	for range 20 {
		at := b.at(3, r.IntN(24))
		for _, g := range []usage.Group{usage.ByDay, usage.ByHour, usage.ByAgent, usage.ByUser} {
			a, z := b.report(usage.Query{TeamID: "tm_1", Group: g, From: b.at(2, 5), To: at}), b.report(usage.Query{TeamID: "tm_1", Group: g, From: at, To: b.at(9, 7)})
			sum := a.Totals
			sum.Add(z.Totals)
			if sum != whole {
				t.Errorf("by %s, cut at %d: %+v, not %+v", g, at, sum, whole)
			}
		}
	}
}

func TestASandboxIsSharedByItsSessions(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBook(t, db)
		u, team := storetest.Seed(t, db)
		project, ws := id.New("prj"), id.New("ws")
		workspaceRows := store.NewWorkspaces(db)
		if err := workspaceRows.InsertProject(b.ctx, workspaces.Project{ID: project, TeamID: team.ID, Name: "engine", SourceKind: "sample", State: "ready", CreatedBy: u.ID, CreatedAt: 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := workspaceRows.InsertWorkspace(b.ctx, workspaces.Workspace{ID: ws, TeamID: team.ID, ProjectID: project, Name: "one", Branch: "b", State: "ready", CreatedBy: u.ID, CreatedAt: 1}); err != nil {
			t.Fatal(err)
		}
		session := func(id, agent string, from, to int64) {
			b.exec(`INSERT INTO sessions (id, team_id, workspace_id, agent, state, state_at, cols, rows, created_by, started_at, ended_at) VALUES (?,?,?,?,'exited',0,80,24,?,?,?)`,
				id, team.ID, ws, agent, u.ID, from, to)
		}
		start := b.at(18, 10)
		b.segment(team.ID, ws, u.ID, project, "e2b", true, start, 70*minute, true)
		session("ses_a", "claude-code", start-hour, start+20*minute)
		session("ses_b", "codex", start+10*minute, start+30*minute)
		session("ses_c", "codex", start+10*minute, start+30*minute+1)
		session("ses_d", "shell", start+60*minute, 0)
		b.request(team.ID, ws, u.ID, project, "ses_b", "codex", start+11*minute, 42)
		c, err := b.s.Workspace(b.ctx, ws)
		if err != nil {
			t.Fatal(err)
		}
		ran, cost := map[string]int64{}, map[string]int64{}
		for _, s := range c.Sessions {
			ran[s.ID], cost[s.ID] = s.RunMs, s.CostNano
		}
		want := map[string]int64{"ses_a": 10*minute + 200_000, "ses_b": 200_000 + 5*minute, "ses_c": 200_000 + 5*minute + 1, "ses_d": 10 * minute, "": 30*minute - 1}
		for id, ms := range want {
			if ran[id] != ms || cost[id]-billing.Cost(rate, ms) > 3 || billing.Cost(rate, ms)-cost[id] > 3 {
				t.Errorf("session %q: %d ms for %d, not %d ms", id, ran[id], cost[id], ms)
			}
		}
		if c.RunMs != 70*minute || c.CostNano != billing.Cost(rate, 70*minute) || c.HourNano != rate || c.TokensCostNano != 42 {
			t.Errorf("%+v", c)
		}
		r := b.report(usage.Query{TeamID: team.ID, Group: usage.ByAgent})
		if r.Totals.CostNano != c.CostNano || item(r, "codex").RunMs != want["ses_b"]+want["ses_c"] || item(r, "codex").TokensCostNano != 42 || item(r, "").RunMs != 30*minute-1 {
			t.Errorf("%+v", r.Items)
		}
	})
}

func TestForecast(t *testing.T) {
	t.Parallel()
	b := newBook(t, storetest.SQLite(t))
	forecast := func() usage.Forecast { return b.report(usage.Query{TeamID: "tm_1"}).Forecast }
	if f := forecast(); f.Basis != usage.BasisNone || f.CostNano != 0 || f.Period != "2026-11" {
		t.Errorf("without use: %+v", f)
	}
	b.segment("tm_1", "ws_1", "usr_1", "prj_1", "e2b", true, b.at(18, 6), 3*hour, false) // today; twelve days and a half are to come
	if f := forecast(); f.Basis != usage.BasisToday || f.CostNano != 3*rate+3*rate*25/2 {
		t.Errorf("today: %+v, not %d", f, 3*rate+3*rate*25/2)
	}
	b.segment("tm_1", "ws_1", "usr_1", "prj_1", "e2b", true, b.at(16, 6), 4*hour, false)
	if f := forecast(); f.Basis != usage.BasisFewer || f.Days != 2 || f.CostNano != 7*rate+2*rate*25/2 {
		t.Errorf("two days: %+v", f)
	}
	b.segment("tm_1", "ws_1", "usr_1", "prj_1", "e2b", true, b.at(1, 6), 10*hour, false)
	b.request("tm_1", "ws_1", "usr_1", "prj_1", "ses_1", "codex", b.at(17, 1), 7_000)
	// Integers are cut to the nano-dollar an hour on the way.
	want := 17*rate + 4*rate*25/14
	if f := forecast(); f.Basis != usage.BasisWeek || f.Days != 7 || f.CostNano > want || want-f.CostNano > 300 || f.TokensCostNano > 7_000+12_500 || f.TokensCostNano < 7_000+12_000 {
		t.Errorf("a week: %+v, not %d", f, want)
	}
}

func TestCSV(t *testing.T) {
	t.Parallel()
	b := newBook(t, storetest.SQLite(t))
	b.segment("tm_1", "ws_1", "usr_1", "prj_1", "e2b", true, b.at(3, 10), 90*minute+1, false)
	r := b.report(usage.Query{TeamID: "tm_1"})
	var out bytes.Buffer
	if err := r.CSV(&out); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(rows) != 31 || rows[0][6] != "cost_usd" || rows[3][0] != "2026-11-03" {
		t.Fatalf("%v, %v", rows, err)
	}
	nano, err := strconv.ParseInt(strings.ReplaceAll(rows[3][6], ".", ""), 10, 64)
	if err != nil || nano != r.Totals.CostNano || len(rows[3][6]) != len("0.199800002") {
		t.Errorf("%q is not %d", rows[3][6], r.Totals.CostNano)
	}
	for in, want := range map[int64]string{0: "0.000000000", 1: "0.000000001", -1_500_000_000: "-1.500000000", 1<<63 - 1: "9223372036.854775807", -1 << 63: "-9223372036.854775808"} {
		if got := usage.Decimal(in); got != want {
			t.Errorf("%d: %s", in, got)
		}
	}
	out.Reset()
	evil := usage.Report{Group: usage.ByUser, Items: []usage.Item{{Key: "usr_1", Name: "=HYPERLINK(1)"}, {Key: "-x", Name: "a,\"b\"\n"}}}
	if err := evil.CSV(&out); err != nil || !strings.Contains(out.String(), "'=HYPERLINK") || !strings.Contains(out.String(), "'-x") {
		t.Errorf("%s, %v", out.String(), err)
	}
}

func TestWhatCannotBeAsked(t *testing.T) {
	t.Parallel()
	b := newBook(t, storetest.SQLite(t))
	for _, q := range []usage.Query{{Group: "moon"}, {TeamID: "tm_1", Group: usage.ByTeam}, {From: 2 * day, To: day}, {From: day, To: 400 * day}, {Group: usage.ByHour, From: day, To: 40 * day},
		{From: -day, To: day}, {From: day, To: 1 << 60}} {
		if _, err := b.s.Report(b.ctx, q); !fault.Is(err, fault.Invalid) {
			t.Errorf("%+v: %v", q, err)
		}
	}
}
