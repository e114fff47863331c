package cloudflare_test

import (
	"context"
	"errors"
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
	e, err := cloudflare.New(cloudflare.Config{Dir: dir, GuestPath: hostedtest.GuestPath(t), ReadyIn: 20 * time.Second,
		Settings: func(context.Context) (cloudflare.Settings, error) {
			return cloudflare.Settings{URL: s.URL(), APIKey: s.Key()}, nil
		},
		Log: hostedtest.Log(t)})
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

func TestLifeOfAContainer(t *testing.T) {
	t.Parallel()
	s, dir := cloudflaretest.New(t), t.TempDir()
	e := newExecutor(t, s, dir)
	s.Set(cloudflaretest.Knobs{LoseCreates: 1})
	if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1")); hostedtest.Reason(err) != "outage" {
		t.Errorf("a beginning that is not answered: %v", err)
	}
	if left := s.Names(); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	one := hostedtest.Spec(t, "sbx_1")
	one.Network.Mode = executors.NetworkNone
	sb, err := e.Create(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	if s.Internet(s.Names()[0]) {
		t.Error("a workspace without network reaches the internet")
	}
	if l, err := sb.(executors.Leased).Extend(t.Context(), cloudflare.Lease); err != nil || time.Until(time.UnixMilli(l.EndsAt)) < cloudflare.Lease-time.Minute {
		t.Errorf("Extend: %+v, %v", l, err)
	}
	s.Set(cloudflaretest.Knobs{CutAfter: 20 * time.Millisecond})
	if pipe, err := sb.Dial(t.Context()); err == nil {
		if _, err := pipe.Read(make([]byte, 1)); err == nil {
			t.Error("a pipe that was cut was read")
		}
		_ = pipe.Close()
	}
	s.Set(cloudflaretest.Knobs{})
	again, err := newExecutor(t, s, dir).Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if err := hostedtest.Hello(t, again); err != nil {
		t.Errorf("the guest did not outlive the cut: %v", err)
	}
	s.Evict() // nothing is left of it
	if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) || !strings.Contains(err.Error(), "Cloudflare no longer has it") {
		t.Errorf("Recover of a container that has ended: %v", err)
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
	for want, knobs := range map[string]cloudflaretest.Knobs{"capacity": {NoContainer: true}, "outage": {Down: true}} {
		s.Set(knobs)
		if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_"+want)); hostedtest.Reason(err) != want || !strings.Contains(err.Error(), "Cloudflare") {
			t.Errorf("%s: %v", want, err)
		}
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
