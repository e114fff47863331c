package price_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/internal/fault"
)

// rows is the storage of prices in memory.
type rows struct {
	mu     sync.Mutex
	all    []price.Row
	broken error
}

func (s *rows) Prices(context.Context) ([]price.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.all), s.broken
}

func (s *rows) InsertPrice(_ context.Context, r price.Row) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return false, s.broken
	}
	if slices.ContainsFunc(s.all, func(o price.Row) bool { return o.Executor == r.Executor && o.EffectiveFrom == r.EffectiveFrom }) {
		return false, nil
	}
	s.all = append(s.all, r)
	return true, nil
}

func open(t *testing.T, s *rows, now int64, defaults ...price.Row) *price.Book {
	t.Helper()
	b := price.New(price.Config{Store: s, Defaults: defaults, Free: []string{"local", "bubblewrap"}, Now: func() int64 { return now }})
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func TestABookThatCannotBeRead(t *testing.T) {
	t.Parallel()
	s := &rows{broken: errors.New("the disk is gone")}
	b := price.New(price.Config{Store: s, Defaults: []price.Row{e2b(1, 1)}, Now: func() int64 { return 1000 }})
	if err := b.Load(t.Context()); !errors.Is(err, s.broken) {
		t.Errorf("Load: %v", err)
	}
	if _, err := b.Add(t.Context(), e2b(1, 1)); !errors.Is(err, s.broken) || len(b.List()) != 0 {
		t.Errorf("Add: %v, %+v", err, b.List())
	}
	for what, cfg := range map[string]price.Config{"no storage": {Now: func() int64 { return 0 }}, "no time": {Store: s}} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a book with %s", what)
				}
			}()
			price.New(cfg)
		}()
	}
}

// Two servers have one book: a price that another one wrote at the very same time is not written over, and does not hold here.
func TestAPriceAnotherServerWrote(t *testing.T) {
	t.Parallel()
	s := &rows{}
	b, other := open(t, s, 1000), open(t, s, 1000)
	if _, err := other.Add(t.Context(), e2b(7, 7)); err != nil {
		t.Fatal(err)
	}
	_, err := b.Add(t.Context(), e2b(9, 9))
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Code != "price_taken" || f.Details["field"] != "effective_from" {
		t.Errorf("%v", err)
	}
	if q := b.Quote("e2b", 1, 1024, 1000); q != (price.Quote{}) {
		t.Errorf("a price that is not in the book holds: %+v", q)
	}
	if err := b.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	if q := b.Quote("e2b", 1, 1024, 1000); q.HourNano != 14*3600 {
		t.Errorf("read again: %+v", q)
	}
}

func TestPricesAreListedByKindTheNewestFirst(t *testing.T) {
	t.Parallel()
	s := &rows{}
	b := open(t, s, 1000)
	for _, r := range []price.Row{{Executor: "e2b", EffectiveFrom: 3000}, {Executor: "docker", EffectiveFrom: 1000}, {Executor: "e2b", EffectiveFrom: 2000}, {Executor: "docker", EffectiveFrom: 5000}} {
		r.CreatedBy = "ada"
		got, err := b.Add(t.Context(), r)
		if err != nil || got.ID == "" || got.CreatedAt != 1000 || got.CreatedBy != "ada" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	var got []string
	var at []int64
	for _, r := range b.List() {
		got, at = append(got, r.Executor), append(at, r.EffectiveFrom)
	}
	if strings.Join(got, " ") != "docker docker e2b e2b" || !slices.Equal(at, []int64{5000, 1000, 3000, 2000}) {
		t.Errorf("%v from %v", got, at)
	}
	for _, c := range []struct {
		now, next int64
		ok        bool
	}{{0, 2000, true}, {2000, 3000, true}, {2999, 3000, true}, {3000, 0, false}} {
		if next, ok := b.Next("e2b", c.now); ok != c.ok || ok && next != c.next {
			t.Errorf("after %d comes %d, %v", c.now, next, ok)
		}
	}
	if _, ok := b.At("e2b", 1999); ok {
		t.Error("a price holds before its time")
	}
	if r, ok := b.At("e2b", 2999); !ok || r.EffectiveFrom != 2000 {
		t.Errorf("%+v", r)
	}
	if _, ok := b.At("nowhere", 5000); ok {
		t.Error("a kind nobody named has a price")
	}
}

func TestWhatAPriceMayBe(t *testing.T) {
	t.Parallel()
	const year = 366 * 86_400_000
	b := open(t, &rows{}, 1000)
	for field, bad := range map[string][]price.Row{
		"executor":         {{}, {Executor: "E2B"}, {Executor: "-a"}, {Executor: strings.Repeat("a", 33)}, {Executor: "bubblewrap"}, {Executor: "local"}},
		"vcpu_second_nano": {e2b(-1, 0), e2b(price.MostSecond+1, 0)},
		"gib_second_nano":  {e2b(0, -1), e2b(0, price.MostSecond+1)},
		"effective_from":   {{Executor: "e2b", EffectiveFrom: 999}, {Executor: "e2b", EffectiveFrom: 1000 + year + 1}, {Executor: "e2b", EffectiveFrom: -5}},
	} {
		for _, r := range bad {
			_, err := b.Add(t.Context(), r)
			if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind != fault.Invalid || f.Code != "price_invalid" || f.Details["field"] != field {
				t.Errorf("%+v: %v", r, err)
			}
		}
	}
	if n := len(b.List()); n != 0 {
		t.Errorf("%d were taken", n)
	}
	far := e2b(price.MostSecond, price.MostSecond)
	far.EffectiveFrom = 1000 + year
	for _, good := range []price.Row{far, {Executor: strings.Repeat("a", 32), EffectiveFrom: 1000}, e2b(0, 0)} {
		if _, err := b.Add(t.Context(), good); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
}

// Whoever asks while prices are added gets one that holds, and never waits for the storage.
func TestPricesAreAskedForByMany(t *testing.T) {
	t.Parallel()
	s := &rows{}
	b := open(t, s, 1000, e2b(10, 10))
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				r := e2b(20, 20)
				r.EffectiveFrom = int64(2000 + 100*i + j)
				if _, err := b.Add(t.Context(), r); err != nil {
					t.Error(err)
				}
				if q := b.Quote("e2b", 1, 0, 1500); q.HourNano != 36_000 {
					t.Errorf("%+v", q)
				}
				if q := b.Quote("e2b", 1, 0, 9000); q.HourNano != 72_000 {
					t.Errorf("%+v", q)
				}
			}
		})
	}
	wg.Wait()
	if n := len(b.List()); n != 201 || len(s.all) != 201 {
		t.Errorf("%d prices, %d stored", n, len(s.all))
	}
}
