package lifecycle_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

func TestWorkspaceFromFolder(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		dir := h.Repo("app")
		wstest.Write(t, dir, ".env", "SECRET=1\n")
		wstest.Write(t, dir, "ignored/.env", "SECRET=2\n")
		wstest.Must(t, os.Chmod(filepath.Join(dir, ".env"), 0o600))
		p := h.PathProject(dir)
		if p.Name != "app" || p.DefaultBranch != "main" || p.State != workspaces.ProjectReady || p.GitDir != filepath.Join(dir, ".git") {
			t.Fatalf("project %+v", p)
		}
		script := "echo made > made.txt; test -n \"$PARAWORK_WORKSPACE\""
		p, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
		wstest.Must(t, err)
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "Fix the Login!"})
		if w.Key() != "PW-1" || w.Branch != "parawork/fix-the-login" || w.Base != "main" || w.Executor != "local" {
			t.Fatalf("workspace %+v", w)
		}
		if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != "?? made.txt" {
			t.Errorf("status %q", got)
		}
		if got := wstest.Git(t, w.Path, "symbolic-ref", "HEAD"); got != "refs/heads/"+w.Branch {
			t.Errorf("HEAD %q", got)
		}
		if wstest.Read(t, w.Path, ".env") != "SECRET=1\n" || wstest.Exists(w.Path, "ignored/.env") {
			t.Errorf("the .env at the top, and only that, should be copied (an ignored folder nobody named is not walked)")
		}
		if fi, err := os.Stat(filepath.Join(w.Path, ".env")); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("mode of the copy: %v %v", fi.Mode(), err)
		}
		for _, st := range w.Steps {
			if st.StartedAt == 0 || st.EndedAt < st.StartedAt || st.State != "done" && st.State != "skipped" {
				t.Errorf("step %+v", st)
			}
		}
		if s := wstest.StepOf(t, w, "setup"); s.SessionID == "" || s.State != "done" {
			t.Errorf("setup %+v", s)
		}
		second := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "fix the login"})
		if second.Key() != "PW-2" || second.Branch != "parawork/fix-the-login-2" {
			t.Errorf("second %s %s", second.Key(), second.Branch)
		}
		if name, err := h.S.Repo.SuggestBranch(t.Context(), p.ID, "Fix the login"); err != nil || name != "parawork/fix-the-login-3" {
			t.Errorf("suggestion %q %v", name, err)
		}
		list, _, err := h.S.Records.List(t.Context(), h.Team, workspaces.Filter{ProjectID: p.ID}, page.Page{})
		if err != nil || len(list) != 2 {
			t.Errorf("list %d %v", len(list), err)
		}
		acts, _, err := h.S.Records.Activity(t.Context(), w.ID, page.Page{})
		if err != nil || len(acts) != 1 || acts[0].Kind != "workspace.created" || acts[0].ActorID != h.Actor.User.ID {
			t.Errorf("activity %+v %v", acts, err)
		}
		if h.Bus.Count("workspace.updated") < 5 {
			t.Errorf("the steps were not published to the team")
		}
	})
}

