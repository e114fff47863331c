package vercel_test

import (
	"context"
	"encoding/base64"
	"errors"
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
	set := settings(s)
	e, err := vercel.New(vercel.Config{Dir: dir, GuestPath: hostedtest.GuestPath(t), ReadyIn: 20 * time.Second, Settings: func(context.Context) (vercel.Settings, error) { return set, nil },
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

func TestLifeOfASandbox(t *testing.T) {
	t.Parallel()
	s, dir := verceltest.New(t, false), t.TempDir()
	e := newExecutor(t, s, dir)
	s.Set(verceltest.Knobs{LoseCreates: 1})
	if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1")); hostedtest.Reason(err) != "outage" {
		t.Errorf("a making that is not answered: %v", err)
	}
	if left := s.Boxes(); len(left) != 0 {
		t.Errorf("left: %q", left)
	}
	s.Set(verceltest.Knobs{CutStreams: true}) // commands are asked for their end, and for what they wrote
	one := hostedtest.Spec(t, "sbx_1")
	one.Network = executors.Network{Mode: executors.NetworkAllow, Allow: []string{"github.com:443", "10.0.0.1"}}
	sb, err := e.Create(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	s.Set(verceltest.Knobs{CutAfter: 20 * time.Millisecond})
	if pipe, err := sb.Dial(t.Context()); err == nil {
		if _, err := pipe.Read(make([]byte, 1)); err == nil {
			t.Error("a pipe that was cut was read")
		}
		_ = pipe.Close()
	}
	s.Set(verceltest.Knobs{})
	if err := hostedtest.Hello(t, sb); err != nil {
		t.Errorf("the guest did not outlive the cut: %v", err)
	}
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
	again, err := newExecutor(t, s, dir).Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if err := hostedtest.Hello(t, again); err != nil {
		t.Errorf("after Recover: %v", err)
	}
	s.Delete(name)
	if _, err := e.Recover(t.Context(), sb.Handle()); !errors.Is(err, executors.ErrGone) || !strings.Contains(err.Error(), "Vercel no longer has it") {
		t.Errorf("Recover of one that was deleted there: %v", err)
	}
}

func TestTroubleInWords(t *testing.T) {
	t.Parallel()
	s := verceltest.New(t, true)
	e := newExecutor(t, s, t.TempDir())
	for want, knobs := range map[string]verceltest.Knobs{"payment": {Status: 402}, "quota": {Status: 429}, "outage": {Down: true}} {
		s.Set(knobs)
		if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_"+want)); hostedtest.Reason(err) != want || !strings.Contains(err.Error(), "Vercel") {
			t.Errorf("%s: %v", want, err)
		}
	}
	s.Set(verceltest.Knobs{})
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
	if _, err := e.Create(t.Context(), hostedtest.Spec(t, "sbx_1")); hostedtest.Reason(err) != "bad_key" {
		t.Errorf("Create with a token that was revoked: %v", err)
	}
}
