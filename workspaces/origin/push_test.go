package origin_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/git"
)

// pushHarness is a project cloned from a git host over https.
func pushHarness(t *testing.T) (*wstest.Env, *wstest.Forge, *wstest.Vault, workspaces.Project, string) {
	t.Helper()
	root := t.TempDir()
	f := wstest.NewForge(t, root, "person", "their-own-long-token")
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, func(c *assembly.Config) { c.Credentials, c.Env = keys, wstest.Trusting(t, f) })
	wstest.BareRepo(t, h, root, "a.git")
	bare := filepath.Join(root, "a.git")
	wstest.Git(t, bare, "config", "http.receivepack", "true")
	// The project is cloned with a credential of its own, which the host forgets afterwards: what is pushed later needs another.
	p, err := h.S.Projects.CreateProject(t.Context(), h.Actor, h.Team, workspaces.NewProject{Kind: "url", URL: "https://person:their-own-long-token@" + f.Host() + "/a.git"})
	wstest.Must(t, err)
	if p = h.Cloned(p.ID); p.State != workspaces.ProjectReady {
		t.Fatalf("clone: %s", p.StateReason)
	}
	return h, f, keys, p, bare
}

func TestPush(t *testing.T) {
	t.Parallel()
	h, f, keys, p, bare := pushHarness(t)
	keys.Put(p.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "the-project's-stale-token"})
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main", Name: "Push it"})
	wstest.Write(t, w.Path, "new.txt", "new\n")
	c := h.Commit(w, "Add new")

	_, err := h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{})
	wstest.WantCode(t, err, "push_failed")
	if !strings.Contains(err.Error(), "Replace its token") || strings.Contains(err.Error(), "stale-token") {
		t.Errorf("refused in these words: %v", err)
	}
	keys.Put(h.Actor.User.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
	r, err := h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{})
	wstest.Must(t, err)
	if !r.Created || r.Branch != w.Branch || r.Commit != c.Commit || wstest.Git(t, bare, "rev-parse", w.Branch) != c.Commit || strings.Contains(r.Remote, "token") {
		t.Fatalf("%+v", r)
	}
	if r, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{}); err != nil || !r.UpToDate {
		t.Errorf("again: %+v, %v", r, err)
	}
	st, _, err := h.S.Merging.Status(t.Context(), w.ID, false)
	if err != nil || st.Pushed == nil || st.Pushed.Commit != c.Commit || st.Pushed.Ahead != 0 || st.Ahead != 1 || st.Behind != 0 || !st.UpToDate {
		t.Errorf("standing %+v %+v, %v", st, st.Pushed, err)
	}

	// The branch is rewritten: a push replaces the remote's only on request, and only the commit that was seen.
	wstest.Git(t, w.Path, "commit", "-q", "--amend", "-m", "Add new, better said")
	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{})
	wstest.WantCode(t, err, "push_rejected")
	elsewhere := wstest.Git(t, bare, "commit-tree", "-p", c.Commit, "-m", "somebody else's", w.Branch+"^{tree}")
	wstest.Git(t, bare, "update-ref", "refs/heads/"+w.Branch, elsewhere)
	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Force: true})
	wstest.WantCode(t, err, "push_rejected")
	if wstest.Git(t, bare, "rev-parse", w.Branch) != elsewhere {
		t.Error("somebody else's commit was replaced")
	}
	wstest.Git(t, bare, "update-ref", "refs/heads/"+w.Branch, c.Commit)
	r, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Force: true})
	if err != nil || !r.Forced || wstest.Git(t, bare, "log", "-1", "--format=%s", w.Branch) != "Add new, better said" {
		t.Errorf("by force: %+v, %v", r, err)
	}

	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Branch: "main"})
	wstest.WantCode(t, err, "branch_protected")
	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Branch: "-x"})
	wstest.WantCode(t, err, "branch_invalid")

	// Who asks to fetch is not put off with what was fetched a moment ago.
	wstest.Git(t, bare, "update-ref", "refs/heads/main", wstest.Git(t, bare, "commit-tree", "-p", "main", "-m", "others", "main^{tree}"))
	if st, _, err = h.S.Merging.Status(t.Context(), w.ID, true); err == nil && st.Behind != 0 {
		t.Errorf("behind %d without the project's credential", st.Behind)
	}
	keys.Put(p.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
	for range 2 {
		if st, _, err = h.S.Merging.Status(t.Context(), w.ID, true); err != nil || st.Behind != 1 || st.UpToDate {
			t.Errorf("after others pushed: %+v, %v", st, err)
		}
	}

	// The local base is pushed to the remote's on request.
	keys.Put(p.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
	if m := h.Merge(w, "squash"); !m.Merged || wstest.Git(t, bare, "rev-parse", "main") == m.Commit {
		t.Fatalf("%+v", m)
	}
	if st, _, err = h.S.Merging.Status(t.Context(), w.ID, true); err != nil || st.BaseAhead != 1 || !st.Merged {
		t.Errorf("after the merge: %+v, %v", st, err)
	}
	if r, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Base: true}); err != nil || r.Branch != "main" || wstest.Git(t, bare, "rev-parse", "main") != r.Commit {
		t.Errorf("the base: %+v, %v", r, err)
	}
	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Base: true, Force: true})
	wstest.WantCode(t, err, "branch_protected")
}

