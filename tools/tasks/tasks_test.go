package tasks_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tooltest"
	"github.com/parawork/parawork/workspaces"
)

// stage is a team with two projects, the first of which has two workspaces.
type stage struct {
	t   *testing.T
	db  *store.DB
	bus *events.Bus
	s   *tasks.Service
	who tasks.Who
}

func (st *stage) exec(query string, args ...any) {
	st.t.Helper()
	if _, err := st.db.Exec(st.t.Context(), query, args...); err != nil {
		st.t.Fatal(err)
	}
}

func newStage(t *testing.T, db *store.DB) *stage {
	t.Helper()
	st := &stage{t: t, db: db, bus: events.New()}
	user, team := storetest.Seed(t, db)
	for _, p := range []string{"prj_1", "prj_2"} {
		st.exec(`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?,?,'p','sample','','','ready',?,1)`, p, team.ID, user.ID)
	}
	for i, id := range []string{"ws_1", "ws_2"} {
		st.exec(`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at) VALUES (?,?,'prj_1',?,'w',?,'main','local','ready',?,1,1)`,
			id, team.ID, i+1, id, user.ID)
		st.exec(`INSERT INTO sessions (id, team_id, workspace_id, agent, argv, state, state_at, created_by, started_at, cols, rows) VALUES (?,?,?,'codex','[]','idle',1,?,1,80,24)`, "ses_"+id, team.ID, id, user.ID)
	}
	st.who = tasks.Who{TeamID: team.ID, UserID: user.ID}
	st.s = tasks.NewService(tasks.Config{Store: toolstore.NewTasks(db), Projects: records{db}, Events: st.bus, Bus: st.bus, Settle: time.Millisecond})
	return st
}

// agent is the session in a workspace, as its tools call.
func (st *stage) agent(ws string) tasks.Who {
	return tasks.Who{TeamID: st.who.TeamID, UserID: st.who.UserID, SessionID: "ses_" + ws, WorkspaceID: ws, ProjectID: "prj_1"}
}

func (st *stage) add(title string, change ...func(*tasks.New)) tasks.Task {
	st.t.Helper()
	n := tasks.New{ProjectID: "prj_1", Title: title}
	for _, fn := range change {
		fn(&n)
	}
	t, err := st.s.Create(st.t.Context(), st.who, n)
	if err != nil {
		st.t.Fatal(err)
	}
	return t
}

func blockedBy(ids ...string) func(*tasks.New) { return func(n *tasks.New) { n.BlockedBy = ids } }
func urgent(priority int) func(*tasks.New)     { return func(n *tasks.New) { n.Priority = &priority } }
func under(parent string) func(*tasks.New)     { return func(n *tasks.New) { n.Parent = parent } }

func (st *stage) ids(q tasks.Query) string {
	st.t.Helper()
	items, _, err := st.s.List(st.t.Context(), st.who, q)
	if err != nil {
		st.t.Fatal(err)
	}
	var out []string
	for _, t := range items {
		out = append(out, t.ID)
	}
	return strings.Join(out, " ")
}

func ids(list []tasks.Brief) string {
	var out []string
	for _, b := range list {
		out = append(out, b.ID)
	}
	return strings.Join(out, " ")
}

// records reads projects and workspaces as the feature above does.
type records struct{ db *store.DB }

func (r records) Project(ctx context.Context, id string) (workspaces.Project, error) {
	return store.NewWorkspaces(r.db).Project(ctx, id)
}

func (r records) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return store.NewWorkspaces(r.db).Workspace(ctx, id)
}

