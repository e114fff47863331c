package workspaces_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

func TestFoldersThatAreNoProjects(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	outside := filepath.Join(filepath.Dir(h.roots), "outside")
	must(t, os.MkdirAll(outside, 0o755))
	git(t, outside, "init", "-q")
	write(t, outside, "x", "x")
	commitAll(t, outside, "x")

	good := h.repo("good")
	write(t, h.roots, "file", "x")
	must(t, os.MkdirAll(filepath.Join(h.roots, "plain"), 0o755))
	empty := filepath.Join(h.roots, "empty")
	must(t, os.MkdirAll(empty, 0o755))
	git(t, empty, "init", "-q")
	must(t, os.Symlink(outside, filepath.Join(h.roots, "link")))
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(h.roots, "up")))
	// A .git file that leads out, and one that leads nowhere.
	must(t, os.MkdirAll(filepath.Join(h.roots, "leads-out"), 0o755))
	write(t, h.roots, "leads-out/.git", "gitdir: "+outside+"/.git\n")
	write(t, h.roots, "leads-nowhere/.git", "gitdir: /nonexistent/x\n")
	write(t, h.roots, "broken/.git/HEAD", "rubbish")
	detachedOnly := filepath.Join(h.roots, "detached-only")
	git(t, h.roots, "clone", "-q", good, detachedOnly)
	git(t, detachedOnly, "checkout", "-q", "--detach")
	git(t, detachedOnly, "remote", "remove", "origin")
	git(t, detachedOnly, "branch", "-D", "main")

	for path, code := range map[string]string{
		"": "path_invalid", "relative": "path_invalid", "/": "path_not_allowed", "/etc": "path_not_allowed", outside: "path_not_allowed",
		h.roots + "/../outside": "path_not_allowed", h.roots + "/link": "path_not_allowed", h.roots + "/up/outside": "path_not_allowed",
		h.data: "path_not_allowed", h.roots + "/missing": "path_not_found", h.roots + "/a\x00b": "path_invalid", h.roots + "/file": "path_not_a_folder",
		h.roots + "/plain": "not_a_repository", empty: "repository_empty", good + "/dir": "not_repository_top", good + "/.git": "not_repository_top",
		h.roots + "/leads-out": "path_not_allowed", h.roots + "/leads-nowhere": "not_a_repository", h.roots + "/broken": "not_a_repository",
		detachedOnly: "no_branch", h.roots + "x": "path_not_allowed", h.roots + "/file/x": "path_not_found",
	} {
		_, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "path", Path: path})
		if err == nil {
			t.Errorf("%q was taken", path)
			continue
		}
		t.Run(strings.ReplaceAll(path, "/", "_"), func(t *testing.T) { wantCode(t, err, code) })
	}
	_, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "path", Path: good, DefaultBranch: "nope"})
	wantCode(t, err, "branch_missing")
	h.pathProject(good)
	_, err = h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "path", Path: good})
	wantCode(t, err, "project_exists")
	_, err = h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "ftp"})
	wantCode(t, err, "source_invalid")
}

func TestDataBelowAnAllowedRootStaysHidden(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t, func(c *workspaces.Config) { c.AllowedRoots = []string{filepath.Dir(c.DataDir)} })
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "sample"})
	must(t, err)
	_, err = h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "path", Path: p.Source})
	wantCode(t, err, "path_not_allowed")
	l, err := h.s.Browse(t.Context(), filepath.Dir(h.data))
	must(t, err)
	for _, e := range l.Entries {
		if e.Path == h.data {
			t.Error("Parawork's own data is shown")
		}
	}
	_, err = h.s.Browse(t.Context(), h.data)
	wantCode(t, err, "path_not_allowed")
}

