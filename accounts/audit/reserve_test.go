package audit_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

const reserveSize = 1 << 20

// newReserved is a bench whose audit has a reserve.
func newReserved(t *testing.T, db *store.DB) *bench {
	t.Helper()
	b := newBench(t, db, 0)
	b.reserve = filepath.Join(filepath.Dir(b.heads), "audit.reserve")
	b.kill()
	b.add(t, audit.Instance, 1) // the keys of the audit are made with the first entry
	return b
}

// kill has another process take over, as after a kill: nothing is closed, and nothing is left but what is on the disk.
func (b *bench) kill() { b.Log = b.again(0) }

var errFull = fault.New(fault.DiskFull, "disk_full", "The disk of the database is full.")

// fill has the store refuse every entry for want of room, until empty.
func (b *bench) fill() {
	full := func(audit.Row) error { return errFull }
	b.refuse.Store(&full)
}

func (b *bench) empty() { b.refuse.Store(nil) }

func (b *bench) do(chain, action string) error {
	return b.Append(context.Background(), audit.Entry{Chain: chain, Action: action, TargetName: `<"Ada" & sons>`, Data: map[string]string{"n": "1"}})
}

func (b *bench) must(t *testing.T, chain string, actions ...string) {
	t.Helper()
	for _, a := range actions {
		if err := b.do(chain, a); err != nil {
			t.Fatalf("%s: %v", a, err)
		}
		b.pass(time.Second)
	}
}

// actions are those of a chain's entries, oldest first.
func (b *bench) actions(t *testing.T, chain string) string {
	t.Helper()
	var out []string
	for _, r := range b.rows(t, audit.Query{Chain: chain}) {
		out = append(out, r.Action)
	}
	return strings.Join(out, " ")
}

func (b *bench) rows(t *testing.T, q audit.Query) (all []audit.Row) {
	t.Helper()
	if err := b.Each(t.Context(), q, func(rows []audit.Row) error { all = append(all, rows...); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func (b *bench) want(t *testing.T, chain, want string) {
	t.Helper()
	if got := b.actions(t, chain); got != want {
		t.Errorf("%s has %q, not %q", chain, got, want)
	}
	if f := b.findings(t); f != "" {
		t.Error(f)
	}
}

func (b *bench) state(t *testing.T) audit.ReserveState {
	t.Helper()
	s, err := audit.LookAtReserve(b.reserve)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (b *bench) waits(t *testing.T, held int, lost int64) {
	t.Helper()
	if s := b.state(t); s.Held != held || s.Lost != lost {
		t.Errorf("the reserve says %+v, not %d held and %d lost", s, held, lost)
	}
}

func TestAFullDiskLosesNoEntryOfTheAudit(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newReserved(t, db)
		b.must(t, "team_1", "a.one")
		b.fill()
		began := b.now().UnixMilli()
		b.must(t, "team_1", "a.two", "a.three")
		b.must(t, "team_2", "b.one")
		b.waits(t, 3, 0)
		b.kill()
		b.must(t, "team_1", "a.four")
		run(t, b) // no room yet
		b.waits(t, 4, 0)
		b.want(t, "team_1", "a.one")
		b.empty()
		b.must(t, "team_1", "a.five") // behind those that wait
		b.want(t, "team_1", "a.one")
		b.kill()
		run(t, b)
		b.want(t, "team_1", "a.one a.two a.three a.four a.five")
		b.want(t, "team_2", "b.one")
		b.waits(t, 0, 0)
		if r := b.rows(t, audit.Query{Chain: "team_1"})[1]; r.At != began || r.TargetName != `<"Ada" & sons>` || r.Data["n"] != "1" || r.Kind != audit.BySystem {
			t.Errorf("it was changed: %+v", r)
		}
		raw, err := os.ReadFile(b.reserve)
		if err != nil || len(raw) != reserveSize || bytes.Contains(raw, []byte("a.two")) {
			t.Errorf("%d bytes, which may still hold entries; %v", len(raw), err)
		}
		if st, err := os.Stat(b.reserve); err != nil || st.Mode().Perm() != 0o600 {
			t.Error(st, err)
		}
		b.must(t, "team_1", "a.six")
		b.want(t, "team_1", "a.one a.two a.three a.four a.five a.six")
	})
}

// A server that was killed after it stored entries, and before it emptied the reserve, stores none of them again.
func TestAnEntryOfTheReserveIsStoredOnce(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newReserved(t, db)
		b.fill()
		b.must(t, "team_1", "a.one", "a.two")
		before, err := os.ReadFile(b.reserve)
		if err != nil {
			t.Fatal(err)
		}
		b.empty()
		run(t, b)
		b.kill()
		if err := os.WriteFile(b.reserve, before, 0o600); err != nil {
			t.Fatal(err)
		}
		b.waits(t, 2, 0)
		b.fill()
		b.must(t, "team_1", "a.three")
		b.empty()
		run(t, b)
		b.want(t, "team_1", "a.one a.two a.three")
		b.waits(t, 0, 0)
	})
}

