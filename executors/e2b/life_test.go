package e2b_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/images/recipe"
	pwguest "github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// patience bounds every wait.
const patience = time.Minute

// place is one sandbox under test.
type place struct {
	t    *testing.T
	ctx  context.Context
	s    *e2btest.Server
	dir  string
	e    *e2b.Executor
	spec executors.Spec
	sb   executors.Sandbox
	c    *client.Client
}

func newPlace(t *testing.T, cfg e2btest.Config) *place {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	p := &place{t: t, ctx: ctx, s: e2btest.New(t, withGuest(t, cfg)), dir: t.TempDir()}
	p.e = newExecutor(t, p.s, p.dir, nil)
	p.spec = executors.Spec{ID: id.New("sbx"), TeamID: "team_1", WorkspaceID: "ws_1", UserID: "usr_1", Root: executortest.GitRoot(t), Inside: "/work/thing",
		Env: map[string]string{"GIVEN": "to-all"}}
	sb, err := p.e.Create(ctx, p.spec)
	if err != nil {
		cancel()
		t.Fatalf("Create: %v", err)
	}
	p.use(sb)
	t.Cleanup(func() {
		p.c.Close()
		p.s.Heal()
		if err := p.sb.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
		if all := p.s.All(); len(all) != 0 {
			t.Errorf("left at E2B: %+v", all)
		}
		cancel()
	})
	return p
}

func (p *place) use(sb executors.Sandbox) {
	if p.c != nil {
		p.c.Close()
	}
	p.sb = sb
	p.c = client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: sb.Handle().ID, Now: time.Now, OnePipe: true})
}

// run runs a shell line and returns what it wrote.
func (p *place) run(line string) string {
	p.t.Helper()
	q, err := p.c.Start(p.ctx, pwguest.ProcessSpec{ID: id.New("p"), Argv: []string{"/bin/sh", "-c", line}})
	if err != nil {
		p.t.Fatalf("Start: %v", err)
	}
	return p.all(q.ID)
}

func (p *place) all(id string) string {
	p.t.Helper()
	out, err := p.c.Output(p.ctx, id, pwguest.Stdout, 0)
	if err != nil {
		p.t.Fatalf("Output: %v", err)
	}
	defer out.Close()
	b, err := io.ReadAll(out)
	if err != nil {
		p.t.Fatalf("reading output: %v", err)
	}
	return string(b)
}

func (p *place) alive() e2btest.Sandbox {
	p.t.Helper()
	all := p.s.Alive()
	if len(all) != 1 {
		p.t.Fatalf("%d sandboxes run", len(all))
	}
	return all[0]
}

// soon polls for what nobody announces.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

func TestASandboxIsSafeAndNamedAndTellsNoSecret(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	b := p.alive()
	if !b.Secure || !b.AutoPause || b.Network == nil || b.Network.AllowPublicTraffic == nil || *b.Network.AllowPublicTraffic || len(b.Network.DenyOut) == 0 {
		t.Errorf("made as %+v, network %+v", b, b.Network)
	}
	for k, want := range map[string]string{"parawork": "1", "sandbox": p.spec.ID, "team": "team_1", "workspace": "ws_1", "user": "usr_1", "purpose": "agent"} {
		if b.Metadata[k] != want {
			t.Errorf("metadata %s is %q", k, b.Metadata[k])
		}
	}
	if b.Metadata["instance"] == "" || b.Metadata["attempt"] == "" {
		t.Errorf("metadata %v", b.Metadata)
	}
	if end := time.Until(b.EndAt); end > e2b.Lease || end < e2b.Lease-patience {
		t.Errorf("it lives for %s", end)
	}
	if got := p.run("pwd; echo $GIVEN; echo $HOME; ls -a /var/lib/parawork/*/"); !strings.HasPrefix(got, "/work/thing\nto-all\n/home/user\n") || strings.Contains(got, "boot-file") {
		t.Errorf("inside: %q", got)
	}
	for _, r := range p.s.Requests() {
		if r.Plane == "sandbox" && (strings.Contains(r.Body, p.sb.Token()) || r.Header.Get("X-API-Key") != "") || strings.Contains(r.Query, p.sb.Token()) {
			t.Errorf("a secret is in %s %s", r.Method, r.Path)
		}
		if r.Header.Get("Connect-Timeout-Ms") != "" {
			t.Errorf("%s %s has a deadline, at which envd kills the process", r.Method, r.Path)
		}
	}
	if strings.Contains(string(p.sb.Handle().State), p.sb.Token()) {
		t.Error("the token is in the handle")
	}
}

