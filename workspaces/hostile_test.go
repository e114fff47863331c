package workspaces_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// trap has a program for each attack, which leaves a mark with the attack's name.
type trap struct {
	t     *testing.T
	dir   string
	marks string
}

func newTrap(t *testing.T) *trap {
	t.Helper()
	d := t.TempDir()
	tr := &trap{t: t, dir: d, marks: filepath.Join(d, "marks")}
	wstest.Must(t, os.Mkdir(tr.marks, 0o755))
	return tr
}

// evil makes the program of an attack. It passes its input on, as filters must.
func (tr *trap) evil(name string) string {
	path := filepath.Join(tr.dir, name)
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	wstest.Must(tr.t, os.WriteFile(path, []byte("#!/bin/sh\ntouch "+filepath.Join(tr.marks, name)+"\ncat 2>/dev/null\nexit 0\n"), 0o755))
	return path
}

// sprung returns the attacks that ran, and resets them.
func (tr *trap) sprung() []string {
	left, err := os.ReadDir(tr.marks)
	wstest.Must(tr.t, err)
	var names []string
	for _, e := range left {
		names = append(names, e.Name())
		wstest.Must(tr.t, os.Remove(filepath.Join(tr.marks, e.Name())))
	}
	return names
}

// plant writes every attack that needs only a repository's own folder, or a file of a worktree, into a project whose agents are not
// isolated: its config and hooks are theirs to write. The repository still works for the server.
func (tr *trap) plant(dir string, worktrees ...string) {
	t := tr.t
	t.Helper()
	var config strings.Builder
	set := func(section, key, value string) { fmt.Fprintf(&config, "[%s]\n\t%s = \"%s\"\n", section, key, value) }
	set("core", "fsmonitor", tr.evil("fsmonitor"))
	set("core", "sshCommand", tr.evil("ssh-command"))
	set("core", "gitProxy", tr.evil("git-proxy"))
	set("core", "askPass", tr.evil("ask-pass"))
	set("core", "editor", tr.evil("editor"))
	set("core", "pager", tr.evil("pager"))
	set("core", "alternateRefsCommand", tr.evil("alternate-refs"))
	set("core", "attributesFile", filepath.Join(tr.dir, "attributes"))
	set("core", "hooksPath", filepath.Join(tr.dir, "hooks"))
	set("sequence", "editor", tr.evil("sequence-editor"))
	set("interactive", "diffFilter", tr.evil("diff-filter"))
	set("filter \"evil\"", "clean", tr.evil("clean"))
	set("filter \"evil\"", "smudge", tr.evil("smudge"))
	set("filter \"proc\"", "process", tr.evil("process"))
	set("filter \"a=b\"", "smudge", tr.evil("smudge-with-a-sign"))
	set("diff", "external", tr.evil("diff-external"))
	set("diff \"evil\"", "command", tr.evil("diff-command"))
	set("diff \"evil\"", "textconv", tr.evil("textconv"))
	set("merge \"evil\"", "driver", tr.evil("merge-driver")+" %O %A %B")
	set("merge", "tool", "evil")
	set("mergetool \"evil\"", "cmd", tr.evil("merge-tool"))
	set("gpg", "program", tr.evil("gpg"))
	set("commit", "gpgSign", "true")
	set("push", "gpgSign", "if-asked")
	set("merge", "verifySignatures", "true")
	set("log", "showSignature", "true")
	set("credential", "helper", "!"+tr.evil("credential-helper"))
	set("uploadpack", "packObjectsHook", tr.evil("pack-objects-hook"))
	set("gc", "recentObjectsHook", tr.evil("recent-objects"))
	set("tar \"evil\"", "command", tr.evil("tar"))
	set("trailer \"evil\"", "command", tr.evil("trailer"))
	set("alias", "status", "!"+tr.evil("alias"))
	set("alias", "merge-tree", "!"+tr.evil("alias"))
	set("hook \"evil\"", "command", tr.evil("hook-in-config"))
	for _, e := range []string{"reference-transaction", "post-checkout", "post-index-change", "pre-commit", "post-commit", "pre-push", "post-merge"} {
		set("hook \"evil\"", "event", e)
	}
	set("remote \"origin\"", "uploadpack", tr.evil("upload-pack"))
	set("remote \"origin\"", "receivepack", tr.evil("receive-pack"))
	set("remote \"origin\"", "vcs", "evil")
	set("submodule", "recurse", "true")
	set("submodule \"s\"", "update", "!"+tr.evil("submodule"))
	set("protocol \"ext\"", "allow", "always")
	included := filepath.Join(tr.dir, "included")
	wstest.Must(t, os.WriteFile(included, []byte(config.String()), 0o644))
	f, err := os.OpenFile(filepath.Join(dir, "config"), os.O_APPEND|os.O_WRONLY, 0)
	wstest.Must(t, err)
	_, err = fmt.Fprintf(f, "[include]\n\tpath = %s\n", included)
	wstest.Must(t, errors.Join(err, f.Close()))
	wstest.Must(t, os.WriteFile(filepath.Join(tr.dir, "attributes"), []byte("*.proc filter=proc\n* merge=evil\n"), 0o644))
	wstest.Must(t, os.MkdirAll(filepath.Join(dir, "info"), 0o755))
	wstest.Must(t, os.WriteFile(filepath.Join(dir, "info/attributes"), []byte("* merge=evil diff=evil filter=evil\nb.txt filter=a=b\n"), 0o644))
	hook := tr.evil("hook")
	for _, folder := range []string{filepath.Join(tr.dir, "hooks"), filepath.Join(dir, "hooks")} {
		wstest.Must(t, os.MkdirAll(folder, 0o755))
		for _, e := range []string{"pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "reference-transaction", "post-index-change", "post-checkout", "post-merge", "pre-merge-commit",
			"pre-push", "pre-rebase", "post-rewrite", "pre-auto-gc", "fsmonitor-watchman", "update", "pre-receive", "post-receive", "post-update", "proc-receive", "push-to-checkout"} {
			_ = os.Remove(filepath.Join(folder, e))
			wstest.Must(t, os.Symlink(hook, filepath.Join(folder, e)))
		}
	}
	for _, tree := range worktrees {
		wstest.Write(t, tree, ".gitattributes", "* merge=evil diff=evil filter=evil\n*.tar export-subst\n")
		wstest.Write(t, tree, "work.proc", "work\n")
		// A nested repository with its own attacks, which git looks into when it looks at the files around it.
		nested := filepath.Join(tree, "nested")
		wstest.Must(t, os.MkdirAll(nested, 0o755))
		wstest.Git(t, nested, "init", "-q")
		wstest.Git(t, nested, "commit", "-q", "--allow-empty", "-m", "nested")
		wstest.Write(t, nested, "x.txt", "x\n")
		wstest.Write(t, nested, ".gitattributes", "* filter=evil\n")
		wstest.Git(t, nested, "config", "core.fsmonitor", tr.evil("nested-fsmonitor"))
		wstest.Git(t, nested, "config", "filter.evil.clean", tr.evil("nested-clean"))
		wstest.Must(t, os.MkdirAll(filepath.Join(nested, ".git/hooks"), 0o755))
		wstest.Must(t, os.Symlink(tr.evil("nested-hook"), filepath.Join(nested, ".git/hooks/post-index-change")))
		wstest.Must(t, os.Symlink("/etc/passwd", filepath.Join(tree, "link")))
	}
	tr.sprung()
}