// More than one transaction takes, by many at once.
func TestManyEntriesWaitInTheReserve(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newReserved(t, db)
		b.fill()
		const people, each = 8, 60
		var all sync.WaitGroup
		for p := range people {
			all.Go(func() {
				for i := range each {
					if err := b.do("team_1", fmt.Sprintf("p%d.n%02d", p, i)); err != nil {
						t.Error(err)
					}
					if i == each/2 && p == 0 {
						b.empty()
						run(t, b)
					}
				}
			})
		}
		all.Wait()
		b.kill()
		run(t, b)
		b.waits(t, 0, 0)
		rows := b.rows(t, audit.Query{Chain: "team_1"})
		if len(rows) != people*each {
			t.Errorf("%d entries", len(rows))
		}
		last := map[string]string{} // each person's entries are in their order
		for _, r := range rows {
			p, n, _ := strings.Cut(r.Action, ".")
			if n <= last[p] {
				t.Errorf("%s after %s.%s", r.Action, p, last[p])
			}
			last[p] = n
		}
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
	})
}

// What was damaged, changed or forged does not become an entry, and costs no other one.
func TestDamageOfTheReserveCostsNoOtherEntry(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(file []byte, at [3]int) []byte{
		"a changed entry":        func(f []byte, at [3]int) []byte { f[bytes.Index(f, []byte("a.two"))+2]++; return f },
		"a damaged length":       func(f []byte, at [3]int) []byte { f[at[1]+1] = 0x77; return f },
		"a length of nothing":    func(f []byte, at [3]int) []byte { copy(f[at[1]:], "\x00\x00\x00\x00"); return f },
		"a damaged seal":         func(f []byte, at [3]int) []byte { f[at[1]+9]++; return f },
		"one in another's place": func(f []byte, at [3]int) []byte { copy(f[at[1]:at[2]], f[at[0]:at[1]]); return f },
		"noise": func(f []byte, at [3]int) []byte {
			copy(f[at[1]+2:at[2]], bytes.Repeat([]byte(`{"chain":"`), 99))
			return f
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newReserved(t, storetest.SQLite(t))
			b.fill()
			b.must(t, "team_1", "a.one", "a.two", "a.six")
			raw, err := os.ReadFile(b.reserve)
			if err != nil {
				t.Fatal(err)
			}
			var at [3]int
			for i, from := 0, 0; i < 3; i++ {
				from += bytes.Index(raw[from:], []byte(`{"chain":`)) + 1
				at[i] = from - 1 - 36
			}
			if err := os.WriteFile(b.reserve, damage(raw, at), 0o600); err != nil {
				t.Fatal(err)
			}
			b.kill()
			b.must(t, "team_1", "a.seven")
			b.empty()
			b.kill()
			run(t, b)
			b.want(t, "team_1", "a.one a.six a.seven")
			b.waits(t, 0, 0)
			if reported := b.rows(t, audit.Query{Chain: audit.Instance, Action: audit.Lost}); len(reported) != 1 || reported[0].Data["count"] != "1" {
				t.Errorf("told: %+v", reported)
			}
			if aside, err := os.ReadFile(b.state(t).Aside); err != nil || bytes.Count(aside, []byte("\n")) != 1 {
				t.Errorf("put aside: %q %v", aside, err)
			}
		})
	}
}

