package audit_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

// bench is a log over a database, with a clock that the test moves.
type bench struct {
	*audit.Log
	db    *store.DB
	heads string
	// refuse is asked before a row is stored. It is nil while the store takes everything.
	refuse  atomic.Pointer[func(audit.Row) error]
	reserve string // "" = none
	mu      sync.Mutex
	at      time.Time
}

// narrow is a store that can be full.
type narrow struct {
	*store.Audit
	b *bench
}

func (n narrow) InsertAudit(ctx context.Context, r audit.Row) error {
	if refuse := n.b.refuse.Load(); refuse != nil {
		if err := (*refuse)(r); err != nil {
			return err
		}
	}
	return n.Audit.InsertAudit(ctx, r)
}

func (b *bench) now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.at
}

func (b *bench) pass(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.at = b.at.Add(d)
}

func newBench(t *testing.T, db *store.DB, keepDays int) *bench {
	t.Helper()
	b := &bench{db: db, heads: filepath.Join(t.TempDir(), "audit.heads"), at: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
	b.Log = b.again(keepDays)
	return b
}

// again is another process over the same database.
func (b *bench) again(keepDays int) *audit.Log {
	sealer := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(b.db), Key: []byte(strings.Repeat("k", vault.KeyBytes))})
	return audit.New(audit.Config{Store: narrow{store.NewAudit(b.db), b}, Sealer: sealer, Heads: b.heads, Reserve: b.reserve, KeepDays: keepDays, Now: b.now})
}

