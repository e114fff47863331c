package sandboxgit_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// hiddenObjects is work of a project that one workspace's sandbox must not be able to read, by what it is.
type hiddenObjects map[string]string

// hideWork makes two workspaces with an uncommitted file, an ignored one, a discarded change, a stash and commits, takes snapshots of them,
// and deletes one. run runs a script where a workspace's agents work.
func hideWork(t *testing.T, h *wstest.Env, p workspaces.Project, run func(w workspaces.Workspace, script string) string) hiddenObjects {
	t.Helper()
	ctx := context.Background()
	all := []string{".env"}
	_, err := h.S.Projects.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{KeepIgnored: &all})
	wstest.Must(t, err)
	hidden := hiddenObjects{}
	for _, name := range []string{"mine", "gone"} {
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: name, Private: true})
		run(w, fmt.Sprintf(`echo ".env" > .gitignore; git add .gitignore; git commit -qm ignore; echo %[1]s-committed > committed; git add committed; git commit -qm committed
			echo %[1]s-stashed > a.txt; git stash -q; echo %[1]s-uncommitted > uncommitted; echo %[1]s-ignored > .env; echo %[1]s-discarded > a.txt`, name))
		_, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "discard"})
		wstest.Must(t, err)
		run(w, "git checkout a.txt")
		h.S.Ingest.HeadMoved(w.ID)
		for _, what := range []string{"committed", "stashed", "uncommitted", "ignored", "discarded"} {
			id := strings.Fields(run(w, "echo "+name+"-"+what+" | git hash-object --stdin"))[0]
			wstest.WaitFor(t, name+"'s "+what+" content to be in the repository", func() bool {
				_, err := wstest.TryGit(p.GitDir, "cat-file", "-e", id)
				return err == nil || h.Away != nil && what != "committed" // there they are synced with the files
			})
			hidden[name+"'s "+what+" content"] = id
		}
		head := strings.TrimSpace(run(w, "git rev-parse HEAD"))
		wstest.WaitFor(t, name+"'s branch to be in the repository", func() bool { // its objects come first
			have, err := wstest.TryGit(p.GitDir, "rev-parse", w.Branch)
			return err == nil && strings.TrimSpace(have) == head
		})
		hidden[name+"'s commit"] = head
		if name == "gone" {
			_, err := h.S.Lifecycle.Delete(ctx, h.Actor, w.ID)
			wstest.Must(t, err)
		}
	}
	return hidden
}

// unreadable asserts that nothing of what is hidden is in what a sandbox lists, nor found by its name.
func (hidden hiddenObjects) unreadable(t *testing.T, run func(script string) string) {
	t.Helper()
	all := run("git cat-file --batch-all-objects --batch-check")
	if !strings.Contains(all, " commit ") {
		t.Fatalf("the sandbox lists no objects: %s", all)
	}
	var ask []string
	for what, id := range hidden {
		if strings.Contains(all, id) {
			t.Errorf("the sandbox lists %s", what)
		}
		ask = append(ask, id)
	}
	found := run("printf '%s\\n' " + strings.Join(ask, " ") + " | git cat-file --batch-check")
	for what, id := range hidden {
		if !strings.Contains(found, id+" missing") {
			t.Errorf("the sandbox reads %s by its name", what)
		}
	}
}

// An isolated sandbox cannot read work of other workspaces that was not shared with the team, by any name.
func TestSandboxReadsNoForeignObjects(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	before := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "before"})
	b.Sh(before, "git log")
	hidden := hideWork(t, h, p, b.Sh)
	after := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "after"})
	for _, w := range []workspaces.Workspace{before, after} {
		t.Run(w.Name, func(t *testing.T) {
			hidden.unreadable(t, func(script string) string { return b.Sh(w, script) })
			if out := b.Sh(w, "git for-each-ref"); strings.Contains(out, "mine") || strings.Contains(out, "gone") {
				t.Errorf("a private branch is advertised to it:\n%s", out)
			}
		})
	}
}

// A sandbox with its own disk is sent none.
func TestRemoteSandboxGetsNoForeignObjects(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	p := h.PathProject(h.Repo("r"))
	before := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "before"})
	hidden := hideWork(t, h, p, a.Sh)
	after := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "after"})
	for _, w := range []workspaces.Workspace{before, after} {
		t.Run(w.Name, func(t *testing.T) {
			hidden.unreadable(t, func(script string) string { return a.Sh(w, script) })
		})
	}
}