func TestReadyFollowsDependencies(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		ctx := t.Context()
		a := st.add("first")
		b := st.add("second", blockedBy(a.ID), urgent(0))
		c := st.add("third", blockedBy(a.ID, b.ID))
		d := st.add("fourth", urgent(1))
		if a.ID != "PW-T1" || !slices.Equal(c.BlockedBy, []string{"PW-T1", "PW-T2"}) {
			t.Fatalf("%+v %+v", a, c)
		}
		if got := st.ids(tasks.Query{Ready: true}); got != "PW-T4 PW-T1" {
			t.Errorf("ready: %s", got)
		}
		out, err := st.s.Close(ctx, st.who, a.ID, "done", false)
		if err != nil || ids(out.NowReady) != b.ID || out.Status != tasks.Closed || out.Reason != "done" || out.ClosedAt == 0 {
			t.Fatalf("%+v, %v", out, err)
		}
		if got := st.ids(tasks.Query{ProjectID: "prj_1", Ready: true}); got != "PW-T2 PW-T4" {
			t.Errorf("ready: %s", got)
		}
		open := tasks.Open
		if _, err := st.s.Update(ctx, st.who, a.ID, tasks.Change{Status: &open}); err != nil {
			t.Fatal(err)
		}
		if got := st.ids(tasks.Query{Ready: true}); got != "PW-T4 PW-T1" {
			t.Errorf("ready after it was opened again: %s", got)
		}
		if _, err := st.s.Undepend(ctx, st.who, b.ID, a.ID); err != nil {
			t.Fatal(err)
		}
		if got := st.ids(tasks.Query{Ready: true}); got != "PW-T2 PW-T4 PW-T1" {
			t.Errorf("ready without the dependency: %s", got)
		}
		first, next, err := st.s.List(ctx, st.who, tasks.Query{Page: page.Page{Limit: 3}})
		if err != nil || len(first) != 3 || next == "" {
			t.Fatalf("%d tasks, next %q, %v", len(first), next, err)
		}
		if got := st.ids(tasks.Query{Page: page.Page{Cursor: next}}); got != "PW-T3" {
			t.Errorf("second page: %s", got)
		}
		if got := st.ids(tasks.Query{Text: "FOUR%"}) + st.ids(tasks.Query{Text: "FOUR"}); got != d.ID {
			t.Errorf("search: %s", got)
		}
	})
}

func TestCyclesAreRefusedByName(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		ctx := t.Context()
		a := st.add("a")
		b := st.add("b", blockedBy(a.ID), under(a.ID))
		c := st.add("c", blockedBy(b.ID), under(b.ID))
		for as, want := range map[tasks.Relation]string{tasks.Blocks: "PW-T1 -> PW-T3 -> PW-T2 -> PW-T1", tasks.ParentChild: "PW-T1 -> PW-T3 -> PW-T2 -> PW-T1"} {
			if _, err := st.s.Depend(ctx, st.who, a.ID, c.ID, as); fault.CodeOf(err) != "task_cycle" || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", as, err)
			}
		}
		if _, err := st.s.Depend(ctx, st.who, a.ID, "T1", tasks.Blocks); fault.CodeOf(err) != "task_cycle" {
			t.Errorf("on itself: %v", err)
		}
		if _, err := st.s.Depend(ctx, st.who, a.ID, c.ID, tasks.Related); err != nil {
			t.Errorf("related has no direction: %v", err)
		}
	})
}

func TestOneOfManyClaims(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		a := st.add("a")
		var all sync.WaitGroup
		var mu sync.Mutex
		won := []string{}
		for i := range 200 {
			all.Go(func() {
				who := st.who
				who.UserID = fmt.Sprintf("usr_%d", i)
				_, err := st.s.Claim(t.Context(), who, a.ID)
				mu.Lock()
				defer mu.Unlock()
				if err == nil {
					won = append(won, who.UserID)
				} else if fault.CodeOf(err) != "task_claimed" {
					t.Error(err)
				}
			})
		}
		all.Wait()
		d, err := st.s.Get(t.Context(), st.who, a.ID)
		if err != nil || len(won) != 1 || d.Assignee != won[0] || d.Status != tasks.InProgress {
			t.Errorf("%v won, %+v, %v", won, d.Task, err)
		}
	})
}

func TestClaims(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	ctx := t.Context()
	a := st.add("a")
	b := st.add("b", blockedBy(a.ID))
	if _, err := st.s.Claim(ctx, st.agent("ws_1"), b.ID); fault.CodeOf(err) != "task_blocked" || !strings.Contains(err.Error(), a.ID) {
		t.Errorf("one that waits: %v", err)
	}
	// A person takes it, and their agent takes it over; another's agent cannot.
	if _, err := st.s.Claim(ctx, st.who, a.ID); err != nil {
		t.Fatal(err)
	}
	other := st.agent("ws_2")
	other.UserID = "usr_other"
	if _, err := st.s.Claim(ctx, other, a.ID); fault.CodeOf(err) != "task_claimed" {
		t.Errorf("somebody else's: %v", err)
	}
	for range 2 {
		got, err := st.s.Claim(ctx, st.agent("ws_1"), a.ID)
		if err != nil || got.Assignee != "ses_ws_1" || got.AssigneeName != "codex in PW-1" || got.WorkspaceID != "ws_1" {
			t.Fatalf("%+v, %v", got, err)
		}
	}
	if _, err := st.s.Close(ctx, st.who, a.ID, "", false); err != nil {
		t.Fatal(err)
	}
	if _, err := st.s.Claim(ctx, st.agent("ws_1"), a.ID); fault.CodeOf(err) != "task_closed" {
		t.Errorf("a closed one: %v", err)
	}
}

