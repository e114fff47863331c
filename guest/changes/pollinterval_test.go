package changes

import (
	"testing"
	"time"
)

// simulate runs a schedule for span and returns how many polls begin. Each costs cost; hinted says whether something hints
// at a moment, every 50 ms.
func simulate(span, cost time.Duration, covered bool, hinted func(at time.Duration) (hint, strong bool)) (polls int, last time.Duration) {
	var s schedule
	zero := time.Unix(1000, 0)
	for at := time.Duration(0); at < span; at += 50 * time.Millisecond {
		now := zero.Add(at)
		if hint, strong := hinted(at); hint {
			s.hint(now, strong)
		}
		if !s.due().After(now) {
			polls++
			last = at
			s.begin(now)
			s.end(now.Add(cost), cost, false, covered)
		}
	}
	return polls, last
}

func never(time.Duration) (bool, bool) { return false, false }

func TestQuietIsPolledEverMoreRarely(t *testing.T) {
	t.Parallel()
	hour, _ := simulate(time.Hour, 20*time.Millisecond, false, never)
	if hour > 130 {
		t.Errorf("%d polls in a quiet hour", hour)
	}
	covered, _ := simulate(time.Hour, 20*time.Millisecond, true, never)
	if covered > 40 {
		t.Errorf("%d polls in a quiet hour while the file system reports writes", covered)
	}
	minute, _ := simulate(time.Minute, 20*time.Millisecond, false, never)
	if minute < 5 || minute > 10 {
		t.Errorf("%d polls in a quiet minute", minute)
	}
}

func TestAHintIsAnsweredSoon(t *testing.T) {
	t.Parallel()
	for _, strong := range []bool{true, false} {
		at := 10 * time.Minute
		_, last := simulate(at+2*time.Second, 20*time.Millisecond, true, func(now time.Duration) (bool, bool) { return now == at, strong })
		if last < at || last > at+400*time.Millisecond {
			t.Errorf("strong %v: answered after %v", strong, last-at)
		}
	}
}

func TestPollingNeverUsesMoreThanATenthOfACore(t *testing.T) {
	t.Parallel()
	for _, cost := range []time.Duration{5 * time.Millisecond, 50 * time.Millisecond, 400 * time.Millisecond, 3 * time.Second} {
		const span = 10 * time.Minute
		polls, _ := simulate(span, cost, false, func(time.Duration) (bool, bool) { return true, true })
		if share := float64(polls) * float64(cost) / float64(span); share > 0.105 {
			t.Errorf("polls of %v: %d, %.0f %% of a core", cost, polls, share*100)
		}
		if polls < 10 {
			t.Errorf("polls of %v: only %d", cost, polls)
		}
	}
}

func TestOutputWithoutChangesIsPolledAtMostEverySecond(t *testing.T) {
	t.Parallel()
	polls, _ := simulate(time.Minute, 20*time.Millisecond, false, func(time.Duration) (bool, bool) { return true, false })
	if polls < 50 || polls > 70 {
		t.Errorf("%d polls in a minute of output", polls)
	}
}
