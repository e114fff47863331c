package issues_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/testing/testforge"
	"github.com/parawork/parawork/tools/tasks"
	"github.com/parawork/parawork/tools/tasks/issues"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/origin"
)

const repo = "acme/app"

var kinds = []string{testforge.GitHub, testforge.GitLab, testforge.Gitea, testforge.Forgejo}

// scopes are those docs/tasks.md requires.
var scopes = map[string][]string{testforge.GitHub: {"repo"}, testforge.GitLab: {"api"}, testforge.Gitea: {"write:issue", "read:repository"}, testforge.Forgejo: {"write:issue", "read:repository"}}

// stage is a project whose repository is on a forge.
type stage struct {
	t     *testing.T
	db    *store.DB
	there *testforge.Forge
	tasks *tasks.Service
	cfg   issues.Config
	s     *issues.Service
	who   tasks.Who

	mu    sync.Mutex
	now   time.Time
	token string // the project's; a person's own is "mine"
	after func(*http.Request, *http.Response) error
}

func (st *stage) clock() time.Time { st.mu.Lock(); defer st.mu.Unlock(); return st.now }
func (st *stage) pass(d time.Duration) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.now = st.now.Add(d)
}

// RoundTrip asks the forge, and may lose its answer.
func (st *stage) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := st.there.Transport().RoundTrip(r)
	st.mu.Lock()
	after := st.after
	st.mu.Unlock()
	if err == nil && after != nil {
		if lost := after(r, resp); lost != nil {
			resp.Body.Close()
			return nil, lost
		}
	}
	return resp, err
}

func (st *stage) lose(fn func(*http.Request, *http.Response) error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.after = fn
}

func (st *stage) Project(ctx context.Context, id string) (workspaces.Project, error) {
	return store.NewWorkspaces(st.db).Project(ctx, id)
}
func (st *stage) Workspace(ctx context.Context, id string) (workspaces.Workspace, error) {
	return store.NewWorkspaces(st.db).Workspace(ctx, id)
}
func (st *stage) Record(context.Context, workspaces.Activity) error { return nil }
func (st *stage) Origin(context.Context, string) (string, error) {
	return st.there.URL + "/" + repo + ".git", nil
}
func (st *stage) Ahead(context.Context, string) (origin.Ahead, error)           { return origin.Ahead{}, nil }
func (st *stage) Actor(context.Context, string) (accounts.Actor, error)         { return accounts.Actor{}, nil }
func (st *stage) MergedThere(context.Context, string, origin.MergedThere) error { return nil }

// CredentialFor has a token of a person, and one of the first project alone.
func (st *stage) CredentialFor(_ context.Context, userID, _, projectID, host string) (secrets.Credential, bool, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	switch {
	case host != st.there.Host():
	case userID != "":
		return secrets.Credential{Host: host, Token: "mine"}, true, nil
	case projectID == "prj_1" && st.token != "":
		return secrets.Credential{Host: host, Token: st.token}, true, nil
	}
	return secrets.Credential{}, false, nil
}

