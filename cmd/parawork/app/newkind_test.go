package app

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/cmd/parawork/doctor"
	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/executors/pool"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
	"github.com/parawork/parawork/internal/tenant"
)

// balloon is a kind of place that the program does not come with.
func balloon(t *testing.T) executors.Descriptor {
	world := fake.NewWorld(t.TempDir(), nil)
	t.Cleanup(world.Close)
	return executors.Descriptor{
		Kind: fake.Kind, Label: "Balloon", Rank: 9, Boundary: executors.MachineBoundary, Docs: "docs/extend-executor.md",
		Settings: schema.Schema{
			{Key: "apiKey", Name: "api_key", Type: schema.Secret, Env: "BALLOON_KEY", Label: "API key"},
			{Key: "height.most", Name: "height", Type: schema.Number, Default: 120, Min: 60, Max: 600, Scale: 60, Label: "Height", Unit: "miles"},
			{Key: "crew", Type: schema.List},
		},
		Price: func(v schema.Values) executors.Price {
			return executors.Price{VCPUSecondNano: v.Number("height.most"), GiBSecondNano: 1, Metered: true}
		},
		New: func(d executors.Deps) (executors.Executor, error) { return fake.New(world), nil },
		Test: func(_ context.Context, v schema.Values) (string, error) {
			if v.Text("apiKey") != "right_012345" {
				return "", fault.New(fault.Unavailable, "place_cannot_serve", "The balloon does not know the key.").With("reason", "bad_key").With("hint", "Enter another.")
			}
			return "a red one", nil
		},
		Examine: func(_ context.Context, v schema.Values, _ executors.Capabilities) []executors.Finding {
			return []executors.Finding{{Found: "the crew is " + strings.Join(v.List("crew"), " and "), Cure: "Hire more."}}
		},
	}
}

