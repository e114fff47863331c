package network_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// gates notes what it is given.
type gates struct {
	mu  sync.Mutex
	now map[string]executors.Network
}

func (g *gates) Update(workspaceID string, n executors.Network) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now[workspaceID] = n
}

func (g *gates) Workspaces() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []string
	for id := range g.now {
		out = append(out, id)
	}
	return out
}

func (g *gates) of(workspaceID string) executors.Network {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now[workspaceID]
}

type bus struct {
	mu  sync.Mutex
	all []events.Event
}

func (b *bus) Publish(_ context.Context, e events.Event) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all = append(b.all, e)
}

func (b *bus) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.all)
}

type harness struct {
	t                 *testing.T
	s                 *network.Service
	db                *store.DB
	gates             *gates
	bus               *bus
	team, project, ws string
}

func newHarness(t *testing.T, repair ...func(*network.Config)) *harness {
	t.Helper()
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	h := &harness{t: t, db: db, gates: &gates{now: map[string]executors.Network{}}, bus: &bus{}, team: team.ID, project: id.New("prj"), ws: id.New("ws")}
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?, ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`,
			[]any{h.project, h.team, user.ID}},
		{`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
			VALUES (?, ?, ?, 1, 'w', 'b', 'main', 'local', 'ready', ?, 1, 1)`, []any{h.ws, h.team, h.project, user.ID}},
	} {
		if _, err := db.Exec(t.Context(), q.sql, q.args...); err != nil {
			t.Fatal(err)
		}
	}
	cfg := network.Config{Store: store.NewNetwork(db), Gates: h.gates, Events: h.bus, AgentHosts: []string{"api.openai.com", "chatgpt.com", "auth.openai.com"}, AgentURLs: []string{"https://models.corp.example:8443/v1"}}
	for _, fn := range repair {
		fn(&cfg)
	}
	var err error
	if h.s, err = network.New(cfg); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *harness) set(p network.Policy) {
	h.t.Helper()
	p, err := network.CheckPolicy(p)
	if err == nil {
		err = h.s.SetProject(h.t.Context(), h.project, p)
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) network() executors.Network {
	h.t.Helper()
	n, err := h.s.Network(h.t.Context(), h.ws)
	if err != nil {
		h.t.Fatal(err)
	}
	return n
}

func (h *harness) show() network.Info {
	h.t.Helper()
	i, err := h.s.Show(h.t.Context(), h.ws)
	if err != nil {
		h.t.Fatal(err)
	}
	return i
}

func TestWhoSaysWhat(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(c *network.Config) { c.Allow = []string{"corp.example", "@git"} })
	if n := h.network(); n.Mode != executors.NetworkOpen || n.Allow != nil {
		t.Errorf("a project that says nothing: %+v", n)
	}
	if i := h.show(); i.Source != network.FromInstance || len(i.Names) != 0 {
		t.Errorf("%+v", i)
	}
	h.set(network.Policy{Mode: executors.NetworkAllow, Allow: []string{"API.Example.", "api.example", "*.cdn.example:8443", "@registries"}})
	n := h.network()
	for _, want := range []string{"api.example", "*.cdn.example:8443", "corp.example", "registry.npmjs.org", "github.com", "api.openai.com", "models.corp.example:8443"} {
		if !slices.Contains(n.Allow, want) {
			t.Errorf("%s is not on the list %q", want, n.Allow)
		}
	}
	if slices.Contains(n.Allow, "api.anthropic.com") {
		t.Error("hosts of an agent that cannot be started are allowed")
	}
	from := map[string]string{}
	for _, name := range h.show().Names {
		from[name.Name] = name.From + " " + name.Preset
	}
	if from["api.example"] != "project " || from["corp.example"] != "instance " || from["registry.npmjs.org"] != "preset @registries" || from["api.openai.com"] != "preset @agents" {
		t.Errorf("%v", from)
	}
	h.set(network.Policy{Mode: executors.NetworkAllow, WithoutAgents: true})
	if n := h.network(); slices.Contains(n.Allow, "api.openai.com") || !slices.Contains(n.Allow, "corp.example") {
		t.Errorf("without the agents' hosts: %q", n.Allow)
	}
	h.set(network.Policy{Mode: executors.NetworkNone, Allow: []string{"api.example"}})
	if n := h.network(); n.Mode != executors.NetworkNone || n.Allow != nil {
		t.Errorf("%+v", n)
	}
	if _, err := h.s.Network(t.Context(), "ws_other"); !fault.Is(err, fault.NotFound) {
		t.Errorf("%v", err)
	}
}

func TestOneWorkspaceMayReachMore(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := t.Context()
	h.gates.Update(h.ws, h.network())
	for _, mode := range []executors.NetworkMode{executors.NetworkOpen, executors.NetworkNone} {
		h.set(network.Policy{Mode: mode})
		if err := h.s.Allow(ctx, h.ws, "x.example"); fault.CodeOf(err) != "network_not_a_list" {
			t.Errorf("%s: %v", mode, err)
		}
	}
	h.set(network.Policy{Mode: executors.NetworkAllow})
	reported := h.bus.count()
	for _, host := range []string{"X.example", "x.example", "y.example:8080"} {
		if err := h.s.Allow(ctx, h.ws, host); err != nil {
			t.Fatal(err)
		}
	}
	live := h.gates.of(h.ws)
	if !slices.Contains(live.Allow, "x.example") || !slices.Contains(live.Allow, "y.example:8080") {
		t.Errorf("a live sandbox does not get the change: %q", live.Allow)
	}
	if h.bus.count() != reported+3 {
		t.Errorf("%d events", h.bus.count()-reported)
	}
	if err := h.s.Disallow(ctx, h.ws, "x.EXAMPLE"); err != nil {
		t.Fatal(err)
	}
	if live := h.gates.of(h.ws); slices.Contains(live.Allow, "x.example") {
		t.Errorf("%q", live.Allow)
	}
	if err := h.s.Disallow(ctx, h.ws, "x.example"); fault.CodeOf(err) != "host_not_listed" {
		t.Errorf("%v", err)
	}
	for _, host := range []string{"", "https://x.example/", "*", "2130706433", "@nothing", strings.Repeat("a", 300)} {
		if err := h.s.Allow(ctx, h.ws, host); fault.CodeOf(err) != "invalid_host" {
			t.Errorf("%.30q: %v", host, err)
		}
	}
	for i := range 199 {
		if err := h.s.Allow(ctx, h.ws, fmt.Sprintf("n%d.example", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.s.Allow(ctx, h.ws, "one.too.many.example"); fault.CodeOf(err) != "too_many_hosts" {
		t.Errorf("%v", err)
	}
}

// A sandbox without a repository may have a network of its own. It takes away from the project's, and never adds to it.
func TestAWorkspacesOwnPolicyTakesAway(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	list := network.Policy{Mode: executors.NetworkAllow, Allow: []string{"*.co.example", "one.test", "two.test:8443", "@git"}, WithoutAgents: true}
	for _, c := range []struct {
		project, own network.Policy
		code         string
		want         string
	}{
		{own: network.Policy{Mode: "some"}, code: "invalid_network"},
		{own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"a b"}}, code: "invalid_host"},
		{own: network.Policy{Mode: executors.NetworkOpen}, want: "open []"},
		{own: network.Policy{Mode: executors.NetworkNone}, want: "none []"},
		{own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"b.test", "A.test"}}, want: "allow [a.test b.test]"},
		{project: list, own: network.Policy{Mode: executors.NetworkOpen}, code: "network_wider"},
		{project: list, own: network.Policy{Mode: executors.NetworkNone}, want: "none []"},
		{project: list, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"a.co.example", "*.b.co.example", "one.test:443", "two.test:8443", "github.com"}},
			want: "allow [*.b.co.example a.co.example github.com one.test:443 two.test:8443]"},
		{project: list, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"co.example"}}, code: "network_wider"},
		{project: list, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"one.test:8443"}}, code: "network_wider"},
		{project: list, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"two.test"}}, code: "network_wider"},
		{project: list, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"*.one.test"}}, code: "network_wider"},
		{project: list, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"@registries"}}, code: "network_wider"},
		{project: network.Policy{Mode: executors.NetworkNone}, own: network.Policy{Mode: executors.NetworkAllow, Allow: []string{"one.test"}}, code: "network_wider"},
		{project: network.Policy{Mode: executors.NetworkNone}, own: network.Policy{Mode: executors.NetworkNone}, want: "none []"},
	} {
		h.set(c.project)
		own, err := h.s.Narrow(t.Context(), h.team, h.project, c.own)
		if fault.CodeOf(err) != c.code {
			t.Errorf("%+v below %+v: %v", c.own, c.project, err)
		}
		if err != nil || c.code != "" {
			continue
		}
		if n := h.below(own); fmt.Sprintf("%s %v", n.Mode, n.Allow) != c.want {
			t.Errorf("%+v below %+v reaches %s %v, want %s", c.own, c.project, n.Mode, n.Allow, c.want)
		}
	}
	h.set(network.Policy{}) // the last one asked for none where there was none: it keeps that
	if n := h.network(); n.Mode != executors.NetworkNone {
		t.Errorf("after the project was opened: %+v", n)
	}
	own, err := h.s.Narrow(t.Context(), h.team, h.project, network.Policy{Mode: executors.NetworkAllow, Allow: []string{"one.test", "other.test"}})
	if err != nil {
		t.Fatal(err)
	}
	h.below(own)
	h.set(list) // the project is narrower than it was
	if n := h.network(); fmt.Sprint(n.Allow) != "[one.test]" {
		t.Errorf("after the project changed: %+v", n)
	}
	if err := h.s.Allow(t.Context(), h.ws, "more.test"); err != nil {
		t.Fatal(err)
	}
	if n := h.network(); fmt.Sprint(n.Allow) != "[one.test more.test]" || h.show().Source != network.FromWorkspace {
		t.Errorf("after a host was allowed for it: %+v", n)
	}
}

// below makes the workspace a sandbox with a policy of its own, and returns what it reaches.
func (h *harness) below(own network.Policy) executors.Network {
	h.t.Helper()
	raw, err := json.Marshal(own)
	for _, q := range []string{`DELETE FROM api_sandboxes WHERE ? <> ''`, `INSERT INTO api_sandboxes (id, team_id, user_id, key, purpose, workspace_id, executor, network, idle_ms, created_at, used_at, checked_at, ends_at)
		SELECT 'asb_1', w.team_id, w.created_by, '', 'execution', w.id, '', ?, 1, 1, 1, 1, 1 FROM workspaces w`} {
		if err == nil {
			_, err = h.db.Exec(h.t.Context(), q, string(raw))
		}
	}
	if err != nil {
		h.t.Fatal(err)
	}
	return h.network()
}

func TestPoliciesThatAreNone(t *testing.T) {
	t.Parallel()
	for code, p := range map[string]network.Policy{"invalid_network": {Mode: "some"}, "invalid_host": {Mode: executors.NetworkAllow, Allow: []string{"a b"}}} {
		if _, err := network.CheckPolicy(p); fault.CodeOf(err) != code {
			t.Errorf("%+v: %v", p, err)
		}
	}
	if _, err := network.CheckPolicy(network.Policy{Allow: make([]string, 501)}); fault.CodeOf(err) != "invalid_network" {
		t.Errorf("%v", err)
	}
	for _, cfg := range []network.Config{{}, {Mode: "some"}, {Allow: []string{"@nothing"}}} {
		if cfg.Mode != "" || cfg.Allow != nil {
			cfg.Store, cfg.Gates = store.NewNetwork(nil), &gates{}
		}
		if _, err := network.New(cfg); err == nil {
			t.Errorf("%+v was taken", cfg)
		}
	}
}

func TestRefusedHostsAreStoredAndReported(t *testing.T) {
	h := newHarness(t)
	h.set(network.Policy{Mode: executors.NetworkAllow})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.s.Run(ctx) }()
	refuse := func(host string, port int, why executors.RefusalReason) {
		h.s.Refused(executors.Refusal{TeamID: h.team, WorkspaceID: h.ws, Host: host, Port: port, Reason: why})
	}
	for range 5 {
		refuse("x.example", 443, executors.NotListed)
	}
	refuse("x.example", 8080, executors.BadPort)
	refuse("y.example", 443, executors.NotListed)
	refuse("nowhere.example", 443, executors.Unresolved)
	cancel()
	<-done // what was gathered is written before the end
	i := h.show()
	if len(i.Refused) != 4 || i.Full {
		t.Fatalf("%+v", i.Refused)
	}
	reported := h.bus.count()
	for _, r := range i.Refused {
		if r.Host == "x.example" && r.Port == 443 && r.Times != 5 {
			t.Errorf("%+v", r)
		}
		if i.Allowable(r) != (r.Reason != executors.Unresolved) {
			t.Errorf("%+v is allowable: %v", r, i.Allowable(r))
		}
	}
	if err := h.s.Allow(t.Context(), h.ws, "x.example"); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, r := range h.show().Refused {
		left = append(left, fmt.Sprintf("%s:%d", r.Host, r.Port))
	}
	slices.Sort(left)
	if !slices.Equal(left, []string{"nowhere.example:443", "x.example:8080", "y.example:443"}) {
		t.Errorf("after allowing x.example: %q", left)
	}
	if reported == 0 || h.bus.all[reported-1].Type != "network.updated" || h.bus.all[reported-1].TeamID != h.team {
		t.Errorf("%+v", h.bus.all)
	}
}

// What was reached is kept too, and a flood of it costs a bounded number of rows.
func TestReachedHostsAreKept(t *testing.T) {
	h := newHarness(t)
	reach := func(host string, times int) {
		for range times {
			h.s.Reached(executors.Reach{TeamID: h.team, WorkspaceID: h.ws, Host: host, Port: 443})
		}
	}
	reach("proxy.golang.org", 3)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = h.s.Run(ctx) // what was gathered is written before the end
	all, full, err := h.s.Hosts(t.Context(), h.ws)
	if err != nil || full || len(all) != 1 || all[0].Host != "proxy.golang.org" || all[0].Times != 3 {
		t.Fatalf("%+v %v %v", all, full, err)
	}
	for i := range 3000 {
		reach(fmt.Sprintf("n%d.example", i), 1)
	}
	_ = h.s.Run(ctx)
	if all, full, err = h.s.Hosts(t.Context(), h.ws); err != nil || !full || len(all) != 500 {
		t.Errorf("%d rows, %v, %v", len(all), full, err)
	}
}

// An agent that asks for thousands of names costs a bounded number of rows.
func TestAFloodOfNames(t *testing.T) {
	h := newHarness(t)
	for i := range 5000 {
		h.s.Refused(executors.Refusal{TeamID: h.team, WorkspaceID: h.ws, Host: fmt.Sprintf("n%d.evil.example", i), Port: 443, Reason: executors.NotListed})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = h.s.Run(ctx)
	if i := h.show(); len(i.Refused) != 200 || !i.Full {
		t.Errorf("%d rows", len(i.Refused))
	}
	if h.bus.count() != 1 {
		t.Errorf("%d events", h.bus.count())
	}
}

// What many open workspaces cost does not grow with them: neither when a project's policy changes nor when rules are taken anew.
func TestRulesOfManyWorkspacesAreReadAtOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	ctx := t.Context()
	statements := func(what func()) int64 {
		before := h.db.Statements()
		what()
		return h.db.Statements() - before
	}
	change := func(host string) func() {
		return func() { h.set(network.Policy{Mode: executors.NetworkAllow, Allow: []string{host}}) }
	}
	h.gates.Update(h.ws, executors.Network{})
	one := statements(change("one.example"))
	all := []string{h.ws}
	for i := range 40 {
		ws := id.New("ws")
		if _, err := h.db.Exec(ctx, `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
			SELECT ?, team_id, project_id, ?, ?, ?, base, executor, state, created_by, 1, 1 FROM workspaces WHERE id = ?`, ws, 100+i, ws, ws, h.ws); err != nil {
			t.Fatal(err)
		}
		h.gates.Update(ws, executors.Network{})
		all = append(all, ws)
	}
	h.gates.Update("ws_gone", executors.Network{Mode: executors.NetworkOpen})
	if many := statements(change("many.example")); many != one {
		t.Errorf("a change for one workspace takes %d statements, for 41 %d", one, many)
	}
	for _, ws := range all {
		if n := h.gates.of(ws); n.Mode != executors.NetworkAllow || !slices.Contains(n.Allow, "many.example") || slices.Contains(n.Allow, "one.example") {
			t.Errorf("%s has %+v", ws, n)
		}
	}
	if many := statements(func() { h.s.RefreshAll(ctx) }); many != 2 {
		t.Errorf("taking the rules of 41 workspaces anew takes %d statements", many)
	}
	if n := h.gates.of("ws_gone"); n.Mode != executors.NetworkNone {
		t.Errorf("a workspace that is gone reaches %+v", n)
	}
}

// memory is a store for a test with a clock of its own.
type memory struct {
	network.Store
	mu     sync.Mutex
	writes int
	urls   []string
}

func (m *memory) Said(context.Context, string) (network.Said, error) {
	return network.Said{TeamID: "team_1", Project: network.Policy{Mode: executors.NetworkAllow}}, nil
}

func (m *memory) SaidOf(_ context.Context, ids []string) (map[string]network.Said, error) {
	out := map[string]network.Said{}
	for _, id := range ids {
		out[id], _ = m.Said(context.Background(), id)
	}
	return out, nil
}

func (m *memory) BaseURLs(context.Context, string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.urls, nil
}

func (m *memory) AddRefused(context.Context, []network.Refused, int) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes++
	return nil, nil
}

func TestWritesAreGatheredAndRulesStayFresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &memory{urls: []string{"https://old.example"}}
		g := &gates{now: map[string]executors.Network{"ws_1": {}}}
		s, err := network.New(network.Config{Store: m, Gates: g})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = s.Run(ctx) }()
		for range 100 {
			s.Refused(executors.Refusal{TeamID: "team_1", WorkspaceID: "ws_1", Host: "x.example", Port: 443, Reason: executors.NotListed})
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(5 * time.Second)
		synctest.Wait()
		m.mu.Lock()
		if m.writes != 1 {
			t.Errorf("%d writes within seconds", m.writes)
		}
		m.mu.Unlock()
		time.Sleep(time.Minute)
		if got := g.of("ws_1").Allow; !slices.Equal(got, []string{"old.example"}) {
			t.Errorf("%q", got)
		}
		m.mu.Lock()
		m.urls = nil
		m.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if got := g.of("ws_1").Allow; len(got) != 0 {
			t.Errorf("the address of an account that is gone is still allowed: %q", got)
		}
		cancel()
		synctest.Wait()
	})
}