func (b *bench) add(t *testing.T, chain string, n int) {
	t.Helper()
	for i := range n {
		e := audit.Entry{Chain: chain, Action: "thing.do", TargetKind: "thing", TargetID: fmt.Sprint(i), Data: map[string]string{"n": fmt.Sprint(i)}}
		if err := b.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	if _, err := b.db.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

// findings returns all that Verify finds, as text.
func (b *bench) findings(t *testing.T) string {
	t.Helper()
	reports, _, err := b.Verify(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, r := range reports {
		for _, f := range r.Findings {
			out = append(out, fmt.Sprintf("%s %d: %s", r.Chain, f.Seq, f.What))
		}
	}
	return strings.Join(out, "\n")
}

func TestEntriesAreChained(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBench(t, db, 0)
		ctx := audit.By(t.Context(), audit.Source{Kind: audit.ByUser, ActorID: "usr_1", ActorName: "ada@example.com", Credential: "lgs_1", IP: "192.0.2.1", RequestID: "req_1"})
		if err := b.Append(ctx, audit.Entry{Chain: "team_1", Action: "member.update", TargetKind: "member", TargetID: "usr_2", TargetName: "Bo",
			Data: map[string]string{"role": "admin", "before": "viewer"}}); err != nil {
			t.Fatal(err)
		}
		b.add(t, "team_1", 2)
		b.add(t, audit.Instance, 1)
		rows, next, err := b.List(t.Context(), audit.Query{Chain: "team_1"}, "")
		if err != nil || len(rows) != 3 || next != "" {
			t.Fatalf("%v %q %v", rows, next, err)
		}
		r := rows[2]
		if r.Seq != 1 || r.Kind != "user" || r.ActorID != "usr_1" || r.ActorName != "ada@example.com" || r.Credential != "lgs_1" || r.IP != "192.0.2.1" || r.RequestID != "req_1" ||
			r.Action != "member.update" || r.Result != audit.Done || r.Data["role"] != "admin" || r.At != b.now().UnixMilli() || len(r.Seal) != 64 {
			t.Errorf("%+v", r)
		}
		if rows[0].Kind != audit.BySystem || rows[0].ActorName != "Parawork" {
			t.Errorf("what Parawork does itself: %+v", rows[0])
		}
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
		// Another process goes on with the same chain and keys.
		other := b.again(0)
		if err := other.Append(t.Context(), audit.Entry{Chain: "team_1", Action: "a.b"}); err != nil {
			t.Fatal(err)
		}
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
	})
}

func TestManyAtOnceLeaveNoGaps(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBench(t, db, 0)
		const people, each = 16, 10
		var all sync.WaitGroup
		for p := range people {
			all.Go(func() {
				for i := range each {
					if err := b.Append(t.Context(), audit.Entry{Chain: []string{"team_1", audit.Instance}[p%2], Action: "a.b", TargetID: fmt.Sprint(p, i)}); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		reports, _, err := b.Verify(t.Context())
		if err != nil || len(reports) != 2 {
			t.Fatal(reports, err)
		}
		for _, r := range reports {
			if r.Entries != people*each/2 || r.Last != r.Entries || len(r.Findings) > 0 {
				t.Errorf("%+v", r)
			}
		}
	})
}

func TestAnEntryOfATransactionEndsWithIt(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBench(t, db, 0)
		undone := errors.New("undone")
		err := db.Tx(t.Context(), func(ctx context.Context) error {
			if err := b.Append(ctx, audit.Entry{Chain: "team_1", Action: "a.b"}); err != nil {
				return err
			}
			return undone
		})
		if !errors.Is(err, undone) {
			t.Fatal(err)
		}
		b.add(t, "team_1", 1)
		rows, _, err := b.List(t.Context(), audit.Query{Chain: "team_1"}, "")
		if err != nil || len(rows) != 1 || rows[0].Seq != 1 {
			t.Fatal(rows, err)
		}
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
	})
}

// ASVS 16.4.2: logs are protected from being changed. Whoever writes to the database cannot do so unnoticed.
func TestASVS_16_4_2_TamperingIsNoticed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		sql, want string
	}{
		"a changed actor":        {`UPDATE audit SET actor_id = 'usr_9' WHERE chain = 'team_1' AND seq = 3`, "team_1 3: the entry was changed"},
		"changed facts":          {`UPDATE audit SET data = '{"n":"7"}' WHERE chain = 'team_1' AND seq = 3`, "team_1 3: the entry was changed"},
		"a changed time":         {`UPDATE audit SET at = at + 1 WHERE chain = 'team_1' AND seq = 3`, "team_1 3: the entry was changed"},
		"a changed result":       {`UPDATE audit SET result = 'refused' WHERE chain = 'team_1' AND seq = 3`, "team_1 3: the entry was changed"},
		"a removed entry":        {`DELETE FROM audit WHERE chain = 'team_1' AND seq = 3`, "team_1 4: entries 3 to 3 are missing"},
		"a removed beginning":    {`DELETE FROM audit WHERE chain = 'team_1' AND seq <= 2`, "team_1 0: entries 1 to 2 are missing"},
		"the end cut off":        {`DELETE FROM audit WHERE chain = 'team_1' AND seq >= 4`, "team_1 0: the end was cut off: entry 5 was there"},
		"all of a chain":         {`DELETE FROM audit WHERE chain = 'team_1'`, "team_1 0: the end was cut off: entry 5 was there"},
		"an entry put in":        {`INSERT INTO audit SELECT chain, 6, 'aud_x', at, actor_kind, actor_id, actor_name, credential, ip, action, target_kind, target_id, target_name, result, code, request_id, data, seal FROM audit WHERE chain = 'team_1' AND seq = 5`, "team_1 6: the entry was changed, or was not made by Parawork"},
		"moved to another chain": {`UPDATE audit SET chain = 'team_2' WHERE chain = 'team_1'`, "team_2 1: the entry was changed"},
		"a lie about dropping": {`UPDATE audit SET action = 'audit.dropped', data = '{"through":"2","seal":"00"}' WHERE chain = 'team_1' AND seq = 5`,
			"team_1 5: the entry was changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, storetest.SQLite(t), 0)
			b.add(t, "team_1", 5)
			b.add(t, audit.Instance, 1)
			if f := b.findings(t); f != "" {
				t.Fatalf("before: %s", f)
			}
			b.exec(t, c.sql)
			if f := b.findings(t); !strings.Contains(f, c.want) {
				t.Errorf("found %q, not %q", f, c.want)
			}
			if strings.Contains(c.want, " 3: ") && strings.Count(b.findings(t), "\n") != 0 {
				t.Errorf("one change is one finding: %q", b.findings(t))
			}
		})
	}
}

// A tail that was cut off stays noticed when the chain has grown beyond its old length.
func TestACutTailStaysNoticed(t *testing.T) {
	t.Parallel()
	b := newBench(t, storetest.SQLite(t), 0)
	b.add(t, "team_1", 5)
	b.exec(t, `DELETE FROM audit WHERE chain = 'team_1' AND seq >= 4`)
	b.add(t, "team_1", 6)
	if f := b.findings(t); !strings.Contains(f, "entries up to 5 were there") {
		t.Errorf("found %q", f)
	}
}

