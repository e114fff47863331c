package cloudflare_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/cloudflare"
	"github.com/parawork/parawork/executors/cloudflare/cloudflaretest"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/hosted/hostedtest"
	"github.com/parawork/parawork/internal/fault"
)

func TestMain(m *testing.M) { hostedtest.Main(m) }

// servers are stand-ins, by the folder of the executor that uses one.
var servers = hostedtest.PerFolder[*cloudflaretest.Server]{New: func(t *testing.T) *cloudflaretest.Server { return cloudflaretest.New(t) }}

func newExecutor(t *testing.T, s *cloudflaretest.Server, dir string) *cloudflare.Executor {
	t.Helper()
	return newAt(t, cloudflare.Settings{URL: s.URL(), APIKey: s.Key()}, dir, time.Now)
}

func newAt(t *testing.T, set cloudflare.Settings, dir string, now func() time.Time) *cloudflare.Executor {
	t.Helper()
	e, err := cloudflare.New(cloudflare.Config{Dir: dir, GuestPath: hostedtest.GuestPath(t), ReadyIn: 20 * time.Second, Now: now,
		Settings: func(context.Context) (cloudflare.Settings, error) { return set, nil }, Log: hostedtest.Log(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return e
}

func TestConformance(t *testing.T) {
	t.Parallel()
	hostedtest.Need(t)
	executortest.Run(t, executortest.Config{Remote: true, Abilities: []string{"RemnantKeeper", "RunRecorder"}, SandboxAbilities: []string{"Leased", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, servers.Of(t, dir), dir) }})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	hostedtest.Need(t)
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		s := cloudflaretest.New(t)
		key := s.Key()
		breaks := func(k cloudflaretest.Knobs) func() { return func() { s.Set(k) } }
		return executortest.Service{Left: s.Names, Disks: s.Dir(), Lose: breaks(cloudflaretest.Knobs{LoseCreates: 1}), Down: breaks(cloudflaretest.Knobs{Down: true}),
			Executor: func(t *testing.T, dir string, now func() time.Time) executors.Executor {
				return newAt(t, cloudflare.Settings{URL: s.URL(), APIKey: key}, dir, now)
			},
			Refuse: map[string]func(){"bad_key": func() { s.SetKey("another") }, "capacity": breaks(cloudflaretest.Knobs{NoContainer: true}), "outage": breaks(cloudflaretest.Knobs{Down: true})},
			Ends:   map[string]executortest.End{"it was moved": {Do: s.Evict, Says: "Cloudflare no longer has it"}}, // nothing is left of it
			Cut:    func(d time.Duration) { s.Set(cloudflaretest.Knobs{CutAfter: d}) },
			Heal:   func() { s.Set(cloudflaretest.Knobs{}); s.SetKey(key) }}
	})
}

func TestLifeOfAContainer(t *testing.T) {
	t.Parallel()
	s := cloudflaretest.New(t)
	e := newExecutor(t, s, t.TempDir())
	one := hostedtest.Spec(t, "sbx_1")
	one.Network.Mode = executors.NetworkNone
	sb, err := e.Create(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if s.Internet(s.Names()[0]) {
		t.Error("a workspace without network reaches the internet")
	}
	s.Evict()
	if at, err := e.Ran(t.Context(), sb.Handle()); err != nil || at.EndedAt < at.BeganAt || at.BeganAt == 0 {
		t.Errorf("Ran of a container that has ended: %+v, %v", at, err)
	}
	if _, err := sb.(executors.Leased).Extend(t.Context(), time.Minute); err == nil {
		t.Error("the lease of a container that has ended was extended")
	}
}

func TestTroubleInWords(t *testing.T) {
	t.Parallel()
	s := cloudflaretest.New(t)
	e := newExecutor(t, s, t.TempDir())
	list := hostedtest.Spec(t, "sbx_list")
	list.Network = executors.Network{Mode: executors.NetworkAllow, Allow: []string{"github.com"}}
	if _, err := e.Create(t.Context(), list); fault.CodeOf(err) != "network_not_enforced" {
		t.Errorf("a list that cannot be enforced: %v", err)
	}
	set := cloudflare.Settings{URL: s.URL() + "/", APIKey: s.Key()}
	s.Set(cloudflaretest.Knobs{Version: 7})
	if _, err := cloudflare.Check(t.Context(), set); hostedtest.Reason(err) != "refused" || !strings.Contains(err.Error(), "deploy it again") {
		t.Errorf("Check of another version: %v", err)
	}
	s.Set(cloudflaretest.Knobs{})
	if words, err := cloudflare.Check(t.Context(), set); err != nil || !strings.Contains(words, "the worker answers") {
		t.Errorf("Check: %q, %v", words, err)
	}
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available {
		t.Errorf("Capabilities: %+v, %v", c, err)
	}
	for want, set := range map[string]cloudflare.Settings{"no_key": {URL: s.URL()}, "bad_key": {URL: s.URL(), APIKey: "x"}, "outage": {URL: "http://127.0.0.1:1", APIKey: "x"}} {
		if _, err := cloudflare.Check(t.Context(), set); hostedtest.Reason(err) != want {
			t.Errorf("%s: %v", want, err)
		}
	}
}