// A sandbox that knows the id of somebody else's object does not get it by naming it in its own commit, nor by lying about what it packs:
// its own branch would make it readable.
func TestNamingAnObjectDoesNotGiveIt(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	var lie atomic.Pointer[[]byte] // the sandboxes answer it when they are asked to pack
	b.Answer = func(c executors.SandboxCommand) (executors.SandboxResult, bool) {
		pack := lie.Load()
		if pack == nil || !slices.Contains(c.Argv, "pack-objects") {
			return executors.SandboxResult{}, false
		}
		return executors.SandboxResult{Stdout: *pack}, true
	}
	p := h.PathProject(h.Repo("r"))
	hidden := hideWork(t, h, p, b.Sh)
	for _, what := range []string{"mine's uncommitted content", "gone's ignored content", "gone's commit", "mine's commit"} {
		t.Run(what, func(t *testing.T) {
			id := hidden[what]
			w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "thief of " + what})
			entry := "100644 blob " + id + "\tx"
			if strings.HasSuffix(what, "'s commit") {
				entry = "160000 commit " + strings.Repeat("3", len(id)) + "\tx"
			}
			parent := ""
			if strings.HasSuffix(what, "'s commit") {
				parent = " -p " + id
			}
			made := b.Sh(w, `t=$(printf '`+entry+`\n' | git mktree --missing); printf 'tree %s\nparent %s\n' $t $(git rev-parse HEAD) > ~/c
				[ -z "`+parent+`" ] || echo "parent `+id+`" >> ~/c
				printf 'author a <a@localhost> 1 +0000\ncommitter a <a@localhost> 1 +0000\n\nevil\n' >> ~/c
				c=$(git hash-object -t commit -w --literally ~/c); f=$(git rev-parse --absolute-git-dir)/refs/heads/$(git branch --show-current); mkdir -p $(dirname $f); echo $c > $f
				printf '%s\n%s\n' $c $t | git pack-objects --stdout -q | base64 -w0`)
			pack, err := base64.StdEncoding.DecodeString(made)
			wstest.Must(t, err)
			lie.Store(&pack)
			_, err = h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
			lie.Store(nil)
			wstest.WantCode(t, err, "commits_refused")
			if tip, base := wstest.Git(t, p.GitDir, "rev-parse", w.Branch), wstest.Git(t, p.GitDir, "rev-parse", "main"); tip != base {
				t.Errorf("the branch moved to %s", tip)
			}
			hidden.unreadable(t, func(script string) string { return b.Sh(w, script) })
		})
	}
}

// A branch that names a commit its own sandbox lacks is not fetched: a merge reports that, instead of that there was nothing
// to merge. The workspace's activity reports it too.
func TestABranchThatNamesAMissingCommitIsNotMerged(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	hidden := hideWork(t, h, p, b.Sh)
	id := hidden["gone's commit"]
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "thief"})
	b.Sh(w, `echo more > more; git add more; git commit -qm more; b=$(git branch --show-current); git checkout -q --detach
		echo `+id+` > $(git rev-parse --absolute-git-dir)/refs/heads/$b`)
	_, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"})
	wstest.WantCode(t, err, "commits_refused")
	if !strings.Contains(err.Error(), id) {
		t.Errorf("the refusal does not name what is missing: %v", err)
	}
	if tip := wstest.Git(t, p.GitDir, "rev-parse", w.Branch); tip == id {
		t.Errorf("the branch moved to %s", tip)
	}
	hidden.unreadable(t, func(script string) string { return b.Sh(w, script) })
	h.S.Ingest.HeadMoved(w.ID)
	wstest.WaitFor(t, "the refusal to be in the workspace's activity", func() bool {
		list, _, err := h.S.Records.Activity(context.Background(), w.ID, page.Page{Limit: 100})
		wstest.Must(t, err)
		return slices.ContainsFunc(list, func(a workspaces.Activity) bool { return a.Kind == "commits.refused" })
	})
	// Nor where the sandbox stands on that branch.
	b.Sh(w, "git symbolic-ref HEAD refs/heads/"+w.Branch)
	if res, err := h.S.Merging.Merge(context.Background(), h.Actor, w.ID, workspaces.MergeRequest{Strategy: "merge"}); err == nil {
		t.Errorf("it was answered %+v", res)
	}
}

// A sandbox's git folder of an earlier version, which used the repository's objects directly, finds all it needs in the store.
func TestAnOlderGitFolderFindsItsObjects(t *testing.T) {
	t.Parallel()
	h, b := wstest.IsolatedEnv(t)
	p := h.PathProject(h.Repo("r"))
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Private: true})
	b.Sh(w, "echo one > one; git add one; git commit -qm one; echo two > two; git add two; git stash -q; echo three > three; git add three")
	_, err := h.S.Snapshots.Take(context.Background(), w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	wstest.Must(t, err)
	want := b.Sh(w, "git log --format=%H; git stash list --format=%H; git ls-files -s; git diff --cached")
	wstest.Must(t, b.Destroy(context.Background(), w.ID))
	wstest.Must(t, os.RemoveAll(filepath.Join(h.Data, "boxes", w.ID, "store")))
	wstest.Must(t, os.RemoveAll(filepath.Join(h.Data, "shared")))
	h.Stop()
	h.Start()
	b.Sh(w, "git fsck --connectivity-only")
	if got := b.Sh(w, "git log --format=%H; git stash list --format=%H; git ls-files -s; git diff --cached"); got != want {
		t.Errorf("it has\n%s\nand had\n%s", got, want)
	}
	b.Sh(w, "echo four > four; git add four; git commit -qm four")
	if list, err := h.S.Ingest.Commits(context.Background(), w.ID); err != nil || len(list) != 2 {
		t.Errorf("%+v %v", list, err)
	}
}
