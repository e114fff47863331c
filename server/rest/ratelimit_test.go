package rest

import (
	"testing"
	"time"
)

// An allowance comes back evenly, and who has theirs back takes no memory.
func TestAnAllowanceComesBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	th := NewThrottle(map[Cost]Rate{Searching: {User: 60, Team: 100}}, func() time.Time { return now })
	took := func(user string) (n int) {
		for th.Take(Searching, user, "team") == nil {
			n++
		}
		return n
	}
	if a, b := took("ada"), took("bo"); a != 60 || b != 40 {
		t.Errorf("ada %d, bo %d", a, b)
	}
	now = now.Add(3 * time.Second)
	if n := took("ada"); n != 3 {
		t.Errorf("three seconds later: %d", n)
	}
	if err := th.Take(Exporting, "ada", "team"); err != nil {
		t.Errorf("what has no limit: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := th.Take(Searching, "", ""); err != nil || len(th.buckets) != 0 {
		t.Errorf("%d are remembered, %v", len(th.buckets), err)
	}
}
