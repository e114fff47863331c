package forge_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testforge"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
	"github.com/parawork/parawork/workspaces/origin"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(made.dir)
		os.Exit(code)
	}))
}

const repo = "acme/app"

var kinds = []string{testforge.GitHub, testforge.GitLab, testforge.Gitea, testforge.Forgejo}

// scopes are those docs/forge.md requires.
var scopes = map[string][]string{testforge.GitHub: {"repo", "checks"}, testforge.GitLab: {"api"}, testforge.Gitea: {"write:repository"}, testforge.Forgejo: {"write:repository"}}

// harness is a Service with one project, one workspace and one forge.
type harness struct {
	t     *testing.T
	ctx   context.Context
	there *testforge.Forge
	svc   *forge.Service
	cfg   forge.Config
	kept  *store.Forge
	actor accounts.Actor

	mu       sync.Mutex
	now      time.Time
	origin   string
	tokens   map[string]string // by user, "" = the project's
	home     []origin.MergedThere
	fails    error // error of fetching
	reported []events.Event
	acts     []workspaces.Activity
	lost     bool // the person is no longer a member
	tick     chan time.Time
}

func (h *harness) Publish(_ context.Context, e events.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.reported = append(h.reported, e)
}

func (h *harness) Workspace(context.Context, string) (workspaces.Workspace, error) {
	return workspaces.Workspace{ID: "ws_1", TeamID: "team_1", ProjectID: "prj_1", Num: 7, Name: "Fix the <login>", Branch: "parawork/fix", Base: "main", State: workspaces.Ready}, nil
}

func (h *harness) Project(context.Context, string) (workspaces.Project, error) {
	return workspaces.Project{ID: "prj_1", TeamID: "team_1"}, nil
}

func (h *harness) Origin(context.Context, string) (string, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.origin, nil
}

func (h *harness) Ahead(context.Context, string) (origin.Ahead, error) {
	return origin.Ahead{Branch: "parawork/fix", Head: h.there.Ref(repo, "parawork/fix"), Target: "main", Subjects: []string{"Second @all", "First <b>"}}, nil
}

func (h *harness) MergedThere(_ context.Context, _ string, m origin.MergedThere) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.fails != nil {
		return h.fails
	}
	h.home = append(h.home, m)
	return nil
}

func (h *harness) Record(_ context.Context, a workspaces.Activity) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.acts = append(h.acts, a)
	return nil
}

func (h *harness) CredentialFor(_ context.Context, userID, _, _, host string) (secrets.Credential, bool, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if host != h.there.Host() {
		return secrets.Credential{}, false, nil
	}
	for _, who := range []string{userID, ""} {
		if t := h.tokens[who]; t != "" {
			return secrets.Credential{Host: host, Token: t}, true, nil
		}
	}
	return secrets.Credential{}, false, nil
}

func (h *harness) Actor(context.Context, string) (accounts.Actor, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lost {
		return accounts.Actor{User: h.actor.User}, nil
	}
	return h.actor, nil
}

func (h *harness) clock() time.Time { h.mu.Lock(); defer h.mu.Unlock(); return h.now }

func (h *harness) pass(d time.Duration) { h.mu.Lock(); defer h.mu.Unlock(); h.now = h.now.Add(d) }

