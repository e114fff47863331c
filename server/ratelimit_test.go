package server

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Costly operations are bounded by person and by team: one who asks without end is told when to come back, and keeps nobody else from
// their own share.
func TestCostlyCallsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHouse(t, func(c *Config) { c.Rates = map[Cost]Rate{Measuring: {User: 3, Team: 5}, Exporting: {User: 1}} })
	h.serve()
	p := h.people(t)
	disk := func(who string) reply {
		return h.do("GET", "/api/v1/teams/"+p.team.Slug+"/disk", "", bearer(p.tokens[who])...)
	}
	refused := func(r reply, scope string) {
		t.Helper()
		var body struct {
			Code    string
			Details struct {
				Limit, Scope string
				PerMinute    int   `json:"per_minute"`
				RetryAfterMs int64 `json:"retry_after_ms"`
			}
		}
		r.into(t, &body)
		after, err := strconv.Atoi(r.Header.Get("Retry-After"))
		if r.StatusCode != http.StatusTooManyRequests || body.Code != "rate_limited" || body.Details.Scope != scope || body.Details.Limit != "disk" ||
			err != nil || after < 1 || after > 60 || int64(after)*1000 != body.Details.RetryAfterMs || body.Details.PerMinute < 3 {
			t.Errorf("%d %s, Retry-After %q", r.StatusCode, r.body, r.Header.Get("Retry-After"))
		}
	}
	for range 3 {
		if r := disk("member"); r.StatusCode != 200 {
			t.Fatalf("%d %s", r.StatusCode, r.body)
		}
	}
	refused(disk("member"), "user")
	refused(disk("member"), "user") // and what was refused counts for nobody: two are left to the team
	for range 2 {
		if r := disk("owner"); r.StatusCode != 200 {
			t.Errorf("another person: %d %s", r.StatusCode, r.body)
		}
	}
	refused(disk("admin"), "team")
	if r := h.do("GET", "/api/v1/teams/"+p.team.Slug+"/members", "", bearer(p.tokens["member"])...); r.StatusCode != 200 {
		t.Errorf("what costs little: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("GET", "/api/v1/teams/"+p.team.Slug+"/disk", "", bearer(p.tokens["outsider"])...); r.StatusCode != 404 {
		t.Errorf("an outsider: %d %s", r.StatusCode, r.body)
	}
	for i, want := range []int{200, 429, 200} { // the same report is costly as a file alone
		path := "/api/v1/teams/" + p.team.Slug + "/usage?format=csv"
		if i == 2 {
			path = "/api/v1/teams/" + p.team.Slug + "/usage"
		}
		if r := h.do("GET", path, "", bearer(p.tokens["owner"])...); r.StatusCode != want {
			t.Errorf("usage, %d: %d %s", i, r.StatusCode, r.body)
		}
	}
}

// An allowance comes back evenly, and who has theirs back takes no memory.
func TestAnAllowanceComesBack(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	th := newThrottle(map[Cost]Rate{Searching: {User: 60, Team: 100}}, func() time.Time { return now })
	took := func(user string) (n int) {
		for th.take(Searching, user, "team") == nil {
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
	if err := th.take(Exporting, "ada", "team"); err != nil {
		t.Errorf("what has no limit: %v", err)
	}
	now = now.Add(2 * time.Minute)
	if err := th.take(Searching, "", ""); err != nil || len(th.buckets) != 0 {
		t.Errorf("%d are remembered, %v", len(th.buckets), err)
	}
}