func TestNamesOfWorkspacesAndBranches(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	wstest.Git(t, dir, "branch", "taken")
	wstest.Git(t, dir, "branch", "nest/ed")
	p := h.PathProject(dir)
	for name, branch := range map[string]string{
		"Ünïcode Straße": "parawork/unicode-straße", "修复登录": "parawork/修复登录", "  a   b  ": "parawork/a-b", "../../etc": "parawork/etc",
		"--force": "parawork/force", "🙂": "parawork/work", "x.lock": "parawork/x-lock", "-": "parawork/work-2", strings.Repeat("long ", 40): "parawork/" + strings.Repeat("long-", 9) + "long",
	} {
		w := h.Create(workspaces.NewWorkspace{ProjectID: p.ID, Name: name})
		if w.Branch != branch && !(strings.HasPrefix(branch, "parawork/work") && strings.HasPrefix(w.Branch, "parawork/work")) {
			t.Errorf("branch of %q is %q, want %q", name, w.Branch, branch)
		}
		if w = h.Settled(w.ID); w.State != workspaces.Ready {
			t.Errorf("%q: %s", name, w.StateReason)
		}
	}
	for branch, code := range map[string]string{
		"a..b": "branch_invalid", "-x": "branch_invalid", "--force": "branch_invalid", "a b": "branch_invalid", "a\nb": "branch_invalid", "HEAD": "branch_invalid",
		"x.lock": "branch_invalid", "/a": "branch_invalid", "a/": "branch_invalid", "@{-1}": "branch_invalid", "a~1": "branch_invalid", "refs/../x": "branch_invalid",
		"\x1b[31m": "branch_invalid", strings.Repeat("x", 300): "branch_invalid",
		"taken": "branch_exists", "main": "branch_checked_out", "nest": "branch_blocked", "taken/below": "branch_blocked",
	} {
		_, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "x", Branch: branch})
		wstest.WantCode(t, err, code)
		if err != nil && strings.Contains(fmt.Sprintf("%+v", err), p.Source) {
			t.Errorf("the error tells where the server has it: %v", err)
		}
	}
	all, err := h.S.Ingest.Branches(t.Context(), p.ID, false)
	wstest.Must(t, err)
	for _, b := range all.Items {
		if strings.Contains(b.CheckedOut, "/") || b.Name == "main" && b.CheckedOut != workspaces.CheckedOutElsewhere {
			t.Errorf("%s is said to be checked out in %q", b.Name, b.CheckedOut)
		}
	}
	for name, code := range map[string]string{"": "name_missing", "  ": "name_missing", "a\x00b": "name_invalid", "a\nb": "name_invalid", "\xff": "name_invalid",
		"\u202egpj": "name_invalid", strings.Repeat("x", 201): "name_too_long"} {
		_, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: name})
		wstest.WantCode(t, err, code)
	}
	for base, code := range map[string]string{"-x": "branch_invalid", "a..b": "branch_invalid", "refs/parawork/x": "base_invalid", "HEAD~1": "branch_invalid"} {
		_, err := h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "x", Base: base})
		wstest.WantCode(t, err, code)
	}
	w := h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID, Name: "no base", Base: "nowhere"}).ID)
	if w.State != workspaces.Failed || !strings.Contains(w.StateReason, `no branch "nowhere"`) || wstest.StepOf(t, w, "fetch").State != "failed" || wstest.StepOf(t, w, "setup").State != "skipped" {
		t.Errorf("%s %s %+v", w.State, w.StateReason, w.Steps)
	}
	_, err = h.S.Lifecycle.Create(t.Context(), h.Actor, "team_other", workspaces.NewWorkspace{ProjectID: p.ID, Name: "x"})
	wstest.WantCode(t, err, "not_found")
}

func TestFailedCreationLeavesNothing(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	p := h.PathProject(h.Repo("app"))
	script := "echo hi > x; git commit -q --allow-empty -m mine 2>/dev/null; exit 7"
	_, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
	wstest.Must(t, err)
	w := h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID}).ID)
	if w.State != workspaces.Failed || !strings.Contains(w.StateReason, "exit code 7") {
		t.Fatalf("%s %q", w.State, w.StateReason)
	}
	h.NothingLeft(p, w)
	if h.Ses.Stopped == 0 || h.Sandboxes.Destroyed.Load() == 0 {
		t.Errorf("sessions and sandbox were not ended")
	}
	boom := errors.New("no sandbox today")
	h.Sandboxes.Fail(boom)
	w2 := h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID, Name: "two"}).ID)
	if w2.State != workspaces.Failed || wstest.StepOf(t, w2, "sandbox").State != "failed" || wstest.StepOf(t, w2, "worktree").State != "done" {
		t.Fatalf("%s %+v", w2.StateReason, w2.Steps)
	}
	h.NothingLeft(p, w2)
	h.Sandboxes.Fail(nil)
	none := ""
	_, err = h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{SetupScript: &none})
	wstest.Must(t, err)
	again, err := h.S.Lifecycle.RetryCreate(t.Context(), w2.ID)
	wstest.Must(t, err)
	if again.State != workspaces.Creating || again.StateReason != "" {
		t.Errorf("retry: %+v", again)
	}
	if w2 = h.Settled(w2.ID); w2.State != workspaces.Ready || w2.Key() != "PW-2" {
		t.Fatalf("retry: %s %s", w2.State, w2.StateReason)
	}
	_, err = h.S.Lifecycle.RetryCreate(t.Context(), w2.ID)
	wstest.WantCode(t, err, "not_failed")
	_, err = h.S.Lifecycle.Cancel(t.Context(), w2.ID)
	wstest.WantCode(t, err, "not_creating")
}