func TestFaults(t *testing.T) {
	t.Parallel()
	executortest.Faults(t, func(t *testing.T) executortest.Service {
		dir := t.TempDir()
		s := e2btest.New(t, withGuest(t, e2btest.Config{Dir: dir}))
		set := settings(s)
		set.RequestTimeout, set.Retries = 20*time.Second, 1
		left := func() (ids []string) {
			for _, b := range s.All() {
				ids = append(ids, b.ID)
			}
			return ids
		}
		return executortest.Service{Disks: dir, Left: left, Lose: func() { s.LoseCreateAnswers(1) }, Down: s.Outage,
			Executor: func(t *testing.T, dir string, now func() time.Time) executors.Executor {
				return newExecutor(t, s, dir, func(c *e2b.Config) {
					c.Now, c.Settings = now, func(context.Context) (e2b.Settings, error) { return set, nil }
				})
			},
			Refuse: map[string]func(){"bad_key": func() { s.SetKey("e2b_" + strings.Repeat("f", 40)) }, "quota": func() { s.SetPlan(e2btest.Plan{Concurrent: 1}) }, "capacity": s.Outage,
				"template_missing": func() { s.RemoveTemplate("parawork-base") }},
			Ends:   map[string]executortest.End{"its machine died": {Do: func() { s.Crash(left()[0]) }, Says: "E2B"}, "its lease ended": {Do: func() { s.Expire(left()[0]) }, Kept: true}},
			CutNow: func() { s.CutStreams("") },
			Heal: func() {
				s.Heal()
				s.SetKey(set.APIKey)
				s.SetPlan(e2btest.Plan{})
				s.RemoveTemplate("parawork-base")
				s.AddTemplate(e2btest.Template{Name: "parawork-base", CPUs: 2, MemoryMB: 2048})
			}}
	})
}

func TestEveryCutIsSurvivedAndNothingIsLost(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	q, err := p.c.Start(p.ctx, pwguest.ProcessSpec{ID: "counter", Argv: []string{"/bin/sh", "-c", "i=0; while [ $i -lt 3000 ]; do echo line $i; i=$((i+1)); [ $((i%100)) = 0 ] && sleep 0.01; done"}})
	if err != nil {
		t.Fatal(err)
	}
	p.s.CutAtRandom(e2btest.Cuts{From: 3000, To: 9000, Times: 12, Seed: 1})
	p.s.CutStreams("")
	var got bytes.Buffer
	soon(t, "all output was read", func() bool {
		ctx, cancel := context.WithTimeout(p.ctx, patience)
		defer cancel()
		out, err := p.c.Output(ctx, q.ID, pwguest.Stdout, int64(got.Len()))
		if err != nil {
			return false
		}
		defer out.Close()
		_, err = io.Copy(&got, out)
		return err == nil && strings.Contains(got.String(), "line 2999\n")
	})
	for i, line := range strings.Split(strings.TrimSuffix(got.String(), "\n"), "\n") {
		if want := "line " + itoa(i); line != want {
			t.Fatalf("line %d is %q", i, line)
		}
	}
	p.s.Heal()
	// The bridges of pipes that were cut do not stay.
	soon(t, "one bridge is left", func() bool {
		return p.run(`for f in /proc/[0-9]*/cmdline; do tr '\0' '\n' 2>/dev/null < $f | sed -n 2p; done | grep -c '^bridge$'`) == "1\n"
	})
}

func itoa(n int) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return itoa(n/10) + string(rune('0'+n%10))
}