func TestUnusualRepositoriesWork(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	src := h.repo("src")
	bare := filepath.Join(h.roots, "bare.git")
	git(t, h.roots, "clone", "-q", "--bare", src, bare)
	p := h.pathProject(bare)
	if p.Name != "bare" || p.GitDir != bare || p.DefaultBranch != "main" {
		t.Errorf("bare: %+v", p)
	}
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "new", "x")
	h.commit(w, "add new")
	if r := h.merge(w, "merge"); !r.Merged || git(t, bare, "rev-parse", "main") != r.Commit {
		t.Errorf("merge into a bare repository: %+v", r)
	}

	detached := filepath.Join(h.roots, "detached")
	git(t, h.roots, "clone", "-q", src, detached)
	git(t, detached, "checkout", "-q", "--detach")
	if p := h.pathProject(detached); p.DefaultBranch != "main" {
		t.Errorf("detached: %+v", p)
	}

	linked := filepath.Join(h.roots, "linked tree")
	git(t, src, "worktree", "add", "-q", "-b", "other", linked)
	if p := h.pathProject(linked); p.GitDir != filepath.Join(src, ".git") || p.Source != linked {
		t.Errorf("linked worktree: %+v", p)
	}

	sub := h.repo("sha256")
	must(t, os.RemoveAll(filepath.Join(sub, ".git")))
	git(t, sub, "init", "-q", "-b", "trunk", "--object-format=sha256")
	commitAll(t, sub, "x")
	p = h.pathProject(sub)
	w = h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "new", "x")
	h.commit(w, "add")
	if r := h.merge(w, "squash"); !r.Merged || len(r.Commit) != 64 || p.DefaultBranch != "trunk" {
		t.Errorf("sha256: %+v", r)
	}
}

func TestCloneFromURL(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		t.Parallel()
		src := h.repo("origin")
		git(t, src, "branch", "feature")
		git(t, src, "tag", "v1")
		p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "file://" + src})
		must(t, err)
		if p.State != workspaces.Cloning || p.Name != "origin" {
			t.Errorf("%+v", p)
		}
		p = h.cloned(p.ID)
		if p.State != workspaces.ProjectReady || p.DefaultBranch != "main" || p.FetchedAt == 0 || p.Progress != "" {
			t.Fatalf("%+v", p)
		}
		if got := git(t, p.GitDir, "config", "remote.origin.fetch"); got != "+refs/heads/*:refs/remotes/origin/*" {
			t.Errorf("refspec %q", got)
		}
		br, err := h.s.Branches(t.Context(), p.ID, false)
		must(t, err)
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
		write(t, src, "more", "x")
		tip := commitAll(t, src, "second")
		br, err = h.s.Branches(t.Context(), p.ID, true)
		must(t, err)
		if br.FetchError != "" || br.Items[0].Behind != 1 {
			t.Errorf("after the fetch: %+v", br)
		}
		w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
		if w.BaseCommit != tip || git(t, p.GitDir, "rev-parse", "main") != tip || !exists(w.Path, "more") {
			t.Errorf("the workspace begins at %s, want %s", w.BaseCommit, tip)
		}
		if w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "origin/feature"}); w.BaseCommit == tip {
			t.Error("feature is main")
		}
		// The remote is gone: said, never papered over.
		must(t, os.Rename(src, src+"-away"))
		br, err = h.s.Branches(t.Context(), p.ID, true)
		if err != nil || br.FetchError == "" || len(br.Items) == 0 || br.FetchedAt == 0 {
			t.Errorf("without its remote: %+v %v", br, err)
		}
		w = h.settled(h.create(workspaces.NewWorkspace{ProjectID: p.ID}).ID)
		if w.State != workspaces.Failed || stepOf(t, w, "fetch").State != "failed" {
			t.Errorf("a stale base was used in silence: %s", w.State)
		}
		if w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main"}); w.BaseCommit != tip {
			t.Errorf("an exact base: %+v", w)
		}
	})
}