// sign gives the newest commit of a folder's branch what looks like a signature: whoever checks it has the repository's own program look.
func sign(t *testing.T, dir string) {
	t.Helper()
	raw := wstest.Git(t, dir, "cat-file", "commit", "HEAD")
	head, message, _ := strings.Cut(raw, "\n\n")
	file := filepath.Join(t.TempDir(), "commit")
	wstest.Must(t, os.WriteFile(file, []byte(head+"\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n iQ==\n -----END PGP SIGNATURE-----\n\n"+message+"\n"), 0o644))
	wstest.Git(t, dir, "reset", "-q", "--soft", wstest.Git(t, dir, "hash-object", "-t", "commit", "-w", file))
}

// hostPaths is everything this server does with git itself, without a sandbox to run it in.
func hostPaths(t *testing.T, h *wstest.Env, tr *trap, p workspaces.Project, w, other workspaces.Workspace) {
	t.Helper()
	ctx := context.Background()
	do := tr.tries
	read := func(r io.ReadCloser, err error) error {
		if err != nil {
			return err
		}
		_, err = io.Copy(io.Discard, r)
		return errors.Join(err, r.Close())
	}
	var snap snapshot.Snap
	do("a snapshot", func() (err error) {
		snap, err = h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: "before"})
		return err
	})
	do("a poll", func() error {
		return h.S.Snapshots.Polled(ctx, w.ID, "", []string{"a.txt", "work.proc", "nested/", "link"}, false)
	})
	do("comparing", func() error {
		from, err := h.S.Snapshots.Resolve(ctx, w, "base", h.Actor.User.ID)
		if err != nil {
			return err
		}
		to, err := h.S.Snapshots.Resolve(ctx, w, "now", h.Actor.User.ID)
		if err != nil {
			return err
		}
		if _, err := h.S.Repo.Compare(ctx, w.ID, from, to, git.CompareOptions{Renames: true}); err != nil {
			return err
		}
		if err := read(h.S.Snapshots.Patch(ctx, w.ID, from, to, nil, 3, true)); err != nil {
			return err
		}
		if _, _, err := h.S.Snapshots.SearchDiff(ctx, w.ID, from, to, "work", false); err != nil {
			return err
		}
		f, _, err := h.S.Snapshots.FileAt(ctx, w.ID, to, "a.txt")
		return read(f, err)
	})
	do("the branch's files", func() error {
		_, err := h.S.Snapshots.Resolve(ctx, w, "head", h.Actor.User.ID)
		return err
	})
	do("the timeline", func() error { _, _, err := h.S.Snapshots.Snapshots(ctx, w.ID, nil, page.Page{}); return err })
	do("one snapshot", func() error { _, err := h.S.Snapshots.Snap(ctx, w.ID, snap.ID); return err })
	do("commits", func() error { _, err := h.S.Ingest.Commits(ctx, w.ID); return err })
	do("the base", func() error { _, err := h.S.Repo.BaseCommit(ctx, w.ID); return err })
	do("files of the base", func() error {
		_, err := h.S.Repo.BaseFiles(ctx, w.ID, w.BaseCommit, []string{"a.txt", "link"})
		return err
	})
	do("files of a tree", func() error {
		tree, err := h.S.Repo.TreeOf(ctx, p, w.BaseCommit)
		if err == nil {
			_, err = h.S.Repo.TreeFiles(ctx, p, tree, []string{"a.txt", "link"})
		}
		return err
	})
	do("a difference read here", func() error {
		return h.S.Repo.HereDiff(ctx, w.ID, git.HereDiff{Base: w.BaseCommit, Path: "a.txt", Mode: "100644", Content: strings.NewReader("x\n"), Size: 2, Context: 3}, io.Discard)
	})
	do("texts of files", func() error {
		c := git.Contents{Repo: h.S.Repo}
		from, err := c.PutBlob(ctx, p, []byte("one\ntwo\n"))
		if err != nil {
			return err
		}
		to, err := c.PutBlob(ctx, p, []byte("one\n2\n"))
		if err == nil {
			_, err = c.BlobSize(ctx, p, to)
		}
		if err == nil {
			_, _, _, err = c.DiffBlobs(ctx, p, from, to, 1000)
		}
		if err == nil {
			_, err = c.MergeTexts(ctx, p, []byte("one\ntwo\n"), []byte("one\n"), []byte("zero\none\n"))
		}
		return err
	})
	do("standing", func() error { _, _, err := h.S.Merging.Status(ctx, w.ID, false); return err })
	for _, strategy := range []string{"merge", "squash", "rebase"} {
		do("a dry "+strategy, func() error {
			_, err := h.S.Merging.Merge(ctx, h.Actor, w.ID, workspaces.MergeRequest{Strategy: strategy, DryRun: true})
			return err
		})
	}
	for _, strategy := range []string{"merge", "rebase"} {
		do("a dry update by "+strategy, func() error {
			_, err := h.S.Merging.Update(ctx, h.Actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, DryRun: true})
			return err
		})
	}
	do("fetching", func() error {
		b, err := h.S.Ingest.Branches(ctx, p.ID, true)
		if err == nil && b.FetchError != "" {
			err = errors.New(b.FetchError)
		}
		return err
	})
	do("a merge", func() error {
		r, err := h.S.Merging.Merge(ctx, h.Actor, w.ID, workspaces.MergeRequest{Strategy: "squash"})
		if err == nil && !r.Merged {
			err = fmt.Errorf("%+v", r)
		}
		return err
	})
	do("a merged result that lands", func() error {
		commit, base, conflicts, err := h.S.Merging.MergedTree(ctx, h.Actor, other.ID, "merge", "")
		if err == nil && len(conflicts) > 0 {
			err = fmt.Errorf("%+v", conflicts)
		}
		if err == nil {
			_, err = h.S.Merging.LandMerged(ctx, h.Actor, other.ID, commit, base)
		}
		return err
	})
	tr.meets("a branch joined", func() error { // it ends in the sandbox, which is not there
		_, err := h.S.Merging.Join(ctx, h.Actor, w.ID, workspaces.JoinRequest{From: other.ID, Began: other.BaseCommit, BeganHead: w.BaseCommit})
		return err
	})
	do("a push", func() error {
		_, err := h.S.Push(ctx, h.Actor, w.ID, workspaces.PushRequest{})
		if err != nil && strings.Contains(err.Error(), "folder of this server") {
			err = nil
		}
		return err
	})
	do("a new workspace", func() error {
		n, err := h.S.Lifecycle.Create(ctx, h.Actor, h.Team, workspaces.NewWorkspace{ProjectID: p.ID, Name: "another"})
		if err == nil {
			h.Settled(n.ID)
		}
		return err
	})
	do("archiving", func() error { _, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID); return err })
	do("restoring", func() error { _, err := h.S.Lifecycle.Restore(ctx, h.Actor, w.ID); return err })
	do("deleting", func() error { _, err := h.S.Lifecycle.Delete(ctx, h.Actor, other.ID); return err })
}

