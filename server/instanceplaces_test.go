package server

import (
	"context"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
)

func TestOperatorsSettingsOfPlaces(t *testing.T) {
	t.Parallel()
	var tried []settings.E2B
	h := newHarness(t, func(c *Config) {
		c.TryE2B = func(_ context.Context, with settings.E2B) (string, error) {
			tried = append(tried, with)
			switch {
			case strings.HasPrefix(with.APIKey, "bad"):
				return "", fault.New(fault.Unavailable, "place_cannot_serve", "E2B does not know the key.").With("reason", "bad_key").With("cure", "Copy it again.")
			case strings.HasPrefix(with.APIKey, "far"):
				return "", fault.New(fault.Unavailable, "place_cannot_serve", "E2B does not answer.").With("reason", "outage").With("cure", "Try again.")
			}
			return "team acme", nil
		}
	})
	h.serve()
	p := h.people(t)
	operator, admin := bearer(p.tokens["operator"]), bearer(p.tokens["admin"])
	const path = "/api/v1/instance/places"
	for _, r := range []reply{h.do("GET", path, "", admin...), h.do("PUT", path, `{}`, admin...), h.do("POST", path+"/e2b/test", `{}`, admin...)} {
		if r.code() != "operators_only" {
			t.Errorf("a team's admin: %d %s", r.StatusCode, r.body)
		}
	}
	var got api.InstancePlaces
	h.do("GET", path, "", operator...).into(t, &got)
	if got.DefaultExecutor.Value != "auto" || got.E2b.Key.Set || got.E2b.IdleMinutes.Value != 30 || got.E2b.Template.Locked {
		t.Errorf("at first: %+v", got)
	}
	if r := h.do("POST", path+"/e2b/test", `{}`, operator...); !strings.Contains(string(r.body), `"ok":false`) || !strings.Contains(string(r.body), "No key") || len(tried) != 0 {
		t.Errorf("without a key: %s", r.body)
	}
	if r := h.do("PUT", path, `{"e2b":{"api_key":"bad_0123456789","idle_minutes":5}}`, operator...); r.code() != "key_refused" || !strings.Contains(string(r.body), "Copy it again.") {
		t.Errorf("a refused key: %d %s", r.StatusCode, r.body)
	}
	r := h.do("PUT", path, `{"default_executor":"fake","e2b":{"api_key":"good_0123456789","idle_minutes":5}}`, operator...)
	r.into(t, &got)
	if r.StatusCode != 200 || !got.E2b.Key.Set || got.E2b.Key.LastFour != "6789" || got.E2b.IdleMinutes.Value != 5 || !got.Test.Ok || *got.Test.Account != "team acme" || strings.Contains(string(r.body), "good_0123") {
		t.Errorf("a good key: %s", r.body)
	}
	// A key that is kept goes to no other address.
	for _, r := range []reply{h.do("PUT", path, `{"e2b":{"api_url":"https://elsewhere.example"}}`, operator...), h.do("POST", path+"/e2b/test", `{"api_url":"https://elsewhere.example"}`, operator...)} {
		if r.code() != "key_needed" {
			t.Errorf("another address: %d %s", r.StatusCode, r.body)
		}
	}
	r = h.do("PUT", path, `{"e2b":{"api_url":"https://elsewhere.example","api_key":"far_00000123456"}}`, operator...)
	r.into(t, &got)
	if got.Test.Ok || got.Test.Cure != "Try again." || got.E2b.Key.LastFour != "3456" || tried[len(tried)-1].APIURL != "https://elsewhere.example" {
		t.Errorf("with the key: %s", r.body)
	}
	if r := h.do("PUT", path, `{"default_executor":"balloon"}`, operator...); r.code() != "executor_unknown" {
		t.Errorf("a place that is not there: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("PUT", path, `{"pool":{"min":5,"max":2}}`, operator...); r.code() != "invalid_setting" {
		t.Errorf("a pool that cannot be: %d %s", r.StatusCode, r.body)
	}
}

func TestATeamDecidesWhetherItsMembersChoose(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	path := "/api/v1/teams/" + p.ids["team"] + "/places"
	var got api.TeamPlaces
	h.do("PUT", path, `{"allow_user_choice":false}`, bearer(p.tokens["admin"])...).into(t, &got)
	if got.AllowUserChoice || !got.MayChoose {
		t.Errorf("after it was forbidden: %+v", got)
	}
	h.do("PUT", path, `{"allow_user_choice":true}`, bearer(p.tokens["admin"])...).into(t, &got)
	if !got.AllowUserChoice {
		t.Errorf("after it was allowed: %+v", got)
	}
}
