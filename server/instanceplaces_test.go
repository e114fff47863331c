package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/fake"
	ownmachines "github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/settings"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/server/api"
)

// cloudKind is a kind of place with a key, which is tried by tried.
func cloudKind(tried func(v schema.Values) (string, error)) executors.Descriptor {
	d := e2b.Descriptor()
	d.Test = func(_ context.Context, v schema.Values) (string, error) { return tried(v) }
	return d
}

var testKinds = executors.NewDescriptors(
	cloudKind(func(schema.Values) (string, error) { return "", errors.New("nobody answers") }),
	executors.Descriptor{Kind: fake.Kind, Label: "Fake", Rank: 9, Docs: "docs/places.md", New: func(executors.Deps) (executors.Executor, error) { return nil, nil }},
	ownmachines.Descriptor(),
)

func testSettings() map[string]settings.Group {
	out := make(map[string]settings.Group)
	for _, d := range testKinds {
		out[string(d.Kind)] = settings.Group{Base: d.Settings.Defaults()}
	}
	return out
}

// named finds a setting of an answer.
func named(t *testing.T, all []api.Setting, name string) api.Setting {
	t.Helper()
	i := slices.IndexFunc(all, func(s api.Setting) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no setting %s in %+v", name, all)
	}
	return all[i]
}