// Whatever an agent without isolation writes into the repository's own folder and into its files, this server runs none of it. All attacks
// are there at once, and everything works nevertheless.
func noTrickRuns(t *testing.T, calls *hostCalls) {
	root := t.TempDir()
	f := wstest.NewForge(t, root, "person", "their-own-long-token")
	keys := &wstest.Vault{Kept: map[string]secrets.Credential{}}
	h := wstest.SQLiteEnv(t, calls.hear, func(c *assembly.Config) { c.Credentials, c.Env = keys, wstest.Trusting(t, f) })
	h.S.Stage.ConnectFiles(wstest.TreeFiles{Paths: h.Path, Before: nil})
	keys.Put(h.Actor.User.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
	for _, far := range []bool{true, false} { // its remote is elsewhere, or another folder
		dir := h.Repo(fmt.Sprint("app", far))
		bare := filepath.Join(root, fmt.Sprint(far, ".git"))
		wstest.Git(t, root, "clone", "-q", "--bare", dir, bare)
		wstest.Git(t, bare, "config", "http.receivepack", "true")
		wstest.Git(t, dir, "remote", "add", "origin", f.URL+"/true.git")
		if !far {
			local := filepath.Join(h.Roots, "remote.git")
			wstest.Must(t, os.Rename(bare, local))
			wstest.Git(t, dir, "remote", "set-url", "origin", local)
		}
		p := h.PathProject(dir)
		if far {
			wstest.Git(t, dir, "config", "core.repositoryformatversion", "1") // an extension: nothing is read without git's program
			wstest.Git(t, dir, "config", "extensions.noop", "true")
			keys.Put(p.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
		}
		w := wstest.Parted(t, h, dir, p)
		wstest.Write(t, dir, "a.txt", "zero\none\ntwo\nthree\n") // both sides changed it: it is merged by its contents
		wstest.CommitAll(t, dir, "above")
		other := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "other"})
		wstest.Write(t, other.Path, "other.txt", "other\n")
		h.Commit(other, "other")
		third := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: "third"})
		wstest.Write(t, third.Path, "a.txt", "third\none\ntwo\nthree\n")
		h.Commit(third, "third")
		wstest.Write(t, dir, "a.txt", "base\none\ntwo\nthree\n")
		wstest.CommitAll(t, dir, "above all")
		sign(t, w.Path)
		sign(t, other.Path)
		wstest.Write(t, w.Path, "a.txt", "one\nTWO\nthree\nfour\n") // not committed
		tr := newTrap(t)
		tr.plant(p.GitDir, w.Path, other.Path, third.Path)
		// The attacks are real: what people would run here runs them.
		for _, args := range [][]string{{"status"}, {"log", "-1", "--format=%T"}, {"update-ref", "refs/probe", "HEAD"}, {"diff", "--no-ext-diff"}, {"diff"}, {"add", "a.txt"}, {"checkout-index", "-f", "dir/b.txt"}, {"merge-tree", "--write-tree", "HEAD", "main"}} {
			out, _ := wstest.TryGit(w.Path, args...)
			if len(tr.sprung()) == 0 {
				t.Errorf("git %v ran none of the tricks: %s", args, out)
			}
		}
		broken := errors.New("no sandbox")
		h.Sandboxes.Fail(broken) // the host does everything itself
		if far {
			partPaths(t, h, tr, p, w, other)
			conflictPaths(t, h, tr, third)
		}
		hostPaths(t, h, tr, p, w, other)
		endPaths(t, h, tr, p, w, other)
		if far {
			notePaths(t, h, tr, w, bare)
		}
		h.Sandboxes.Fail(nil)
		if far {
			clonedPaths(t, h, "https://person:their-own-long-token@"+f.Host()+"/true.git")
		}
	}
}