func TestCancelInEachStep(t *testing.T) {
	t.Parallel()
	for _, at := range []string{"sandbox", "setup"} {
		t.Run(at, func(t *testing.T) {
			t.Parallel()
			h := wstest.SQLiteEnv(t)
			p := h.PathProject(h.Repo("app"))
			if at == "sandbox" {
				h.Sandboxes.OnEnsure = func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
			} else {
				script := "exec sleep 600"
				_, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{SetupScript: &script})
				wstest.Must(t, err)
			}
			w := h.Create(workspaces.NewWorkspace{ProjectID: p.ID})
			wstest.WaitFor(t, at, func() bool {
				now, err := h.S.Records.Workspace(t.Context(), w.ID)
				wstest.Must(t, err)
				return wstest.StepOf(t, now, at).State == "running" && (at != "setup" || now.State == workspaces.SettingUp)
			})
			w, err := h.S.Lifecycle.Cancel(t.Context(), w.ID)
			wstest.Must(t, err)
			if w.State != workspaces.Failed || w.StateReason != "Cancelled." || wstest.StepOf(t, w, at).State != "cancelled" {
				t.Errorf("%s %q %+v", w.State, w.StateReason, w.Steps)
			}
			h.NothingLeft(p, w)
		})
	}
}

func TestCancelDuringFetchAndCheckout(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	// A git that never ends when it writes files stands for a checkout that takes long.
	h.Stop()
	h.Cfg.GitPath = wstest.Program(t, "#!/bin/sh\ncase \"$*\" in *--reset*-u*) exec sleep 600;; esac\nexec git \"$@\"\n")
	h.Start()
	w := h.Create(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.WaitFor(t, "worktree", func() bool { return wstest.Exists(h.Data, "worktrees/"+w.ID+"/fix-it/.git") })
	w, err := h.S.Lifecycle.Cancel(t.Context(), w.ID)
	wstest.Must(t, err)
	if w.State != workspaces.Failed || wstest.StepOf(t, w, "worktree").State != "cancelled" {
		t.Errorf("%s %+v", w.StateReason, w.Steps)
	}
	h.NothingLeft(p, w)

	// A remote that never answers.
	h.Cfg.GitPath = ""
	wstest.Git(t, dir, "remote", "add", "origin", "ssh://nobody.invalid/x")
	h.Stop()
	slow := filepath.Join(h.Data, "ssh-slow")
	wstest.Must(t, os.MkdirAll(slow, 0o755))
	wstest.Must(t, os.WriteFile(filepath.Join(slow, "ssh"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
	h.Cfg.Env = func(k string) string {
		if k == "PATH" {
			return slow + ":" + os.Getenv("PATH")
		}
		return ""
	}
	h.Start()
	w = h.Create(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.WaitFor(t, "fetch", func() bool {
		now, err := h.S.Records.Workspace(t.Context(), w.ID)
		wstest.Must(t, err)
		return wstest.StepOf(t, now, "fetch").State == "running"
	})
	w, err = h.S.Lifecycle.Cancel(t.Context(), w.ID)
	wstest.Must(t, err)
	if w.State != workspaces.Failed || wstest.StepOf(t, w, "fetch").State != "cancelled" {
		t.Errorf("%s %+v", w.StateReason, w.Steps)
	}
	h.NothingLeft(p, w)
}

func TestShutdownAndCrashCleanUp(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	p := h.PathProject(h.Repo("app"))
	reached := make(chan struct{}, 1)
	h.Sandboxes.OnEnsure = func(ctx context.Context) error { reached <- struct{}{}; <-ctx.Done(); return context.Cause(ctx) }
	w := h.Create(workspaces.NewWorkspace{ProjectID: p.ID})
	<-reached
	h.Stop()
	got, err := h.Store.Workspace(t.Context(), w.ID)
	wstest.Must(t, err)
	if got.State != workspaces.Failed || !strings.Contains(got.StateReason, "server was stopped") {
		t.Fatalf("%s %s", got.State, got.StateReason)
	}
	h.NothingLeft(p, got)

	// A crash: the row says creating, branch, mark and worktree exist.
	h.Sandboxes.OnEnsure = nil
	h.Start()
	w = h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "crashed"})
	h.Stop()
	wstest.Git(t, p.GitDir, "update-ref", "refs/parawork/creating/"+w.ID, w.BaseCommit)
	_, err = h.Store.EditWorkspace(t.Context(), w.ID, func(w *workspaces.Workspace) error {
		w.State, w.Steps[3].State, w.Steps[4].State = workspaces.Creating, "running", "pending"
		return nil
	})
	wstest.Must(t, err)
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Data, "worktrees", ".doomed-x"), 0o755))
	h.Start()
	if w, err = h.S.Records.Workspace(t.Context(), w.ID); err != nil || w.State != workspaces.Failed || wstest.StepOf(t, w, "sandbox").State != "cancelled" {
		t.Fatalf("%+v %v", w, err)
	}
	h.NothingLeft(p, w)
}

