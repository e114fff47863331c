package projects_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

func TestFoldersThatAreNoProjects(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	outside := filepath.Join(filepath.Dir(h.Roots), "outside")
	wstest.Must(t, os.MkdirAll(outside, 0o755))
	wstest.Git(t, outside, "init", "-q")
	wstest.Write(t, outside, "x", "x")
	wstest.CommitAll(t, outside, "x")

	good := h.Repo("good")
	wstest.Write(t, h.Roots, "file", "x")
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Roots, "plain"), 0o755))
	empty := filepath.Join(h.Roots, "empty")
	wstest.Must(t, os.MkdirAll(empty, 0o755))
	wstest.Git(t, empty, "init", "-q")
	wstest.Must(t, os.Symlink(outside, filepath.Join(h.Roots, "link")))
	wstest.Must(t, os.Symlink(filepath.Dir(outside), filepath.Join(h.Roots, "up")))
	// A .git file that leads out, and one that leads nowhere.
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Roots, "leads-out"), 0o755))
	wstest.Write(t, h.Roots, "leads-out/.git", "gitdir: "+outside+"/.git\n")
	wstest.Write(t, h.Roots, "leads-nowhere/.git", "gitdir: /nonexistent/x\n")
	wstest.Write(t, h.Roots, "broken/.git/HEAD", "rubbish")
	detachedOnly := filepath.Join(h.Roots, "detached-only")
	wstest.Git(t, h.Roots, "clone", "-q", good, detachedOnly)
	wstest.Git(t, detachedOnly, "checkout", "-q", "--detach")
	wstest.Git(t, detachedOnly, "remote", "remove", "origin")
	wstest.Git(t, detachedOnly, "branch", "-D", "main")

	for path, code := range map[string]string{
		"": "path_invalid", "relative": "path_invalid", "/": "path_not_allowed", "/etc": "path_not_allowed", outside: "path_not_allowed",
		h.Roots + "/../outside": "path_not_allowed", h.Roots + "/link": "path_not_allowed", h.Roots + "/up/outside": "path_not_allowed",
		h.Data: "path_not_allowed", h.Roots + "/missing": "path_not_found", h.Roots + "/a\x00b": "path_invalid", h.Roots + "/file": "path_not_a_folder",
		h.Roots + "/plain": "not_a_repository", empty: "repository_empty", good + "/dir": "not_repository_top", good + "/.git": "not_repository_top",
		h.Roots + "/leads-out": "path_not_allowed", h.Roots + "/leads-nowhere": "not_a_repository", h.Roots + "/broken": "not_a_repository",
		detachedOnly: "no_branch", h.Roots + "x": "path_not_allowed", h.Roots + "/file/x": "path_not_found",
	} {
		_, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "path", Path: path})
		if err == nil {
			t.Errorf("%q was taken", path)
			continue
		}
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) { wstest.WantCode(t, err, code) })
	}
	_, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "path", Path: good, DefaultBranch: "nope"})
	wstest.WantCode(t, err, "branch_missing")
	h.PathProject(good)
	_, err = h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "path", Path: good})
	wstest.WantCode(t, err, "project_exists")
	_, err = h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "ftp"})
	wstest.WantCode(t, err, "source_invalid")
}

func TestDataBelowAnAllowedRootStaysHidden(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.AllowedRoots = []string{filepath.Dir(c.DataDir)} })
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "sample"})
	wstest.Must(t, err)
	_, err = h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "path", Path: p.Source})
	wstest.WantCode(t, err, "path_not_allowed")
	l, err := h.S.Projects.Browse(t.Context(), filepath.Dir(h.Data))
	wstest.Must(t, err)
	for _, e := range l.Entries {
		if e.Path == h.Data {
			t.Error("Parawork's own data is shown")
		}
	}
	_, err = h.S.Projects.Browse(t.Context(), h.Data)
	wstest.WantCode(t, err, "path_not_allowed")
}

