package command_test

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/executortest"
	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// harness is a Manager for commands over the real store and a fake world.
type harness struct {
	t     *testing.T
	ctx   context.Context
	db    *store.DB
	store *store.Executors
	world *fake.World
	ex    *fake.Executor
	team  string
	ws    string
	root  string
	m     *executortest.Managed
}

// specs answers the same place for every workspace.
type specs struct {
	team, root string
	kind       executors.Kind
	user       string // whose the workspace is
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (s specs) Spec(_ context.Context, workspaceID string) (executors.Spec, executors.Kind, error) {
	return executors.Spec{TeamID: s.team, WorkspaceID: workspaceID, UserID: s.user, Root: s.root}, s.kind, nil
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel)
	db := storetest.SQLite(t)
	user, team := storetest.Seed(t, db)
	h := &harness{t: t, ctx: ctx, db: db, store: store.NewExecutors(db), world: fake.NewWorld(t.TempDir(), nil), team: team.ID,
		ws: id.New("ws"), root: executortest.GitRoot(t)}
	t.Cleanup(h.world.Close)
	project := id.New("prj")
	if _, err := db.Exec(ctx, `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
		VALUES (?, ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`, project, team.ID, user.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(ctx, `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by,
		created_at, updated_at) VALUES (?, ?, ?, 1, 'w', 'b', 'main', 'fake', 'ready', ?, 1, 1)`, h.ws, team.ID, project, user.ID); err != nil {
		t.Fatal(err)
	}
	h.restart()
	return h
}

// restart makes the Manager of a new server over what is stored.
func (h *harness) restart() {
	h.ex = fake.New(h.world)
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store,
		Workspaces: specs{team: h.team, root: h.root}, DialTimeout: 5 * time.Second, After: soon})
}

// soon is a clock for which the waits between two tries are over at once.
func soon(d time.Duration) <-chan time.Time {
	if d > 2*time.Second {
		return time.After(d)
	}
	at := make(chan time.Time, 1)
	at <- time.Now()
	return at
}

func (h *harness) ensure() *executors.Place {
	h.t.Helper()
	p, err := h.m.Ensure(h.ctx, h.ws)
	if err != nil {
		h.t.Fatalf("Ensure: %v", err)
	}
	return p
}

// at has the harness's workspaces live in the fake place by name.
func (h *harness) at(kind executors.Kind) {
	h.m = executortest.NewManager(executortest.ManagerConfig{Executors: []executors.Executor{h.ex}, Store: h.store,
		Workspaces: specs{team: h.team, root: h.root, kind: kind}, DialTimeout: 5 * time.Second, After: soon})
}