func newHarness(t *testing.T, kind string) *harness {
	t.Helper()
	root := t.TempDir()
	there, err := testforge.New(kind, root)
	must(t, err)
	t.Cleanup(there.Close)
	h := &harness{t: t, there: there, now: time.UnixMilli(1_800_000_000_000), tokens: map[string]string{"usr_1": "mine"}, origin: there.URL + "/" + repo + ".git",
		tick: make(chan time.Time), actor: accounts.Actor{User: accounts.User{ID: "usr_1", Name: "Mika"}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: "team_1"}, Role: accounts.Member}}}}
	there.Know(testforge.Token{Value: "mine", User: "mika", Scopes: scopes[kind]})
	must(t, os.CopyFS(root, os.DirFS(template(t))))
	db := storetest.SQLite(t)
	h.ctx = tenant.In(t.Context(), "team_1")
	for _, q := range []string{`INSERT INTO teams (id, slug, name, created_at) VALUES ('team_1', 'harbour', 'Harbour', 1)`} {
		_, err := db.Exec(h.ctx, q)
		must(t, err)
	}
	rows := store.NewWorkspaces(db)
	must(t, rows.InsertProject(h.ctx, workspaces.Project{ID: "prj_1", TeamID: "team_1", Name: "app", SourceKind: workspaces.SourceURL, State: workspaces.ProjectReady}))
	w, _ := h.Workspace(h.ctx, "")
	_, err = rows.InsertWorkspace(h.ctx, w)
	must(t, err)
	h.kept = store.NewForge(db)
	must(t, h.kept.SetProjectForge(h.ctx, "prj_1", forge.Settings{Kind: forge.Kind(kind)}))
	h.cfg = forge.Config{Store: h.kept, Workspaces: h, Origin: h, Credentials: h, People: h, Events: h, HTTP: there.Transport(), Now: h.clock,
		Link: func(context.Context, workspaces.Workspace) string { return "https://parawork.example/harbour/w/PW-7" },
		Prompts: func(context.Context, workspaces.Workspace, string) ([]string, error) {
			return []string{"Fix it.\n@everyone closes #3"}, nil
		},
		After: func(time.Duration) <-chan time.Time { return h.tick },
		Push: func(context.Context, accounts.Actor, string) (forge.Pushed, error) {
			return forge.Pushed{Branch: "parawork/fix", Commit: there.Ref(repo, "parawork/fix")}, nil
		}}
	h.svc = forge.New(h.cfg)
	return h
}

var made struct {
	once sync.Once
	dir  string
}

// template is the repository every test starts from, made once.
func template(t *testing.T) string {
	t.Helper()
	made.once.Do(func() {
		dir, err := os.MkdirTemp("", "forge-test-")
		must(t, err)
		there, err := testforge.New(testforge.GitHub, dir)
		must(t, err)
		defer there.Close()
		_, err = there.MakeRepo(repo)
		must(t, err)
		_, err = there.Put(repo, "main", "a.txt", "one\n")
		must(t, err)
		_, err = there.Put(repo, "parawork/fix", "b.txt", "two\n")
		must(t, err)
		made.dir = dir
	})
	return made.dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (h *harness) open(a forge.Ask) forge.PullRequest {
	h.t.Helper()
	pr, err := h.svc.Open(h.ctx, h.actor, "ws_1", a)
	must(h.t, err)
	return pr
}

func (h *harness) refresh() forge.PullRequest {
	h.t.Helper()
	pr, err := h.svc.Refresh(h.ctx, h.actor, "ws_1")
	must(h.t, err)
	return pr
}

// all runs a test against each of the four forges.
func all(t *testing.T, fn func(t *testing.T, h *harness, kind string)) {
	t.Parallel()
	for _, kind := range kinds {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			fn(t, newHarness(t, kind), kind)
		})
	}
}

func code(t *testing.T, err error, want string) {
	t.Helper()
	if fault.CodeOf(err) != want {
		t.Errorf("error %q (%v), expected %q", fault.CodeOf(err), err, want)
	}
	if err != nil && (strings.Contains(err.Error(), "mine") || strings.Contains(err.Error(), "theirs")) {
		t.Errorf("the token is in %q", err)
	}
}

