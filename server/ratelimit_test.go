package server

import (
	"net/http"
	"strconv"
	"testing"

	"github.com/parawork/parawork/server/rest"
)

// Costly operations are limited by person and by team: one caller who floods the server gets a Retry-After and does not use up the
// share of others.
func TestCostlyCallsAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *Config) {
		c.Rates = map[rest.Cost]rest.Rate{rest.Measuring: {User: 3, Team: 5}, rest.Exporting: {User: 1}}
	})
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