func TestUnusualRepositoriesWork(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	src := h.Repo("src")
	bare := filepath.Join(h.Roots, "bare.git")
	wstest.Git(t, h.Roots, "clone", "-q", "--bare", src, bare)
	p := h.PathProject(bare)
	if p.Name != "bare" || p.GitDir != bare || p.DefaultBranch != "main" {
		t.Errorf("bare: %+v", p)
	}
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "new", "x")
	h.Commit(w, "add new")
	if r := h.Merge(w, "merge"); !r.Merged || wstest.Git(t, bare, "rev-parse", "main") != r.Commit {
		t.Errorf("merge into a bare repository: %+v", r)
	}

	detached := filepath.Join(h.Roots, "detached")
	wstest.Git(t, h.Roots, "clone", "-q", src, detached)
	wstest.Git(t, detached, "checkout", "-q", "--detach")
	if p := h.PathProject(detached); p.DefaultBranch != "main" {
		t.Errorf("detached: %+v", p)
	}

	linked := filepath.Join(h.Roots, "linked tree")
	wstest.Git(t, src, "worktree", "add", "-q", "-b", "other", linked)
	if p := h.PathProject(linked); p.GitDir != filepath.Join(src, ".git") || p.Source != linked {
		t.Errorf("linked worktree: %+v", p)
	}

	sub := h.Repo("sha256")
	wstest.Must(t, os.RemoveAll(filepath.Join(sub, ".git")))
	wstest.Git(t, sub, "init", "-q", "-b", "trunk", "--object-format=sha256")
	wstest.CommitAll(t, sub, "x")
	p = h.PathProject(sub)
	w = h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "new", "x")
	h.Commit(w, "add")
	if r := h.Merge(w, "squash"); !r.Merged || len(r.Commit) != 64 || p.DefaultBranch != "trunk" {
		t.Errorf("sha256: %+v", r)
	}
}

func TestCloneFromURL(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		src := h.Repo("origin")
		wstest.Git(t, src, "branch", "feature")
		wstest.Git(t, src, "tag", "v1")
		p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "file://" + src})
		wstest.Must(t, err)
		if p.State != workspaces.Cloning || p.Name != "origin" {
			t.Errorf("%+v", p)
		}
		p = h.Cloned(p.ID)
		if p.State != workspaces.ProjectReady || p.DefaultBranch != "main" || p.FetchedAt == 0 || p.Progress != "" {
			t.Fatalf("%+v", p)
		}
		if got := wstest.Git(t, p.GitDir, "config", "remote.origin.fetch"); got != "+refs/heads/*:refs/remotes/origin/*" {
			t.Errorf("refspec %q", got)
		}
		br, err := h.S.Ingest.Branches(t.Context(), p.ID, false)
		wstest.Must(t, err)
		var names []string
		for _, b := range br.Items {
			names = append(names, b.Name)
		}
		if got := strings.Join(names, " "); !strings.HasPrefix(got, "main ") || !strings.Contains(got, "origin/feature") || strings.Contains(got, "HEAD") {
			t.Errorf("branches %q", got)
		}
		if b := br.Items[0]; !b.Default || b.Upstream != "origin/main" || b.Subject != "first" || b.CommitAt == 0 {
			t.Errorf("main: %+v", b)
		}
		// The remote moves on: a fetch brings it, and a workspace begins there.
		wstest.Write(t, src, "more", "x")
		tip := wstest.CommitAll(t, src, "second")
		br, err = h.S.Ingest.Branches(t.Context(), p.ID, true)
		wstest.Must(t, err)
		if br.FetchError != "" || br.Items[0].Behind != 1 {
			t.Errorf("after the fetch: %+v", br)
		}
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
		if w.BaseCommit != tip || wstest.Git(t, p.GitDir, "rev-parse", "main") != tip || !wstest.Exists(w.Path, "more") {
			t.Errorf("the workspace begins at %s, want %s", w.BaseCommit, tip)
		}
		if w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "origin/feature"}); w.BaseCommit == tip {
			t.Error("feature is main")
		}
		// The remote is gone: that is reported, never hidden.
		wstest.Must(t, os.Rename(src, src+"-away"))
		br, err = h.S.Ingest.Branches(t.Context(), p.ID, true)
		if err != nil || br.FetchError == "" || len(br.Items) == 0 || br.FetchedAt == 0 {
			t.Errorf("without its remote: %+v %v", br, err)
		}
		w = h.Settled(h.Create(workspaces.NewWorkspace{ProjectID: p.ID}).ID)
		if w.State != workspaces.Failed || wstest.StepOf(t, w, "fetch").State != "failed" {
			t.Errorf("a stale base was used in silence: %s", w.State)
		}
		if w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main"}); w.BaseCommit != tip {
			t.Errorf("an exact base: %+v", w)
		}
	})
}