// A pull request's whole life: opened as a draft with a body made of the workspace, made ready, its checks and reviews read, merged there
// at the commit that was seen, and fetched.
func TestFromBranchToMerged(t *testing.T) {
	all(t, func(t *testing.T, h *harness, kind string) {
		pr := h.open(forge.Ask{Draft: true, Push: true})
		if pr.State != forge.Draft || pr.Number != 1 || pr.Head != "parawork/fix" || pr.Base != "main" || pr.HeadCommit != h.there.Ref(repo, "parawork/fix") {
			t.Fatalf("opened %+v", pr)
		}
		there := h.there.Pulls(repo)[0]
		for _, want := range []string{"> Fix it.", "> @\u200beveryone closes #\u200b3", "- First &lt;b>", "[PW-7](https://parawork.example/harbour/w/PW-7)"} {
			if !strings.Contains(there.Body, want) {
				t.Errorf("the body lacks %q:\n%s", want, there.Body)
			}
		}
		if !strings.Contains(there.Title, "Fix the <login>") {
			t.Errorf("title %q", there.Title)
		}
		_, err := h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "merge", Head: pr.HeadCommit})
		code(t, err, "forge_refused")

		pr, err = h.svc.Ready(h.ctx, h.actor, "ws_1")
		must(t, err)
		if pr.State != forge.Open {
			t.Fatalf("made ready: %+v", pr)
		}
		if pr, err = h.svc.Ready(h.ctx, h.actor, "ws_1"); err != nil || pr.State != forge.Open {
			t.Errorf("made ready again: %v %v", pr.State, err)
		}
		good, bad, runs := "success", "failure", "pending"
		if kind == testforge.GitLab {
			bad, runs = "failed", "running"
		}
		for i := range 120 { // more than a page
			h.there.Say(repo, testforge.Check{Commit: pr.HeadCommit, Name: "job " + string(rune('a'+i%26)) + strings.Repeat("x", i/26), State: good, URL: "https://ci.example/1"})
		}
		h.there.Say(repo, testforge.Check{Commit: pr.HeadCommit, Name: "lint", State: runs, URL: "javascript:alert(1)", Text: "look\u202e here"})
		must(t, h.there.Edit(repo, 1, func(p *testforge.Pull) {
			p.Reviews = []testforge.Review{{User: "grace", State: "APPROVED"}, {User: "grace", State: "COMMENTED"}, {User: "eve", State: "DISMISSED"}}
		}))
		pr = h.refresh()
		if pr.ChecksState != forge.Pending || len(pr.Checks) != 121 || pr.Mergeable != "yes" || !slices.Equal(pr.Reviews, []forge.Review{{Who: "grace", State: "approved"}}) {
			t.Errorf("seen %s %d %q %+v %q", pr.ChecksState, len(pr.Checks), pr.Mergeable, pr.Reviews, pr.Error)
		}
		last := pr.Checks[slices.IndexFunc(pr.Checks, func(c forge.Check) bool { return c.Name == "lint" })]
		if last.URL != "" || last.Text != "look here" {
			t.Errorf("what the forge said is shown as it is: %+v", last)
		}
		h.there.Say(repo, testforge.Check{Commit: pr.HeadCommit, Name: "lint", State: bad})
		if pr = h.refresh(); pr.ChecksState != forge.Failed {
			t.Errorf("checks are %q", pr.ChecksState)
		}

		seen := pr.HeadCommit
		_, err = h.there.Put(repo, "parawork/fix", "c.txt", "three\n")
		must(t, err)
		_, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "squash", Head: seen})
		code(t, err, "pull_request_moved")
		pr = h.refresh()
		if pr, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "squash", Head: pr.HeadCommit}); err != nil {
			t.Fatal(err)
		}
		if pr.State != forge.Merged || pr.MergedCommit != h.there.Ref(repo, "main") || pr.Error != "" {
			t.Errorf("merged: %+v", pr)
		}
		if len(h.home) != 1 || h.home[0].Base != "main" || h.home[0].Commit != pr.MergedCommit || h.home[0].Head != pr.HeadCommit {
			t.Errorf("fetched %+v", h.home)
		}
		_, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "squash", Head: pr.HeadCommit})
		code(t, err, "pull_request_not_open")
		if len(h.reported) == 0 || h.reported[0].Type != "pull_request.updated" || h.reported[0].WorkspaceID != "ws_1" {
			t.Errorf("told %+v", h.reported)
		}
	})
}

// A pull request of a server that was killed after the forge created it is found, and not created twice.
func TestOpenPullRequestIsAdopted(t *testing.T) {
	all(t, func(t *testing.T, h *harness, _ string) {
		first := h.open(forge.Ask{Title: "One", Body: "b"})
		again := h.open(forge.Ask{Title: "Two"})
		if again.ID != first.ID || again.Number != first.Number || len(h.there.Pulls(repo)) != 1 || again.Title != "One" {
			t.Errorf("%+v, then %+v", first, again)
		}
		pr, err := h.svc.Close(h.ctx, h.actor, "ws_1")
		if err != nil || pr.State != forge.Closed {
			t.Fatalf("closed: %+v %v", pr.State, err)
		}
		next := h.open(forge.Ask{Title: "Three"})
		got, _, err := h.svc.Get(h.ctx, "ws_1")
		if err != nil || next.Number == first.Number || got.ID != next.ID || got.State != forge.Open {
			t.Errorf("after a closed one: %+v %v", got, err)
		}
	})
}