func newStage(t *testing.T, db *store.DB, kind string) *stage {
	t.Helper()
	there, err := testforge.New(kind, t.TempDir())
	must(t, err)
	t.Cleanup(there.Close)
	_, err = there.MakeRepo(repo)
	must(t, err)
	_, err = there.Put(repo, "main", "a.txt", "one\n")
	must(t, err)
	st := &stage{t: t, db: db, there: there, now: time.UnixMilli(1_800_000_000_000), token: "project"}
	there.SetClock(st.clock)
	there.Know(testforge.Token{Value: "project", User: "bot", Scopes: scopes[kind]})
	user, team := storetest.Seed(t, db)
	rows, forges := store.NewWorkspaces(db), store.NewForge(db)
	for _, id := range []string{"prj_1", "prj_2"} {
		must(t, rows.InsertProject(t.Context(), workspaces.Project{ID: id, TeamID: team.ID, Name: "app", SourceKind: workspaces.SourceURL, State: workspaces.ProjectReady, CreatedBy: user.ID}))
		must(t, forges.SetProjectForge(t.Context(), id, forge.Settings{Kind: forge.Kind(kind)}))
	}
	st.who = tasks.Who{TeamID: team.ID, UserID: user.ID}
	kept, list := toolstore.NewIssues(db), toolstore.NewTasks(db)
	st.tasks = tasks.NewService(tasks.Config{Store: list, Projects: st, Outbox: kept, Now: st.clock})
	fs := forge.New(forge.Config{Store: forges, Workspaces: st, Origin: st, Credentials: st, People: st, HTTP: st, Now: st.clock,
		Push: func(context.Context, accounts.Actor, string) (forge.Pushed, error) { return forge.Pushed{}, nil }})
	st.cfg = issues.Config{Store: kept, Tasks: st.tasks, Rows: list, Forges: fs, Now: st.clock}
	st.s = issues.New(st.cfg)
	return st
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// all runs a test against each of the forges, and against GitHub on PostgreSQL too.
func all(t *testing.T, fn func(t *testing.T, st *stage)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			fn(t, newStage(t, storetest.SQLite(t), kind))
		})
	}
	t.Run("postgres", func(t *testing.T) { fn(t, newStage(t, storetest.Postgres(t), testforge.GitHub)) })
}

func (st *stage) set(d issues.Direction, allTasks bool) {
	st.t.Helper()
	_, err := st.s.Set(st.t.Context(), st.who.TeamID, "prj_1", issues.Change{Direction: &d, AllTasks: &allTasks})
	must(st.t, err)
}

// sync lets enough time pass for everything to be due, and makes a round.
func (st *stage) sync() error {
	st.t.Helper()
	st.pass(5 * time.Minute)
	return st.s.Sync(st.t.Context(), "prj_1")
}

func (st *stage) synced() { st.t.Helper(); must(st.t, st.sync()) }

func (st *stage) add(title string, labels ...string) tasks.Task {
	st.t.Helper()
	t, err := st.tasks.Create(st.t.Context(), st.who, tasks.New{ProjectID: "prj_1", Title: title, Labels: labels})
	must(st.t, err)
	return t
}

func (st *stage) update(ref string, c tasks.Change) {
	st.t.Helper()
	st.pass(time.Second)
	_, err := st.tasks.Update(st.t.Context(), st.who, ref, c)
	must(st.t, err)
}

func (st *stage) get(ref string) tasks.Detail {
	st.t.Helper()
	d, err := st.tasks.Get(st.t.Context(), st.who, ref)
	must(st.t, err)
	return d
}

func (st *stage) list() []tasks.Task {
	st.t.Helper()
	l, _, err := st.tasks.List(st.t.Context(), st.who, tasks.Query{ProjectID: "prj_1", Statuses: tasks.Statuses, Page: page.Page{Limit: 200}})
	must(st.t, err)
	return l
}

func (st *stage) state(ref string) issues.State {
	st.t.Helper()
	out, err := st.s.StateOf(st.t.Context(), st.get(ref).UID)
	must(st.t, err)
	return out
}

func (st *stage) edit(number int64, fn func(*testforge.Issue)) {
	st.pass(time.Second)
	st.there.EditIssue(repo, number, fn)
}

func (st *stage) issue(number int64) testforge.Issue {
	st.t.Helper()
	for _, i := range st.there.Issues(repo) {
		if i.Number == number {
			return i
		}
	}
	st.t.Fatalf("there is no issue %d", number)
	return testforge.Issue{}
}

// writes are the requests that changed something on the forge.
func (st *stage) writes() (n int) {
	for _, a := range st.there.Asked() {
		if !strings.HasPrefix(a, "GET ") {
			n++
		}
	}
	return n
}