func TestClonesThatFail(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Credentials = &wstest.Vault{Kept: map[string]secrets.Credential{}} })
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Roots, "nothing"), 0o755))
	empty := filepath.Join(h.Roots, "empty")
	wstest.Must(t, os.MkdirAll(empty, 0o755))
	wstest.Git(t, empty, "init", "-q")
	for url, want := range map[string]string{"file://" + h.Roots + "/nothing": "does not appear to be a git repository", "file://" + empty: "repository is empty",
		"https://user:hunter2@127.0.0.1:1/x.git": "127.0.0.1", "ssh://git@127.0.0.1:1/x.git": "Connection refused"} {
		p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: url, Name: "x"})
		wstest.Must(t, err)
		if strings.Contains(p.Source, "hunter2") || strings.Contains(p.Source, "user") {
			t.Errorf("credentials are stored: %s", p.Source)
		}
		p = h.Cloned(p.ID)
		if p.State != workspaces.ProjectFailed || !strings.Contains(p.StateReason, want) || strings.Contains(p.StateReason, "hunter2") {
			t.Errorf("%s: %s %q", url, p.State, p.StateReason)
		}
		if wstest.Exists(h.Data, "projects/"+p.ID) {
			t.Errorf("%s: something was left behind", url)
		}
		_, err = h.S.Lifecycle.Create(t.Context(), h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "x"})
		wstest.WantCode(t, err, "project_failed")
		wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
	}
	for url, code := range map[string]string{"": "url_invalid", "ext::sh -c 'touch /tmp/x'": "url_invalid", "ext::sh": "url_invalid", "--upload-pack=touch x": "url_invalid",
		"-oProxyCommand=x": "url_invalid", "ssh://-oProxyCommand=x/y": "url_invalid", "ssh://-x@host/y": "url_invalid", "-x@host:y": "url_invalid", "host:-y": "url_invalid",
		"http://host/x": "protocol_not_allowed", "ftp://host/x": "protocol_not_allowed", "/etc": "url_invalid", "./x": "url_invalid", "https://": "url_invalid",
		"https://host": "url_invalid", "https://host/x?token=1": "url_invalid", "https://host/x y": "url_invalid", "https://host/x\n": "", "ssh://u:p@host/x": "url_invalid",
		"file:///etc": "path_not_allowed", "file://" + h.Data: "path_not_allowed", "file://host/x": "url_invalid", "https://host/x\x01": "url_invalid", "git@host::x": "url_invalid"} {
		if code == "" {
			continue
		}
		_, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: url})
		wstest.WantCode(t, err, code)
	}
}

