package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/executors/images/recipe"
	"github.com/parawork/parawork/executors/kinds"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/testing/testaccounts"
)

// result is what a run of the program left.
type result struct {
	code        int
	out, errout string
}

// run runs the program with an environment of its own.
func run(env map[string]string, stdin string, args ...string) result {
	var out, errout bytes.Buffer
	p := program{stdin: strings.NewReader(stdin), stdout: &out, stderr: &errout, env: func(k string) string { return env[k] }, kinds: kinds.All()}
	code := p.run(context.Background(), args)
	return result{code, out.String(), errout.String()}
}

func want(t *testing.T, r result, code int, texts ...string) {
	t.Helper()
	if r.code != code {
		t.Errorf("exit code %d, want %d\n%s%s", r.code, code, r.out, r.errout)
	}
	for _, text := range texts {
		if !strings.Contains(r.out+r.errout, text) {
			t.Errorf("%q is not in:\n%s%s", text, r.out, r.errout)
		}
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	want(t, run(nil, ""), 2, "usage: parawork")
	want(t, run(nil, "", "help"), 0, "serve", "admin", "doctor")
	want(t, run(nil, "", "frobnicate"), 2, `no command "frobnicate"`)
	want(t, run(nil, "", "version"), 0, "parawork dev (go")
	want(t, run(nil, "", "version", "x"), 2, "unexpected argument")
	want(t, run(nil, "", "admin"), 2, "create-user")
	want(t, run(nil, "", "admin", "help"), 0, "create-user")
	want(t, run(nil, "", "admin", "drop"), 2, `"admin drop"`)
	want(t, run(nil, "", "admin", "create-token", "--emial", "x"), 2, "emial")
	want(t, run(nil, "", "doctor", "--help"), 0)
	want(t, run(map[string]string{"PARAWORK_PRINT_CONFIG": "maybe"}, "", "doctor"), 2, "PARAWORK_PRINT_CONFIG")
}

// each runs fn with the environment of an empty instance on each database.
func each(t *testing.T, fn func(t *testing.T, env map[string]string, db store.Config)) {
	t.Parallel()
	// No config.json of the working folder may play a part.
	config := func(t *testing.T) (string, string) {
		dir := t.TempDir()
		file := filepath.Join(dir, "config.json")
		if err := os.WriteFile(file, []byte(`{"server":{"listen":"127.0.0.1:0"}}`), 0o600); err != nil {
			t.Fatal(err)
		}
		return file, filepath.Join(dir, "data")
	}
	t.Run("sqlite", func(t *testing.T) {
		file, data := config(t)
		fn(t, map[string]string{"PARAWORK_CONFIG": file, "PARAWORK_DATA_DIR": data}, store.Config{URL: "sqlite", DataDir: data})
	})
	t.Run("postgres", func(t *testing.T) {
		url := storetest.PostgresURL(t)
		file, data := config(t)
		fn(t, map[string]string{"PARAWORK_CONFIG": file, "PARAWORK_DATA_DIR": data, "PARAWORK_DATABASE_URL": url}, store.Config{URL: url, DataDir: data})
	})
}

// Every agent Parawork knows is in the image and in the templates, in one version.
func TestImagesAndTemplatesHoldTheSame(t *testing.T) {
	t.Parallel()
	s := e2btest.New(t, e2btest.Config{Templates: []e2btest.Template{}})
	guest := filepath.Join(t.TempDir(), "guest")
	if err := os.WriteFile(guest, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"E2B_API_KEY": s.Key(), "E2B_API_URL": s.APIURL(), "E2B_SANDBOX_URL": s.SandboxURL(), "PARAWORK_GUEST": guest, "PARAWORK_DATA_DIR": t.TempDir(),
		"PARAWORK_SANDBOXING_E2B_PROXY": "none"}
	want(t, run(env, "", "e2b", "template", "build", "--with", "browser,lsp"), 0, "is ready")
	want(t, run(env, "", "e2b", "template", "build", "--name", "own", "--packages", "@openai/codex, own-cli@1"), 0, "The template own is ready")
	built := s.Builds()
	if len(built) != 2 {
		t.Fatalf("built %+v", built)
	}
	image := run(nil, "", "image", "--with", "lsp, browser")
	want(t, image, 0, "FROM ${"+recipe.BaseArg+"}")
	want(t, run(nil, "", "image", "--with", "browsers"), 1, `no parts "browsers": choose among code, lsp, browser, desktop`)
	want(t, run(nil, "", "docker", "build", "--with", "browsers"), 1, `no parts "browsers"`)
	want(t, run(nil, "", "image", "--help"), 0, "desktop  Xvnc and openbox")
	want(t, run(nil, "", "image", "--host", "--with", "browser"), 0, "apt-get install", " chromium ", " nodejs ", " ripgrep")
	template, own := fmt.Sprint(built[0].Request.Steps), fmt.Sprint(built[1].Request.Steps)
	for _, p := range agents.Packages() {
		if !strings.Contains(image.out, " "+p.String()) || !strings.Contains(template, " "+p.String()) {
			t.Errorf("%s is not in both of\n%s\n%s", p, image.out, template)
		}
	}
	for _, tool := range recipe.Apt() {
		if !strings.Contains(image.out, " "+tool) || !strings.Contains(template, " "+tool) {
			t.Errorf("%s is not in both of\n%s\n%s", tool, image.out, template)
		}
	}
	for _, part := range []string{" chromium ", " pyright@", " typescript@"} {
		if !strings.Contains(image.out, part) || !strings.Contains(template, part) || strings.Contains(own, part) {
			t.Errorf("%s is not in the two that were made with it alone:\n%s\n%s\n%s", part, image.out, template, own)
		}
	}
	if !strings.Contains(own, " @openai/codex own-cli@1 ") || strings.Contains(own, "opencode-ai") {
		t.Errorf("a template of other agents: %s", own)
	}
}

func TestAdmin(t *testing.T) {
	each(t, func(t *testing.T, env map[string]string, dbc store.Config) {
		const pw = "nine lives and a hat"
		user := func(stdin string, more ...string) result {
			return run(env, stdin, append([]string{"admin", "create-user", "--password-stdin"}, more...)...)
		}
		want(t, run(env, pw, "admin", "create-user", "--email", "a@example.com", "--name", "A"), 2, "--password-stdin is required")
		want(t, user(pw, "--name", "A"), 2, "--email is required")
		want(t, user("short\n", "--email", "a@example.com", "--name", "A"), 1, "at least 10")
		want(t, user(strings.Repeat("x", 3000), "--email", "a@example.com", "--name", "A"), 1, "longer than")
		want(t, user(pw, "--email", "a@example.com", "--name", "A", "--role", "king", "--team", "t"), 2, "--role")
		want(t, user(pw, "--email", "a@example.com", "--name", "A", "--role", "viewer", "--team", "none"), 1, `no team "none"`)
		want(t, user(pw, "--email", "a@example.com", "--name", "A", "--team", "No Slug"), 1, "short name")

		want(t, user(pw+"\r\nmore\n", "--email", "Ada@example.com", "--name", "Ada", "--operator", "--team", "engines"), 0, "ada@example.com", "created team engines")
		want(t, user(pw, "--email", "ada@example.com", "--name", "Ada"), 1, "exists already")
		want(t, user(pw, "--email", "bob@example.com", "--name", "Bob", "--team", "engines"), 0, "member of team engines")
		env["PARAWORK_EMAIL"] = "carl@example.com"
		want(t, user(pw, "--name", "Carl", "--team", "engines", "--role", "viewer"), 0, "viewer of team engines")
		delete(env, "PARAWORK_EMAIL")

		want(t, run(env, "", "admin", "create-token", "--email", "nobody@example.com"), 1, "No user")
		r := run(env, "", "admin", "create-token", "--email", "ADA@example.com", "--name", "ci")
		if r.code != 0 || !regexp.MustCompile(`^pw_user_[0-9A-Za-z]{49}\n$`).MatchString(r.out) {
			t.Errorf("create-token: %+v", r)
		}
		want(t, run(env, "another good one\n", "admin", "reset-password", "--email", "bob@example.com", "--password-stdin"), 0, "changed")

		on := func(code int, words ...string) func(args ...string) {
			return func(args ...string) {
				t.Helper()
				want(t, run(env, "", append([]string{"admin"}, args...)...), code, words...)
			}
		}
		on(2, "--email is required")("suspend-user")
		on(1, "No user")("suspend-user", "--email", "nobody@example.com")
		on(1, "only operator")("suspend-user", "--email", "ada@example.com")
		on(0, "is suspended")("suspend-user", "--email", "carl@example.com")
		on(1, "is suspended")("reset-link", "--email", "carl@example.com")
		on(0, "carl@example.com", "engines (viewer)", "suspended", "operator")("list-users")
		on(0, "may sign in again")("restore-user", "--email", "carl@example.com")
		on(0, "/reset#")("reset-link", "--email", "carl@example.com")
		on(0, "no second factor")("reset-factors", "--email", "carl@example.com")
		on(0, "is an operator now")("make-operator", "--email", "carl@example.com")
		on(0, "no operator any more")("make-operator", "--email", "carl@example.com", "--no")
		on(1, "member of the team already")("add-member", "--email", "bob@example.com", "--team", "engines")
		on(1, `no team "none"`)("add-member", "--email", "bob@example.com", "--team", "none")
		on(0, "is suspended")("suspend-team", "--team", "engines")
		on(0, "engines", "ada@example.com", "suspended")("list-teams", "--search", "ENG")
		on(0, "works again")("restore-team", "--team", "engines")

		want(t, run(env, "", "admin", "new-runner-key"), 2, "--yes is required")
		want(t, run(env, "", "admin", "new-runner-key", "--yes"), 0, "created a new key", "0 machines")

		db, err := store.Open(t.Context(), dbc)
		if err != nil {
			t.Fatal(err)
		}
		defer db.Close()
		svc := testaccounts.New(testaccounts.Config{Store: store.NewAccounts(db)})
		if _, err := store.NewMachines(db).InstanceKey(t.Context(), "runner"); err != nil {
			t.Errorf("the new key: %v", err)
		}
		a, err := svc.AuthenticateToken(t.Context(), strings.TrimSpace(r.out))
		if err != nil || a.User.Email != "ada@example.com" || !a.User.Operator || len(a.Memberships) != 1 || a.Memberships[0].Role != accounts.Owner {
			t.Errorf("the token is %+v, %v", a, err)
		}
		if _, err := svc.Login(t.Context(), "ada@example.com", pw, accounts.Meta{}); err != nil {
			t.Errorf("the password: %v", err)
		}
		if _, err := svc.Login(t.Context(), "bob@example.com", "another good one", accounts.Meta{}); err != nil {
			t.Errorf("the new password: %v", err)
		}
	})
}

func TestDoctorOnAnEmptyInstance(t *testing.T) {
	each(t, func(t *testing.T, env map[string]string, dbc store.Config) {
		env[guestEnv] = "/bin/true"
		r := run(env, "", "doctor")
		for _, text := range []string{"data folder", "will be made at the first start", "git", "database", "will be set up", "is free", "local: no isolation", "Shell", "members can connect machines", "sandboxing.runner.downloadsDir"} {
			if !strings.Contains(r.out, text) {
				t.Errorf("%q is not in:\n%s", text, r.out)
			}
		}
		if _, err := os.Stat(dbc.DataDir); err == nil {
			t.Error("the doctor made the data folder")
		}
		run(env, "nine lives and a hat", "admin", "create-user", "--email", "a@example.com", "--name", "A", "--password-stdin")
		r = run(env, "", "doctor")
		for _, text := range []string{"1 user, 0 teams; running: 0 sessions, 0 sandboxes", "no operator"} {
			if !strings.Contains(r.out, text) {
				t.Errorf("%q is not in:\n%s", text, r.out)
			}
		}
	})
}

func TestDoctorNamesWhatIsWrongAndTheCure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "config.json")
	doctor := func(text string) result {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		env := map[string]string{"HOME": dir, guestEnv: "/bin/true"}
		if !strings.Contains(text, "listen") { // the default port may be in use here
			env["PARAWORK_SERVER_LISTEN"] = "127.0.0.1:0"
		}
		return run(env, "", "doctor", "--config", file)
	}
	want(t, doctor(`{"sever":{}}`), 1, "FAIL", "config", `"server"`, "fixed first")
	if err := os.WriteFile(filepath.Join(dir, "taken"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, doctor(`{"dataDir":"taken"}`), 1, "FAIL  data folder", "is not a folder")
	want(t, doctor(`{"dataDir":"taken/below"}`), 1, "FAIL  data folder")
	want(t, doctor(`{"database":{"url":"postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=2"}}`), 1, "FAIL  database", "127.0.0.1:1 cannot be reached")
	if r := doctor(`{"database":{"url":"postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=2"}}`); strings.Contains(r.out+r.errout, "hunter2") {
		t.Error("the password was printed")
	}
	want(t, doctor(`{"projects":{"allowedRoots":["nowhere","/"]}}`), doctor(`{}`).code, "nowhere", "every folder")
	want(t, doctor(`{"sandboxing":{"bubblewrap":{"enabled":false},"docker":{"enabled":false},"local":{"enabled":false}}}`), 1, "FAIL  place", "no place to work", "sandboxing.local.enabled")
	want(t, doctor(`{"sandboxing":{"bubblewrap":{"enabled":false}}}`), doctor(`{}`).code, "bubblewrap: cannot be used: it is switched off", "sandboxing.bubblewrap.enabled",
		"local: no isolation", "new workspaces that name none live in local")
	want(t, doctor(`{"sandboxing":{"local":{"resourceLimits":{"maxCpu":4000}}}}`), 1, "resourceLimits.maxCpu is 4000 cores", `such as "80%"`)
	want(t, doctor(`{"sandboxing":{"defaultProvider":"runner"}}`), 1, "FAIL  place", "is no single place")
	want(t, doctor(`{"sandboxing":{"defaultProvider":"docker","docker":{"host":"unix:///nowhere/sock"}}}`), 1, "docker: cannot be used", "FAIL  place", "the default (sandboxing.defaultProvider: docker) cannot be used")
	want(t, doctor(`{"sandboxing":{"defaultProvider":"local","weakestBoundary":"process"}}`), 1, "FAIL  place", "weakestBoundary")
	want(t, doctor(`{"agents":{"mine":{"command":"no-such-program"}}}`), doctor(`{}`).code, "mine: not found", "agents.mine.command")

	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	want(t, doctor(`{"server":{"listen":"`+strings.TrimPrefix(other.URL, "http://")+`"}}`), 1, "FAIL  address", "server.listen")
	us := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write([]byte(`{"status":"ok","version":"1.2.3"}`)) }))
	defer us.Close()
	want(t, doctor(`{"server":{"listen":"`+strings.TrimPrefix(us.URL, "http://")+`"}}`), doctor(`{}`).code, "Parawork 1.2.3 is serving")

	if err := os.WriteFile(file, []byte(`{"sandboxing":{"e2b":{"apiKey":"hunter2"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	r := run(nil, "", "doctor", "--config", file, "--print-config")
	want(t, r, 0, `"apiKey": "[hidden]"`)
	if strings.Contains(r.out, "hunter2") {
		t.Error("the key was printed")
	}
}