func TestIssuesBecomeTasks(t *testing.T) {
	all(t, func(t *testing.T, st *stage) {
		st.there.AddIssue(repo, testforge.Issue{Title: "Login  fails", Body: "Steps:\r\n\r\n1. log in", Labels: []string{"parawork", "bug", "priority:1", "ui"}, Assignees: []string{"octocat"}})
		st.there.AddIssue(repo, testforge.Issue{Title: "Not ours", Labels: []string{"bug"}})
		st.there.AddIssue(repo, testforge.Issue{Title: "A pull request", Labels: []string{"parawork"}, Pull: true})
		st.there.AddIssue(repo, testforge.Issue{Title: "Done long ago", Labels: []string{"parawork"}, Closed: true})
		st.set(issues.Both, false)
		st.synced()
		l := st.list()
		if len(l) != 1 || l[0].Title != "Login fails" || l[0].Description != "Steps:\n\n1. log in" || l[0].Type != "bug" || l[0].Priority != 1 || !slices.Equal(l[0].Labels, []string{"parawork", "ui"}) ||
			l[0].Status != tasks.Open || !strings.HasSuffix(l[0].ExternalRef, "-1") {
			t.Fatalf("the tasks are %+v", l)
		}
		s := st.state("PW-T1")
		if s.Link == nil || s.Link.Number != 1 || s.Link.Assignee != "octocat" || !strings.Contains(s.Link.URL, "issues/1") || s.Entry != nil {
			t.Fatalf("its issue is %+v, its change %+v", s.Link, s.Entry)
		}
		st.edit(1, func(i *testforge.Issue) {
			i.Title, i.Closed, i.Labels = "Login is slow", true, []string{"parawork", "enhancement"}
		})
		st.edit(2, func(i *testforge.Issue) { i.Labels = append(i.Labels, "parawork") })
		st.synced()
		got := st.get("PW-T1")
		if got.Title != "Login is slow" || got.Status != tasks.Closed || got.Type != "feature" || got.Priority != 2 || !slices.Equal(got.Labels, []string{"parawork"}) || !strings.Contains(got.Reason, repo+"#1") {
			t.Errorf("the task is %+v", got)
		}
		if l := st.list(); len(l) != 2 {
			t.Errorf("an issue that got the label is no task: %d tasks", len(l))
		}
		st.edit(1, func(i *testforge.Issue) { i.Closed, i.Labels = false, nil })
		st.synced()
		if got := st.get("PW-T1"); got.Status != tasks.Open || len(got.Labels) != 0 {
			t.Errorf("reopened there, without its label: %+v", got)
		}
		if n := st.writes(); n != 0 {
			t.Errorf("%d requests wrote to the forge, though nothing changed here: %v", n, st.there.Asked())
		}
	})
}

func TestTasksBecomeIssuesOnce(t *testing.T) {
	all(t, func(t *testing.T, st *stage) {
		st.set(issues.Both, false)
		ours := st.add("Ship it", "parawork", "ui")
		st.add("Stays here")
		p, kind := 0, "bug"
		st.update(ours.ID, tasks.Change{Priority: &p, Type: &kind})
		st.synced()
		i := st.issue(1)
		if len(st.there.Issues(repo)) != 1 || i.Title != "Ship it" || !slices.Equal(slices.Sorted(slices.Values(i.Labels)), []string{"bug", "parawork", "priority:0", "ui"}) || !strings.Contains(i.Body, "<!-- parawork:PW-T1 "+ours.UID+" -->") {
			t.Fatalf("the issues are %+v", st.there.Issues(repo))
		}
		if s := st.state("PW-T1"); s.Link == nil || s.Entry != nil && s.Entry.Failed || st.get("PW-T1").ExternalRef == "" {
			t.Fatalf("%+v", s)
		}
		title, text, closed := "Ship it now", "With care.", tasks.Closed
		st.update(ours.ID, tasks.Change{Title: &title, Description: &text, Status: &closed, RemoveLabels: []string{"ui"}})
		st.synced()
		st.synced()
		i = st.issue(1)
		if i.Title != title || !strings.HasPrefix(i.Body, text+"\n\n<!--") || !i.Closed || slices.Contains(i.Labels, "ui") || !slices.Contains(i.Labels, "bug") {
			t.Errorf("the issue is %+v", i)
		}
		if got := st.get("PW-T1"); got.Description != text || got.Status != tasks.Closed || got.Type != "bug" {
			t.Errorf("its own change came back as another: %+v", got)
		}
		before := st.writes()
		st.synced()
		st.synced()
		if s := st.state("PW-T1"); s.Entry != nil || len(s.History) != 0 || st.writes() != before || len(st.list()) != 2 {
			t.Errorf("it is not quiet: %+v, %d writes, %d before", s, st.writes(), before)
		}
	})
}