func TestCleanUpKeepsBranchesOfOthers(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	h.Stop() // the creation waits
	h.S = h.Build()
	h.S.Records.Connect(h.Sandboxes, h.Ses)
	w := h.Create(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Git(t, dir, "branch", w.Branch) // somebody is quicker
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = h.S.Run(ctx) }()
	h.Stop = func() { cancel(); <-done }
	if w = h.Settled(w.ID); w.State != workspaces.Failed || !strings.Contains(w.StateReason, "already exists") {
		t.Fatalf("%s %s", w.State, w.StateReason)
	}
	if wstest.Git(t, dir, "branch", "--list", w.Branch) == "" {
		t.Error("a branch of somebody else's was removed")
	}
}

func TestCopyIgnoredFollowsNoLinks(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	secret := filepath.Join(h.Data, "secret.key")
	wstest.Must(t, os.WriteFile(secret, []byte("key"), 0o600))
	wstest.Write(t, dir, ".gitignore", ".env*\ncerts/\nfifo.local\nlink.local\nlinked\nbig/\n")
	wstest.CommitAll(t, dir, "ignore")
	wstest.Write(t, dir, ".env.local", "x")
	wstest.Write(t, dir, "sub/.env", "sub")
	wstest.Write(t, dir, "certs/deep/a.pem", "pem")
	wstest.Write(t, dir, "certs/deep/readme", "no")
	wstest.Write(t, dir, "big/node_modules/x/.env", "no")
	wstest.Must(t, os.Symlink(secret, filepath.Join(dir, ".env")))
	wstest.Must(t, os.Symlink(filepath.Dir(secret), filepath.Join(dir, "linked")))
	wstest.Must(t, syscall.Mkfifo(filepath.Join(dir, "fifo.local"), 0o600))
	p := h.PathProject(dir)
	patterns := []string{".env", ".env.*", "certs/**/*.pem", "fifo.local", "linked/", "secret.key"}
	_, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{CopyIgnored: &patterns})
	wstest.Must(t, err)
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	for name, want := range map[string]bool{".env": false, ".env.local": true, "sub/.env": true, "certs/deep/a.pem": true, "certs/deep/readme": false,
		"fifo.local": false, "linked": false, "big": false} {
		if wstest.Exists(w.Path, name) != want {
			t.Errorf("%s: exists %v, want %v", name, !want, want)
		}
	}
	for _, bad := range []string{"", "/", "../x", "a/../../x", ".git/config", "*", "**", "a\x00", "[", "x\ny"} {
		list := []string{bad}
		_, err := h.S.Projects.UpdateProject(t.Context(), p.ID, workspaces.ProjectPatch{CopyIgnored: &list})
		wstest.WantCode(t, err, "pattern_invalid")
	}
}