// Errors have helpful messages that never contain the token.
func TestRefusals(t *testing.T) {
	all(t, func(t *testing.T, h *harness, kind string) {
		open := func() error { _, err := h.svc.Open(h.ctx, h.actor, "ws_1", forge.Ask{}); return err }
		h.tokens = map[string]string{}
		code(t, open(), "forge_token_missing")
		h.tokens["usr_1"] = "theirs"
		code(t, open(), "forge_token_refused")
		h.there.Know(testforge.Token{Value: "weak", User: "mika", Scopes: []string{"read_api", "read:repository"}})
		h.tokens["usr_1"] = "weak"
		code(t, open(), "forge_not_allowed")
		h.tokens["usr_1"] = "mine"
		h.origin = h.there.URL + "/acme/other.git"
		code(t, open(), "forge_not_found")
		h.origin = h.there.URL + "/" + repo + ".git"
		answers := func(status int, header http.Header, text string) {
			h.there.Behave(func(w http.ResponseWriter, _ *http.Request) bool {
				maps.Copy(w.Header(), header)
				w.WriteHeader(status)
				_, _ = w.Write([]byte(text))
				return true
			})
		}
		answers(http.StatusCreated, nil, `{"number": `)
		code(t, open(), "forge_answer_wrong")
		answers(http.StatusCreated, nil, `{}`)
		code(t, open(), "forge_answer_wrong")
		answers(http.StatusCreated, nil, `<html>`+strings.Repeat("x", 9<<20))
		code(t, open(), "forge_answer_wrong")
		answers(http.StatusMovedPermanently, http.Header{"Location": {"https://elsewhere.example/"}}, "")
		code(t, open(), "forge_moved")
		answers(http.StatusBadGateway, nil, "oh")
		code(t, open(), "forge_unreachable")
		h.there.Behave(nil)
		pr := h.open(forge.Ask{})
		_, err := h.there.Put(repo, "main", "b.txt", "mine\n") // conflicts
		must(t, err)
		h.refresh()
		if pr = h.refresh(); pr.Mergeable != "no" || !strings.Contains(pr.Blocked, "conflicts with main") {
			t.Errorf("%q %q", pr.Mergeable, pr.Blocked)
		}
		_, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "merge", Head: pr.HeadCommit})
		code(t, err, "forge_refused")
		_, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "merge", Head: "main"})
		code(t, err, "expected_head_invalid")
		if kind == testforge.GitLab {
			_, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "rebase", Head: pr.HeadCommit})
			code(t, err, "forge_strategy_unsupported")
		}
	})
}

// A forge that limits requests is left alone for as long as it said, for all users of that token; unchanged answers cost no budget.
func TestBudgetsAndETags(t *testing.T) {
	all(t, func(t *testing.T, h *harness, kind string) {
		h.open(forge.Ask{})
		h.refresh()
		h.refresh()
		before := len(h.there.Asked())
		h.refresh()
		for _, line := range h.there.Asked()[before:] {
			if !strings.HasSuffix(line, " 304") {
				t.Errorf("asked for anew although nothing changed: %s", line)
			}
		}
		if kind == testforge.Gitea || kind == testforge.Forgejo { // they have no budgets; proxies in front of them say this
			h.there.Behave(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(http.StatusTooManyRequests)
				return true
			})
		} else {
			h.there.Budget(0, h.clock().Add(2*time.Minute), h.clock)
		}
		_, err := h.svc.Refresh(h.ctx, h.actor, "ws_1")
		code(t, err, "forge_busy")
		before = len(h.there.Asked())
		_, err = h.svc.Refresh(h.ctx, h.actor, "ws_1")
		code(t, err, "forge_busy")
		if now := len(h.there.Asked()); now != before {
			t.Errorf("asked %d times although it wanted to be left alone", now-before)
		}
		h.there.Budget(-1, time.Time{}, h.clock)
		h.there.Behave(nil)
		h.pass(2*time.Minute + time.Second)
		h.refresh()
	})
}