func TestALostAnswerMakesNoSecondIssue(t *testing.T) {
	all(t, func(t *testing.T, st *stage) {
		st.set(issues.Out, true)
		ours := st.add("Only once")
		st.lose(func(r *http.Request, _ *http.Response) error {
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/issues") {
				return errors.New("the server was killed")
			}
			return nil
		})
		if err := st.sync(); fault.CodeOf(err) != "forge_unreachable" {
			t.Fatalf("the error is %v", err)
		}
		if s := st.state(ours.ID); s.Link != nil || s.Entry == nil || s.Entry.Attempts != 1 || s.Entry.Error == "" || s.Entry.AskedAt == 0 {
			t.Fatalf("%+v", s)
		}
		title := "Only once, please"
		st.update(ours.ID, tasks.Change{Title: &title})
		st.lose(nil)
		st.s = issues.New(st.cfg) // the next server
		st.synced()
		st.synced()
		if s := st.state(ours.ID); len(st.there.Issues(repo)) != 1 || s.Link == nil || s.Entry != nil || st.issue(1).Title != title {
			t.Errorf("issues %+v, state %+v", st.there.Issues(repo), s)
		}
	})
}

func TestConflictsAreDecidedFieldByField(t *testing.T) {
	all(t, func(t *testing.T, st *stage) {
		st.there.AddIssue(repo, testforge.Issue{Title: "Base", Body: "base", Labels: []string{"parawork", "a", "b"}})
		st.set(issues.Both, false)
		st.synced()
		title, text := "Ours", "ours"
		st.update("PW-T1", tasks.Change{Title: &title, Description: &text, AddLabels: []string{"c"}, RemoveLabels: []string{"a"}})
		st.edit(1, func(i *testforge.Issue) { i.Title, i.Labels = "Theirs", []string{"parawork", "a", "d"} })
		st.synced()
		st.synced()
		got, i := st.get("PW-T1"), st.issue(1)
		if got.Title != "Theirs" || got.Description != "ours" || !slices.Equal(got.Labels, []string{"c", "d", "parawork"}) {
			t.Errorf("the task is %+v", got)
		}
		if i.Title != "Theirs" || !strings.HasPrefix(i.Body, "ours") || !slices.Equal(slices.Sorted(slices.Values(i.Labels)), []string{"c", "d", "parawork"}) {
			t.Errorf("the issue is %+v", i)
		}
		if h := st.state("PW-T1").History; len(h) != 1 || h[0].Kind != "lost_title" || h[0].Text != "Ours" {
			t.Errorf("the history is %+v", h)
		}
		closed := tasks.Closed
		st.update("PW-T1", tasks.Change{Status: &closed})
		st.edit(1, func(i *testforge.Issue) { i.Body = "theirs" })
		st.synced()
		st.synced()
		if got, i := st.get("PW-T1"), st.issue(1); !i.Closed || got.Status != tasks.Closed || got.Description != "theirs" {
			t.Errorf("the task is %+v, the issue %+v", got, i)
		}
	})
}

