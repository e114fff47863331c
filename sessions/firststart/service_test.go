package firststart_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/startstore"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// world is what a Service stands in: workspaces, and sessions that start or do not.
type world struct {
	mu      sync.Mutex
	bus     *events.Bus
	rows    map[string]workspaces.Workspace
	actor   accounts.Actor
	refuse  error
	started []sessions.StartRequest
	looked  chan struct{} // an attempt has been made, or a workspace was published
}

func (w *world) Workspace(_ context.Context, id string) (workspaces.Workspace, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rows[id], nil
}

func (w *world) PublishWorkspace(context.Context, workspaces.Workspace) { w.looked <- struct{}{} }

func (w *world) RetryCreate(context.Context, string) (workspaces.Workspace, error) {
	return workspaces.Workspace{}, fault.New(fault.Conflict, "not_failed", "It has not failed.")
}

func (w *world) CheckAgent(context.Context, string) error { return nil }

func (w *world) Get(_ context.Context, id string) (sessions.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.ContainsFunc(w.started, func(r sessions.StartRequest) bool { return r.ID == id }) {
		return sessions.Session{ID: id}, nil
	}
	return sessions.Session{}, fault.New(fault.NotFound, "not_found", "There is no such session.")
}

func (w *world) Start(_ context.Context, _ accounts.Actor, _ string, r sessions.StartRequest) (sessions.Session, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.refuse != nil {
		if fault.CodeOf(w.refuse) == "workspace_moving" { // no workspace is published
			defer func() { w.looked <- struct{}{} }()
		}
		return sessions.Session{}, w.refuse
	}
	w.started = append(w.started, r)
	return sessions.Session{ID: r.ID}, nil
}

// change changes a workspace as somebody does.
func (w *world) change(fn func(*workspaces.Workspace)) {
	w.mu.Lock()
	row := w.rows["ws_1"]
	fn(&row)
	w.rows["ws_1"] = row
	w.mu.Unlock()
	w.bus.Publish(context.Background(), events.Event{Type: "workspace.updated", ID: row.ID, WorkspaceID: row.ID, TeamID: row.TeamID})
}

// A first session starts once, when its workspace is ready and nothing moves it, and only while who asked for it may; its files go with it.
func TestFirstSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := tenant.All(t.Context(), "a test")
		user, team := storetest.Seed(t, db)
		work, s := store.NewWorkspaces(db), startstore.New(db)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(work.InsertProject(ctx, workspaces.Project{ID: "prj_1", TeamID: team.ID, Name: "p", State: workspaces.ProjectReady, CreatedBy: user.ID}))
		row, err := work.InsertWorkspace(ctx, workspaces.Workspace{ID: "ws_1", TeamID: team.ID, ProjectID: "prj_1", Name: "w", Branch: "b", State: workspaces.Creating, CreatedBy: user.ID})
		must(err)
		actor := accounts.Actor{User: user, Memberships: []accounts.Membership{{Team: team, Role: accounts.Member}}}
		w := &world{bus: events.New(), rows: map[string]workspaces.Workspace{row.ID: row}, actor: actor, looked: make(chan struct{}, 8)}
		svc := firststart.New(firststart.Config{Store: s, Records: w, Workspaces: w, Sessions: w, Bus: w.bus, Own: "parawork",
			Actor: func(context.Context, string) (accounts.Actor, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				return w.actor, nil
			},
			Place: func(_ context.Context, _, name string, data []byte) (string, error) {
				return "kept/" + name + "=" + string(data), nil
			}})
		run, stop := context.WithCancel(ctx)
		ended := make(chan error, 1)
		go func() { ended <- svc.Run(run) }()
		defer func() { stop(); must(<-ended) }()
		next := func(what string) {
			t.Helper()
			select {
			case <-w.looked:
			case <-time.After(time.Minute):
				t.Fatal("waited in vain: " + what)
			}
		}
		state := func() firststart.Start {
			t.Helper()
			all, err := svc.Of(ctx, team.ID, row.ID)
			must(err)
			return all[row.ID]
		}
		request := firststart.Request{Agent: "claude-code", Prompt: "Look", Files: []firststart.File{{Name: "a.txt", Data: []byte("1")}}}
		must(svc.Check(ctx, request))
		for _, name := range []string{"", "a\x00", strings.Repeat("a", 301), "\xff"} {
			bad := request
			bad.Files = []firststart.File{{Name: name, Data: []byte("1")}}
			if err := svc.Check(ctx, bad); fault.CodeOf(err) != "invalid_start" {
				t.Errorf("a file named %.10q: %v", name, err)
			}
		}

		w.refuse = fault.New(fault.Conflict, "workspace_moving", "It is being moved.")
		must(svc.Keep(ctx, actor, row, request))
		svc.Follow(row.ID)
		w.change(func(w *workspaces.Workspace) { w.State = workspaces.Ready })
		next("an attempt while it is moved")
		w.mu.Lock()
		w.refuse, w.actor.Memberships = nil, nil // and who asked has left by then
		w.mu.Unlock()
		w.change(func(*workspaces.Workspace) {})
		next("it failed")
		if st := state(); st.State != firststart.Failed || st.Code != "not_found" || len(w.started) != 0 {
			t.Fatalf("who asked has left: %+v, %v", st, w.started)
		}
		if files, err := s.StartFiles(ctx, row.ID); err != nil || len(files) != 1 {
			t.Errorf("the files of one that failed: %v, %v", files, err)
		}
		w.mu.Lock()
		w.actor = actor
		w.mu.Unlock()
		must(svc.Again(ctx, actor, row.ID))
		next("it started")
		w.change(func(*workspaces.Workspace) {})
		if st := state(); st.State != "" || len(w.started) != 1 || !strings.HasSuffix(w.started[0].Prompt, "- kept/a.txt=1") {
			t.Errorf("it started: %+v, %+v", st, w.started)
		}
		if files, err := s.StartFiles(ctx, row.ID); err != nil || len(files) != 0 {
			t.Errorf("its files stayed: %v, %v", files, err)
		}

		// Parawork's own agent takes the files itself, and what waits for it cannot be started again.
		request.Agent = "parawork"
		must(svc.Keep(ctx, actor, row, request))
		svc.Follow(row.ID)
		next("it was handed over")
		if err := svc.Again(ctx, actor, row.ID); fault.CodeOf(err) != "first_start_not_failed" || !strings.Contains(err.Error(), "handed") {
			t.Errorf("again: %v", err)
		}
		id := w.started[1].ID
		if files, err := svc.FilesOf(ctx, id); err != nil || len(files) != 1 || w.started[1].Prompt != "Look" {
			t.Errorf("what it takes: %v, %v, %+v", files, err, w.started[1])
		}
		must(svc.Taken(ctx, id))
		if _, err := s.FirstStart(ctx, row.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("it is still there: %v", err)
		}
	})
}
