// Package price is the price book: what a vCPU and a GiB of memory cost a second in each kind of place, from when on. Rows never change: a
// new price is a new row, which holds from its time until the next one's. A kind of place without a row costs nothing, and its time counts
// in nobody's hours, but for those of this server that isolate, where several teams share it.
//
// Money is int64 nano-USD, time int64 ms UTC by the ledger's clock; no floats are used. Goroutines: none.
package price

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/bits"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Row says what a kind of place costs from a time on.
type Row struct {
	ID             string
	Executor       string
	VCPUSecondNano int64 // nano-USD a vCPU and second
	GiBSecondNano  int64 // nano-USD a GiB of memory and second
	Metered        bool  // its time counts in people's hours and in how many run at once
	EffectiveFrom  int64
	CreatedBy      string // a user; "" = it came with the program or its config.json
	CreatedAt      int64
}

// Bounds of what operators may say.
const (
	// MostSecond bounds what a vCPU or a GiB costs a second: $3.60 an hour.
	MostSecond = 1_000_000
	// MostHour bounds what a sandbox costs an hour, however large its limits let it be: $100. The ledger cannot compute with more.
	MostHour = 100_000_000_000
	// mostAhead bounds how long before it holds a price may be announced.
	mostAhead = 366 * 24 * time.Hour
)

// Quote is what an hour of one sandbox costs.
type Quote struct {
	RowID    string // "" = the book has none
	HourNano int64
	Metered  bool
}

// Store is the storage that the service needs.
type Store interface {
	// Prices returns all rows.
	Prices(ctx context.Context) ([]Row, error)
	// InsertPrice stores a new one; false when the executor has a row of the same time.
	InsertPrice(ctx context.Context, r Row) (fresh bool, err error)
}

// Config is what a Book is made of.
type Config struct {
	Store Store
	// Defaults are the prices that come with the program and its config.json: ID, EffectiveFrom, CreatedBy and CreatedAt are not theirs to say.
	Defaults []Row
	Free     []string     // kinds of places for which nothing is ever charged
	Now      func() int64 // the ledger's time
}

// Book is the price book. Safe for concurrent use. Load is called once at start.
type Book struct {
	cfg Config

	adding sync.Mutex // one row at a time is added; not needed to ask

	mu   sync.RWMutex
	rows map[string][]Row // by executor, in the order in which they hold
}

// New makes a Book. It reads nothing and panics on a Config without Store or Now.
func New(cfg Config) *Book {
	if cfg.Store == nil || cfg.Now == nil {
		panic(errors.New("price: a Book needs a Store and Now"))
	}
	return &Book{cfg: cfg, rows: make(map[string][]Row)}
}

// Load reads the book, and writes into it what config.json says now. A price of an operator's is not changed by that.
func (b *Book) Load(ctx context.Context) error {
	rows, err := b.cfg.Store.Prices(ctx)
	if err != nil {
		return fmt.Errorf("reading the prices: %w", err)
	}
	b.mu.Lock()
	clear(b.rows)
	for _, r := range rows {
		b.put(r)
	}
	b.mu.Unlock()
	for _, d := range b.cfg.Defaults {
		now := b.cfg.Now()
		have, ok := b.At(d.Executor, now)
		ok = ok && have.Executor == d.Executor // else it is the place's, of which the region is one
		if ok && (have.CreatedBy != "" || have.VCPUSecondNano == d.VCPUSecondNano && have.GiBSecondNano == d.GiBSecondNano && have.Metered == d.Metered) {
			continue
		}
		d.ID, d.CreatedBy, d.CreatedAt, d.EffectiveFrom = id.New("prc"), "", now, now
		if !ok {
			d.EffectiveFrom = 0 // it held all along
		}
		if _, err := b.insert(ctx, d); err != nil {
			return fmt.Errorf("storing the price of %s: %w", d.Executor, err)
		}
	}
	return nil
}

// put adds a row in its place. Only with mu.
func (b *Book) put(r Row) {
	all := append(slices.Clone(b.rows[r.Executor]), r)
	slices.SortFunc(all, func(x, y Row) int { return cmp.Compare(x.EffectiveFrom, y.EffectiveFrom) })
	b.rows[r.Executor] = all
}

// insert has a row hold and stores it. It holds first: what begins while it is stored is charged by it already. The lock is not held
// meanwhile: who writes the ledger asks for prices, and storing waits for who writes. One that could not be stored is taken back.
func (b *Book) insert(ctx context.Context, r Row) (bool, error) {
	b.adding.Lock()
	defer b.adding.Unlock()
	b.mu.Lock()
	taken := slices.ContainsFunc(b.rows[r.Executor], func(o Row) bool { return o.EffectiveFrom == r.EffectiveFrom })
	if !taken {
		b.put(r)
	}
	b.mu.Unlock()
	if taken {
		return false, nil
	}
	fresh, err := b.cfg.Store.InsertPrice(ctx, r)
	if err != nil || !fresh {
		b.mu.Lock()
		b.rows[r.Executor] = slices.DeleteFunc(slices.Clone(b.rows[r.Executor]), func(o Row) bool { return o.ID == r.ID })
		b.mu.Unlock()
	}
	return fresh, err
}