func TestClosingAParentNamesItsOpenChildren(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	ctx := t.Context()
	epic := st.add("epic")
	child := st.add("child", under(epic.ID))
	if _, err := st.s.Close(ctx, st.who, epic.ID, "", true); fault.CodeOf(err) != "task_has_open_children" || !strings.Contains(err.Error(), child.ID) {
		t.Errorf("strictly: %v", err)
	}
	out, err := st.s.Close(ctx, st.who, epic.ID, "", false)
	if err != nil || ids(out.OpenChildren) != child.ID || !strings.Contains(out.Warning, child.ID) || out.Status != tasks.Closed {
		t.Errorf("%+v, %v", out, err)
	}
}

// An agent sees the tasks of its project and of nothing else.
func TestAgentsStayInTheirProject(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	ctx := t.Context()
	other, err := st.s.Create(ctx, st.who, tasks.New{ProjectID: "prj_2", Title: "not theirs"})
	if err != nil {
		t.Fatal(err)
	}
	mine := st.add("mine")
	agent := st.agent("ws_1")
	_, claim := st.s.Claim(ctx, agent, other.UID)
	_, get := st.s.Get(ctx, agent, other.ID)
	_, dep := st.s.Depend(ctx, agent, mine.ID, other.ID, tasks.Blocks)
	_, cross := st.s.Depend(ctx, st.who, mine.ID, other.ID, tasks.Blocks)
	for what, err := range map[string]error{"claim": claim, "get": get, "depend": dep, "depend across projects": cross} {
		if fault.CodeOf(err) != "task_not_found" {
			t.Errorf("%s: %v", what, err)
		}
	}
	if made, err := st.s.Create(ctx, agent, tasks.New{ProjectID: "prj_2", Title: "x"}); err != nil || made.ProjectID != "prj_1" {
		t.Errorf("created in %s, %v", made.ProjectID, err)
	}
	items, _, err := st.s.List(ctx, agent, tasks.Query{ProjectID: "prj_2"})
	if err != nil || slices.ContainsFunc(items, func(t tasks.Task) bool { return t.UID == other.UID }) {
		t.Errorf("%+v, %v", items, err)
	}
	if _, err := st.s.Get(ctx, tasks.Who{TeamID: "team_other"}, mine.UID); fault.CodeOf(err) != "task_not_found" {
		t.Errorf("another team: %v", err)
	}
}

func TestWrongTasks(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	for field, n := range map[string]tasks.New{
		"title": {Title: " \n"}, "type": {Title: "x", Type: "story"}, "labels": {Title: "x", Labels: []string{`a"b`}}, "assignee": {Title: "x", Assignee: "usr_nobody"},
		"parent": {Title: "x", Parent: "PW-T99"}, "blocked_by": {Title: "x", BlockedBy: []string{"PW-T99"}}, "description": {Title: "x", Description: "a\x00"},
	} {
		n.ProjectID = "prj_1"
		_, err := st.s.Create(t.Context(), st.who, n)
		var f *fault.Error
		if !errorsAs(err, &f) || f.Details["field"] != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if got := st.ids(tasks.Query{}); got != "" {
		t.Errorf("refused tasks are there: %s", got)
	}
	a := st.add("a")
	title := "b"
	if _, err := st.s.Update(t.Context(), st.who, a.ID, tasks.Change{Title: &title, Version: a.Version}); err != nil {
		t.Fatal(err)
	}
	if _, err := st.s.Update(t.Context(), st.who, a.ID, tasks.Change{Title: &title, Version: a.Version}); fault.CodeOf(err) != "task_changed" {
		t.Errorf("an old version: %v", err)
	}
}

func errorsAs(err error, to **fault.Error) bool {
	f, ok := err.(*fault.Error)
	*to = f
	return ok
}

// run has the service follow workspaces until the test ends.
func (st *stage) run() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := st.s.Run(ctx); err != nil {
			st.t.Error(err)
		}
	}()
	end = sync.OnceFunc(func() { cancel(); <-done })
	st.t.Cleanup(end)
	return end
}