// All of the file may be damaged, again and again: the audit goes on, and what is put aside is bounded.
func TestAForgedReserveIsPutAsideWithinBounds(t *testing.T) {
	t.Parallel()
	b := newReserved(t, storetest.SQLite(t))
	for i := range 4 {
		if err := os.WriteFile(b.reserve, bytes.Repeat([]byte(`....{"chain":"x`), reserveSize/15+1), 0o600); err != nil {
			t.Fatal(err)
		}
		b.kill()
		run(t, b)
		b.fill()
		b.must(t, "team_1", fmt.Sprint("a.n", i))
		b.empty()
		run(t, b)
	}
	b.want(t, "team_1", "a.n0 a.n1 a.n2 a.n3")
	st, err := os.Stat(b.state(t).Aside)
	if err != nil || st.Size() > 1<<20 || st.Size() == 0 {
		t.Errorf("%v %v", st, err)
	}
}

// What the reserve has no room for is counted, over a kill, and told once there is room; what fits is kept.
func TestWhatTheReserveHasNoRoomForIsCounted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newReserved(t, db)
		b.fill()
		long := map[string]string{}
		for i := range 20 {
			long[fmt.Sprint(i)] = strings.Repeat("x", 590)
		}
		kept, lost := 0, map[string]int64{}
		var first, last time.Time
		for i := range 150 {
			if i%25 == 0 {
				b.kill()
			}
			chain := []string{"team_1", "team_2"}[i%2]
			err := b.Append(t.Context(), audit.Entry{Chain: chain, Action: "a.b", Data: long})
			switch {
			case err == nil:
				kept++
			case fault.Is(err, fault.DiskFull):
				if lost[chain]++; chain == "team_1" {
					if last = b.now(); lost[chain] == 1 {
						first = b.now()
					}
				}
			default:
				t.Fatal(err)
			}
			b.pass(time.Second)
		}
		if kept < 60 || lost["team_1"] < 20 {
			t.Fatalf("%d kept, %v lost", kept, lost)
		}
		b.waits(t, kept, lost["team_1"]+lost["team_2"])
		b.kill()
		run(t, b)
		b.waits(t, kept, lost["team_1"]+lost["team_2"])
		b.empty()
		b.kill()
		before, err := os.ReadFile(b.reserve)
		if err != nil {
			t.Fatal(err)
		}
		run(t, b)
		b.waits(t, 0, 0)
		if err := os.WriteFile(b.reserve, before, 0o600); err != nil { // killed before it was noted
			t.Fatal(err)
		}
		b.kill()
		run(t, b)
		b.waits(t, 0, 0)
		n := 0
		for chain, lost := range lost {
			n += len(b.rows(t, audit.Query{Chain: chain, Action: "a.b"}))
			reported, count, from, to := b.rows(t, audit.Query{Chain: chain, Action: audit.Lost}), int64(0), "9", ""
			for _, r := range reported {
				one, _ := strconv.ParseInt(r.Data["count"], 10, 64)
				count, from, to = count+one, min(from, r.Data["from"]), max(to, r.Data["to"])
				if r.Result != audit.Failed {
					t.Errorf("%+v", r)
				}
			}
			if count != lost {
				t.Errorf("%s lost %d entries, and the audit reports %d: %+v", chain, lost, count, reported)
			}
			if chain == "team_1" && (from != first.Format(time.RFC3339) || to != last.Format(time.RFC3339)) {
				t.Errorf("from %s to %s, not %v to %v", from, to, first, last)
			}
		}
		if n != kept {
			t.Errorf("%d of %d are there", n, kept)
		}
		if f := b.findings(t); f != "" {
			t.Error(f)
		}
	})
}

// While the reserve is full, nobody waits for the minute in which it is looked at: once the store has room, nothing more is lost.
func TestAFullReserveIsStoredAtOnceWhenThereIsRoom(t *testing.T) {
	t.Parallel()
	b := newReserved(t, storetest.SQLite(t))
	b.fill()
	n := 0
	for b.do("team_1", "a.b") == nil {
		n++
	}
	b.empty()
	for range 10 {
		if err := b.do("team_1", "a.b"); err != nil {
			t.Fatal(err)
		}
		n++
	}
	b.waits(t, 0, 0)
	if rows := b.rows(t, audit.Query{Chain: "team_1", Action: "a.b"}); len(rows) != n {
		t.Errorf("%d of %d entries", len(rows), n)
	}
	b.want(t, audit.Instance, "thing.do")
}

