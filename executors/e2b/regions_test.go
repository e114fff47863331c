package e2b_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/internal/fault"
)

// A workspace that names a place with several regions gets the nearest; one that names a region gets that; and where the nearest cannot
// serve, the next is offered in words and nothing moves by itself.
func TestRegions(t *testing.T) {
	t.Parallel()
	const eu = e2b.Kind + "@eu"
	dir := t.TempDir()
	far, near := e2btest.New(t, withGuest(t, e2btest.Config{})), e2btest.New(t, withGuest(t, e2btest.Config{}))
	far.Slow(80 * time.Millisecond)
	var ahead atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	home := newExecutor(t, far, dir, func(c *e2b.Config) { c.Now = now })
	region := newExecutor(t, near, dir, func(c *e2b.Config) {
		set := settings(near)
		set.Region, set.Retries = "Europe", -1
		c.Kind, c.Now, c.Settings = eu, now, func(context.Context) (e2b.Settings, error) { return set, nil }
	})
	ch := choice.New(choice.Config{Executors: executors.NewRegistry([]executors.Executor{home, region}), Order: []executors.Kind{"bubblewrap"}, ProbeTimeout: time.Minute, Now: now})
	t.Cleanup(ch.Close)
	in := t.Context()

	d, err := ch.Explain(in, "t1", e2b.Kind)
	if err != nil || d.Kind != eu || d.LatencyMs == 0 {
		t.Fatalf("the nearest is %+v, %v", d, err)
	}
	if last := d.Steps[len(d.Steps)-1]; last.Rule != choice.RuleRegion || !strings.Contains(last.Words, "E2B · Europe: ") || !strings.Contains(last.Words, "ms from this server") {
		t.Errorf("why: %+v", d.Steps)
	}
	// What the browser measured counts before what the server did.
	if k, err := ch.Choose(executors.WithLatencies(in, map[executors.Kind]int64{"e2b@main": 5, eu: 90}), "t1", e2b.Kind); err != nil || k != e2b.Kind {
		t.Errorf("measured by the browser: %s, %v", k, err)
	}
	// By hand wins, and the place's own region has a name, too.
	for wish, want := range map[executors.Kind]executors.Kind{"e2b@main": e2b.Kind, eu: eu} {
		if k, err := ch.Choose(in, "t1", wish); err != nil || k != want {
			t.Errorf("%s by hand: %s, %v", wish, k, err)
		}
	}

	// The ledger and the handle name the region; the other one knows nothing of its sandboxes.
	sb, err := region.Create(in, executors.Spec{ID: "sbx_1", Root: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	if h := sb.Handle(); h.Kind != eu {
		t.Errorf("its handle is of %s", h.Kind)
	}
	if all, err := home.List(in); err != nil || len(all) != 0 {
		t.Errorf("the other region has %v, %v", all, err)
	}
	if err := sb.Destroy(in); err != nil {
		t.Error(err)
	}

	near.Fail(e2btest.Fault{Status: 503, Times: -1})
	ahead.Store(int64(time.Hour)) // what was known is asked again
	_, err = ch.Choose(in, "t1", e2b.Kind)
	if fault.CodeOf(err) != "executor_unavailable" || !strings.Contains(err.Error(), "E2B · Europe is the nearest region") || !strings.Contains(err.Error(), "The next region is E2B (") {
		t.Fatalf("the nearest is down: %v", err)
	}
	if f := err.(*fault.Error); f.Details["next_region"] != "e2b@main" {
		t.Errorf("offered: %v", f.Details)
	}
	if _, err = ch.Choose(in, "t1", eu); !strings.Contains(err.Error(), "The next region is E2B (") {
		t.Errorf("named by hand and down: %v", err)
	}
	if k, err := ch.Choose(in, "t1", "e2b@main"); err != nil || k != e2b.Kind {
		t.Errorf("the next by hand: %s, %v", k, err)
	}
}