func TestClonesThatFail(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Credentials = &vault{kept: map[string]secrets.Credential{}} })
	must(t, os.MkdirAll(filepath.Join(h.roots, "nothing"), 0o755))
	empty := filepath.Join(h.roots, "empty")
	must(t, os.MkdirAll(empty, 0o755))
	git(t, empty, "init", "-q")
	for url, want := range map[string]string{"file://" + h.roots + "/nothing": "does not appear to be a git repository", "file://" + empty: "repository is empty",
		"https://user:hunter2@127.0.0.1:1/x.git": "127.0.0.1", "ssh://git@127.0.0.1:1/x.git": "Connection refused"} {
		p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: url, Name: "x"})
		must(t, err)
		if strings.Contains(p.Source, "hunter2") || strings.Contains(p.Source, "user") {
			t.Errorf("credentials are stored: %s", p.Source)
		}
		p = h.cloned(p.ID)
		if p.State != workspaces.ProjectFailed || !strings.Contains(p.StateReason, want) || strings.Contains(p.StateReason, "hunter2") {
			t.Errorf("%s: %s %q", url, p.State, p.StateReason)
		}
		if exists(h.data, "projects/"+p.ID) {
			t.Errorf("%s: something was left behind", url)
		}
		_, err = h.s.Create(t.Context(), h.actor, h.team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "x"})
		wantCode(t, err, "project_failed")
		must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
	}
	for url, code := range map[string]string{"": "url_invalid", "ext::sh -c 'touch /tmp/x'": "url_invalid", "ext::sh": "url_invalid", "--upload-pack=touch x": "url_invalid",
		"-oProxyCommand=x": "url_invalid", "ssh://-oProxyCommand=x/y": "url_invalid", "ssh://-x@host/y": "url_invalid", "-x@host:y": "url_invalid", "host:-y": "url_invalid",
		"http://host/x": "protocol_not_allowed", "ftp://host/x": "protocol_not_allowed", "/etc": "url_invalid", "./x": "url_invalid", "https://": "url_invalid",
		"https://host": "url_invalid", "https://host/x?token=1": "url_invalid", "https://host/x y": "url_invalid", "https://host/x\n": "", "ssh://u:p@host/x": "url_invalid",
		"file:///etc": "path_not_allowed", "file://" + h.data: "path_not_allowed", "file://host/x": "url_invalid", "https://host/x\x01": "url_invalid", "git@host::x": "url_invalid"} {
		if code == "" {
			continue
		}
		_, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: url})
		wantCode(t, err, code)
	}
}

func TestCancelledCloneLeavesNothing(t *testing.T) {
	t.Parallel()
	slow := t.TempDir()
	must(t, os.WriteFile(filepath.Join(slow, "ssh"), []byte("#!/bin/sh\nexec sleep 600\n"), 0o755))
	h := sqliteHouse(t, func(c *workspaces.Config) {
		c.Env = func(k string) string {
			if k == "PATH" {
				return slow + ":" + os.Getenv("PATH")
			}
			return ""
		}
	})
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "git@host.invalid:x/y.git"})
	must(t, err)
	waitFor(t, "connecting", func() bool { p, err := h.s.Project(t.Context(), p.ID); return err == nil && p.Progress == "Connecting" })
	p, err = h.s.CancelClone(t.Context(), p.ID)
	must(t, err)
	if p.State != workspaces.ProjectFailed || p.StateReason != "Cancelled." || exists(h.data, "projects/"+p.ID) {
		t.Errorf("%+v", p)
	}
	// A clone cut by a crash.
	_, err = h.store.EditProject(t.Context(), p.ID, func(p *workspaces.Project) error { p.State = workspaces.Cloning; return nil })
	must(t, err)
	must(t, os.MkdirAll(p.GitDir, 0o755))
	h.stop()
	h.start()
	if p, err = h.s.Project(t.Context(), p.ID); err != nil || p.State != workspaces.ProjectFailed || exists(h.data, "projects/"+p.ID) {
		t.Errorf("%+v %v", p, err)
	}
	// Deleting a project while it is cloned.
	p, err = h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "git@host.invalid:x/y.git"})
	must(t, err)
	must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
	if exists(h.data, "projects/"+p.ID) {
		t.Error("something was left behind")
	}
	_, err = h.s.Project(t.Context(), p.ID)
	wantCode(t, err, "not_found")
}

func TestSample(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "sample"})
	must(t, err)
	if p.State != workspaces.ProjectReady || p.DefaultBranch != "main" || p.Name == "" {
		t.Fatalf("%+v", p)
	}
	if got := git(t, p.Source, "status", "--porcelain"); got != "" {
		t.Errorf("the sample is not clean: %q", got)
	}
	if n := git(t, p.Source, "rev-list", "--count", "main"); n != "3" {
		t.Errorf("%s commits", n)
	}
	git(t, p.Source, "fsck", "--strict")
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	if !exists(w.Path, ".env") || !exists(w.Path, "wordcount.py") {
		t.Error("files are missing")
	}
	write(t, w.Path, "wordcount.py", "print(1)\n")
	h.commit(w, "Change it")
	if r := h.merge(w, "squash"); !r.Merged || read(t, p.Source, "wordcount.py") != "print(1)\n" || git(t, p.Source, "status", "--porcelain") != "" {
		t.Errorf("%+v", r)
	}
	err = h.s.DeleteProject(t.Context(), h.actor, p.ID)
	wantCode(t, err, "project_has_workspaces")
	_, err = h.s.Delete(t.Context(), h.actor, w.ID)
	must(t, err)
	must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
	// The trash still holds its work: restoring brings the project back with it.
	w, err = h.s.Restore(t.Context(), h.actor, w.ID)
	must(t, err)
	if w.State != workspaces.Ready || read(t, w.Path, "wordcount.py") != "print(1)\n" {
		t.Errorf("%+v", w)
	}
	_, err = h.s.Project(t.Context(), p.ID)
	must(t, err)
}