func TestAChangedFileOfHeadsIsNoticed(t *testing.T) {
	t.Parallel()
	b := newBench(t, storetest.SQLite(t), 0)
	b.add(t, "team_1", 5)
	raw, err := os.ReadFile(b.heads)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(b.heads, []byte(strings.Replace(string(raw), `"seq": 5`, `"seq": 3`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if f := b.findings(t); !strings.Contains(f, "changed by somebody else") {
		t.Errorf("found %q", f)
	}
	b.add(t, "team_1", 1) // and stays known
	if f := b.findings(t); !strings.Contains(f, "had been changed by somebody else") {
		t.Errorf("found %q", f)
	}
	// Without the file the chains themselves are still checked.
	if err := os.Remove(b.heads); err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Verify(t.Context()); err != nil || known {
		t.Error(known, err)
	}
}

func TestOldEntriesAreDroppedAndTheChainStillHolds(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBench(t, db, 30)
		b.add(t, "team_1", 5)
		b.pass(20 * 24 * time.Hour)
		b.add(t, "team_1", 2)
		b.pass(20 * 24 * time.Hour)
		b.drop(t)
		rows, _, err := b.List(t.Context(), audit.Query{Chain: "team_1"}, "")
		if err != nil || len(rows) != 3 || rows[0].Action != audit.Dropped || rows[0].Data["from"] != "1" || rows[0].Data["through"] != "5" || rows[2].Seq != 6 {
			t.Fatalf("%+v %v", rows, err)
		}
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
		// More than was said to be dropped is missing: noticed.
		b.pass(100 * 24 * time.Hour)
		b.drop(t) // even all of them: the chain goes on where it was
		rows, _, err = b.List(t.Context(), audit.Query{Chain: "team_1"}, "")
		if err != nil || len(rows) != 1 || rows[0].Seq != 9 || rows[0].Data["through"] != "8" {
			t.Fatalf("%+v %v", rows, err)
		}
		b.drop(t) // nothing to drop, nothing to say
		b.add(t, "team_1", 2)
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
		b.exec(t, `DELETE FROM audit WHERE chain = 'team_1' AND seq = 9`)
		if f := b.findings(t); !strings.Contains(f, "entries 1 to 9 are missing") {
			t.Errorf("found %q", f)
		}
	})
}

func (b *bench) drop(t *testing.T) {
	t.Helper()
	if err := b.Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestFilters(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newBench(t, db, 0)
		start := b.now().UnixMilli()
		add := func(actor, name, action, kind, target string, result audit.Result) {
			t.Helper()
			ctx := audit.By(t.Context(), audit.Source{Kind: audit.ByUser, ActorID: actor, ActorName: name})
			if err := b.Append(ctx, audit.Entry{Chain: "team_1", Action: action, TargetKind: kind, TargetID: target, TargetName: target + "-name", Result: result}); err != nil {
				t.Fatal(err)
			}
			b.pass(time.Minute)
		}
		add("usr_1", "ada@example.com", "member.update", "member", "usr_2", audit.Done)          // 1
		add("usr_1", "ada@example.com", "memberships.look", "member", "usr_3", audit.Done)       // 2
		add("usr_2", "bo_b@example.com", "workspace.delete", "workspace", "ws_1", audit.Refused) // 3
		add("usr_2", "bo_b@example.com", "member.remove", "member", "usr_3", audit.Failed)       // 4
		for name, c := range map[string]struct {
			q    audit.Query
			want string
		}{
			"all":              {audit.Query{}, "4 3 2 1"},
			"an actor's id":    {audit.Query{Actor: "usr_1"}, "2 1"},
			"part of a name":   {audit.Query{Actor: "ADA@"}, "2 1"},
			"LIKE's own marks": {audit.Query{Actor: "bo_b@"}, "4 3"},
			"no wildcards":     {audit.Query{Actor: "b%"}, ""},
			"an action":        {audit.Query{Action: "member.update"}, "1"},
			"all of a noun":    {audit.Query{Action: "member"}, "4 1"},
			"a target":         {audit.Query{Target: "usr_3"}, "4 2"},
			"a kind":           {audit.Query{Target: "workspace"}, "3"},
			"a target's name":  {audit.Query{Target: "WS_1-n"}, "3"},
			"a result":         {audit.Query{Result: audit.Refused}, "3"},
			"a time":           {audit.Query{From: start + 60_000, To: start + 180_000}, "3 2"},
			"oldest first":     {audit.Query{Oldest: true, Actor: "usr_2"}, "3 4"},
			"another team":     {audit.Query{Chain: "team_2"}, ""},
		} {
			c.q.Chain = cmp.Or(c.q.Chain, "team_1")
			rows, _, err := b.List(t.Context(), c.q, "")
			if got := seqs(rows); err != nil || got != c.want {
				t.Errorf("%s: %q, want %q; %v", name, got, c.want, err)
			}
		}
		var got []string
		for cursor, pages := "", 0; ; pages++ {
			rows, next, err := b.List(t.Context(), audit.Query{Chain: "team_1", Limit: 3}, cursor)
			if err != nil || pages > 3 {
				t.Fatal(err)
			}
			got = append(got, seqs(rows))
			if cursor = next; next == "" {
				break
			}
		}
		if strings.Join(got, "|") != "4 3 2|1" {
			t.Error(got)
		}
		if _, _, err := b.List(t.Context(), audit.Query{Chain: "team_1"}, "x"); err == nil {
			t.Error("a cursor that is none")
		}
		if _, _, err := b.List(t.Context(), audit.Query{Chain: "team_1", Result: "odd"}, ""); err == nil {
			t.Error("a result that is none")
		}
	})
}

