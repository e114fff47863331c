package filesync_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("database/sql.(*DB).connectionOpener"))
}

// harness is what a Service is joined to in tests: a real store, and the rest as a test needs it.
type harness struct {
	t           *testing.T
	db          *store.DB
	store       *store.Changes
	service     *filesync.Service
	teamID      string
	workspaceID string

	mu     sync.Mutex
	base   string
	places map[string]*executors.Place
	events []events.Event
	noted  []string
}

var baseA, baseB = strings.Repeat("a", 40), strings.Repeat("b", 40)

func newHarness(t *testing.T, db *store.DB) *harness { return newHarnessWith(t, db, nil) }

// newHarnessWith joins the Service to real places, when places is given.
func newHarnessWith(t *testing.T, db *store.DB, places filesync.Places) *harness {
	t.Helper()
	return newHarnessLogging(t, db, places, slog.New(slog.DiscardHandler))
}

func newHarnessLogging(t *testing.T, db *store.DB, places filesync.Places, log *slog.Logger) *harness {
	t.Helper()
	user, team := storetest.Seed(t, db)
	h := &harness{t: t, db: db, store: store.NewChanges(db), teamID: team.ID, base: baseA, places: make(map[string]*executors.Place)}
	h.workspaceID = h.addWorkspace(user.ID, 1)
	if places == nil {
		places = h
	}
	h.service = filesync.New(filesync.Config{Store: h.store, Places: places, Workspaces: h, Events: h, Touched: h.note, Log: log})
	return h
}

func (h *harness) addWorkspace(userID string, num int) string {
	h.t.Helper()
	prj, ws := id.New("prj"), id.New("ws")
	exec := func(sql string, args ...any) {
		if _, err := h.db.Exec(h.t.Context(), sql, args...); err != nil {
			h.t.Fatal(err)
		}
	}
	exec(`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?,?,?,?,?,?,?,?,?)`,
		prj, h.teamID, "p", "path", "/p", "/p/.git", "ready", userID, 1)
	exec(`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at)
		VALUES (?,?,?,?,?,?,?,?,?,?,?,?)`, ws, h.teamID, prj, num, "w", "b", "main", "local", "ready", userID, 1, 1)
	return ws
}

// run runs the service until the test ends.
func (h *harness) run() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.service.Run(ctx) }()
	h.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			h.t.Error(err)
		}
	})
}

// Publish keeps events.
// note takes files that changed.
func (h *harness) note(_ string, paths []string, more int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.noted = append(h.noted, fmt.Sprint(strings.Join(paths, " "), "+", more))
}

func (h *harness) reported() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.noted)
}

func (h *harness) Publish(_ context.Context, e events.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events = append(h.events, e)
}

func (h *harness) published() []events.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]events.Event(nil), h.events...)
}

// BaseCommit answers for workspaces.
func (h *harness) BaseCommit(context.Context, string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.base, nil
}

func (h *harness) setBase(base string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.base = base
}

// Ensure answers for executors.
func (h *harness) Ensure(_ context.Context, workspaceID string) (*executors.Place, error) {
	if p, ok := h.Live(workspaceID); ok {
		return p, nil
	}
	return nil, fault.New(fault.Unavailable, "no_place", "There is no place.")
}

// RemoteDisk answers for executors: nothing is far here.
func (h *harness) RemoteDisk(context.Context, string) (bool, executors.State, error) {
	return false, "", nil
}

// Live answers for executors.
func (h *harness) Live(workspaceID string) (*executors.Place, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	p, ok := h.places[workspaceID]
	return p, ok
}

func (h *harness) changes() filesync.Set {
	h.t.Helper()
	set, err := h.service.Changes(h.t.Context(), h.workspaceID)
	if err != nil {
		h.t.Fatal(err)
	}
	return set
}

// eventually waits until ok holds.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.Now().Add(3 * time.Minute) // it bounds what hangs: 200,000 files take a minute on a busy machine
	for !ok() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(5 * time.Millisecond) // between two looks at the condition
	}
}