// until waits for a task to become as it should.
func (st *stage) until(what, id string, ok func(tasks.Task) bool) {
	st.t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		d, err := st.s.Get(st.t.Context(), st.who, id)
		if err != nil {
			st.t.Fatal(err)
		}
		if ok(d.Task) {
			return
		}
		if time.Now().After(deadline) {
			st.t.Fatalf("%s: %+v", what, d.Task)
		}
	}
}

// A workspace fills in the files of its task, closes it when it is merged, and gives it back when it is deleted.
func TestTasksFollowTheirWorkspaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		ctx := t.Context()
		a, b := st.add("a"), st.add("b")
		after := st.add("after", blockedBy(a.ID))
		for id, ws := range map[string]string{a.ID: "ws_1", b.ID: "ws_2"} {
			if _, err := st.s.Claim(ctx, st.agent(ws), id); err != nil {
				t.Fatal(err)
			}
		}
		end := st.run()
		st.exec(`INSERT INTO changes (workspace_id, path, status) VALUES ('ws_1', ?, 'modified')`, []byte("dir/a.go"))
		st.bus.Publish(ctx, events.Event{Type: "changes.updated", ID: "ws_1", WorkspaceID: "ws_1", TeamID: st.who.TeamID})
		st.until("its files", a.ID, func(t tasks.Task) bool { return slices.Equal(t.Files, []string{"dir/a.go"}) })
		end()
		// The server was down when these happened.
		st.exec(`DELETE FROM changes WHERE workspace_id = 'ws_1'`)
		st.exec(`UPDATE workspaces SET merged_at = ? WHERE id = 'ws_1'`, time.Now().UnixMilli()+1000)
		st.exec(`UPDATE workspaces SET deleted_at = 1 WHERE id = 'ws_2'`)
		st.run()
		st.until("merged", a.ID, func(t tasks.Task) bool {
			return t.Status == tasks.Closed && t.Reason == "merged in PW-1" && len(t.Files) == 1
		})
		st.until("deleted", b.ID, func(t tasks.Task) bool {
			return t.Status == tasks.Open && t.Assignee == "" && t.WorkspaceID == ""
		})
		st.until("what waited for it", after.ID, func(t tasks.Task) bool { return t.Blockers == 0 })
	})
}

// Of two sessions in one workspace, each task gets the files that its own session changed and kept. Until an edit says whose a change is,
// no task gets it.
func TestTasksGetTheFilesOfTheirSession(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		st.s = tasks.NewService(tasks.Config{Store: toolstore.NewTasks(db), Projects: records{db}, Edits: toolstore.NewEdits(db), Bus: st.bus, Settle: time.Millisecond})
		ctx := t.Context()
		st.exec(`INSERT INTO sessions (id, team_id, workspace_id, agent, argv, state, state_at, created_by, started_at, cols, rows) VALUES ('ses_other',?,'ws_1','codex','[]','idle',1,?,1,80,24)`, st.who.TeamID, st.who.UserID)
		a, b, person := st.add("a"), st.add("b"), st.add("of a person")
		other := st.agent("ws_1")
		other.SessionID = "ses_other"
		mine := st.who
		mine.WorkspaceID = "ws_1"
		for id, who := range map[string]tasks.Who{a.ID: st.agent("ws_1"), b.ID: other, person.ID: mine} {
			if _, err := st.s.Claim(ctx, who, id); err != nil {
				t.Fatal(err)
			}
		}
		at := time.Now().UnixMilli() + 1000
		edit := func(id, session, path string, at, undone int64) {
			st.exec(`INSERT INTO edits (id, team_id, workspace_id, session_id, evidence, path, kind, at, undone_at) VALUES (?,?,'ws_1',?,'interval',?,'modified',?,?)`, id, st.who.TeamID, session, path, at, undone)
		}
		st.run()
		changed := func(kind string) {
			st.bus.Publish(ctx, events.Event{Type: kind, ID: "ws_1", WorkspaceID: "ws_1", TeamID: st.who.TeamID})
		}
		files := func(want ...string) func(tasks.Task) bool {
			return func(t tasks.Task) bool { return slices.Equal(t.Files, want) }
		}
		st.exec(`INSERT INTO changes (workspace_id, path, status) VALUES ('ws_1', ?, 'modified')`, []byte("a.go"))
		changed("changes.updated")
		st.until("all files", person.ID, files("a.go"))
		edit("edt_1", "ses_ws_1", "a.go", at, 0)
		edit("edt_2", "ses_ws_1", "undone.go", at, 5)
		edit("edt_3", "ses_ws_1", "before.go", 5, 0)
		edit("edt_4", "", "nobody.go", at, 0)
		changed("edits.updated")
		st.until("its own", a.ID, files("a.go"))
		st.until("what nobody is known to have made", b.ID, files("nobody.go"))
	})
}