func seqs(rows []audit.Row) string {
	var out []string
	for _, r := range rows {
		out = append(out, fmt.Sprint(r.Seq))
	}
	return strings.Join(out, " ")
}

// ASVS 16.4.1: what people enter does not break or forge lines of a log.
func TestASVS_16_4_1_NothingHidesInAnEntry(t *testing.T) {
	t.Parallel()
	b := newBench(t, storetest.SQLite(t), 0)
	ctx := audit.By(t.Context(), audit.Source{Kind: audit.ByUser, ActorName: "a\nb\x1b[31m\u202egnp"})
	if err := b.Append(ctx, audit.Entry{Chain: "team_1", Action: "a.b", TargetName: "x\u2028y\x00\xff", Data: map[string]string{"k\r": strings.Repeat("é", 4000)}}); err != nil {
		t.Fatal(err)
	}
	rows, _, err := b.List(t.Context(), audit.Query{Chain: "team_1"}, "")
	if err != nil || len(rows) != 1 {
		t.Fatal(rows, err)
	}
	r := rows[0]
	if r.ActorName != `a\u000Ab\u001B[31m\u202Egnp` || r.TargetName != "x\\u2028y\\u0000\uFFFD" {
		t.Errorf("%q %q", r.ActorName, r.TargetName)
	}
	if v := r.Data[`k\u000D`]; len(v) > 600 || !strings.HasSuffix(v, "é…") {
		t.Errorf("%d bytes", len(v))
	}
	if f := b.findings(t); f != "" {
		t.Error(f)
	}
}

func TestAFloodOfRefusalsIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, storetest.SQLite(t), 0)
	count := func() int {
		t.Helper()
		var n int
		if err := b.db.QueryRow(t.Context(), `SELECT COUNT(*) FROM audit WHERE chain = ?`, audit.Instance).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	wrong := audit.Entry{Chain: audit.Instance, Action: "user.sign_in", Result: audit.Refused}
	record := func(ip string, n int) {
		t.Helper()
		for range n {
			if err := b.Record(audit.By(t.Context(), audit.Source{Kind: audit.ByNobody, IP: ip}), wrong, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	record("192.0.2.1", 500)
	if n := count(); n != 20 {
		t.Errorf("%d entries of one address", n)
	}
	record("2001:db8::1", 10)
	record("2001:db8::2", 20) // the same user's network
	if n := count(); n != 40 {
		t.Errorf("%d entries with a network's", n)
	}
	for i := range 1000 {
		record(fmt.Sprintf("10.0.%d.%d", i/250, i%250), 1)
	}
	if n := count(); n != 300 {
		t.Errorf("%d entries of all", n)
	}
	// What people who are signed in do is recorded meanwhile.
	ctx := audit.By(t.Context(), audit.Source{Kind: audit.ByUser, ActorID: "usr_1", IP: "192.0.2.1"})
	if err := b.Record(ctx, audit.Entry{Chain: audit.Instance, Action: "token.create"}, false); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 301 {
		t.Errorf("%d entries", n)
	}
	run(t, b)
	rows, _, err := b.List(t.Context(), audit.Query{Chain: audit.Instance, Action: audit.NotRecorded}, "")
	if err != nil || len(rows) != 1 || rows[0].Data["count"] != "1230" {
		t.Errorf("%+v %v", rows, err)
	}
}

// run lets Run come to its end, which tells what is left.
func run(t *testing.T, b *bench) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := b.Run(ctx); err != nil {
		t.Fatal(err)
	}
}

func TestWhatComesOftenIsRecordedOnceInAWhile(t *testing.T) {
	t.Parallel()
	b := newBench(t, storetest.SQLite(t), 0)
	typing := func(who, session string) {
		t.Helper()
		ctx := audit.By(t.Context(), audit.Source{Kind: audit.ByUser, ActorID: who})
		if err := b.Record(ctx, audit.Entry{Chain: "team_1", Action: "session.input", TargetKind: "session", TargetID: session}, true); err != nil {
			t.Fatal(err)
		}
	}
	for range 50 {
		typing("usr_1", "ses_1")
	}
	typing("usr_1", "ses_2")
	typing("usr_2", "ses_1")
	b.pass(11 * time.Minute)
	typing("usr_1", "ses_1")
	rows, _, err := b.List(t.Context(), audit.Query{Chain: "team_1"}, "")
	if err != nil || len(rows) != 4 {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
