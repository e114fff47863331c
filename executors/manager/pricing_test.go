package manager_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/internal/fault"
)

// limited is a place whose sandboxes can be given other limits while they run.
type limited struct{ *fake.Cloud }

type limitedBox struct{ executors.Sandbox }

func (limitedBox) SetLimits(executors.Limits) error { return nil }

func (l limited) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	sb, err := l.Cloud.Create(ctx, s)
	if err != nil {
		return nil, err
	}
	return limitedBox{sb}, nil
}

// saidLimits are what a workspace says of its limits.
type saidLimits struct {
	atomic.Pointer[executors.Limits]
}

func (s *saidLimits) Limits(context.Context, string) (own, project executors.Limits, err error) {
	return *s.Load(), executors.Limits{}, nil
}

// In a place without sizes a sandbox is charged for what its limits let it have, also when they change while it runs; and what it costs is what
// the book says now, wherever it is asked.
func TestASandboxIsChargedByItsLimits(t *testing.T) {
	l := newLedger()
	var rate atomic.Int64
	rate.Store(100)
	h := newCloudHarness(t, func(c *executortest.ManagerConfig) {
		c.Ledger = l
		c.Executors = []executors.Executor{limited{c.Executors[0].(*fake.Cloud)}}
		c.Price = func(_ executors.Kind, cpus int, memoryMB int64) (int64, bool) {
			return rate.Load()*int64(cpus) + memoryMB, rate.Load() > 0
		}
	})
	said := &saidLimits{}
	said.Store(&executors.Limits{})
	meters, err := h.m.UseMeters(meter.Config{Limits: said, Default: executors.Limits{CPUs: 1.5, MemoryMB: 512}, Folders: func(executors.Record) []string { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	h.m.Attach(meters.Participant())
	last := func() executors.UsageInterval {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.began[len(l.began)-1]
	}
	if c, _ := h.m.Place(h.ctx, h.cloud.Kind()); c.PriceNano != 712 || !c.Metered {
		t.Errorf("a place whose sandboxes have 1.5 cores and 512 MiB costs %d, %v", c.PriceNano, c.Metered)
	}
	if _, err := h.m.Ensure(h.ctx, h.ws); err != nil {
		t.Fatal(err)
	}
	if s := last(); s.CPUs != 2 || s.MemoryMB != 512 || s.PriceNano != 712 || !s.Metered {
		t.Errorf("%+v", s)
	}
	said.Store(&executors.Limits{CPUs: 4, MemoryMB: 2048})
	if now, why, err := meters.Apply(h.ctx, h.ws); !now || err != nil {
		t.Fatal(now, why, err)
	}
	if s := last(); s.CPUs != 4 || s.MemoryMB != 2048 || s.PriceNano != 2448 {
		t.Errorf("with other limits: %+v", s)
	}
	if r := h.last(); r.CPUs != 4 || r.MemoryMB != 2048 {
		t.Errorf("stored: %+v", r)
	}
	// More than its people may have is refused while it runs, too.
	l.refuse = fault.New(fault.Quota, "size_not_in_plan", "4 CPUs are the most for you.")
	said.Store(&executors.Limits{CPUs: 8, MemoryMB: 2048})
	if now, why, err := meters.Apply(h.ctx, h.ws); now || err != nil || !strings.HasPrefix(why, "4 CPUs are the most for you.") {
		t.Errorf("beyond the plan: %v, %q, %v", now, why, err)
	}
	if live, ok := meters.Live(h.ws); !ok || live.CPUs != 4 || last().CPUs != 4 {
		t.Errorf("it grew: %+v, %+v", live, last())
	}
	said.Store(&executors.Limits{CPUs: 4, MemoryMB: 1536}) // less needs no question
	if now, why, err := meters.Apply(h.ctx, h.ws); !now || err != nil || last().MemoryMB != 1536 {
		t.Errorf("less: %v, %q, %v", now, why, err)
	}
	said.Store(&executors.Limits{CPUs: 4, MemoryMB: 2048})
	l.refuse = nil
	if now, why, err := meters.Apply(h.ctx, h.ws); !now || err != nil || last().MemoryMB != 2048 {
		t.Errorf("more: %v, %q, %v", now, why, err)
	}
	rate.Store(200)
	if i := h.info(); i.PriceNano != 2848 {
		t.Errorf("with another price it costs %d", i.PriceNano)
	}
	rate.Store(0)
	if c, _ := h.m.Place(h.ctx, h.cloud.Kind()); c.Metered {
		t.Error("a place without a price is metered")
	}
}