func TestPauseAndWakeKeepProcesses(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	q, err := p.c.Start(p.ctx, pwguest.ProcessSpec{ID: "waits", Argv: []string{"/bin/sh", "-c", "echo before; while [ ! -e go ]; do sleep 0.05; done; echo after"}})
	if err != nil {
		t.Fatal(err)
	}
	pauser := p.sb.(executors.Pauser)
	for range 2 {
		if err := pauser.Pause(p.ctx); err != nil {
			t.Fatalf("Pause: %v", err)
		}
	}
	if n := len(p.s.Alive()); n != 0 {
		t.Errorf("%d sandboxes cost money although all are paused", n)
	}
	if asleep, err := p.e.Asleep(p.ctx, p.sb.Handle()); err != nil || !asleep {
		t.Errorf("Asleep: %v, %v", asleep, err)
	}
	if ran, err := p.e.Ran(p.ctx, p.sb.Handle()); err != nil || ran.BeganAt == 0 || ran.EndedAt < ran.BeganAt {
		t.Errorf("Ran of one that is paused: %+v, %v", ran, err)
	}
	if _, err := p.sb.Dial(p.ctx); err == nil {
		t.Error("a paused sandbox was dialled")
	}
	if len(p.s.Alive()) != 0 {
		t.Error("looking at it woke it")
	}
	// What changes meanwhile about its network holds when it wakes.
	p.e.NetworkChanged(p.spec.ID, executors.Network{Mode: executors.NetworkAllow, Allow: []string{"*.example.com", "api.example.org:443", "10.0.0.1"}})
	for range 2 {
		if err := pauser.Resume(p.ctx); err != nil {
			t.Fatalf("Resume: %v", err)
		}
	}
	if n := p.alive().Network; n == nil || strings.Join(n.AllowOut, " ") != "*.example.com api.example.org" || strings.Join(n.DenyOut, " ") != "0.0.0.0/0" {
		t.Errorf("it reaches %+v", n)
	}
	p.run("touch go")
	if got := p.all(q.ID); got != "before\nafter\n" {
		t.Errorf("the process wrote %q", got)
	}
	p.e.NetworkChanged(p.spec.ID, executors.Network{Mode: executors.NetworkNone})
	soon(t, "it reaches nothing", func() bool {
		n := p.alive().Network
		return n != nil && len(n.AllowOut) == 0 && strings.Join(n.DenyOut, " ") == "0.0.0.0/0"
	})
}

func TestALeaseIsExtendedAndWhatIsNotIsPaused(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	l, err := p.sb.(executors.Leased).Extend(p.ctx, time.Hour)
	if err != nil || time.Until(time.UnixMilli(l.EndsAt)) < 55*time.Minute || l.RunEndsAt == 0 || time.Until(p.alive().EndAt) < 55*time.Minute {
		t.Fatalf("Extend: %+v, %v", l, err)
	}
	p.run("echo kept > file")
	p.s.Advance(2 * time.Hour) // nobody extended it
	if len(p.s.Alive()) != 0 || len(p.s.All()) != 1 {
		t.Fatalf("after its lease: %+v", p.s.All())
	}
	if asleep, err := p.e.Asleep(p.ctx, p.sb.Handle()); err != nil || !asleep {
		t.Errorf("Asleep: %v, %v", asleep, err)
	}
	sb, err := p.e.Recover(p.ctx, p.sb.Handle())
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	p.use(sb)
	if got := p.run("cat file"); got != "kept\n" {
		t.Errorf("the file holds %q", got)
	}
}

func TestTheEndOfARunIsReportedInTime(t *testing.T) {
	p := newPlace(t, e2btest.Config{Plan: e2btest.Plan{MaxRun: time.Hour}})
	l, err := p.sb.(executors.Leased).Extend(p.ctx, 3*time.Hour) // more than the plan has
	if err != nil {
		t.Fatalf("Extend: %v", err)
	}
	if left := time.Until(time.UnixMilli(l.RunEndsAt)); left > time.Hour || l.EndsAt != l.RunEndsAt {
		t.Errorf("the lease is %+v, %s left", l, left)
	}
}

