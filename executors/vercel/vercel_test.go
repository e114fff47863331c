package vercel_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/hosted/hostedtest"
	"github.com/parawork/parawork/executors/vercel"
	"github.com/parawork/parawork/executors/vercel/verceltest"
)

func TestMain(m *testing.M) { hostedtest.Main(m) }

// servers are stand-ins, by the folder of the executor that uses one.
var servers = hostedtest.PerFolder[*verceltest.Server]{New: func(t *testing.T) *verceltest.Server { return verceltest.New(t, true) }}

func settings(s *verceltest.Server) vercel.Settings {
	return vercel.Settings{Token: s.Token(), Team: verceltest.Team, Project: verceltest.Project, APIURL: s.URL(), Image: "universal"}
}

func newExecutor(t *testing.T, s *verceltest.Server, dir string) *vercel.Executor {
	t.Helper()
	return newAt(t, settings(s), dir, time.Now)
}

func newAt(t *testing.T, set vercel.Settings, dir string, now func() time.Time) *vercel.Executor {
	t.Helper()
	e, err := vercel.New(vercel.Config{Dir: dir, GuestPath: hostedtest.GuestPath(t), ReadyIn: 20 * time.Second, Now: now, Settings: func(context.Context) (vercel.Settings, error) { return set, nil },
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
	executortest.Run(t, executortest.Config{Remote: true, Abilities: []string{"RemnantKeeper", "RunRecorder", "Sleeper"}, SandboxAbilities: []string{"Leased", "Pauser", "SinglePipe"},
		Deliver: executortest.Deliver, New: func(t *testing.T, dir string) executors.Executor { return newExecutor(t, servers.Of(t, dir), dir) }})
}

func TestFaults(t *testing.T) {
	t.Parallel()
	hostedtest.Need(t)
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		s := verceltest.New(t, true)
		set := settings(s)
		breaks := func(k verceltest.Knobs) func() { return func() { s.Set(k) } }
		return executortest.Service{Left: s.Boxes, Disks: s.Dir(), Lose: breaks(verceltest.Knobs{LoseCreates: 1}), Down: breaks(verceltest.Knobs{Down: true}),
			Executor: func(t *testing.T, dir string, now func() time.Time) executors.Executor {
				return newAt(t, set, dir, now)
			},
			Refuse: map[string]func(){"bad_key": func() { s.SetToken("another") }, "payment": breaks(verceltest.Knobs{Status: 402}), "quota": breaks(verceltest.Knobs{Status: 429}),
				"outage": breaks(verceltest.Knobs{Down: true}), "image_missing": breaks(verceltest.Knobs{NoImage: true})},
			Ends: map[string]executortest.End{"its lease ended": {Do: s.StopAll, Kept: true},
				"deleted there": {Do: func() { s.Delete(s.Boxes()[0]) }, Says: "Vercel no longer has it"}},
			Cut:  func(d time.Duration) { s.Set(verceltest.Knobs{CutAfter: d, CutStreams: d > 0}) },
			Heal: func() { s.Set(verceltest.Knobs{}); s.SetToken(set.Token) }}
	})
}

