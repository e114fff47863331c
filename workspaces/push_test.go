package workspaces_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/workspaces"
)

// pushHouse is a project cloned from a git host over https.
func pushHouse(t *testing.T) (*house, *forge, *vault, workspaces.Project, string) {
	t.Helper()
	root := t.TempDir()
	f := newForge(t, root, "person", "their-own-long-token")
	keys := &vault{kept: map[string]secrets.Credential{}}
	h := sqliteHouse(t, func(c *workspaces.Config) { c.Credentials, c.Env = keys, trusting(t, f) })
	bareRepo(t, h, root, "a.git")
	bare := filepath.Join(root, "a.git")
	git(t, bare, "config", "http.receivepack", "true")
	// The project is cloned with a credential of its own, which the host forgets afterwards: what is pushed later needs another.
	p, err := h.s.CreateProject(t.Context(), h.actor, h.team, workspaces.NewProject{Kind: "url", URL: "https://person:their-own-long-token@" + f.host() + "/a.git"})
	must(t, err)
	if p = h.cloned(p.ID); p.State != workspaces.ProjectReady {
		t.Fatalf("clone: %s", p.StateReason)
	}
	return h, f, keys, p, bare
}

func TestPush(t *testing.T) {
	t.Parallel()
	h, f, keys, p, bare := pushHouse(t)
	keys.put(p.ID, secrets.Credential{Host: f.host(), Username: "person", Token: "the-project's-stale-token"})
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main", Name: "Push it"})
	write(t, w.Path, "new.txt", "new\n")
	c := h.commit(w, "Add new")

	_, err := h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{})
	wantCode(t, err, "push_failed")
	if !strings.Contains(err.Error(), "Replace its token") || strings.Contains(err.Error(), "stale-token") {
		t.Errorf("refused in these words: %v", err)
	}
	keys.put(h.actor.User.ID, secrets.Credential{Host: f.host(), Username: "person", Token: "their-own-long-token"})
	r, err := h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{})
	must(t, err)
	if !r.Created || r.Branch != w.Branch || r.Commit != c.Commit || git(t, bare, "rev-parse", w.Branch) != c.Commit || strings.Contains(r.Remote, "token") {
		t.Fatalf("%+v", r)
	}
	if r, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{}); err != nil || !r.UpToDate {
		t.Errorf("again: %+v, %v", r, err)
	}
	st, _, err := h.s.Standing(t.Context(), w.ID, false)
	if err != nil || st.Pushed == nil || st.Pushed.Commit != c.Commit || st.Pushed.Ahead != 0 || st.Ahead != 1 || st.Behind != 0 || !st.UpToDate {
		t.Errorf("standing %+v %+v, %v", st, st.Pushed, err)
	}

	// The branch is written anew: that replaces what is there only if it is asked for, and only what was seen.
	git(t, w.Path, "commit", "-q", "--amend", "-m", "Add new, better said")
	_, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{})
	wantCode(t, err, "push_rejected")
	elsewhere := git(t, bare, "commit-tree", "-p", c.Commit, "-m", "somebody else's", w.Branch+"^{tree}")
	git(t, bare, "update-ref", "refs/heads/"+w.Branch, elsewhere)
	_, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Force: true})
	wantCode(t, err, "push_rejected")
	if git(t, bare, "rev-parse", w.Branch) != elsewhere {
		t.Error("somebody else's commit was replaced")
	}
	git(t, bare, "update-ref", "refs/heads/"+w.Branch, c.Commit)
	r, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Force: true})
	if err != nil || !r.Forced || git(t, bare, "log", "-1", "--format=%s", w.Branch) != "Add new, better said" {
		t.Errorf("by force: %+v, %v", r, err)
	}

	_, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Branch: "main"})
	wantCode(t, err, "branch_protected")
	_, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Branch: "-x"})
	wantCode(t, err, "branch_invalid")

	// Who asks to fetch is not put off with what was fetched a moment ago.
	git(t, bare, "update-ref", "refs/heads/main", git(t, bare, "commit-tree", "-p", "main", "-m", "others", "main^{tree}"))
	if st, _, err = h.s.Standing(t.Context(), w.ID, true); err == nil && st.Behind != 0 {
		t.Errorf("behind %d without the project's credential", st.Behind)
	}
	keys.put(p.ID, secrets.Credential{Host: f.host(), Username: "person", Token: "their-own-long-token"})
	for range 2 {
		if st, _, err = h.s.Standing(t.Context(), w.ID, true); err != nil || st.Behind != 1 || st.UpToDate {
			t.Errorf("after others pushed: %+v, %v", st, err)
		}
	}

	// What was merged here goes to the remote's base when somebody says so.
	keys.put(p.ID, secrets.Credential{Host: f.host(), Username: "person", Token: "their-own-long-token"})
	if m := h.merge(w, "squash"); !m.Merged || git(t, bare, "rev-parse", "main") == m.Commit {
		t.Fatalf("%+v", m)
	}
	if st, _, err = h.s.Standing(t.Context(), w.ID, true); err != nil || st.BaseAhead != 1 || !st.Merged {
		t.Errorf("after the merge: %+v, %v", st, err)
	}
	if r, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Base: true}); err != nil || r.Branch != "main" || git(t, bare, "rev-parse", "main") != r.Commit {
		t.Errorf("the base: %+v, %v", r, err)
	}
	_, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Base: true, Force: true})
	wantCode(t, err, "branch_protected")
}