// Attacks that fake the repository's content instead of running a program: the content they lead to is neither read nor trusted.
func noLieIsBelieved(t *testing.T, calls *hostCalls) {
	h := wstest.SQLiteEnv(t, calls.hear)
	secret := h.Repo("neighbour")
	wstest.Write(t, secret, "secret.txt", "the neighbour's secret\n")
	wstest.CommitAll(t, secret, "secret")
	for name, lie := range map[string]func(dir string, w workspaces.Workspace){
		"a replaced commit": func(dir string, w workspaces.Workspace) {
			fake := wstest.Git(t, dir, "commit-tree", "-m", "a lie", wstest.Git(t, dir, "rev-parse", "main^{tree}"))
			wstest.Git(t, dir, "replace", w.BaseCommit, fake)
		},
		"a grafted history": func(dir string, w workspaces.Workspace) { // as if there was nothing before the newest commit
			wstest.Write(t, dir, ".git/info/grafts", wstest.Git(t, dir, "rev-parse", w.Branch)+"\n")
		},
		"odd refs, a great many of them, and caches full of nonsense": func(dir string, _ workspaces.Workspace) {
			head := wstest.Git(t, dir, "rev-parse", "main")
			wstest.Git(t, dir, "repack", "-adq", "--write-midx")
			for _, name := range []string{"objects/info/commit-graph", "objects/pack/multi-pack-index"} {
				_ = os.Remove(filepath.Join(dir, ".git", name))
				wstest.Write(t, dir, ".git/"+name, "CGPH\x01\x01\x04\x00"+strings.Repeat("nonsense", 200))
			}
			var packed strings.Builder
			packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
			for i := range 20_000 {
				fmt.Fprintf(&packed, "%s refs/tags/%08d\n", head, i)
			}
			wstest.Write(t, dir, ".git/packed-refs", packed.String())
			for _, name := range []string{"refs/heads/--output=" + filepath.Join(h.Data, "fired"), "refs/heads/-x", "refs/tags/--exec", "refs/heads/HEAD"} {
				wstest.Write(t, filepath.Join(dir, ".git"), name, head+"\n")
			}
		},
		"config by the branch": func(dir string, w workspaces.Workspace) {
			tr := newTrap(t)
			wstest.Write(t, dir, ".git/by-branch", "[core]\n\tfsmonitor = "+tr.evil("../fired")+"\n[diff]\n\torderFile = /etc/passwd\n")
			wstest.Git(t, dir, "config", "includeIf.onbranch:**.path", filepath.Join(dir, ".git/by-branch"))
			wstest.Git(t, dir, "config", "extensions.worktreeConfig", "true")
			wstest.Git(t, w.Path, "config", "--worktree", "core.hooksPath", filepath.Dir(tr.dir))
		},
		"a worktree elsewhere": func(dir string, _ workspaces.Workspace) { wstest.Git(t, dir, "config", "core.worktree", "/etc") },
		"a promisor": func(dir string, _ workspaces.Workspace) {
			wstest.Git(t, dir, "config", "remote.evil.promisor", "true")
			wstest.Git(t, dir, "config", "remote.evil.url", "ext::touch "+filepath.Join(h.Data, "fired"))
			wstest.Git(t, dir, "config", "protocol.ext.allow", "always")
			wstest.Git(t, dir, "config", "core.repositoryFormatVersion", "1")
			wstest.Git(t, dir, "config", "extensions.partialClone", "evil")
			blob := wstest.Git(t, dir, "rev-parse", "main:base.txt") // git would ask it for missing objects
			wstest.Must(t, os.Remove(filepath.Join(dir, ".git/objects", blob[:2], blob[2:])))
		},
		"a .git that leads elsewhere": func(_ string, w workspaces.Workspace) {
			wstest.Must(t, os.WriteFile(filepath.Join(w.Path, ".git"), []byte("gitdir: "+secret+"/.git\n"), 0o644))
		},
		"FIFOs": func(_ string, w workspaces.Workspace) {
			wstest.Must(t, os.Remove(filepath.Join(w.Path, "a.txt")))
			wstest.Must(t, syscall.Mkfifo(filepath.Join(w.Path, "a.txt"), 0o644))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := h.Repo(strings.NewReplacer(" ", "-", ".", "", ",", "").Replace(name))
			w := wstest.Parted(t, h, dir, h.PathProject(dir))
			lie(dir, w)
			h.Sandboxes.Fail(errors.New("no sandbox"))
			defer h.Sandboxes.Fail(nil)
			ctx := t.Context()
			if commits, err := h.S.Ingest.Commits(ctx, w.ID); err == nil && len(commits) != 2 {
				t.Errorf("%d commits", len(commits))
			}
			if st, _, err := h.S.Merging.Status(ctx, w.ID, false); err == nil && (st.Ahead != 2 || st.Behind != 1) {
				t.Errorf("%+v", st)
			}
			snap, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Reason: "update"})
			if err == nil && strings.Contains(wstest.Git(t, dir, "-c", "core.worktree=", "ls-tree", "-r", "--name-only", snap.Tree), "passwd") {
				t.Error("it holds files from elsewhere")
			}
			if _, err := h.S.Merging.Update(ctx, h.Actor, w.ID, workspaces.UpdateRequest{Strategy: "merge", DryRun: true}); err != nil {
				t.Logf("refused: %v", err)
			}
			if _, err := h.S.Ingest.Branches(ctx, w.ProjectID, false); err != nil {
				t.Logf("refused: %v", err)
			}
			if wstest.Exists(h.Data, "fired") {
				t.Error("a program ran")
			}
		})
	}
}