func TestLifeOfASandbox(t *testing.T) {
	t.Parallel()
	s := verceltest.New(t, false)
	e := newExecutor(t, s, t.TempDir())
	s.Set(verceltest.Knobs{CutStreams: true}) // commands are asked for their end, and for what they wrote
	one := hostedtest.Spec(t, "sbx_1")
	one.Network = executors.Network{Mode: executors.NetworkAllow, Allow: []string{"github.com:443", "10.0.0.1"}}
	sb, err := e.Create(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	s.Set(verceltest.Knobs{})
	name := s.Boxes()[0]
	asked, policy := s.Asked(name)
	if asked.Image != "universal" || asked.Timeout != vercel.Lease.Milliseconds() || !asked.Persistent || policy != `{"allow":["github.com"]}` {
		t.Errorf("asked for %+v, %s", asked, policy)
	}
	l, err := sb.(executors.Leased).Extend(t.Context(), 2*vercel.Lease)
	if left := time.Until(time.UnixMilli(l.EndsAt)); err != nil || left < 9*time.Minute || left > 11*time.Minute {
		t.Errorf("Extend: %v left, %v", left, err)
	}
	s.Plan(11 * time.Minute) // the plan's bound is the end of the run
	if l, err = sb.(executors.Leased).Extend(t.Context(), time.Hour); err != nil || l.RunEndsAt != l.EndsAt {
		t.Errorf("Extend beyond the plan: %+v, %v", l, err)
	}
	e.NetworkChanged("sbx_1", executors.Network{Mode: executors.NetworkNone})
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) { // nothing tells
		if _, policy = s.Asked(name); policy == `{"mode":"deny-all"}` {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the network was not changed: %s", policy)
		}
	}
	p := sb.(executors.Pauser)
	if err := p.Pause(t.Context()); err != nil {
		t.Fatalf("Pause: %v", err)
	}
	if asleep, err := e.Asleep(t.Context(), sb.Handle()); err != nil || !asleep {
		t.Errorf("Asleep: %v, %v", asleep, err)
	}
	if ran, err := e.Ran(t.Context(), sb.Handle()); err != nil || ran.BeganAt == 0 || ran.EndedAt < ran.BeganAt {
		t.Errorf("Ran: %+v, %v", ran, err)
	}
	if err := p.Resume(t.Context()); err != nil {
		t.Fatalf("Resume: %v", err)
	}
	if err := hostedtest.Hello(t, sb); err != nil {
		t.Errorf("after Resume: %v", err)
	}
	s.StopAll() // its lease ended
	if _, err := sb.Dial(t.Context()); err == nil {
		t.Error("a session that has ended was reached")
	}
	if s.Snapshots() == 0 {
		t.Error("no disk was kept of a sandbox that is paused")
	}
	if err := p.Resume(t.Context()); err != nil {
		t.Fatalf("Resume: %v", err)
	}
	if err := sb.Destroy(t.Context()); err != nil || len(s.Boxes()) != 0 || s.Snapshots() != 0 { // its end makes a snapshot, too
		t.Errorf("Destroy: %v; left: %v and %d snapshots", err, s.Boxes(), s.Snapshots())
	}
}

func TestTroubleInWords(t *testing.T) {
	t.Parallel()
	s := verceltest.New(t, true)
	e := newExecutor(t, s, t.TempDir())
	set := settings(s)
	if words, err := vercel.Check(t.Context(), set); err != nil || !strings.Contains(words, "no sandbox") {
		t.Errorf("Check: %q, %v", words, err)
	}
	if c, err := e.Capabilities(t.Context()); err != nil || !c.Available {
		t.Errorf("Capabilities: %+v, %v", c, err)
	}
	for want, change := range map[string]func(*vercel.Settings){"no_key": func(v *vercel.Settings) { v.Project = "" }, "bad_key": func(v *vercel.Settings) { v.Team = "team_other" },
		"outage": func(v *vercel.Settings) { v.APIURL = "http://127.0.0.1:1" }} {
		v := set
		change(&v)
		if _, err := vercel.Check(t.Context(), v); hostedtest.Reason(err) != want {
			t.Errorf("%s: %v", want, err)
		}
	}
	// An OIDC token names its team and project, and when it ends.
	oidc := func(ends time.Time) string {
		return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"owner_id":%q,"project_id":%q,"exp":%d}`, verceltest.Team, verceltest.Project, ends.Unix())) + ".sig"
	}
	s.SetToken(oidc(time.Now().Add(time.Hour)))
	if _, err := vercel.Check(t.Context(), vercel.Settings{OIDCToken: s.Token(), APIURL: s.URL()}); err != nil {
		t.Errorf("Check of an OIDC token: %v", err)
	}
	if _, err := vercel.Check(t.Context(), vercel.Settings{OIDCToken: oidc(time.Now().Add(-time.Hour)), APIURL: s.URL()}); hostedtest.Reason(err) != "bad_key" {
		t.Errorf("Check of an OIDC token that has ended: %v", err)
	}
}