func TestPushNeedsARemote(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(dir).ID})
	_, err := h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{})
	wantCode(t, err, "no_remote")
	// A folder's hooks would run as the server.
	other := h.repo("other")
	write(t, other, ".git/hooks/pre-receive", "#!/bin/sh\ntouch "+h.data+"/ran\n")
	git(t, other, "config", "receive.denyCurrentBranch", "ignore")
	git(t, dir, "remote", "add", "origin", other)
	_, err = h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{})
	wantCode(t, err, "no_remote")
}

// A push that hangs is seen, others wait for their turn behind it, and somebody can end it.
func TestPushIsSeenAndCancelled(t *testing.T) {
	t.Parallel()
	h, f, keys, p, bare := pushHouse(t)
	keys.put(h.actor.User.ID, secrets.Credential{Host: f.host(), Username: "person", Token: "their-own-long-token"})
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main", Name: "Push it"})
	write(t, w.Path, "new.txt", "new\n")
	h.commit(w, "Add new")
	held, free := make(chan struct{}), make(chan struct{})
	f.does(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "git-receive-pack") && r.Method == http.MethodPost {
			close(held)
			select {
			case <-free:
			case <-r.Context().Done():
			}
		}
		return false
	})
	first, second := make(chan error, 1), make(chan error, 1)
	go func() { _, err := h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{}); first <- err }()
	<-held
	go func() {
		_, err := h.s.Push(t.Context(), h.actor, w.ID, workspaces.PushRequest{Branch: "second"})
		second <- err
	}()
	var all []workspaces.Work
	waitFor(t, "the second to wait", func() bool {
		var err error
		all, err = h.s.Works(t.Context(), p.ID)
		must(t, err)
		return len(all) == 2
	})
	if all[0].Waiting || all[0].Kind != "push" || all[0].WorkspaceID != w.ID || all[0].ActorID != h.actor.User.ID || !all[1].Waiting {
		t.Errorf("%+v", all)
	}
	must(t, h.s.CancelWork(t.Context(), all[1].ID))
	wantCode(t, <-second, "cancelled")
	must(t, h.s.CancelWork(t.Context(), all[0].ID))
	wantCode(t, <-first, "cancelled")
	close(free)
	if all, err := h.s.Works(t.Context(), p.ID); err != nil || len(all) != 0 {
		t.Errorf("left: %+v, %v", all, err)
	}
	if _, err := h.s.Work(t.Context(), all[0].ID); err == nil {
		t.Error("it is still known")
	}
	if out, err := tryGit(bare, "rev-parse", "--verify", "-q", "second"); err == nil {
		t.Errorf("second was pushed: %s", out)
	}
	if h.bus.count("git.updated") < 4 {
		t.Error("nobody was told")
	}
}

func TestMergeOnlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := parted(t, h, dir, p)
	dry, err := h.s.Merge(t.Context(), h.actor, w.ID, workspaces.MergeRequest{Strategy: "squash", DryRun: true})
	must(t, err)
	seen := workspaces.MergeRequest{Strategy: "squash", ExpectedBase: dry.BaseCommit, ExpectedHead: dry.Head}
	write(t, dir, "late.txt", "late\n")
	late := commitAll(t, dir, "late")
	_, err = h.s.Merge(t.Context(), h.actor, w.ID, seen)
	wantCode(t, err, "base_moved")
	seen.ExpectedBase = late
	write(t, w.Path, "unseen.txt", "x\n")
	c := h.commit(w, "Unseen")
	_, err = h.s.Merge(t.Context(), h.actor, w.ID, seen)
	wantCode(t, err, "head_moved")
	if git(t, dir, "rev-parse", "main") != late {
		t.Error("something was merged")
	}
	seen.ExpectedHead = c.Commit
	if r, err := h.s.Merge(t.Context(), h.actor, w.ID, seen); err != nil || !r.Merged {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLandMerged(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	dir := h.repo("app")
	p := h.pathProject(dir)
	w := parted(t, h, dir, p)
	commit, base, conflicts, err := h.s.MergedTree(t.Context(), h.actor, w.ID, "squash", "All of it")
	must(t, err)
	if len(conflicts) != 0 || base != git(t, dir, "rev-parse", "main") || git(t, dir, "log", "-1", "--format=%s %an", commit) != "All of it "+h.actor.User.Name {
		t.Fatalf("%s on %s, %v", commit, base, conflicts)
	}
	write(t, dir, "late.txt", "late\n")
	late := commitAll(t, dir, "late")
	_, err = h.s.LandMerged(t.Context(), h.actor, w.ID, commit, base)
	wantCode(t, err, "base_moved")
	_, err = h.s.LandMerged(t.Context(), h.actor, w.ID, late, late)
	wantCode(t, err, "merged_unknown")
	commit, base, _, err = h.s.MergedTree(t.Context(), h.actor, w.ID, "rebase", "")
	must(t, err)
	for range 2 { // asked again, as after a crash, it says the same
		r, err := h.s.LandMerged(t.Context(), h.actor, w.ID, commit, base)
		must(t, err)
		if !r.Merged || r.Strategy != "rebase" || r.Commits != 2 || r.Files != 2 || git(t, dir, "rev-parse", "main") != commit {
			t.Errorf("%+v", r)
		}
	}
	now, err := h.s.Workspace(t.Context(), w.ID)
	if err != nil || now.MergedCommit != commit || now.BaseCommit != git(t, w.Path, "rev-parse", "HEAD") {
		t.Errorf("%+v, %v", now, err)
	}
	if _, _, _, err = h.s.MergedTree(t.Context(), h.actor, w.ID, "squash", ""); err == nil {
		t.Error("there is nothing left to merge")
	}
}
