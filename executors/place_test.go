package executors_test

import (
	"sync"
	"testing"

	"github.com/parawork/parawork/executors"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestTheLifeOfAPlace(t *testing.T) {
	t.Parallel()
	p := executors.NewPlace("sbx", "ws", "team", "docker")
	if p.Asleep() || !closed(p.Awake()) || closed(p.Ending()) || closed(p.Done()) {
		t.Error("a new place")
	}
	p.MarkSuspended("It was idle.")
	wait := p.Awake()
	if why, asleep := p.AsleepFor(); !asleep || why != "It was idle." || !p.Asleep() || closed(wait) {
		t.Errorf("asleep: %q, %v", why, asleep)
	}
	p.MarkSuspended("It reached its limit.") // for another reason: who waits, waits on
	if why, _ := p.AsleepFor(); why != "It reached its limit." || closed(wait) {
		t.Errorf("asleep: %q", why)
	}
	p.Unfreeze() // it may be asked already, to see whether it answers
	if p.Asleep() || closed(wait) {
		t.Error("the waiting caller wakes before it answered")
	}
	p.MarkResumed()
	if why, asleep := p.AsleepFor(); asleep || why != "" || !closed(wait) || !closed(p.Awake()) {
		t.Errorf("awake: %q, %v", why, asleep)
	}
	p.MarkResumed() // again: nobody waits
	p.MarkSuspended("Again.")
	if closed(p.Awake()) {
		t.Error("asleep again, and awake")
	}
	p.BeginEnd()
	p.BeginEnd()
	if !closed(p.Ending()) || closed(p.Done()) {
		t.Error("its end has begun, and is not over")
	}
	p.End("It was destroyed.")
	<-p.Done()
	if p.Reason() != "It was destroyed." {
		t.Errorf("%q", p.Reason())
	}
	gone := executors.NewPlace("sbx", "ws", "team", "docker")
	gone.End("It is gone.") // found so
	if !closed(gone.Ending()) || !closed(gone.Done()) {
		t.Error("a place that is gone has not ended")
	}
}

func TestWhoeverWorksInAPlaceIsCounted(t *testing.T) {
	t.Parallel()
	p := executors.NewPlace("sbx", "ws", "team", "docker")
	if times, now := p.Used(); times != 0 || now {
		t.Errorf("%d, %v", times, now)
	}
	first, second := p.Use(), p.Use()
	first()
	first() // once counts
	if times, now := p.Used(); times != 3 || !now {
		t.Errorf("one works on: %d, %v", times, now)
	}
	second()
	if times, now := p.Used(); times != 4 || now {
		t.Errorf("nobody works: %d, %v", times, now)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				p.Use()()
				p.MarkSuspended("x")
				p.MarkResumed()
				<-p.Awake()
			}
		})
	}
	wg.Wait()
	if times, now := p.Used(); times != 4+2*800 || now || p.Asleep() {
		t.Errorf("%d, %v", times, now)
	}
}

func TestWhatIsCounted(t *testing.T) {
	t.Parallel()
	var none *executors.Counters
	none.Created("docker", "", 5) // counts nothing
	if none.Counts() != nil {
		t.Errorf("%v", none.Counts())
	}
	var c executors.Counters
	c.Begin(1000)
	c.Begin(2000)
	if c.Since() != 1000 {
		t.Errorf("since %d", c.Since())
	}
	mac := executors.Runner.Of("mac_1")
	c.Failed(mac, "")
	c.Failed(executors.Runner.Of("mac_2"), executors.ForApp)
	c.Cleaned(mac, "")
	c.Reused(mac, "")
	c.Unhealthy(mac, "")
	c.FellBack(mac)
	c.Warm(mac, true)
	c.Warm(mac, false)
	c.Warm(mac, false)
	c.Ran(mac, 500, false)
	c.Ran(mac, 300, true)
	c.Commanded(mac, 40)
	c.Synced(mac, -5) // a clock that was set back
	for ms := range int64(2000) {
		c.Created("docker", "", ms)
	}
	all := c.Counts()
	if got := all[executors.Runner]; len(all) != 2 || got.Kind != executors.Runner || got.Failed != 2 || got.Cleaned != 1 || got.Reused != 1 || got.HealthFailures != 1 || got.Fallbacks != 1 || got.WarmHits != 1 ||
		got.WarmMisses != 2 || got.RunMs != 800 || got.IdleMs != 300 || got.Command.P50Ms != 40 || got.Command.Count != 1 || got.Lag.SumMs != 0 || got.Lag.Count != 1 || got.Create.Count != 0 || got.Create.P95Ms != 0 {
		t.Errorf("%+v", got)
	}
	if got := all[executors.Runner].Purposes; len(got) != 2 || got[executors.ForApp] != (executors.PurposeCounts{Failed: 1}) || got[executors.ForAgent].Failed != 1 || got[executors.ForAgent].Cleaned != 1 {
		t.Errorf("by purpose: %+v", got)
	}
	d := all["docker"]
	if d.Created != 2000 || d.Create.Count != 2000 || d.Create.SumMs != 1999*1000 || d.Create.P50Ms != 1499 || d.Create.P95Ms != 1949 { // of the newest thousand
		t.Errorf("%+v", d)
	}
	var sum int64
	for _, n := range d.Create.Buckets {
		sum += n
	}
	if d.Create.Buckets[0] != 51 || sum != 2000 {
		t.Errorf("%v", d.Create.Buckets)
	}
	c.Created("docker", "", executors.TimingBounds[len(executors.TimingBounds)-1]+1) // beyond all bounds
	if got := c.Counts()["docker"].Create; got.Count != 2001 || got.Buckets != d.Create.Buckets {
		t.Errorf("%+v", got)
	}
}