// A merge from before the task came to the workspace does not close it.
func TestAnEarlierMergeClosesNothing(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	st.exec(`UPDATE workspaces SET merged_at = 5 WHERE id = 'ws_1'`)
	a, b := st.add("a"), st.add("b")
	if _, err := st.s.Claim(t.Context(), st.agent("ws_1"), a.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := st.s.Claim(t.Context(), st.agent("ws_2"), b.ID); err != nil {
		t.Fatal(err)
	}
	st.exec(`UPDATE workspaces SET merged_at = ? WHERE id = 'ws_2'`, time.Now().UnixMilli()+1000)
	st.run()
	st.until("the other was looked at", b.ID, func(t tasks.Task) bool { return t.Status == tasks.Closed })
	if d, err := st.s.Get(t.Context(), st.who, a.ID); err != nil || d.Status != tasks.InProgress {
		t.Errorf("%+v, %v", d.Task, err)
	}
}

func TestImportAndExport(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		st := newStage(t, db)
		ctx := t.Context()
		in := `{"id":"bd-1","title":"Epic","status":"open","priority":1,"issue_type":"epic","created_at":"2025-01-01T00:00:00Z"}

{"id":"bd-2","title":"Part","description":"d","notes":"n","status":"in_progress","priority":0,"issue_type":"bug","labels":["x"],"dependencies":[{"issue_id":"bd-2","depends_on_id":"bd-1","type":"parent-child"},{"issue_id":"bd-2","depends_on_id":"bd-3","type":"blocks"}]}
{"id":"bd-3","title":"First","status":"deferred","priority":2,"issue_type":"decision","external_ref":"gh-9"}
{"id":"bd-4","status":"tombstone"}
{"id":"bd-5","title":"Old","status":"closed","priority":2,"issue_type":"task","close_reason":"done","closed_at":"2025-01-02T00:00:00Z"}
`
		for i, want := range []tasks.Imported{{Created: 4, Skipped: 1}, {Updated: 4, Skipped: 1}} {
			got, err := st.s.Import(ctx, st.who, "prj_1", []byte(in))
			if err != nil || got != want {
				t.Fatalf("import %d: %+v, %v", i+1, got, err)
			}
		}
		d, err := st.s.Get(ctx, st.who, "PW-T2")
		if err != nil || d.Parent != "PW-T1" || !slices.Equal(d.BlockedBy, []string{"PW-T3"}) || d.Description != "d\n\n## Notes\n\nn" || d.ExternalID != "bd-2" {
			t.Fatalf("%+v, %v", d, err)
		}
		if d, err := st.s.Get(ctx, st.who, "PW-T3"); err != nil || d.Status != tasks.Blocked || !slices.Equal(d.Labels, []string{"decision"}) || d.ExternalRef != "gh-9" {
			t.Fatalf("%+v, %v", d, err)
		}
		var out bytes.Buffer
		if err := st.s.Export(ctx, st.who, "prj_1", &out); err != nil || strings.Count(out.String(), "\n") != 4 {
			t.Fatalf("%s, %v", &out, err)
		}
		// An export changes what it came from, and makes new tasks elsewhere.
		if got, err := st.s.Import(ctx, st.who, "prj_1", out.Bytes()); err != nil || got != (tasks.Imported{Updated: 4}) {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err := st.s.Import(ctx, st.who, "prj_2", out.Bytes()); err != nil || got != (tasks.Imported{Created: 4}) {
			t.Errorf("%+v, %v", got, err)
		}
		if d, err := st.s.Get(ctx, st.who, "PW-T2"); err != nil || d.Parent != "PW-T1" || !slices.Equal(d.BlockedBy, []string{"PW-T3"}) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

func TestWrongImportsNameTheLine(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	good := `{"id":"bd-1","title":"a","status":"open","priority":1,"issue_type":"task"}` + "\n"
	for what, in := range map[string]string{
		"no JSON":         "\n{",
		"twice":           strings.TrimSpace(good),
		"no title":        `{"id":"bd-2","status":"open"}`,
		"priority":        `{"id":"bd-2","title":"b","priority":9}`,
		"status":          `{"id":"bd-2","title":"b","status":"weird"}`,
		"unknown":         `{"id":"bd-2","title":"b","dependencies":[{"depends_on_id":"bd-9","type":"blocks"}]}`,
		"a cycle":         `{"id":"bd-2","title":"b","dependencies":[{"depends_on_id":"bd-3","type":"blocks"}]}` + "\n" + `{"id":"bd-3","title":"c","dependencies":[{"depends_on_id":"bd-2","type":"blocks"}]}`,
		"itself":          `{"id":"bd-2","title":"b","dependencies":[{"depends_on_id":"bd-2","type":"blocks"}]}`,
		"its own parent":  `{"id":"bd-2","title":"b","dependencies":[{"depends_on_id":"bd-3","type":"parent-child"}]}` + "\n" + `{"id":"bd-3","title":"c","dependencies":[{"depends_on_id":"bd-2","type":"parent-child"}]}`,
		"NUL in the text": `{"id":"bd-2","title":"a\u0000b"}`,
	} {
		_, err := st.s.Import(t.Context(), st.who, "prj_1", []byte(good+in))
		f, ok := err.(*fault.Error)
		if !ok || f.Code != "import_invalid" || f.Details["line"] != 2 && f.Details["line"] != 3 {
			t.Errorf("%s: %v", what, err)
		}
	}
	if got := st.ids(tasks.Query{}); got != "" {
		t.Errorf("refused imports left %s", got)
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	a := st.add("a", func(n *tasks.New) { n.Description = strings.Repeat("long ", 2000) })
	b := st.add("b")
	for range 40 {
		st.add("one of many", func(n *tasks.New) { n.Description, n.Parent = strings.Repeat("x", 500), a.ID })
	}
	quick := map[string]string{"task_create": `{"title":"x"}`, "task_claim": `{"task":"` + a.ID + `"}`, "task_update": `{"task":"` + a.ID + `","priority":1}`,
		"task_close": `{"task":"` + b.ID + `"}`, "task_show": `{"task":"` + a.ID + `"}`, "task_dep": `{"action":"add","task":"` + a.ID + `","depends_on":"` + b.ID + `","type":"related"}`,
		"task_import": `{"jsonl":""}`}
	large := map[string]string{"task_list": `{"limit":200}`, "task_ready": `{"limit":200}`, "task_show": `{"task":"` + a.ID + `"}`, "task_export": `{}`}
	listed := 0
	for _, tool := range st.s.Tools() {
		spec := tool.Spec()
		if !spec.Unlisted {
			listed++
		}
		t.Run(spec.Name, func(t *testing.T) {
			subject := tooltest.Subject{Tool: tool, Quick: json.RawMessage(quick[spec.Name]),
				Caller:   tools.Caller{TeamID: st.who.TeamID, UserID: st.who.UserID, SessionID: "ses_ws_1", WorkspaceID: "ws_1"},
				Stranger: tools.Caller{TeamID: "team_other", UserID: "usr_other", WorkspaceID: "ws_1"}}
			if subject.Quick == nil || len(subject.Quick) == 0 {
				subject.Quick = json.RawMessage(`{}`)
			}
			if large[spec.Name] != "" {
				subject.Large = json.RawMessage(large[spec.Name])
			}
			tooltest.Run(t, subject)
		})
	}
	if listed != 6 {
		t.Errorf("%d tools are listed", listed)
	}
}

// What is ready among ten thousand tasks is found by an index: as many pages are read as are answered with.
func TestReadyUsesItsIndex(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t)
	rows, err := db.Query(t.Context(), `EXPLAIN QUERY PLAN SELECT t.id FROM tasks t WHERE t.project_id = ? AND {team:t} AND t.status = 'open' AND t.blockers = 0 ORDER BY t.priority, t.num LIMIT 11`, "prj_1")
	plan, err := store.Collect(rows, err, func(r store.Scanner) (detail string, err error) {
		var a, b, c int
		err = r.Scan(&a, &b, &c, &detail)
		return detail, err
	})
	if err != nil || len(plan) != 1 || !strings.Contains(plan[0], "tasks_ready") {
		t.Errorf("%q, %v", plan, err)
	}
}

func TestSummaryForAgents(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	mine, ready := st.add("mine"), st.add("to be taken")
	if _, err := st.s.Claim(t.Context(), st.agent("ws_1"), mine.ID); err != nil {
		t.Fatal(err)
	}
	set, err := tools.New(tools.Config{Tools: st.s.Tools()})
	if err != nil {
		t.Fatal(err)
	}
	r, err := set.Call(t.Context(), tools.Caller{TeamID: st.who.TeamID, UserID: st.who.UserID, SessionID: "ses_ws_1", WorkspaceID: "ws_1"}, "task_prime", nil)
	if err != nil || !strings.Contains(r.Content[0].Text, mine.ID) || !strings.Contains(r.Content[0].Text, ready.ID) || len(r.Content[0].Text) > 2000 {
		t.Errorf("%+v, %v", r, err)
	}
}

func BenchmarkReady(b *testing.B) {
	db := storetest.SQLite(b)
	user, team := storetest.Seed(b, db)
	if _, err := db.Exec(b.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('prj_1',?,'p','sample','','','ready',?,1)`, team.ID, user.ID); err != nil {
		b.Fatal(err)
	}
	s := tasks.NewService(tasks.Config{Store: toolstore.NewTasks(db), Projects: records{db}})
	who := tasks.Who{TeamID: team.ID, UserID: user.ID}
	var lines strings.Builder
	for part := range 2 {
		lines.Reset()
		for i := range 5000 {
			n := part*5000 + i
			fmt.Fprintf(&lines, `{"id":"bd-%d","title":"Task %d","status":"open","priority":%d,"issue_type":"task"`, n, n, n%5)
			if i > 0 && n%10 != 0 { // nine of ten wait for the one before
				fmt.Fprintf(&lines, `,"dependencies":[{"depends_on_id":"bd-%d","type":"blocks"}]`, n-1)
			}
			lines.WriteString("}\n")
		}
		if _, err := s.Import(b.Context(), who, "prj_1", []byte(lines.String())); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for b.Loop() {
		if items, _, err := s.List(b.Context(), who, tasks.Query{ProjectID: "prj_1", Ready: true, Page: page.Page{Limit: 10}}); err != nil || len(items) != 10 {
			b.Fatalf("%d tasks, %v", len(items), err)
		}
	}
}

// Somebody who opens a closed task again means it: the merge that closed it does not close it once more.
func TestATaskStaysOpenAgain(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t))
	ctx := t.Context()
	a, b := st.add("a"), st.add("b")
	for id, ws := range map[string]string{a.ID: "ws_1", b.ID: "ws_2"} {
		if _, err := st.s.Claim(ctx, st.agent(ws), id); err != nil {
			t.Fatal(err)
		}
	}
	st.exec(`UPDATE tasks SET linked_at = 1`)
	st.exec(`UPDATE workspaces SET merged_at = 5 WHERE id = 'ws_1'`)
	end := st.run()
	st.until("merged", a.ID, func(t tasks.Task) bool { return t.Status == tasks.Closed })
	end()
	open := tasks.Open
	if _, err := st.s.Update(ctx, st.who, a.ID, tasks.Change{Status: &open}); err != nil {
		t.Fatal(err)
	}
	st.exec(`UPDATE workspaces SET merged_at = ? WHERE id = 'ws_2'`, time.Now().UnixMilli()+1000)
	st.run()
	st.until("the other was looked at", b.ID, func(t tasks.Task) bool { return t.Status == tasks.Closed })
	if d, err := st.s.Get(ctx, st.who, a.ID); err != nil || d.Status != tasks.Open {
		t.Errorf("%+v, %v", d.Task, err)
	}
}