func TestBrowseAndSearch(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	h.repo("work/alpha")
	h.repo("work/beta alpha")
	git(t, h.roots, "init", "-q", "--bare", filepath.Join(h.roots, "work/gamma.git"))
	must(t, os.MkdirAll(filepath.Join(h.roots, "work/.hidden/.git"), 0o755))
	must(t, os.MkdirAll(filepath.Join(h.roots, "node_modules/alpha/.git"), 0o755))
	must(t, os.MkdirAll(filepath.Join(h.roots, "work/bad\nname\x1b[31m"), 0o755))
	must(t, os.Symlink("/etc", filepath.Join(h.roots, "work/etc")))
	l, err := h.s.Browse(t.Context(), "")
	must(t, err)
	if len(l.Entries) != 1 || l.Entries[0].Path != h.roots || len(l.Roots) != 1 {
		t.Errorf("%+v", l)
	}
	l, err = h.s.Browse(t.Context(), h.roots+"/work")
	must(t, err)
	got := map[string]bool{}
	for _, e := range l.Entries {
		got[e.Name] = e.Git
	}
	if len(got) != 4 || !got["alpha"] || !got["beta alpha"] || !got["gamma.git"] || l.Parent != h.roots || len(l.Breadcrumbs) != 2 || l.Truncated {
		t.Errorf("%+v", l)
	}
	for _, bad := range []string{"/", "/etc", h.roots + "/work/etc", h.roots + "/.."} {
		_, err := h.s.Browse(t.Context(), bad)
		wantCode(t, err, "path_not_allowed")
	}
	// What is no folder is said, and never opened: opening a FIFO would wait for a writer.
	must(t, syscall.Mkfifo(filepath.Join(h.roots, "work/fifo"), 0o644))
	must(t, os.WriteFile(filepath.Join(h.roots, "work/file"), nil, 0o644))
	for _, bad := range []string{"fifo", "file"} {
		err := within(t, func() error { _, err := h.s.Browse(t.Context(), h.roots+"/work/"+bad); return err })
		wantCode(t, err, "path_not_a_folder")
	}
	found, err := h.s.SearchRepos(t.Context(), "ALPHA")
	must(t, err)
	if len(found) != 2 || found[0].Name != "alpha" || found[1].Name != "beta alpha" {
		t.Errorf("%+v", found)
	}
	if found, err = h.s.SearchRepos(t.Context(), "work gamma"); err != nil || len(found) != 1 {
		t.Errorf("%+v %v", found, err)
	}
	if found, err = h.s.SearchRepos(t.Context(), " "); err != nil || len(found) != 0 {
		t.Errorf("%+v %v", found, err)
	}
}

func TestProjectsArePagedAndPatched(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		t.Parallel()
		for _, n := range []string{"a", "b", "c"} {
			h.pathProject(h.repo(n))
		}
		var all []string
		pg := page.Page{Limit: 2}
		for {
			items, next, err := h.s.Projects(t.Context(), h.team, pg)
			must(t, err)
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
		items, _, err := h.s.Projects(t.Context(), h.team, page.Page{})
		must(t, err)
		name, branch, script := "New name", "nope", "echo"
		_, err = h.s.UpdateProject(t.Context(), items[0].ID, workspaces.ProjectPatch{DefaultBranch: &branch})
		wantCode(t, err, "branch_missing")
		p, err := h.s.UpdateProject(t.Context(), items[0].ID, workspaces.ProjectPatch{Name: &name, SetupScript: &script, CopyIgnored: &[]string{"x", "y/"}})
		must(t, err)
		if p.Name != name || p.SetupScript != script || len(p.CopyIgnored) != 2 || p.DefaultBranch != "main" {
			t.Errorf("%+v", p)
		}
		must(t, h.s.DeleteProject(t.Context(), h.actor, p.ID))
		if !exists(h.roots, "c/.git") {
			t.Error("a folder of the server's was removed")
		}
		_, err = h.s.Project(t.Context(), p.ID)
		wantCode(t, err, "not_found")
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
