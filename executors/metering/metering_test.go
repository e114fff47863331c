package metering_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/metering"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// ledger records its calls.
type ledger struct {
	began   []executors.UsageInterval
	beats   [][]string
	ends    []end
	settled []string
	unwrite error // of Began
}

type end struct {
	executors.UsageInterval
	at int64
	by executors.StopSource
}

func (l *ledger) Afford(context.Context, executors.UsageInterval) error { return nil }
func (l *ledger) Release(context.Context, string) error                 { return nil }
func (l *ledger) Began(_ context.Context, s executors.UsageInterval) error {
	l.began = append(l.began, s)
	return l.unwrite
}
func (l *ledger) Beat(_ context.Context, ids []string) error {
	l.beats = append(l.beats, slices.Sorted(slices.Values(ids)))
	return nil
}
func (l *ledger) Stopped(_ context.Context, s executors.UsageInterval, at int64, by executors.StopSource) error {
	l.ends = append(l.ends, end{s, at, by})
	return nil
}
func (l *ledger) Settle(_ context.Context, ids []string) error {
	l.settled = ids
	return nil
}

// clocked is an executor that knows when its sandboxes ran.
type clocked struct {
	executors.Executor
	ran executors.Ran
	err error
}

func (clocked) Kind() executors.Kind { return "clocked" }
func (c clocked) Ran(context.Context, executors.Handle) (executors.Ran, error) {
	return c.ran, c.err
}

var _ executors.RunRecorder = clocked{}

func record(id string, state executors.State) executors.Record {
	return executors.Record{Handle: executors.Handle{Kind: "clocked", ID: id}, State: state, CPUs: 2, MemoryMB: 512, PriceNano: 7}
}

func TestBeatsTellWhatWasSeenSinceTheLastOne(t *testing.T) {
	t.Parallel()
	l, counters, now := &ledger{}, &executors.Counters{}, time.UnixMilli(1_000_000)
	m := metering.New(metering.Config{Ledger: l, Counters: counters, Now: func() time.Time { return now }})
	for _, id := range []string{"a", "b", "made"} {
		if err := m.Began(t.Context(), executors.UsageInterval{SandboxID: id, Kind: "x"}, id == "made"); err != nil {
			t.Fatal(err)
		}
	}
	resting := func() map[string]bool { return map[string]bool{"b": true} }
	beat := func(after time.Duration) []string {
		now = now.Add(after)
		m.Beat(t.Context(), time.Second, resting)
		return l.beats[len(l.beats)-1]
	}
	if got := beat(0); !slices.Equal(got, []string{"a", "b", "made"}) {
		t.Errorf("the first beat is of %v", got)
	}
	m.Seen("b")
	if got := beat(time.Second); !slices.Equal(got, []string{"b", "made"}) { // who makes one would know if it were gone
		t.Errorf("the second beat is of %v", got)
	}
	if c := counters.Counts()["x"]; c.RunMs != 2000 || c.IdleMs != 1000 {
		t.Errorf("counted %+v", c)
	}
	m.Seen("a")
	beat(time.Hour) // the machine slept
	if c := counters.Counts()["x"]; c.RunMs != 2000+2*2000 {
		t.Errorf("a long pause counts as %d ms", c.RunMs-2000)
	}
	if !m.Made("made") || m.Made("made") || m.Made("a") || m.Made("unknown") {
		t.Error("what was just made is not told from what was found again")
	}
	m.Stopped(t.Context(), executors.UsageInterval{SandboxID: "a"}, 0, executors.ByServer)
	if m.Known("a") || !m.Known("b") || m.Active()["x"][executors.ForAgent] != 2 {
		t.Errorf("%v are active", m.Active())
	}
}

func TestAnExecutorsRecordSaysWhenASandboxStopped(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what  string
		e     clocked
		state executors.State
		want  end
		since int64
	}{
		{"it knows", clocked{ran: executors.Ran{BeganAt: 5, EndedAt: 9}}, executors.Running, end{executors.UsageInterval{Since: 5}, 9, executors.ByExecutor}, 0},
		{"the end was noted already", clocked{ran: executors.Ran{BeganAt: 5, EndedAt: 9}}, executors.Paused, end{executors.UsageInterval{}, 9, executors.ByExecutor}, 0},
		{"it runs still", clocked{ran: executors.Ran{BeganAt: 5}}, executors.Running, end{executors.UsageInterval{}, 0, executors.ByHeartbeat}, 5},
		{"it does not answer", clocked{err: errors.New("no")}, executors.Running, end{executors.UsageInterval{}, 0, executors.ByHeartbeat}, 0},
	} {
		l := &ledger{}
		m := metering.New(metering.Config{Ledger: l, Executors: executors.NewRegistry([]executors.Executor{c.e})})
		m.FoundStopped(t.Context(), record("a", c.state))
		if got := l.ends[0]; got.at != c.want.at || got.by != c.want.by || got.Since != c.want.Since || got.SandboxID != "a" {
			t.Errorf("%s: told %+v", c.what, got)
		}
		if got := m.RunningSince(t.Context(), record("a", c.state).Handle); got != c.since {
			t.Errorf("%s: it runs since %d", c.what, got)
		}
	}
}

func TestWhatCannotBeNotedIsAnErrorWhereItCosts(t *testing.T) {
	t.Parallel()
	l := &ledger{unwrite: errors.New("the disk is full")}
	m := metering.New(metering.Config{Ledger: l})
	if err := m.Began(t.Context(), executors.UsageInterval{SandboxID: "free"}, true); err != nil {
		t.Errorf("one that costs nothing: %v", err)
	}
	for _, s := range []executors.UsageInterval{{SandboxID: "a", PriceNano: 1}, {SandboxID: "b", Metered: true}} {
		if err := m.Began(t.Context(), s, true); !errors.Is(err, l.unwrite) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

func TestAPriceBookHoldsBeforeWhatAnExecutorSays(t *testing.T) {
	t.Parallel()
	r := record("a", executors.Running)
	if s := metering.New(metering.Config{}).UsageInterval(r); s.PriceNano != 7 || !s.Metered {
		t.Errorf("without one: %+v", s)
	}
	book := metering.Pricing(func(k executors.Kind, cpus int, memoryMB int64) (int64, bool) {
		if k != "runner" {
			t.Errorf("asked for %q", k)
		}
		return int64(cpus)*100 + memoryMB, false
	})
	r.Handle.Kind = "runner:laptop" // a member of a family costs what the family does
	if s := metering.New(metering.Config{Price: book}).UsageInterval(r); s.PriceNano != 712 || s.Metered || s.Kind != "runner" {
		t.Errorf("with one: %+v", s)
	}
}

func TestWithoutALedgerNothingIsAskedForAtAStart(t *testing.T) {
	t.Parallel()
	metering.New(metering.Config{}).Settle(t.Context(), func(context.Context) ([]string, error) {
		t.Error("the sandboxes were read")
		return nil, nil
	})
	l := &ledger{}
	m := metering.New(metering.Config{Ledger: l})
	m.Settle(t.Context(), func(context.Context) ([]string, error) { return []string{"a"}, errors.New("no") })
	if l.settled != nil {
		t.Error("intervals were ended although not all sandboxes are known")
	}
	m.Settle(t.Context(), func(context.Context) ([]string, error) { return []string{"a"}, nil })
	if !slices.Equal(l.settled, []string{"a"}) {
		t.Errorf("settled but %v", l.settled)
	}
}
