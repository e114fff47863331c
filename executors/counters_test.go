package executors_test

import (
	"testing"

	"github.com/parawork/parawork/executors"
)

func TestCountersTellQuantiles(t *testing.T) {
	t.Parallel()
	var c executors.Counters
	for ms := int64(1); ms <= 100; ms++ {
		c.Created("x", "", ms)
		c.Synced("x", 10*ms)
	}
	got := c.Counts()["x"]
	if got.Create.P50Ms != 50 || got.Create.P95Ms != 95 || got.Create.Count != 100 || got.Create.SumMs != 5050 || got.Create.Buckets[0] != 50 || got.Create.Buckets[1] != 50 {
		t.Errorf("creation: %+v", got.Create)
	}
	if got.Lag.P95Ms != 950 {
		t.Errorf("lag: %+v", got.Lag)
	}
	for range 2000 {
		c.Created("x", "", 7)
	}
	if got := c.Counts()["x"].Create; got.P95Ms != 7 || got.Count != 2100 {
		t.Errorf("the newest do not count: %+v", got)
	}
	var none *executors.Counters
	none.Reused("x", "")
	if none.Counts() != nil {
		t.Error("nil counts")
	}
}