// Polling fetches what others merged on the forge, also when the first try, or the server, failed in between.
func TestMergeByOthersIsFetched(t *testing.T) {
	all(t, func(t *testing.T, h *harness, kind string) {
		pr := h.open(forge.Ask{})
		strategy := map[string]string{testforge.GitHub: "rebase", testforge.GitLab: "squash", testforge.Gitea: "merge", testforge.Forgejo: "rebase"}[kind]
		must(t, h.there.Merge(repo, 1, strategy))
		h.fails = fault.New(fault.Unavailable, "fetch_failed", "The remote could not be asked.")
		h.pass(time.Hour)
		stop := h.run()
		h.until(func() bool {
			now, _, err := h.svc.Of(h.ctx, "ws_1")
			return err == nil && now.State == forge.Merged && strings.Contains(now.Error, "could not be fetched: The remote could not be asked.")
		})
		stop()
		// Another server takes it up.
		h.mu.Lock()
		h.fails = nil
		h.mu.Unlock()
		h.svc = forge.New(h.cfg)
		stop = h.run()
		defer stop()
		h.until(func() bool {
			now, _, err := h.svc.Of(h.ctx, "ws_1")
			return err == nil && now.Error == "" && now.MergedCommit == h.there.Ref(repo, "main")
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.home) != 1 || h.home[0].Head != pr.HeadCommit || h.home[0].ActorID != "" {
			t.Errorf("fetched %+v", h.home)
		}
	})
}

// run lets the Service poll until stop.
func (h *harness) run() (stop func()) {
	ctx, cancel := context.WithCancel(tenant.All(context.Background(), "a test"))
	done := make(chan struct{})
	svc := h.svc
	go func() { defer close(done); _ = svc.Run(ctx) }()
	return func() { cancel(); <-done }
}

// until waits for a condition, and lets time tick meanwhile.
func (h *harness) until(ok func() bool) {
	h.t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); {
		if time.Now().After(end) {
			h.t.Fatal("it did not come")
		}
		select {
		case h.tick <- time.Time{}:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// The pull request of somebody who left the team is polled only with the project's token.
func TestTokenOfFormerMemberIsNotUsed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testforge.Gitea)
	h.open(forge.Ask{})
	h.mu.Lock()
	h.lost = true
	h.mu.Unlock()
	h.pass(time.Hour)
	before := len(h.there.Asked())
	stop := h.run()
	h.until(func() bool {
		pr, _, err := h.svc.Of(h.ctx, "ws_1")
		return err == nil && strings.Contains(pr.Error, "No git credential")
	})
	stop()
	if now := len(h.there.Asked()); now != before {
		t.Errorf("it was asked %d times", now-before)
	}
}

// The gate is asked before the forge, and can reject.
func TestTheGateIsAsked(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testforge.GitHub)
	pr := h.open(forge.Ask{})
	h.cfg.Gate = func(context.Context, workspaces.Workspace, string) error {
		return fault.New(fault.Conflict, "checks_missing", "Run the checks.")
	}
	h.svc = forge.New(h.cfg)
	before := len(h.there.Asked())
	_, err := h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "merge", Head: pr.HeadCommit})
	code(t, err, "checks_missing")
	if len(h.there.Asked()) != before {
		t.Error("the forge was asked")
	}
}

// A token that may not see check runs still reads all the rest, and reports what it could not see.
func TestHiddenAspectsAreNamed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, testforge.GitHub)
	h.there.Know(testforge.Token{Value: "narrow", User: "mika", Scopes: []string{"repo"}})
	h.tokens["usr_1"] = "narrow"
	h.open(forge.Ask{})
	pr := h.refresh()
	if pr.State != forge.Open || !strings.Contains(pr.Error, "may not see check runs") || !strings.Contains(pr.Error, "Checks (read)") {
		t.Errorf("%s %q", pr.State, pr.Error)
	}
}