func TestOperatorsSettingsOfPlaces(t *testing.T) {
	t.Parallel()
	var tried []schema.Values
	cloud := cloudKind(func(v schema.Values) (string, error) {
		tried = append(tried, v)
		switch key := v.Text("apiKey"); {
		case key == "":
			return "", fault.New(fault.Unavailable, "place_cannot_serve", "No key is kept.").With("reason", "no_key").With("hint", "Enter one.")
		case strings.HasPrefix(key, "bad"):
			return "", fault.New(fault.Unavailable, "place_cannot_serve", "E2B does not know the key.").With("reason", "bad_key").With("hint", "Copy it again.")
		case strings.HasPrefix(key, "far"):
			return "", fault.New(fault.Unavailable, "place_cannot_serve", "E2B does not answer.").With("reason", "outage").With("hint", "Try again.")
		}
		return "team acme", nil
	})
	h := newHarness(t, func(c *Config) {
		c.Kinds = executors.NewDescriptors(append(slices.DeleteFunc(slices.Clone(testKinds), func(d executors.Descriptor) bool { return d.Kind == cloud.Kind }), cloud)...)
	})
	h.serve()
	p := h.people(t)
	operator, admin := bearer(p.tokens["operator"]), bearer(p.tokens["admin"])
	const path, of = "/api/v1/instance/places", "/api/v1/instance/places/e2b"
	for _, r := range []reply{h.do("GET", path, "", admin...), h.do("PUT", path, `{"values":{}}`, admin...), h.do("GET", of, "", admin...), h.do("PUT", of, `{"values":{}}`, admin...),
		h.do("POST", of+"/test", `{"values":{}}`, admin...)} {
		if r.code() != "operators_only" {
			t.Errorf("a team's admin: %d %s", r.StatusCode, r.body)
		}
	}
	var all api.InstancePlaces
	h.do("GET", path, "", operator...).into(t, &all)
	if s := named(t, all.Settings, "default_executor"); s.Value != "auto" || s.Type != "choice" || len(*s.Options) != 2 || (*s.Options)[1].Value != "fake" {
		t.Errorf("the default place: %+v", s)
	}
	if len(all.Places) != 3 || all.Places[0].Kind != "e2b" || all.Places[1].Kind != "runner" || !all.Places[1].Family || len(all.Places[1].Settings) != 0 || all.Places[2].Kind != "fake" || all.Places[2].Testable {
		t.Errorf("at first: %+v", all.Places)
	}
	var got api.PlaceSettings
	h.do("GET", of, "", operator...).into(t, &got)
	idle, key := named(t, got.Settings, "idle_minutes"), named(t, got.Settings, "api_key")
	if idle.Value != 30.0 || idle.Locked || *idle.Unit != "minutes" || *idle.Min != 0 || key.Value != nil || *key.Set || key.Type != "secret" || !got.Testable || got.Docs != "docs/e2b.md" {
		t.Errorf("at first: %+v", got)
	}
	if r := h.do("POST", of+"/test", `{"values":{}}`, operator...); !strings.Contains(string(r.body), `"ok":false`) || !strings.Contains(string(r.body), "No key") {
		t.Errorf("without a key: %s", r.body)
	}
	if r := h.do("PUT", of, `{"values":{"api_key":"bad_0123456789","idle_minutes":5}}`, operator...); r.code() != "key_refused" || !strings.Contains(string(r.body), "Copy it again.") {
		t.Errorf("a refused key: %d %s", r.StatusCode, r.body)
	}
	r := h.do("PUT", of, `{"values":{"api_key":"good_0123456789","idle_minutes":5}}`, operator...)
	r.into(t, &got)
	idle, key = named(t, got.Settings, "idle_minutes"), named(t, got.Settings, "api_key")
	if r.StatusCode != 200 || !*key.Set || *key.LastFour != "6789" || idle.Value != 5.0 || !got.Test.Ok || *got.Test.Account != "team acme" || strings.Contains(string(r.body), "good_0123") {
		t.Errorf("a good key: %s", r.body)
	}
	// A key that is kept goes to no other address.
	for _, r := range []reply{h.do("PUT", of, `{"values":{"api_url":"https://elsewhere.example"}}`, operator...), h.do("POST", of+"/test", `{"values":{"api_url":"https://elsewhere.example"}}`, operator...)} {
		if r.code() != "key_needed" || !strings.Contains(string(r.body), `"field":"api_key"`) {
			t.Errorf("another address: %d %s", r.StatusCode, r.body)
		}
	}
	r = h.do("PUT", of, `{"values":{"api_url":"https://elsewhere.example","api_key":"far_00000123456"}}`, operator...)
	r.into(t, &got)
	if got.Test.Ok || *got.Test.Hint != "Try again." || *named(t, got.Settings, "api_key").LastFour != "3456" || tried[len(tried)-1].Text("apiUrl") != "https://elsewhere.example" {
		t.Errorf("with the key: %s", r.body)
	}
	for body, want := range map[string]string{`{"values":{"idle_minutes":-1}}`: "invalid_setting", `{"values":{"idle_minutes":"soon"}}`: "invalid_setting", `{"values":{"colour":"red"}}`: "invalid_setting"} {
		if r := h.do("PUT", of, body, operator...); r.code() != want {
			t.Errorf("%s: %d %s", body, r.StatusCode, r.body)
		}
	}
	if r := h.do("PUT", path, `{"values":{"default_executor":"fake","monthly_budget_usd":7}}`, operator...); r.StatusCode != 200 {
		t.Errorf("the default place: %s", r.body)
	}
	if r := h.do("PUT", path, `{"values":{"default_executor":"balloon"}}`, operator...); r.code() != "executor_unknown" {
		t.Errorf("a place that is not there: %d %s", r.StatusCode, r.body)
	}
	if r := h.do("PUT", path, `{"values":{"pool.min":5,"pool.max":2}}`, operator...); r.code() != "invalid_setting" {
		t.Errorf("a pool that cannot be: %d %s", r.StatusCode, r.body)
	}
	for _, r := range []reply{h.do("GET", path+"/balloon", "", operator...), h.do("PUT", path+"/balloon", `{"values":{}}`, operator...), h.do("POST", path+"/balloon/test", `{"values":{}}`, operator...)} {
		if r.code() != "executor_unknown" || r.StatusCode != 404 {
			t.Errorf("a place that is not there: %d %s", r.StatusCode, r.body)
		}
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
