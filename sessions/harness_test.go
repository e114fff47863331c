package sessions_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/history"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// harness is everything that outlives a server: database, data folder, sandboxes with their guests, one ready workspace.
type harness struct {
	t     testing.TB
	dir   string
	db    *store.DB
	world *fake.World
	ws    workspaces.Workspace
	actor accounts.Actor
	pipes *pipes

	mu       sync.Mutex
	accounts map[string]accounts.AgentAccount
	secrets  map[string]string
	settings map[string]agents.Settings
	timeline []string
	tune     func(*sessions.Config)
	search   time.Duration // how long a search reads; 0 = as long as it does by default
	knobs    fake.Knobs    // of the next server's executor
	places   func(*executortest.ManagerConfig)
}

func newHarness(t testing.TB) *harness {
	t.Helper()
	dir := t.TempDir()
	h := &harness{t: t, dir: dir, db: storetest.SQLite(t), world: fake.NewWorld(filepath.Join(dir, "guests"), nil), pipes: &pipes{},
		accounts: map[string]accounts.AgentAccount{}, secrets: map[string]string{}, settings: map[string]agents.Settings{}}
	t.Cleanup(h.world.Close)
	user, team := storetest.Seed(t, h.db)
	h.actor = accounts.Actor{User: user, Memberships: []accounts.Membership{{Team: team, Role: accounts.Owner}}}
	h.ws = h.addWorkspace("repo")
	return h
}

func (h *harness) addWorkspace(name string) workspaces.Workspace {
	h.t.Helper()
	team := h.actor.Memberships[0].Team
	w := workspaces.Workspace{ID: id.New("ws"), TeamID: team.ID, ProjectID: id.New("prj"), Name: name, State: workspaces.Ready, CreatedBy: h.actor.User.ID}
	w.Path = filepath.Join(h.dir, "worktrees", w.ID, name)
	if err := os.MkdirAll(w.Path, 0o755); err != nil {
		h.t.Fatal(err)
	}
	for _, q := range []struct {
		sql  string
		args []any
	}{
		{`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?,?,'p','sample','','','ready',?,1)`,
			[]any{w.ProjectID, w.TeamID, w.CreatedBy}},
		{`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, path, created_by, created_at, updated_at)
			VALUES (?,?,?,(SELECT COUNT(*) + 1 FROM workspaces),?,'b','main','fake','ready',?,?,1,1)`,
			[]any{w.ID, w.TeamID, w.ProjectID, w.Name, w.Path, w.CreatedBy}},
	} {
		if _, err := h.db.Exec(h.t.Context(), q.sql, q.args...); err != nil {
			h.t.Fatal(err)
		}
	}
	return w
}

// Workspace, Record, Spec, Actor and AgentAccount let the harness stand in for the other services.

func (h *harness) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	w := h.ws
	if id != w.ID {
		var path, state string
		if err := h.db.QueryRow(ctx, `SELECT path, state FROM workspaces WHERE id = ?`, id).Scan(&path, &state); err != nil {
			return w, err
		}
		w.ID, w.Path, w.State = id, path, workspaces.State(state)
	}
	return w, nil
}

func (h *harness) Record(_ context.Context, a workspaces.Activity) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.timeline = append(h.timeline, a.Kind+" "+a.Text)
	return nil
}

func (h *harness) Spec(ctx context.Context, id string) (executors.Spec, executors.Kind, error) {
	w, err := h.Workspace(ctx, id)
	return executors.Spec{TeamID: w.TeamID, WorkspaceID: w.ID, Root: w.Path}, fake.Kind, err
}

func (h *harness) Actor(context.Context, string) (accounts.Actor, error) { return h.actor, nil }

func (h *harness) AgentAccountFor(_ context.Context, _ accounts.Actor, _, agent, id string) (accounts.AgentAccount, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	id = cmp.Or(id, agent)
	a, ok := h.accounts[id] // by agent: the default; by id: another one
	if !ok || a.Agent != agent {
		return a, "", fault.New(fault.NotFound, "agent_account_not_found", "No account.")
	}
	return a, h.secrets[id], nil
}

func (h *harness) ManagedAgentAccount(ctx context.Context, actor accounts.Actor, id string) (accounts.AgentAccount, string, error) {
	h.mu.Lock()
	agent := h.accounts[id].Agent
	h.mu.Unlock()
	return h.AgentAccountFor(ctx, actor, "", agent, id)
}