func TestPushNeedsARemote(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	_, err := h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{})
	wstest.WantCode(t, err, "no_remote")
	// A folder's hooks would run as the server.
	other := h.Repo("other")
	wstest.Write(t, other, ".git/hooks/pre-receive", "#!/bin/sh\ntouch "+h.Data+"/ran\n")
	wstest.Git(t, other, "config", "receive.denyCurrentBranch", "ignore")
	wstest.Git(t, dir, "remote", "add", "origin", other)
	_, err = h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{})
	wstest.WantCode(t, err, "no_remote")
}

// A push that hangs is visible, others wait for their turn behind it, and anybody can cancel it.
func TestPushIsSeenAndCancelled(t *testing.T) {
	t.Parallel()
	h, f, keys, p, bare := pushHarness(t)
	keys.Put(h.Actor.User.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main", Name: "Push it"})
	wstest.Write(t, w.Path, "new.txt", "new\n")
	h.Commit(w, "Add new")
	held, free := make(chan struct{}), make(chan struct{})
	f.Does(func(_ http.ResponseWriter, r *http.Request) bool {
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
	go func() { _, err := h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{}); first <- err }()
	<-held
	go func() {
		_, err := h.S.Push(t.Context(), h.Actor, w.ID, workspaces.PushRequest{Branch: "second"})
		second <- err
	}()
	var all []git.Work
	wstest.WaitFor(t, "the second to wait", func() bool {
		var err error
		all, err = h.S.Repo.Works(t.Context(), p.ID)
		wstest.Must(t, err)
		return len(all) == 2
	})
	if all[0].Waiting || all[0].Kind != "push" || all[0].WorkspaceID != w.ID || all[0].ActorID != h.Actor.User.ID || !all[1].Waiting {
		t.Errorf("%+v", all)
	}
	wstest.Must(t, h.S.Repo.CancelWork(t.Context(), all[1].ID))
	wstest.WantCode(t, <-second, "cancelled")
	wstest.Must(t, h.S.Repo.CancelWork(t.Context(), all[0].ID))
	wstest.WantCode(t, <-first, "cancelled")
	close(free)
	if all, err := h.S.Repo.Works(t.Context(), p.ID); err != nil || len(all) != 0 {
		t.Errorf("left: %+v, %v", all, err)
	}
	if _, err := h.S.Repo.Work(t.Context(), all[0].ID); err == nil {
		t.Error("it is still known")
	}
	if out, err := wstest.TryGit(bare, "rev-parse", "--verify", "-q", "second"); err == nil {
		t.Errorf("second was pushed: %s", out)
	}
	if h.Bus.Count("git.updated") < 4 {
		t.Error("no event was published")
	}
}

func TestMergeOnlyWhatWasSeen(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := wstest.Parted(t, h, dir, p)
	dry, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "squash", DryRun: true})
	wstest.Must(t, err)
	seen := workspaces.MergeRequest{Strategy: "squash", ExpectedBase: dry.BaseCommit, ExpectedHead: dry.Head}
	wstest.Write(t, dir, "late.txt", "late\n")
	late := wstest.CommitAll(t, dir, "late")
	_, err = h.S.Merging.Merge(t.Context(), h.Actor, w.ID, seen)
	wstest.WantCode(t, err, "base_moved")
	seen.ExpectedBase = late
	wstest.Write(t, w.Path, "unseen.txt", "x\n")
	c := h.Commit(w, "Unseen")
	_, err = h.S.Merging.Merge(t.Context(), h.Actor, w.ID, seen)
	wstest.WantCode(t, err, "head_moved")
	if wstest.Git(t, dir, "rev-parse", "main") != late {
		t.Error("something was merged")
	}
	seen.ExpectedHead = c.Commit
	if r, err := h.S.Merging.Merge(t.Context(), h.Actor, w.ID, seen); err != nil || !r.Merged {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestLandMerged(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	w := wstest.Parted(t, h, dir, p)
	commit, base, conflicts, err := h.S.Merging.MergedTree(t.Context(), h.Actor, w.ID, "squash", "All of it")
	wstest.Must(t, err)
	if len(conflicts) != 0 || base != wstest.Git(t, dir, "rev-parse", "main") || wstest.Git(t, dir, "log", "-1", "--format=%s %an", commit) != "All of it "+h.Actor.User.Name {
		t.Fatalf("%s on %s, %v", commit, base, conflicts)
	}
	wstest.Write(t, dir, "late.txt", "late\n")
	late := wstest.CommitAll(t, dir, "late")
	_, err = h.S.Merging.LandMerged(t.Context(), h.Actor, w.ID, commit, base)
	wstest.WantCode(t, err, "base_moved")
	_, err = h.S.Merging.LandMerged(t.Context(), h.Actor, w.ID, late, late)
	wstest.WantCode(t, err, "merged_unknown")
	commit, base, _, err = h.S.Merging.MergedTree(t.Context(), h.Actor, w.ID, "rebase", "")
	wstest.Must(t, err)
	for range 2 { // asked again, as after a crash, it says the same
		r, err := h.S.Merging.LandMerged(t.Context(), h.Actor, w.ID, commit, base)
		wstest.Must(t, err)
		if !r.Merged || r.Strategy != "rebase" || r.Commits != 2 || r.Files != 2 || wstest.Git(t, dir, "rev-parse", "main") != commit {
			t.Errorf("%+v", r)
		}
	}
	now, err := h.S.Records.Workspace(t.Context(), w.ID)
	if err != nil || now.MergedCommit != commit || now.BaseCommit != wstest.Git(t, w.Path, "rev-parse", "HEAD") {
		t.Errorf("%+v, %v", now, err)
	}
	if _, _, _, err = h.S.Merging.MergedTree(t.Context(), h.Actor, w.ID, "squash", ""); err == nil {
		t.Error("there is nothing left to merge")
	}
}