var kindName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,31}(@[a-z0-9-]{1,32})?$`)

// Add writes a new price. Without EffectiveFrom it holds from now on. What was is not changed: a price of the past is refused.
func (b *Book) Add(ctx context.Context, r Row) (Row, error) {
	now := b.cfg.Now()
	bad := func(field, format string, args ...any) (Row, error) {
		return Row{}, fault.New(fault.Invalid, "price_invalid", format, args...).With("field", field)
	}
	switch {
	case !kindName.MatchString(r.Executor):
		return bad("executor", "A price is of a kind of place, such as e2b or docker.")
	case slices.Contains(b.cfg.Free, r.Executor):
		return bad("executor", "Work on this server itself is free: prices are of places that somebody pays for, such as e2b, docker or runner.")
	case r.VCPUSecondNano < 0 || r.VCPUSecondNano > MostSecond:
		return bad("vcpu_second_nano", "A vCPU costs between 0 and %d nano-USD a second, such as 14000.", MostSecond)
	case r.GiBSecondNano < 0 || r.GiBSecondNano > MostSecond:
		return bad("gib_second_nano", "A GiB of memory costs between 0 and %d nano-USD a second, such as 4500.", MostSecond)
	case r.EffectiveFrom != 0 && r.EffectiveFrom < now:
		return bad("effective_from", "A price applies from now on or from a later time: past usage keeps its price. Leave out effective_from for now.")
	case r.EffectiveFrom > now+mostAhead.Milliseconds():
		return bad("effective_from", "A price may be announced a year ahead, not longer.")
	}
	r.EffectiveFrom = cmp.Or(r.EffectiveFrom, now)
	r.ID, r.CreatedAt = id.New("prc"), now
	fresh, err := b.insert(ctx, r)
	if err != nil {
		return Row{}, fmt.Errorf("storing a price of %s: %w", r.Executor, err)
	}
	if !fresh {
		return Row{}, fault.New(fault.Conflict, "price_taken", "%s has a price that holds from that very time already. Name another time.", r.Executor).With("field", "effective_from")
	}
	return r, nil
}

// List returns all rows: executors by name, the newest price first.
func (b *Book) List() []Row {
	b.mu.RLock()
	defer b.mu.RUnlock()
	var out []Row
	for _, rows := range b.rows {
		out = append(out, rows...)
	}
	slices.SortFunc(out, func(x, y Row) int {
		return cmp.Or(cmp.Compare(x.Executor, y.Executor), cmp.Compare(y.EffectiveFrom, x.EffectiveFrom))
	})
	return out
}

// of returns an executor's rows; a region without any costs what its place does. Only with mu.
func (b *Book) of(executor string) []Row {
	if rows := b.rows[executor]; len(rows) > 0 {
		return rows
	}
	place, _, _ := strings.Cut(executor, "@")
	return b.rows[place]
}

// At is the row that holds at a time; false when there is none.
func (b *Book) At(executor string, at int64) (Row, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	rows := b.of(executor)
	if i := later(rows, at); i > 0 {
		return rows[i-1], true
	}
	return Row{}, false
}

// Next is when the price that holds at a time gives way to another one; false when none is known.
func (b *Book) Next(executor string, after int64) (int64, bool) {
	b.mu.RLock()
	defer b.mu.RUnlock()
	rows := b.of(executor)
	if i := later(rows, after); i < len(rows) {
		return rows[i].EffectiveFrom, true
	}
	return 0, false
}

// later is the index of the first row that holds from after at on.
func later(rows []Row, at int64) int {
	i, found := slices.BinarySearchFunc(rows, at, func(r Row, at int64) int { return cmp.Compare(r.EffectiveFrom, at) })
	if found {
		i++
	}
	return i
}

// Quote is what an hour of a sandbox of this size costs at a time.
func (b *Book) Quote(executor string, cpus int, memoryMB, at int64) Quote {
	r, ok := b.At(executor, at)
	if !ok {
		return Quote{}
	}
	return Quote{RowID: r.ID, HourNano: r.Hour(cpus, memoryMB), Metered: r.Metered}
}

// Hour is what an hour of a size costs, MostHour at most: exact for memory in whole 64 MiB, else rounded to the nano-USD, half to even.
func (r Row) Hour(cpus int, memoryMB int64) int64 {
	return min(min(share(3600*r.VCPUSecondNano, int64(max(cpus, 0)), 1), MostHour)+min(share(3600*r.GiBSecondNano, max(memoryMB, 0), 1024), MostHour), MostHour)
}

// share is n*a/b, rounded half to even.
func share(n, a, b int64) int64 {
	hi, lo := bits.Mul64(uint64(n), uint64(a))
	if hi >= uint64(b) {
		return 1<<63 - 1
	}
	q, r := bits.Div64(hi, lo, uint64(b))
	if 2*r > uint64(b) || 2*r == uint64(b) && q%2 == 1 {
		q++
	}
	return int64(min(q, 1<<63-1))
}