func TestAGuestThatDiedIsStartedAgain(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	before, err := p.c.Hello(p.ctx)
	if err != nil {
		t.Fatal(err)
	}
	p.run("echo kept > file")
	if _, err := p.c.Start(p.ctx, pwguest.ProcessSpec{ID: "killer", Argv: []string{"/bin/sh", "-c", "kill -9 $PPID"}}); err != nil && !fault.Is(err, fault.Unavailable) {
		t.Fatal(err)
	}
	soon(t, "the guest was started again", func() bool {
		sb, err := p.e.Recover(p.ctx, p.sb.Handle())
		if errors.Is(err, executors.ErrGone) {
			t.Fatalf("its disk was given up: %v", err)
		}
		if err != nil {
			return false
		}
		p.use(sb)
		h, err := p.c.Hello(p.ctx)
		return err == nil && h.Pid != before.Pid
	})
	if got := p.run("cat file; echo $GIVEN"); got != "kept\nto-all\n" {
		t.Errorf("afterwards: %q", got)
	}
}

func TestALostFolderIsNoLostWork(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	p.run("echo kept > file")
	other := newExecutor(t, p.s, t.TempDir(), nil)
	if list, err := other.List(p.ctx); err != nil || len(list) != 0 {
		t.Errorf("another instance sees %+v, %v", list, err)
	}
	sb, err := other.Recover(p.ctx, p.sb.Handle()) // the data folder came back without this one
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	p.use(sb)
	if got := p.run("cat file"); got != "kept\n" {
		t.Errorf("the file holds %q", got)
	}
}

func TestAStrayOfOursIsListedAndEnded(t *testing.T) {
	p := newPlace(t, e2btest.Config{})
	s := p.s
	dir := t.TempDir()
	e := newExecutor(t, s, dir, nil)
	h, err := e.Warm(p.ctx, "wrm_1", e.Class(executors.Spec{}))
	if err != nil {
		t.Fatalf("Warm: %v", err)
	}
	if list, err := e.List(p.ctx); err != nil || len(list) != 1 || list[0].ID != "wrm_1" {
		t.Fatalf("List: %+v, %v", list, err)
	}
	sb, err := e.Recover(p.ctx, h)
	if err != nil {
		t.Fatalf("Recover: %v", err)
	}
	if err := sb.Destroy(p.ctx); err != nil {
		t.Fatal(err)
	}
	if len(s.All()) != 1 {
		t.Errorf("left: %+v", s.All())
	}
}