func TestTheForgesFailuresAreShown(t *testing.T) {
	for _, c := range []struct {
		name string
		turn func(w http.ResponseWriter)
		code string
		says string
	}{
		{"401", func(w http.ResponseWriter) { w.WriteHeader(401) }, "forge_token_refused", "does not accept the token"},
		{"403", func(w http.ResponseWriter) { w.WriteHeader(403) }, "forge_not_allowed", "Issues (read and write)"},
		{"404", func(w http.ResponseWriter) { w.WriteHeader(404) }, "forge_not_found", "shows this token no issues"},
		{"410", func(w http.ResponseWriter) { w.WriteHeader(410) }, "forge_not_found", "issues are switched on"},
		{"429", func(w http.ResponseWriter) { w.Header().Set("Retry-After", "600"); w.WriteHeader(429) }, "forge_busy", "limits requests"},
		{"500", func(w http.ResponseWriter) { w.WriteHeader(500) }, "forge_unreachable", "failed with 500"},
		{"garbage", func(w http.ResponseWriter) { _, _ = w.Write([]byte("<html>")) }, "forge_answer_wrong", "is not what GitHub says"},
		{"number 0", func(w http.ResponseWriter) { _, _ = w.Write([]byte(`[{"number":0,"title":"x"}]`)) }, "forge_answer_wrong", "is not what GitHub says"},
		{"cut", func(w http.ResponseWriter) { w.Header().Set("Content-Length", "100"); _, _ = w.Write([]byte(`[{`)) }, "forge_answer_wrong", "is not what GitHub says"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			st := newStage(t, storetest.SQLite(t), testforge.GitHub)
			st.set(issues.Both, true)
			ours := st.add("Waits")
			st.there.Behave(func(w http.ResponseWriter, _ *http.Request) bool { c.turn(w); return true })
			if err := st.sync(); fault.CodeOf(err) != c.code {
				t.Fatalf("the error is %v", err)
			}
			set, err := st.s.Settings(t.Context(), "prj_1")
			must(t, err)
			if !strings.Contains(set.Error, c.says) || strings.Contains(set.Error, "project ") && strings.Contains(set.Error, "token project") || set.NextAt <= st.clock().UnixMilli() {
				t.Errorf("the settings say %q, next %d", set.Error, set.NextAt)
			}
			if c.code == "forge_busy" && set.NextAt < st.clock().Add(599*time.Second).UnixMilli() {
				t.Errorf("it asks again before the forge allows it")
			}
			st.there.Behave(nil)
			st.pass(time.Hour)
			st.synced()
			if set, _ := st.s.Settings(t.Context(), "prj_1"); set.Error != "" || set.Fails != 0 || st.state(ours.ID).Link == nil {
				t.Errorf("it does not recover: %+v", set)
			}
		})
	}
}

func TestAChangeIsGivenUpAndRetried(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t), testforge.GitHub)
	st.set(issues.Out, true)
	ours := st.add("Refused")
	st.there.Behave(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost {
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = w.Write([]byte(`{"message":"Validation Failed"}`))
		}
		return r.Method == http.MethodPost
	})
	st.synced()
	e := st.state(ours.ID).Entry
	if e == nil || !e.Failed || !strings.Contains(e.Error, "Validation Failed") || e.Attempts != 1 {
		t.Fatalf("%+v", e)
	}
	st.there.Behave(nil)
	st.synced()
	if len(st.there.Issues(repo)) != 0 {
		t.Error("what was given up was sent again by itself")
	}
	must(t, st.s.Retry(t.Context(), st.get(ours.ID).Task))
	st.synced()
	if s := st.state(ours.ID); s.Link == nil || s.Entry != nil {
		t.Errorf("%+v", s)
	}
	if err := st.s.Retry(t.Context(), st.get(ours.ID).Task); fault.CodeOf(err) != "issue_change_not_found" {
		t.Errorf("retrying nothing: %v", err)
	}
	st.there.DropIssue(repo, 1)
	title := "Refused again"
	st.update(ours.ID, tasks.Change{Title: &title})
	st.synced()
	if e := st.state(ours.ID).Entry; e == nil || !e.Failed || !strings.Contains(e.Error, "no issue 1") {
		t.Errorf("of a deleted issue: %+v", e)
	}
}