// An entry that the store does not take for a reason of its own keeps no other one back.
func TestOneBadEntryKeepsNoOtherBack(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		b := newReserved(t, db)
		b.fill()
		b.must(t, "team_1", "a.one", "bad.one", "a.two", "bad.two")
		bad := func(r audit.Row) error {
			if strings.HasPrefix(r.Action, "bad.") {
				return fault.New(fault.Invalid, "invalid_text", "The text holds a zero byte.")
			}
			return nil
		}
		b.refuse.Store(&bad)
		run(t, b)
		b.want(t, "team_1", "a.one a.two")
		b.must(t, "team_1", "a.three")
		b.kill()
		run(t, b)
		b.waits(t, 0, 0)
		b.want(t, "team_1", "a.one a.two a.three audit.lost audit.lost")
		if aside, err := os.ReadFile(b.state(t).Aside); err != nil || bytes.Count(aside, []byte("\n")) != 2 {
			t.Errorf("put aside: %q %v", aside, err)
		}
	})
}

// A store that fails altogether refuses no single entry: they wait.
func TestNothingIsPutAsideWhileTheStoreTakesNothing(t *testing.T) {
	t.Parallel()
	b := newReserved(t, storetest.SQLite(t))
	b.fill()
	b.must(t, "team_1", "a.one", "a.two")
	for _, err := range []error{fmt.Errorf("input/output error"), fault.New(fault.Unavailable, "database_unavailable", "It is away.")} {
		broken := func(audit.Row) error { return err }
		b.refuse.Store(&broken)
		run(t, b)
		b.waits(t, 2, 0)
	}
	b.empty()
	run(t, b)
	b.want(t, "team_1", "a.one a.two")
}

// Where the file cannot be made, what is lost is counted all the same; once it can, it is made.
func TestAReserveThatCannotBeUsed(t *testing.T) {
	t.Parallel()
	b := newReserved(t, storetest.SQLite(t))
	if err := os.Remove(b.reserve); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(b.reserve, 0o700); err != nil {
		t.Fatal(err)
	}
	b.kill()
	if _, err := audit.LookAtReserve(b.reserve); err == nil {
		t.Error("nothing is said of it")
	}
	b.fill()
	for range 3 {
		if err := b.do("team_1", "a.lost"); !fault.Is(err, fault.DiskFull) {
			t.Error(err)
		}
	}
	if err := os.Remove(b.reserve); err != nil {
		t.Fatal(err)
	}
	run(t, b)
	b.waits(t, 0, 0)
	b.must(t, "team_1", "a.kept")
	b.waits(t, 1, 0)
	b.empty()
	run(t, b)
	b.want(t, "team_1", "a.kept audit.lost")
}

// Who makes room by removing the file loses nothing of what it held.
func TestAReserveThatIsRemovedIsMadeAgain(t *testing.T) {
	t.Parallel()
	b := newReserved(t, storetest.SQLite(t))
	b.fill()
	b.must(t, "team_1", "a.one", "a.two")
	if err := os.Remove(b.reserve); err != nil {
		t.Fatal(err)
	}
	run(t, b)
	b.waits(t, 2, 0)
	b.must(t, "team_1", "a.three")
	b.empty()
	b.kill()
	run(t, b)
	b.want(t, "team_1", "a.one a.two a.three")
}

// Another file in the place of the open one, with what that held, stores nothing twice.
func TestAReserveThatIsReplacedByItsCopy(t *testing.T) {
	t.Parallel()
	b := newReserved(t, storetest.SQLite(t))
	b.fill()
	n := 0
	for b.do("team_1", "a.kept") == nil {
		n++
	}
	t.Logf("%d entries of the test's size fit", n)
	raw, err := os.ReadFile(b.reserve)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []error{os.Remove(b.reserve), os.WriteFile(b.reserve, raw, 0o644)} {
		if step != nil {
			t.Fatal(step)
		}
	}
	b.empty()
	run(t, b)
	b.waits(t, 0, 0)
	if rows := b.rows(t, audit.Query{Chain: "team_1", Action: "a.kept"}); len(rows) != n {
		t.Errorf("%d of %d entries", len(rows), n)
	}
	if reported := b.rows(t, audit.Query{Chain: "team_1", Action: audit.Lost}); len(reported) != 1 || reported[0].Data["count"] != "1" {
		t.Errorf("told: %+v", reported)
	}
	if st, err := os.Stat(b.reserve); err != nil || st.Mode().Perm() != 0o600 {
		t.Error(st, err)
	}
}