func TestCancelledCloneLeavesNothing(t *testing.T) {
	t.Parallel()
	slow := t.TempDir()
	wstest.Must(t, os.WriteFile(filepath.Join(slow, "ssh"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) {
		c.Env = func(k string) string {
			if k == "PATH" {
				return slow + ":" + os.Getenv("PATH")
			}
			return ""
		}
	})
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "git@host.invalid:x/y.git"})
	wstest.Must(t, err)
	wstest.WaitFor(t, "connecting", func() bool {
		p, err := h.S.Records.Project(t.Context(), p.ID)
		return err == nil && p.Progress == "Connecting"
	})
	p, err = h.S.Projects.CancelClone(t.Context(), p.ID)
	wstest.Must(t, err)
	if p.State != workspaces.ProjectFailed || p.StateReason != "Cancelled." || wstest.Exists(h.Data, "projects/"+p.ID) {
		t.Errorf("%+v", p)
	}
	// A clone cut by a crash.
	_, err = h.Store.EditProject(t.Context(), p.ID, func(p *workspaces.Project) error { p.State = workspaces.Cloning; return nil })
	wstest.Must(t, err)
	wstest.Must(t, os.MkdirAll(p.GitDir, 0o755))
	h.Stop()
	h.Start()
	if p, err = h.S.Records.Project(t.Context(), p.ID); err != nil || p.State != workspaces.ProjectFailed || wstest.Exists(h.Data, "projects/"+p.ID) {
		t.Errorf("%+v %v", p, err)
	}
	// Deleting a project while it is cloned.
	p, err = h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "git@host.invalid:x/y.git"})
	wstest.Must(t, err)
	wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
	if wstest.Exists(h.Data, "projects/"+p.ID) {
		t.Error("something was left behind")
	}
	_, err = h.S.Records.Project(t.Context(), p.ID)
	wstest.WantCode(t, err, "not_found")
}

func TestSample(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "sample"})
	wstest.Must(t, err)
	if p.State != workspaces.ProjectReady || p.DefaultBranch != "main" || p.Name == "" {
		t.Fatalf("%+v", p)
	}
	if got := wstest.Git(t, p.Source, "status", "--porcelain"); got != "" {
		t.Errorf("the sample is not clean: %q", got)
	}
	if n := wstest.Git(t, p.Source, "rev-list", "--count", "main"); n != "3" {
		t.Errorf("%s commits", n)
	}
	wstest.Git(t, p.Source, "fsck", "--strict")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	if !wstest.Exists(w.Path, ".env") || !wstest.Exists(w.Path, "wordcount.py") {
		t.Error("files are missing")
	}
	wstest.Write(t, w.Path, "wordcount.py", "print(1)\n")
	h.Commit(w, "Change it")
	if r := h.Merge(w, "squash"); !r.Merged || wstest.Read(t, p.Source, "wordcount.py") != "print(1)\n" || wstest.Git(t, p.Source, "status", "--porcelain") != "" {
		t.Errorf("%+v", r)
	}
	err = h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID)
	wstest.WantCode(t, err, "project_has_workspaces")
	_, err = h.S.Lifecycle.Delete(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
	// The trash still holds its work: restoring brings the project back with it.
	w, err = h.S.Lifecycle.Restore(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if w.State != workspaces.Ready || wstest.Read(t, w.Path, "wordcount.py") != "print(1)\n" {
		t.Errorf("%+v", w)
	}
	_, err = h.S.Records.Project(t.Context(), p.ID)
	wstest.Must(t, err)
}

func TestBrowseAndSearch(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	h.Repo("work/alpha")
	h.Repo("work/beta alpha")
	wstest.Git(t, h.Roots, "init", "-q", "--bare", filepath.Join(h.Roots, "work/gamma.git"))
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Roots, "work/.hidden/.git"), 0o755))
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Roots, "node_modules/alpha/.git"), 0o755))
	wstest.Must(t, os.MkdirAll(filepath.Join(h.Roots, "work/bad\nname\x1b[31m"), 0o755))
	wstest.Must(t, os.Symlink("/etc", filepath.Join(h.Roots, "work/etc")))
	l, err := h.S.Projects.Browse(t.Context(), "")
	wstest.Must(t, err)
	if len(l.Entries) != 1 || l.Entries[0].Path != h.Roots || len(l.Roots) != 1 {
		t.Errorf("%+v", l)
	}
	l, err = h.S.Projects.Browse(t.Context(), h.Roots+"/work")
	wstest.Must(t, err)
	got := map[string]bool{}
	for _, e := range l.Entries {
		got[e.Name] = e.Git
	}
	if len(got) != 4 || !got["alpha"] || !got["beta alpha"] || !got["gamma.git"] || l.Parent != h.Roots || len(l.Breadcrumbs) != 2 || l.Truncated {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"/", "/etc", h.Roots + "/work/etc", h.Roots + "/.."} {
		_, err := h.S.Projects.Browse(t.Context(), bad)
		wstest.WantCode(t, err, "path_not_allowed")
	}
	// A path that is not a folder is reported, and never opened: opening a FIFO would block until there is a writer.
	wstest.Must(t, syscall.Mkfifo(filepath.Join(h.Roots, "work/fifo"), 0o644))
	wstest.Must(t, os.WriteFile(filepath.Join(h.Roots, "work/file"), nil, 0o644))
	for _, bad := range []string{"fifo", "file"} {
		err := within(t, func() error { _, err := h.S.Projects.Browse(t.Context(), h.Roots+"/work/"+bad); return err })
		wstest.WantCode(t, err, "path_not_a_folder")
	}
	found, err := h.S.Projects.SearchRepos(t.Context(), "ALPHA")
	wstest.Must(t, err)
	if len(found) != 2 || found[0].Name != "alpha" || found[1].Name != "beta alpha" {
		t.Errorf("%+v", found)
	}
	if found, err = h.S.Projects.SearchRepos(t.Context(), "work gamma"); err != nil || len(found) != 1 {
		t.Errorf("%+v %v", found, err)
	}
	if found, err = h.S.Projects.SearchRepos(t.Context(), " "); err != nil || len(found) != 0 {
		t.Errorf("%+v %v", found, err)
	}
}

