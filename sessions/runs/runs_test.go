package runs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/runs"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// harness stands in for the other services: workspaces that are ready as soon as they are looked at twice, and sessions that only count.
type harness struct {
	t     *testing.T
	db    *store.DB
	actor accounts.Actor
	team  string

	mu       sync.Mutex
	made     []workspaces.Workspace
	looks    map[string]int
	started  []sessions.Session
	archived []string
	stuck    bool // workspaces stay in the making
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	h := &harness{t: t, db: storetest.SQLite(t), looks: map[string]int{}}
	user, team := storetest.Seed(t, h.db)
	h.actor, h.team = accounts.Actor{User: user}, team.ID
	for _, p := range []string{"prj_1", "prj_2"} {
		if _, err := h.db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
			VALUES (?,?,'p','sample','','','ready',?,1)`, p, team.ID, user.ID); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// serve is one life of a server.
func (h *harness) serve() (*runs.Service, func()) {
	s := runs.New(runs.Config{Store: store.NewRuns(h.db), Records: h, Workspaces: h, Sessions: crew{h}, Accounts: h, Look: time.Millisecond})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := s.Run(ctx); err != nil {
			h.t.Errorf("Run: %v", err)
		}
	}()
	end := sync.OnceFunc(func() { cancel(); <-done })
	h.t.Cleanup(end)
	return s, end
}

func (h *harness) Actor(context.Context, string) (accounts.Actor, error) { return h.actor, nil }

func (h *harness) Project(_ context.Context, id string) (workspaces.Project, error) {
	p := workspaces.Project{ID: id, TeamID: h.team, State: workspaces.ProjectReady}
	if id == "prj_2" {
		p.TeamID = "team_other"
	}
	return p, nil
}

func (h *harness) Create(_ context.Context, actor accounts.Actor, teamID string, n workspaces.NewWorkspace) (workspaces.Workspace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n.Base == "gone" {
		return workspaces.Workspace{}, fault.New(fault.Invalid, "base_not_found", "There is no branch %q.", n.Base)
	}
	w := workspaces.Workspace{ID: fmt.Sprintf("ws_%d", len(h.made)+1), TeamID: teamID, ProjectID: n.ProjectID, Name: n.Name, State: workspaces.Creating,
		CreatedBy: actor.User.ID, CreatedAt: time.Now().UnixMilli()}
	h.made = append(h.made, w)
	return w, nil
}

func (h *harness) RetryCreate(ctx context.Context, id string) (workspaces.Workspace, error) {
	return h.Workspace(ctx, id)
}

func (h *harness) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i, w := range h.made {
		if w.ID == id {
			if h.looks[id]++; h.looks[id] > 1 && !h.stuck && w.State == workspaces.Creating {
				h.made[i].State = workspaces.Ready
			}
			return h.made[i], nil
		}
	}
	return workspaces.Workspace{}, fault.New(fault.NotFound, "workspace_not_found", "No workspace.")
}

func (h *harness) List(context.Context, string, workspaces.Filter, page.Page) ([]workspaces.Workspace, string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.made), "", nil
}

func (h *harness) Archive(_ context.Context, _ accounts.Actor, id string) (workspaces.Workspace, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.archived = append(h.archived, id)
	return workspaces.Workspace{}, nil
}

// crew is the harness as the service of sessions.
type crew struct{ *harness }

func (c crew) CheckAgent(_ context.Context, name string) error {
	if name == "missing" {
		return fault.New(fault.Conflict, "agent_not_installed", "Install it.")
	}
	return nil
}

func (c crew) AgentName(name string) string { return strings.ToUpper(name) }

func (c crew) Start(_ context.Context, actor accounts.Actor, ws string, req sessions.StartRequest) (sessions.Session, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := sessions.Session{ID: fmt.Sprintf("ses_%d", len(c.started)+1), WorkspaceID: ws, Agent: req.Agent, Prompt: req.Prompt, CreatedBy: actor.User.ID,
		State: state.Working, StartedAt: time.Now().UnixMilli()}
	c.started = append(c.started, s)
	return s, nil
}

func (c crew) List(_ context.Context, ws string) (out []sessions.Session, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.started {
		if s.WorkspaceID == ws {
			out = append(out, s)
		}
	}
	return out, nil
}

// settled waits until no attempt is under way.
func settled(t *testing.T, s *runs.Service, id string) runs.Run {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(2 * time.Millisecond) {
		r, err := s.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(r.Attempts, func(a runs.Attempt) bool { return a.State == runs.Making || a.State == runs.Starting }) {
			return r
		}
		if time.Now().After(deadline) {
			t.Fatalf("still under way: %+v", r.Attempts)
		}
	}
}

func TestAttemptsTellForThemselves(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	r, err := s.Create(t.Context(), h.actor, h.team, runs.Request{ProjectID: "prj_1", Prompt: "  Fix   the\tflaky test\nplease", Attempts: []runs.AttemptRequest{
		{Agent: "a"}, {Agent: "b"}, {Agent: "a"}, {Agent: "missing"}, {Agent: "b", Base: "gone", Name: "My own"}}})
	if err != nil {
		t.Fatal(err)
	}
	r = settled(t, s, r.ID)
	var got []string
	for _, a := range r.Attempts {
		got = append(got, a.Name+"|"+string(a.State)+"|"+a.Code)
	}
	want := []string{"Fix the flaky test · A 1|started|", "Fix the flaky test · B 1|started|", "Fix the flaky test · A 2|started|",
		"Fix the flaky test · MISSING|failed|agent_not_installed", "My own|failed|base_not_found"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if len(h.made) != 3 || len(h.started) != 3 || h.started[0].Prompt != r.Prompt {
		t.Errorf("%d workspaces, %d sessions", len(h.made), len(h.started))
	}
	// Keep the second: the others that were made are archived.
	if _, err := s.Keep(t.Context(), h.actor, r.ID, "att_none", nil); fault.CodeOf(err) != "attempt_not_found" {
		t.Errorf("got %v", err)
	}
	third := r.Attempts[2].WorkspaceID
	if _, err := s.Keep(t.Context(), h.actor, r.ID, r.Attempts[2].ID, map[string]bool{third: true}); fault.CodeOf(err) != "attempt_not_found" || len(h.archived) != 0 {
		t.Errorf("kept one that is hidden: %v, archived %v", err, h.archived)
	}
	if _, err := s.Keep(t.Context(), h.actor, r.ID, r.Attempts[1].ID, map[string]bool{third: true}); err != nil || !slices.Equal(h.archived, []string{r.Attempts[0].WorkspaceID}) {
		t.Errorf("%v, archived %v", err, h.archived)
	}
	h.archived = nil
	if r, err = s.Keep(t.Context(), h.actor, r.ID, r.Attempts[1].ID, nil); err != nil || r.Kept != r.Attempts[1].ID {
		t.Fatal(err)
	}
	slices.Sort(h.archived)
	if want := []string{r.Attempts[0].WorkspaceID, r.Attempts[2].WorkspaceID}; !slices.Equal(h.archived, slices.Sorted(slices.Values(want))) {
		t.Errorf("archived %v, want %v", h.archived, want)
	}
}

func TestWorkspacesThatAreThere(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	var ids []runs.AttemptRequest
	for _, name := range []string{"one", "two"} {
		w, err := h.Create(t.Context(), h.actor, h.team, workspaces.NewWorkspace{ProjectID: "prj_1", Name: name})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, runs.AttemptRequest{Agent: "a", WorkspaceID: w.ID})
	}
	r, err := s.Create(t.Context(), h.actor, h.team, runs.Request{ProjectID: "prj_1", Prompt: "Do it", Attempts: ids})
	if err != nil {
		t.Fatal(err)
	}
	if r = settled(t, s, r.ID); r.Attempts[0].State != runs.Started || len(h.made) != 2 {
		t.Errorf("got %+v", r.Attempts)
	}
	if _, err := s.Keep(t.Context(), h.actor, r.ID, r.Attempts[0].ID, nil); err != nil || len(h.archived) != 0 {
		t.Errorf("archived %v, which were there before; %v", h.archived, err)
	}
}

func TestRefusedRuns(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	one := []runs.AttemptRequest{{Agent: "a"}}
	for code, req := range map[string]runs.Request{
		"project_not_found":   {ProjectID: "prj_2", Prompt: "x", Attempts: one},
		"workspace_not_found": {ProjectID: "prj_1", Prompt: "x", Attempts: []runs.AttemptRequest{{Agent: "a", WorkspaceID: "ws_none"}}},
	} {
		if _, err := s.Create(t.Context(), h.actor, h.team, req); fault.CodeOf(err) != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	for _, req := range []runs.Request{{Prompt: "x"}, {Prompt: " ", Attempts: one}, {Prompt: "a\x00", Attempts: one}, {Prompt: "x", Attempts: []runs.AttemptRequest{{}}},
		{Prompt: "x", Attempts: slices.Repeat(one, 9)}, {Prompt: "x", Name: strings.Repeat("é", 201), Attempts: one},
		{Prompt: "x", Attempts: []runs.AttemptRequest{{Agent: "a", Name: "same"}, {Agent: "b", Name: "same"}}}} {
		req.ProjectID = "prj_1"
		if _, err := s.Create(t.Context(), h.actor, h.team, req); fault.CodeOf(err) != "invalid_run" {
			t.Errorf("%.60q: got %v", fmt.Sprint(req), err)
		}
	}
	if all, _, err := s.List(t.Context(), h.team, page.Page{}); err != nil || len(all) != 0 {
		t.Errorf("refused runs left %d, %v", len(all), err)
	}
}

// A server that stops while workspaces are made leaves them to the next, which makes none again.
func TestTheNextServerGoesOn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.stuck = true
	s, end := h.serve()
	r, err := s.Create(t.Context(), h.actor, h.team, runs.Request{ProjectID: "prj_1", Prompt: "Do it", Attempts: []runs.AttemptRequest{{Agent: "a"}, {Agent: "b"}}})
	if err != nil {
		t.Fatal(err)
	}
	for made := 0; made < 2; time.Sleep(time.Millisecond) {
		h.mu.Lock()
		made = len(h.made)
		h.mu.Unlock()
	}
	if _, err := s.Keep(t.Context(), h.actor, r.ID, r.Attempts[0].ID, nil); err == nil {
		t.Error("one was kept while others were being made")
	}
	end()
	h.mu.Lock()
	h.stuck = false
	h.mu.Unlock()
	s, _ = h.serve()
	r = settled(t, s, r.ID)
	if len(h.made) != 2 || len(h.started) != 2 || r.Attempts[0].State != runs.Started || r.Attempts[0].WorkspaceID == r.Attempts[1].WorkspaceID {
		t.Errorf("%d workspaces, %d sessions: %+v", len(h.made), len(h.started), r.Attempts)
	}
}