// loaded reads a configuration with a kind more.
func loaded(t *testing.T, all executors.Descriptors, sandboxing string, env map[string]string) (*config.Config, error) {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	if err := os.WriteFile(file, []byte(`{"dataDir":"data","server":{"listen":"127.0.0.1:0"},"sandboxing":`+sandboxing+`}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return fromconfig.Load(file, func(name string) string { return env[name] }, all)
}

// A kind of place is a Descriptor in the registry: everything else knows it by that.
func TestANewKindOfPlaceIsOneEntryOfTheRegistry(t *testing.T) {
	all := executors.NewDescriptors(append(slices.Clone(kinds.All()), balloon(t))...)
	for text, want := range map[string]string{
		`{"fake":{"colour":"red"}}`:         `"sandboxing.fake.colour" is not a key`,
		`{"fake":{"height":{"most":"x"}}}`:  "sandboxing.fake.height.most: must be a number",
		`{"fake":{"height":{"most":5}}}`:    "sandboxing.fake.height.most: must be at least 60, not 5",
		`{"defaultProvider":"hot-air"}`:     "sandboxing.defaultProvider: must be one of auto, bubblewrap, local, docker, e2b, boxlite, vercel, cloudflare, kubernetes, runner, dockerhosts, fake",
		`{"fake":{"heights":{"most":100}}}`: `Did you mean "sandboxing.fake.height"?`,
	} {
		if _, err := loaded(t, all, text, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
	cfg, err := loaded(t, all, `{"fake":{"height":{"most":300},"crew":["Ada","Bo"]}}`, map[string]string{"PARAWORK_SANDBOXING_FAKE_CREW": "Cy,Di"})
	if err != nil {
		t.Fatal(err)
	}
	if v := cfg.Sandboxing.Of("fake"); v.Number("height.most") != 300 || !slices.Equal(v.List("crew"), []string{"Cy", "Di"}) || !strings.Contains(cfg.Redacted(), `"most": 300`) {
		t.Errorf("read as %s", cfg)
	}

	guest := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(guest, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	find := func(string) (string, error) { return guest, nil }
	var said strings.Builder
	doctor.Examination{Config: cfg, Kinds: all, Env: func(string) string { return "" }, Guest: find}.Run(t.Context(), &said)
	if !strings.Contains(said.String(), "fake: the crew is Cy and Di") || !strings.Contains(said.String(), "Hire more.") {
		t.Errorf("the doctor says nothing of it:\n%s", said.String())
	}

	a, err := Build(tenant.All(t.Context(), "test"), Options{Config: cfg, Kinds: all, Log: slog.New(slog.DiscardHandler), Env: func(string) string { return "" }, Guest: find})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	call := serving(t, a)
	if row, ok := a.prices.At("fake", time.Now().UnixMilli()); !ok || row.VCPUSecondNano != 300 || !row.Metered {
		t.Errorf("its price: %+v, %v", row, ok)
	}
	var place struct {
		Label, Docs string
		Testable    bool
		Settings    []struct {
			Name   string
			Value  any
			Set    bool
			Locked bool
		}
		Test *struct{ Ok bool }
	}
	call("GET", "/instance/places/fake", "", 200, &place)
	if len(place.Settings) != 2 || place.Label != "Balloon" || !place.Testable || place.Settings[0].Set || place.Settings[1].Value != 5.0 || !place.Settings[1].Locked {
		t.Errorf("its settings: %+v", place)
	}
	call("PUT", "/instance/places/fake", `{"values":{"api_key":"wrong_012345"}}`, 400, nil)
	call("PUT", "/instance/places/fake", `{"values":{"height":7}}`, 409, nil) // config.json says it
	call("PUT", "/instance/places/fake", `{"values":{"api_key":"right_012345"}}`, 200, &place)
	if !place.Settings[0].Set || place.Test == nil || !place.Test.Ok {
		t.Errorf("after a key was entered: %+v", place)
	}
	var test struct{ Ok bool }
	if call("POST", "/instance/places/fake/test", `{"values":{}}`, 200, &test); !test.Ok {
		t.Error("the key that is kept does not work")
	}
	var list struct {
		Items []struct{ Kind, Name string }
	}
	call("GET", "/teams/crew/executors", "", 200, &list)
	if !slices.ContainsFunc(list.Items, func(p struct{ Kind, Name string }) bool { return p.Kind == "fake" }) {
		t.Errorf("a new workspace may not choose it: %+v", list.Items)
	}
	// A region of a kind that has them is added by name, and can be chosen at once.
	call("PUT", "/instance/places/e2b@main", `{"values":{}}`, 404, nil)
	call("PUT", "/instance/places/fake@eu", `{"values":{}}`, 404, nil)
	if call("PUT", "/instance/places/e2b@eu", `{"values":{"region_name":"Europe"}}`, 200, &place); place.Label != "E2B · Europe" {
		t.Errorf("the region: %+v", place)
	}
	var regions struct {
		Items []struct {
			Kind, Name string
			RegionOf   string `json:"region_of"`
			Regions    []struct{ Executor, Name string }
		}
	}
	call("GET", "/teams/crew/executors", "", 200, &regions)
	for _, p := range regions.Items {
		if p.Kind == "e2b" && len(p.Regions) != 2 || p.Kind == "e2b@eu" && (p.RegionOf != "e2b" || p.Name != "E2B · Europe") {
			t.Errorf("where a new workspace may go: %+v", p)
		}
	}

	// It is removed again once nothing is there and nothing goes there by itself.
	in := tenant.All(t.Context(), "test")
	w := pool.Record{Handle: executors.Handle{ID: "wrm_1", Kind: "e2b@eu"}, State: pool.Ready, CreatedAt: 1}
	if err := a.sandboxes.records.InsertWarm(in, w); err != nil {
		t.Fatal(err)
	}
	call("DELETE", "/instance/places/e2b@eu", "", 409, nil)
	w.EndedAt = 2
	if done, err := a.sandboxes.records.UpdateWarm(in, w, pool.Ready); !done || err != nil {
		t.Fatal(done, err)
	}
	call("PUT", "/instance/places", `{"values":{"default_executor":"e2b@eu"}}`, 200, nil)
	call("DELETE", "/instance/places/e2b@eu", "", 409, nil)
	call("PUT", "/instance/places", `{"values":{"default_executor":"auto"}}`, 200, nil)
	call("DELETE", "/instance/places/e2b", "", 501, nil) // no region
	var left struct{ Places []struct{ Kind string } }
	if call("DELETE", "/instance/places/e2b@eu", "", 200, &left); slices.ContainsFunc(left.Places, func(p struct{ Kind string }) bool { return p.Kind == "e2b@eu" }) {
		t.Errorf("still there: %+v", left)
	}
	call("DELETE", "/instance/places/e2b@eu", "", 404, nil)
	if _, ok := a.sandboxes.executors.OwnOf("e2b@eu"); ok {
		t.Error("new workspaces could still go there")
	}
	call("PUT", "/instance/places/e2b@eu", `{"values":{}}`, 200, nil)
}

// serving runs the system, and returns what calls its API as an operator.
func serving(t *testing.T, a *App) func(method, path, body string, status int, into any) {
	t.Helper()
	in := tenant.All(t.Context(), "test")
	u, err := a.directory.CreateUser(in, accounts.NewUser{Email: "ada@example.com", Name: "Ada", Password: "correct horse battery", Operator: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.directory.CreateTeam(in, accounts.Actor{User: u}, "crew", "crew"); err != nil {
		t.Fatal(err)
	}
	_, token, err := a.signin.CreateToken(in, u.ID, "test", 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	said, out := io.Pipe()
	go func() { ended <- a.Run(ctx, l, out) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	if line, err := bufio.NewReader(said).ReadString('\n'); err != nil || !strings.HasPrefix(line, "listening") {
		t.Fatalf("%q, %v", line, err)
	}
	return func(method, path, body string, status int, into any) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, "http://"+l.Addr().String()+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		req.Header.Set("Content-Type", "application/json")
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		if res.Body.Close(); err != nil {
			t.Fatal(err)
		}
		if res.StatusCode != status {
			t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, text)
		}
		if into == nil {
			return
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
}
