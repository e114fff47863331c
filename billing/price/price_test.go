package price_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func e2b(vcpu, gib int64) price.Row {
	return price.Row{Executor: "e2b", VCPUSecondNano: vcpu, GiBSecondNano: gib, Metered: true}
}

func TestTheBook(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		now := int64(1_000_000)
		open := func(d price.Row) *price.Book {
			b := price.New(price.Config{Store: store.NewPrices(db), Defaults: []price.Row{d}, Free: []string{"local", "bubblewrap"}, Now: func() int64 { return now }})
			if err := b.Load(t.Context()); err != nil {
				t.Fatal(err)
			}
			return b
		}
		b := open(e2b(14_000, 4_500))
		if q := b.Quote("e2b", 2, 2048, 0); q.HourNano != 133_200_000 || !q.Metered || q.RowID == "" {
			t.Errorf("%+v", q)
		}
		if q := b.Quote("local", 2, 2048, now); q != (price.Quote{}) {
			t.Errorf("a place without a row: %+v", q)
		}
		now += 10
		b = open(e2b(14_000, 4_500)) // the same again
		if n := len(b.List()); n != 1 {
			t.Fatalf("%d rows", n)
		}
		now += 10
		b = open(e2b(15_000, 4_500)) // config.json says something else
		if n := len(b.List()); n != 2 || b.Quote("e2b", 1, 0, now-1).HourNano != 3600*14_000 || b.Quote("e2b", 1, 0, now).HourNano != 3600*15_000 {
			t.Fatalf("%+v", b.List())
		}
		now += 10
		later := e2b(1, 2)
		later.EffectiveFrom, later.CreatedBy = now+100, "usr_1"
		if _, err := b.Add(t.Context(), later); err != nil {
			t.Fatal(err)
		}
		if at, ok := b.Next("e2b", now); !ok || at != now+100 {
			t.Errorf("the next price comes at %d, %v", at, ok)
		}
		if _, err := b.Add(t.Context(), later); !fault.Is(err, fault.Conflict) {
			t.Errorf("two prices of one time: %v", err)
		}
		docker := price.Row{Executor: "docker", VCPUSecondNano: 5, CreatedBy: "usr_1"}
		if r, err := b.Add(t.Context(), docker); err != nil || r.EffectiveFrom != now || b.Quote("docker", 2, 99, now).HourNano != 36_000 {
			t.Errorf("%+v, %v", r, err)
		}
		now += 200
		b = open(e2b(16_000, 4_500)) // an operator's price stays
		if r, ok := b.At("e2b", now); !ok || r.CreatedBy != "usr_1" || r.VCPUSecondNano != 1 {
			t.Errorf("%+v", r)
		}
		if _, ok := b.Next("e2b", now); ok {
			t.Error("another price is to come")
		}
		past := e2b(1, 1)
		past.EffectiveFrom = now - 1
		far := e2b(1, 1)
		far.EffectiveFrom = now + 400*86_400_000
		for what, bad := range map[string]price.Row{"the past": past, "far": far, "negative": e2b(-1, 0), "too high": e2b(0, price.MostSecond+1), "no kind": {},
			"local": {Executor: "local"}, "a machine": {Executor: "runner:mac_1"}} {
			if _, err := b.Add(t.Context(), bad); !fault.Is(err, fault.Invalid) {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestAnHourOfASize(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		vcpu, gib    int64
		cpus         int
		memory, want int64
	}{{14_000, 4_500, 2, 512, 108_900_000}, {14_000, 4_500, 2, 2048, 133_200_000}, {14_000, 4_500, 4, 4096, 266_400_000}, {14_000, 4_500, 8, 4096, 468_000_000},
		{0, 1, 0, 64, 225}, {0, 1, 0, 1, 4}, {0, 1, 0, 2, 7}, {price.MostSecond, price.MostSecond, 8, 8192, 57_600_000_000}, {1, 1, -1, -1, 0},
		{price.MostSecond, price.MostSecond, 1 << 40, 1 << 50, price.MostHour}, {0, price.MostSecond, 1, 1 << 20, price.MostHour}} {
		if got := e2b(c.vcpu, c.gib).Hour(c.cpus, c.memory); got != c.want {
			t.Errorf("%+v: %d", c, got)
		}
	}
}

// asking is a storage that asks the book for a price before it writes, as whoever writes the ledger does while others wait for it.
type asking struct {
	price.Store
	ask  func()
	fail error
}

func (a *asking) InsertPrice(ctx context.Context, r price.Row) (bool, error) {
	done := make(chan struct{})
	go func() { a.ask(); close(done) }()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		return false, errors.New("readers fail while a price is stored")
	}
	if a.fail != nil {
		return false, a.fail
	}
	return a.Store.InsertPrice(ctx, r)
}

func TestPricesAreReadWhileOneIsStored(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	a := &asking{Store: store.NewPrices(db), ask: func() {}}
	b := price.New(price.Config{Store: a, Defaults: []price.Row{e2b(14_000, 4_500)}, Now: func() int64 { return 1000 }})
	a.ask = func() { b.Quote("e2b", 1, 0, 1000) }
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Add(t.Context(), e2b(15_000, 4_500)); err != nil {
		t.Fatal(err)
	}
	later := e2b(16_000, 4_500)
	later.EffectiveFrom, a.fail = 2000, errors.New("the disk is full")
	if _, err := b.Add(t.Context(), later); !errors.Is(err, a.fail) {
		t.Errorf("%v", err)
	}
	if q := b.Quote("e2b", 1, 0, 3000); q.HourNano != 3600*15_000 {
		t.Errorf("a price that could not be stored holds: %+v", q)
	}
}