func TestHostileIssues(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t), testforge.GitHub)
	other := st.add("Somebody's plan")
	st.there.AddIssue(repo, testforge.Issue{Title: strings.Repeat("t", 2000), Body: strings.Repeat("é", 500_000), Labels: []string{"parawork", strings.Repeat("l", 300), "<b>"}})
	st.there.AddIssue(repo, testforge.Issue{Title: "\x00\x1b[31m\u202e", Body: "a\x00b\u202ec\x1b", Labels: []string{"parawork"}})
	st.there.AddIssue(repo, testforge.Issue{Title: "Steals", Body: "<!-- parawork:" + other.ID + " " + other.UID + " -->", Labels: []string{"parawork"}})
	st.set(issues.Both, false)
	st.synced()
	l := st.list()
	if len(l) != 4 {
		t.Fatalf("%d tasks", len(l))
	}
	if got := st.get("PW-T2"); len([]rune(got.Title)) > 256 || len(got.Description) > tasks.MaxDescription || !strings.Contains(got.Description, "was cut here") || !slices.Equal(got.Labels, []string{"parawork"}) {
		t.Errorf("title %d, text %d, labels %v", len(got.Title), len(got.Description), got.Labels)
	}
	if got := st.get("PW-T3"); got.Title != "[31m" || got.Description != "abc" {
		t.Errorf("%q %q", got.Title, got.Description)
	}
	if st.state(other.ID).Link != nil || st.get(other.ID).Title != "Somebody's plan" {
		t.Error("a mark in an issue took over a task that never asked for one")
	}
	text := "short"
	st.update("PW-T2", tasks.Change{Description: &text})
	st.synced()
	st.synced()
	if got := st.get("PW-T2"); len(st.issue(1).Body) != 1_000_000 || got.Description == text || len(st.state("PW-T2").History) != 1 {
		t.Errorf("the long text of the issue was replaced by %d bytes; history %d", len(st.issue(1).Body), len(st.state("PW-T2").History))
	}
}

func TestManyPages(t *testing.T) {
	all(t, func(t *testing.T, st *stage) {
		for n := range 130 {
			st.there.AddIssue(repo, testforge.Issue{Title: fmt.Sprint("Issue ", n), Labels: []string{"parawork"}})
		}
		st.set(issues.In, false)
		st.synced()
		if n := len(st.list()); n != 130 {
			t.Fatalf("%d tasks", n)
		}
		st.edit(130, func(i *testforge.Issue) { i.Title = "Changed" })
		st.synced()
		if st.get("PW-T1").Title != "Changed" && st.get("PW-T130").Title != "Changed" {
			t.Error("a change was not seen")
		}
		title := "Ours"
		st.update("PW-T1", tasks.Change{Title: &title})
		st.synced()
		if st.writes() != 0 || st.state("PW-T1").Entry != nil {
			t.Error("it wrote, though issues are only read")
		}
	})
}

func TestOnlyTheProjectsOwnToken(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t), testforge.GitHub)
	st.there.Know(testforge.Token{Value: "mine", User: "ada", Scopes: []string{"repo"}})
	st.token = ""
	st.set(issues.Both, true)
	if err := st.sync(); fault.CodeOf(err) != "forge_token_missing" || len(st.there.Asked()) != 0 {
		t.Errorf("%v; asked %v", err, st.there.Asked())
	}
	if set, _ := st.s.Settings(t.Context(), "prj_2"); set.Direction != issues.Off {
		t.Errorf("another project is %+v", set)
	}
	for _, bad := range []string{"/etc/x.jsonl", "../x.jsonl", "a/../x.jsonl", ".git/x.jsonl", "a/.GIT/x.jsonl", "x.json", `a\b.jsonl`, "./x.jsonl", "a\n.jsonl"} {
		if _, err := st.s.Set(t.Context(), st.who.TeamID, "prj_1", issues.Change{File: &bad}); fault.CodeOf(err) != "invalid_task_settings" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestRunSyncsWhatIsDue(t *testing.T) {
	t.Parallel()
	st := newStage(t, storetest.SQLite(t), testforge.GitHub)
	tick := make(chan time.Time)
	st.cfg.After = func(time.Duration) <-chan time.Time { return tick }
	st.s = issues.New(st.cfg)
	st.set(issues.Both, true)
	st.add("By itself")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- st.s.Run(ctx) }()
	deadline := time.After(20 * time.Second)
	for len(st.there.Issues(repo)) == 0 {
		select {
		case tick <- st.clock():
		case <-deadline:
			t.Fatal("nothing was sent")
		}
	}
	cancel()
	must(t, <-done)
}