// A config's options for merges into a branch do not apply when the server merges: the branch moves, or there is an error.
func TestMergeOptionsOfAConfigDoNotCount(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	p := h.PathProject(dir)
	for i, option := range []string{"--squash", "-s ours", "--no-commit --no-ff"} {
		w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Name: fmt.Sprint("work ", i)})
		wstest.Write(t, w.Path, "new.txt", option+"\n")
		h.Commit(w, option)
		wstest.Git(t, dir, "config", "branch.main.mergeOptions", option)
		if r := h.Merge(w, "merge"); !r.Merged || wstest.Git(t, dir, "rev-parse", "main") != r.Commit || wstest.Read(t, dir, "new.txt") != option+"\n" {
			t.Errorf("%s: main is at %s, %+v", option, wstest.Git(t, dir, "rev-parse", "main"), r)
		}
	}
}

// A file is read even if the worktree's index says that it need not be.
func TestIndexFlagsHideNothing(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	wstest.Git(t, w.Path, "update-index", "--assume-unchanged", "a.txt")
	wstest.Git(t, w.Path, "update-index", "--skip-worktree", "dir/b.txt")
	wstest.Write(t, w.Path, "a.txt", "assumed to be unchanged\n")
	wstest.Write(t, w.Path, "dir/b.txt", "skipped\n")
	h.Sandboxes.Fail(errors.New("no sandbox")) // the host looks itself
	defer h.Sandboxes.Fail(nil)
	sn := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	if a, b := h.FileOf(w, sn.ID, "a.txt"), h.FileOf(w, sn.ID, "dir/b.txt"); a != "assumed to be unchanged\n" || b != "skipped\n" {
		t.Errorf("kept are %q and %q", a, b)
	}
}

// A snapshot the host takes without a sandbox leaves out what only the repository's own info/exclude ignores, where secrets' files are named.
func TestSnapshotOnTheHostKnowsWhatIsExcluded(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	dir := h.Repo("app")
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(dir).ID})
	wstest.Write(t, dir, ".git/info/exclude", "token.txt\n")
	wstest.Write(t, w.Path, "token.txt", "secret\n")
	wstest.Write(t, w.Path, "work.txt", "work\n")
	h.Sandboxes.Fail(errors.New("no sandbox"))
	defer h.Sandboxes.Fail(nil)
	_, err := h.S.Lifecycle.Archive(t.Context(), h.Actor, w.ID)
	wstest.Must(t, err)
	if got := wstest.Git(t, dir, "ls-tree", "-r", "--name-only", "refs/parawork/trash/"+w.ID+"/tree"); strings.Contains(got, "token.txt") || !strings.Contains(got, "work.txt") {
		t.Errorf("it holds\n%s", got)
	}
}