func (h *harness) UsableAgentAccounts(context.Context, accounts.Actor, string) ([]accounts.AgentAccount, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.accounts)), nil
}

// server is one life of a server over a harness.
type server struct {
	*sessions.Service
	*history.Recordings
	*prompt.Queue
	*question.Board
	*masks.Masks
	h       *harness
	manager *executortest.Managed
	places  *fake.Executor
	bus     *bus
	end     func()
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

// start boots a server as cmd does: recover sandboxes, recover sessions, then run.
func (h *harness) start() *server {
	h.t.Helper()
	log := slog.New(slog.DiscardHandler)
	if flag.Lookup("test.v").Value.String() == "true" { // -v, not -json
		log = slog.New(slog.NewTextHandler(h.t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	registry, err := agents.New(agents.Config{Agents: h.settings, HomesDir: filepath.Join(h.dir, "homes"), WorktreesDir: filepath.Join(h.dir, "worktrees")})
	if err != nil {
		h.t.Fatal(err)
	}
	s := &server{h: h, bus: &bus{}, places: fake.New(h.world)}
	s.places.Set(h.knobs)
	mc := executortest.ManagerConfig{Executors: []executors.Executor{cuttable{s.places, h.pipes}}, Store: store.NewExecutors(h.db), Workspaces: h, Log: log}
	if h.places != nil {
		h.places(&mc)
	}
	s.manager = executortest.NewManager(mc)
	cfg := sessions.Config{Store: store.NewSessions(h.db), Places: s.manager, Workspaces: h, Accounts: h, Agents: registry, Events: s.bus,
		DataDir: h.dir, SearchTime: h.search, Key: bytes.Repeat([]byte{7}, 32), Log: log}
	if h.tune != nil {
		h.tune(&cfg)
	}
	s.Service = sessions.New(cfg)
	s.Recordings, s.Queue, s.Board, s.Masks = s.Service.Recordings, s.Service.Queue, s.Service.Board, s.Service.Masks
	s.manager.Attach(executors.Participant{Use: s.Use})
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.manager.Recover(ctx); err != nil {
		h.t.Fatal(err)
	}
	if err := s.Recover(ctx); err != nil {
		h.t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() { _ = s.Run(ctx) })
	wg.Go(func() { _ = s.manager.Run(ctx) })
	s.end = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		h.pipes.cut()
	})
	h.t.Cleanup(s.end)
	return s
}

func (s *server) run(t testing.TB, argv ...string) sessions.Session {
	t.Helper()
	return s.begin(t, sessions.StartRequest{Agent: agents.Command, Argv: argv})
}

func (s *server) begin(t testing.TB, req sessions.StartRequest) sessions.Session {
	t.Helper()
	row, err := s.Start(t.Context(), s.h.actor, s.h.ws.ID, req)
	if err != nil {
		t.Fatalf("starting: %v", err)
	}
	return row
}

// ended waits for the end of a session.
func (s *server) ended(t *testing.T, id string) sessions.Session {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, _, err := s.WaitEnd(ctx, id); err != nil {
		t.Fatalf("waiting for the end: %v", err)
	}
	return s.get(t, id)
}

func (s *server) get(t testing.TB, id string) sessions.Session {
	t.Helper()
	row, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

func (s *server) output(t *testing.T, id string) string {
	t.Helper()
	b, _, _, err := s.Output(t.Context(), id, 0, 64<<20)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// patience bounds every wait. It is generous: a loaded machine is slow, a hang is for ever.
const patience = 2 * time.Minute

// eventually waits for a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// sizeMark is a size a viewer got before the byte at an offset.
type sizeMark struct {
	at   int64
	size [2]uint16
}

// screen is a viewer that reads on in the background, acknowledging everything, as a browser does.
type screen struct {
	*sessions.Viewer
	mu       sync.Mutex
	from     int64
	got      []byte
	state    map[string]any
	exit     map[string]any
	fail     map[string]any
	size     [2]uint16
	snap     []byte // the screen it was given first, for a terminal of snapSize
	snapSize [2]uint16
	marks    []sizeMark
	gaps     int
	err      error
	over     chan struct{}
}

// watch attaches a viewer that is given every byte from a.From on, without it from the beginning.
func (s *server) watch(t *testing.T, id string, a sessions.Attach) *screen {
	t.Helper()
	if a.From == nil {
		a.From = new(int64)
	}
	return s.attach(t, id, a)
}

// attach attaches a viewer, that without a.From is given the screen first.
func (s *server) attach(t *testing.T, id string, a sessions.Attach) *screen {
	t.Helper()
	v, err := s.Attach(t.Context(), id, a)
	if err != nil {
		t.Fatalf("attaching: %v", err)
	}
	sc := &screen{Viewer: v, over: make(chan struct{}), from: -1}
	go func() {
		defer close(sc.over)
		buf := make([]byte, 64<<10+9)
		for {
			f, err := v.Next(context.Background(), buf)
			if err != nil {
				sc.mu.Lock()
				sc.err = err
				sc.mu.Unlock()
				return
			}
			sc.frame(f)
		}
	}()
	t.Cleanup(func() { v.Close(); <-sc.over })
	return sc
}

func (sc *screen) frame(f []byte) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	object := func() map[string]any {
		var m map[string]any
		if err := json.Unmarshal(f[1:], &m); err != nil {
			panic(err)
		}
		return m
	}
	switch f[0] {
	case 0:
		off := int64(binary.BigEndian.Uint64(f[1:]))
		if sc.from < 0 {
			sc.from = off
		}
		if off != sc.from+int64(len(sc.got)) {
			sc.gaps++
		}
		sc.got = append(sc.got, f[9:]...)
		sc.Ack(off + int64(len(f)-9))
	case 1:
		if sc.from >= 0 || sc.size[0] == 0 {
			sc.gaps++ // only ever first, after the size
		}
		sc.from, sc.snap, sc.snapSize = int64(binary.BigEndian.Uint64(f[1:])), append([]byte{}, f[9:]...), sc.size
	case 2:
		sc.marks = append(sc.marks, sizeMark{sc.from + int64(len(sc.got)), [2]uint16{binary.BigEndian.Uint16(f[1:]), binary.BigEndian.Uint16(f[3:])}})
		sc.size = [2]uint16{binary.BigEndian.Uint16(f[1:]), binary.BigEndian.Uint16(f[3:])}
	case 3:
		sc.state = object()
	case 4:
		sc.exit = object()
	case 5:
		sc.fail = object()
	}
}

func (sc *screen) text() string {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return string(sc.got)
}

func (sc *screen) shows(t *testing.T, text string) {
	t.Helper()
	eventually(t, "the screen shows "+text, func() bool { return strings.Contains(sc.text(), text) })
}

func (sc *screen) field(name string) any {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.state[name]
}

func (sc *screen) cells() [2]uint16 {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	return sc.size
}

// pipes cuts the pipes to guests.
type pipes struct {
	mu   sync.Mutex
	open map[io.Closer]struct{}
}

func (p *pipes) add(c io.ReadWriteCloser) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.open == nil {
		p.open = map[io.Closer]struct{}{}
	}
	p.open[c] = struct{}{}
}

func (p *pipes) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.open {
		_ = c.Close()
	}
	clear(p.open)
}

// cuttable is an executor whose pipes can be cut.
type cuttable struct {
	executors.Executor
	pipes *pipes
}

func (e cuttable) Create(ctx context.Context, s executors.Spec) (executors.Sandbox, error) {
	return e.wrap(e.Executor.Create(ctx, s))
}

func (e cuttable) Recover(ctx context.Context, h executors.Handle) (executors.Sandbox, error) {
	return e.wrap(e.Executor.Recover(ctx, h))
}

func (e cuttable) wrap(s executors.Sandbox, err error) (executors.Sandbox, error) {
	if err != nil {
		return nil, err
	}
	return cutBox{s, e.pipes}, nil
}

type cutBox struct {
	executors.Sandbox
	pipes *pipes
}

func (b cutBox) Token() string { return b.Sandbox.(interface{ Token() string }).Token() }

func (b cutBox) Dial(ctx context.Context) (io.ReadWriteCloser, error) {
	c, err := b.Sandbox.Dial(ctx)
	if err == nil {
		b.pipes.add(c)
	}
	return c, err
}