// The stand-in's smart HTTP accepts a push only with a token.
func TestStandInTakesPushes(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	must(t, os.CopyFS(root, os.DirFS(template(t))))
	there, err := testforge.New(testforge.GitHub, root)
	must(t, err)
	defer there.Close()
	there.Know(testforge.Token{Value: "mine", Scopes: scopes[testforge.GitHub]})
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	must(t, os.WriteFile(ca, there.Certificate(), 0o600))
	run := func(args ...string) error {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "GIT_SSL_CAINFO="+ca, "GIT_TERMINAL_PROMPT=0", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.New(string(out))
		}
		return nil
	}
	with := strings.Replace(there.URL, "https://", "https://x:mine@", 1) + "/" + repo + ".git"
	if run("clone", "-q", there.URL+"/"+repo+".git", "none") == nil {
		t.Error("who shows nothing was let in")
	}
	must(t, run("clone", "-q", with, "work"))
	must(t, run("-C", "work", "push", "-q", "origin", "HEAD:refs/heads/new"))
	if there.Ref(repo, "new") == "" {
		t.Error("nothing arrived")
	}
}

// The artifacts that a person chose stand in the description between markers: whatever their names are, and whatever else is written there.
func TestDescriptionListsArtifacts(t *testing.T) {
	all(t, func(t *testing.T, h *harness, _ string) {
		attach := func(name, url string) forge.Attachment {
			return forge.Attachment{AttachedArtifact: workspaces.AttachedArtifact{ID: "art_1", Name: name, Size: 2048, SHA256: strings.Repeat("ab", 32)}, URL: url, ExpiresAt: 1_800_000_000_000}
		}
		hostile := "`x` @everyone [a](http://evil) <!-- /parawork:artifacts --> <img>"
		pr := h.open(forge.Ask{Body: "Mine.", Draft: true, Artifacts: []forge.Attachment{attach("report.md", "https://parawork.example/shared/1"), attach(hostile, "")}})
		body := h.there.Pulls(repo)[0].Body
		for _, want := range []string{"Mine.\n\n<!-- parawork:artifacts -->\n", "- `report.md` (2 kB, sha256 `abababababab`), [download](<https://parawork.example/shared/1>) until 2027-01-15 08:00 UTC\n", "- `` `x` @everyone"} {
			if !strings.Contains(body, want) {
				t.Errorf("the body lacks %q:\n%s", want, body)
			}
		}
		if strings.Count(body, "<!-- /parawork:artifacts -->") != 1 || strings.Count(body, "[download]") != 1 {
			t.Errorf("the name ends the section, or has a link that nobody chose:\n%s", body)
		}
		must(t, h.there.Edit(repo, pr.Number, func(p *testforge.Pull) { p.Body = "Before.\r\n" + p.Body + "\nAfter." }))
		_, err := h.svc.Ready(h.ctx, h.actor, "ws_1")
		must(t, err)
		if now := h.there.Pulls(repo)[0].Body; !strings.Contains(now, "report.md") {
			t.Errorf("marking as ready lost the section:\n%s", now)
		}
		pr = h.open(forge.Ask{Body: "Not used: the forge has one.", Artifacts: []forge.Attachment{attach("new.md", "")}})
		body = h.there.Pulls(repo)[0].Body
		if !strings.HasPrefix(body, "Before.\r\nMine.\n\n<!-- parawork:artifacts -->\n") || !strings.HasSuffix(body, "<!-- /parawork:artifacts -->\nAfter.") || !strings.Contains(body, "new.md") || strings.Contains(body, "report.md") {
			t.Errorf("the update changed more than the section:\n%s", body)
		}
		h.open(forge.Ask{})
		if now := h.there.Pulls(repo)[0].Body; now != body {
			t.Errorf("without artifacts the body became:\n%s", now)
		}
		attached := workspaces.AttachedArtifact{ID: "art_1", Name: "new.md", Size: 2048, SHA256: "ab"}
		_, err = h.svc.Merge(h.ctx, h.actor, "ws_1", forge.MergeAsk{Strategy: "merge", Head: pr.HeadCommit, Artifacts: []workspaces.AttachedArtifact{attached}})
		must(t, err)
		at := slices.IndexFunc(h.acts, func(a workspaces.Activity) bool { return a.Kind == "pull_request.merged" })
		if at < 0 {
			t.Fatalf("no record of the merge in %+v", h.acts)
		}
		if kept, _ := h.acts[at].Data["artifacts"].([]workspaces.AttachedArtifact); !slices.Equal(kept, []workspaces.AttachedArtifact{attached}) {
			t.Errorf("the record of the merge has %+v", h.acts[at].Data)
		}
	})
}