func TestProjectsArePagedAndPatched(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		t.Parallel()
		for _, n := range []string{"a", "b", "c"} {
			h.PathProject(h.Repo(n))
		}
		var all []string
		pg := page.Page{Limit: 2}
		for {
			items, next, err := h.S.Projects.Projects(t.Context(), h.Team, pg)
			wstest.Must(t, err)
			for _, p := range items {
				all = append(all, p.Name)
			}
			if pg.Cursor = next; next == "" {
				break
			}
		}
		if strings.Join(all, "") != "cba" {
			t.Errorf("pages %v", all)
		}
		items, _, err := h.S.Projects.Projects(t.Context(), h.Team, page.Page{})
		wstest.Must(t, err)
		name, branch, script := "New name", "nope", "echo"
		_, err = h.S.Projects.UpdateProject(t.Context(), items[0].ID, workspaces.ProjectPatch{DefaultBranch: &branch})
		wstest.WantCode(t, err, "branch_missing")
		p, err := h.S.Projects.UpdateProject(t.Context(), items[0].ID, workspaces.ProjectPatch{Name: &name, SetupScript: &script, CopyIgnored: &[]string{"x", "y/"}})
		wstest.Must(t, err)
		if p.Name != name || p.SetupScript != script || len(p.CopyIgnored) != 2 || p.DefaultBranch != "main" {
			t.Errorf("%+v", p)
		}
		wstest.Must(t, h.S.Projects.DeleteProject(t.Context(), h.Actor, p.ID))
		if !wstest.Exists(h.Roots, "c/.git") {
			t.Error("a folder of the server's was removed")
		}
		_, err = h.S.Records.Project(t.Context(), p.ID)
		wstest.WantCode(t, err, "not_found")
	})
}

// within fails the test when fn does not return.
func within(t *testing.T, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		t.Fatal("still waiting after a minute")
		return nil
	}
}