func TestAWarmSandboxIsTakenOnce(t *testing.T) {
	t.Parallel()
	s, dir := e2btest.New(t, withGuest(t, e2btest.Config{})), t.TempDir()
	e := newExecutor(t, s, dir, nil)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	spec := executors.Spec{ID: "sbx_taken", TeamID: "t", WorkspaceID: "w", Root: executortest.GitRoot(t)}
	h, err := e.Warm(ctx, "wrm_1", e.Class(spec))
	if err != nil {
		t.Fatalf("Warm: %v", err)
	}
	warm := s.Alive()[0]
	if warm.Internet == nil || *warm.Internet {
		t.Error("a sandbox of nobody reaches the internet")
	}
	spec.Warm = &h
	sb, err := e.Create(ctx, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	if all := s.All(); len(all) != 1 || all[0].ID != warm.ID {
		t.Errorf("another one was made: %+v", all)
	}
	c := client.New(client.Config{Dial: sb.Dial, Token: sb.Token(), SandboxID: spec.ID, Now: time.Now, OnePipe: true})
	defer c.Close()
	if _, err := c.Hello(ctx); err != nil {
		t.Errorf("Hello: %v", err)
	}
	if _, err := e.Recover(ctx, h); !errors.Is(err, executors.ErrGone) {
		t.Errorf("the warm one is still there: %v", err)
	}
	if list, err := newExecutor(t, s, dir, nil).List(ctx); err != nil || len(list) != 1 || list[0].ID != spec.ID {
		t.Errorf("List: %+v, %v", list, err)
	}
	spec.ID = "sbx_late" // it is taken: another one is made
	late, err := e.Create(ctx, spec)
	if err != nil {
		t.Fatalf("Create: %v", err)
	}
	for _, sb := range []executors.Sandbox{sb, late} {
		if err := sb.Destroy(ctx); err != nil {
			t.Errorf("Destroy: %v", err)
		}
	}
	if len(s.All()) != 0 {
		t.Errorf("left: %+v", s.All())
	}
}

func TestAnotherKeyLosesNoSandbox(t *testing.T) {
	t.Parallel()
	s, other := e2btest.New(t, e2btest.Config{}), e2btest.New(t, e2btest.Config{})
	var mu sync.Mutex
	now := settings(s)
	e := newExecutor(t, s, t.TempDir(), func(c *e2b.Config) {
		c.Settings = func(context.Context) (e2b.Settings, error) { mu.Lock(); defer mu.Unlock(); return now, nil }
	})
	sb, err := e.Create(t.Context(), executors.Spec{ID: "sbx_1", TeamID: "t", WorkspaceID: "w", Root: executortest.GitRoot(t)})
	if err != nil {
		t.Fatal(err)
	}
	set := func(to e2b.Settings) { mu.Lock(); defer mu.Unlock(); now = to }
	set(settings(other))
	found, err := e.Recover(t.Context(), sb.Handle())
	if err != nil {
		t.Fatalf("a sandbox of another key is %v", err)
	}
	if _, err := found.Dial(t.Context()); fault.CodeOf(err) != "e2b_other_key" {
		t.Errorf("Dial: %v", err)
	}
	if _, err := e.Asleep(t.Context(), sb.Handle()); errors.Is(err, executors.ErrGone) || err == nil {
		t.Errorf("Asleep: %v", err)
	}
	set(settings(s))
	if found, err = e.Recover(t.Context(), sb.Handle()); err != nil {
		t.Fatalf("Recover with the old key: %v", err)
	}
	if err := found.Destroy(t.Context()); err != nil || len(s.All()) != 0 {
		t.Errorf("Destroy: %v, %+v", err, s.All())
	}
}

func TestCapabilitiesComeWithReasons(t *testing.T) {
	t.Parallel()
	s := e2btest.New(t, e2btest.Config{})
	var mu sync.Mutex
	set, clock := e2b.Settings{}, time.Now()
	e := newExecutor(t, s, t.TempDir(), func(c *e2b.Config) {
		c.Settings = func(context.Context) (e2b.Settings, error) { mu.Lock(); defer mu.Unlock(); return set, nil }
		c.Now = func() time.Time { mu.Lock(); defer mu.Unlock(); return clock }
	})
	ask := func(to e2b.Settings) executors.Capabilities {
		t.Helper()
		mu.Lock()
		set, clock = to, clock.Add(time.Hour)
		mu.Unlock()
		c, err := e.Capabilities(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if c := ask(e2b.Settings{}); c.Available || !c.NotSetUp || !strings.Contains(c.Reason, "no API key") || c.Cure == "" || len(c.Sizes) != 4 || c.PriceNano != 133_200_000 {
		t.Errorf("without a key: %+v", c)
	}
	if len(s.Requests()) != 0 {
		t.Error("without a key somebody was asked")
	}
	bad := settings(s)
	bad.APIKey = "e2b_ffffffffffffffffffffffffffffffffffffffff"
	if c := ask(bad); c.Available || !strings.Contains(c.Reason, "does not take") {
		t.Errorf("with a wrong key: %+v", c)
	}
	c := ask(settings(s))
	if !c.Available || !c.OwnDisk || !c.PauseFree || c.LeaseMs == 0 || c.Boundary != executors.MachineBoundary || c.Warning != "" {
		t.Errorf("with a key: %+v", c)
	}
	for _, size := range c.Sizes {
		if size.Available != size.Default || size.Available == (size.Cure != "") {
			t.Errorf("size %+v", size)
		}
		if !size.Available && !strings.Contains(size.Cure, "parawork e2b template build --size "+itoa(size.CPUs)+"x"+itoa(int(size.MemoryMB))) {
			t.Errorf("size %+v", size)
		}
	}
	s.RemoveTemplate("parawork-base")
	if c := ask(settings(s)); c.Available || !strings.Contains(c.Cure, "`parawork e2b template build`") {
		t.Errorf("without a template: %+v", c)
	}
	spec := executors.Spec{ID: "sbx_1", TeamID: "t", WorkspaceID: "w", Root: executortest.GitRoot(t)}
	_, err := e.Create(t.Context(), spec)
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Details["reason"] != "template_missing" {
		t.Errorf("Create without a template: %v", err)
	}
	s.Outage()
	quick := settings(s)
	quick.Retries = -1
	if c := ask(quick); c.Available || !strings.Contains(c.Reason, "answers with an error (HTTP 503") {
		t.Errorf("in an outage: %+v", c)
	}
}

func TestATemplateIsBuiltAndUsed(t *testing.T) {
	t.Parallel()
	s := e2btest.New(t, e2btest.Config{Templates: []e2btest.Template{}})
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var log bytes.Buffer
	small := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(small, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	agents := []recipe.Package{{Program: "one", NPM: "one-cli", Version: "1.2.3", Env: map[string]string{"ONE_QUIET": "1"}}, {Program: "two", NPM: "@scope/two", Version: "4.5.6"}}
	if err := e2b.Build(ctx, settings(s), e2b.BuildSpec{Holds: recipe.Image{Agents: agents, With: []string{"browser"}}, GuestPath: small, PollEvery: 10 * time.Millisecond}, &log); err != nil {
		t.Fatalf("Build: %v\n%s", err, log.String())
	}
	built := s.Builds()
	if len(built) != 1 || built[0].Template != "parawork-base" || built[0].CPUs != 2 || built[0].MemoryMB != 2048 {
		t.Fatalf("built %+v", built)
	}
	var did []string
	for _, step := range built[0].Request.Steps {
		did = append(did, step.Type+" "+strings.Join(step.Args, " "))
	}
	want := []string{"ENV LANG C.UTF-8 ONE_QUIET 1", "USER user"}
	for _, command := range (recipe.Image{Agents: agents, With: []string{"browser"}}).Commands() {
		want = append(want, "RUN "+command+" root")
	}
	for _, step := range want {
		if !slices.Contains(did, step) {
			t.Errorf("the template is made without %q, by %q", step, did)
		}
	}
	if built[0].Request.FromImage != recipe.BaseImage {
		t.Errorf("it is made from %s", built[0].Request.FromImage)
	}
	all, err := e2b.Templates(ctx, settings(s))
	if err != nil || !slices.ContainsFunc(all, func(t e2b.Template) bool { return t.Name() == "parawork-base" && t.CPUs == 2 && t.State == "ready" }) {
		t.Errorf("Templates: %+v, %v", all, err)
	}
	s.FailBuilds("npm went away")
	if err := e2b.Build(ctx, settings(s), e2b.BuildSpec{Size: executors.Size{CPUs: 4, MemoryMB: 4096}, PollEvery: 10 * time.Millisecond}, &log); err == nil || !strings.Contains(err.Error(), "npm went away") {
		t.Errorf("a build that fails: %v", err)
	}
	if err := e2b.Build(ctx, settings(s), e2b.BuildSpec{Holds: recipe.Image{Agents: []recipe.Package{{NPM: "x; rm -rf /"}}}}, &log); err == nil {
		t.Error("a shell line was taken for a package")
	}
}

func TestAnOldServerIsServed(t *testing.T) {
	p := newPlace(t, e2btest.Config{Old: true})
	if b := p.alive(); !b.Secure {
		t.Error("it is open to everybody")
	}
	if got := p.run("echo hello"); got != "hello\n" {
		t.Errorf("got %q", got)
	}
	if err := p.sb.(executors.Pauser).Pause(p.ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.sb.(executors.Pauser).Resume(p.ctx); err != nil {
		t.Fatal(err)
	}
	if got := p.run("echo again"); got != "again\n" {
		t.Errorf("got %q", got)
	}
}
