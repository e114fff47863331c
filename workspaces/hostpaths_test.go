package workspaces_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/executors/fake"
	"github.com/parawork/parawork/internal/hostgit"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/redact"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/conflict"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/reclaim"
	"github.com/parawork/parawork/workspaces/secretfiles"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

// tries runs an operation next to attacks: none may run, and the operation must work.
func (tr *trap) tries(what string, fn func() error) {
	tr.t.Helper()
	err := fn()
	for _, name := range tr.sprung() {
		tr.t.Errorf("%s: this server ran the trick %s", what, name)
	}
	if err != nil {
		tr.t.Errorf("%s does not work beside it: %v", what, err)
	}
}

// meets is tries for operations that may be rejected.
func (tr *trap) meets(what string, fn func() error) {
	tr.t.Helper()
	tr.tries(what, func() error {
		if err := fn(); err != nil {
			tr.t.Logf("%s: %v", what, err)
		}
		return nil
	})
}

// partPaths is what this server does with git for reading and for parts of work.
func partPaths(t *testing.T, h *wstest.Env, tr *trap, p workspaces.Project, w, other workspaces.Workspace) {
	t.Helper()
	ctx := t.Context()
	tr.tries("the base's differences", func() error {
		_, err := h.S.Repo.BaseDiff(ctx, w.ID, w.BaseCommit, wstest.Git(t, p.GitDir, "rev-parse", "main"))
		return err
	})
	tr.tries("all files of the base", func() error { _, err := h.S.Repo.BaseFiles(ctx, w.ID, w.BaseCommit, nil); return err })
	tr.tries("files of a commit", func() error {
		files, err := h.S.Repo.CommitFiles(ctx, p.ID, w.BaseCommit, "")
		if err == nil {
			err = h.S.Repo.CommitBlobs(ctx, p.ID, files[:1], func(_ hostgit.TreeFile, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		}
		return err
	})
	var feet []overlap.Footprint
	tr.tries("footprints", func() error {
		for _, one := range []workspaces.Workspace{w, other} {
			f, err := h.S.Footprint(ctx, one, "", overlap.Footprint{})
			if err != nil {
				return err
			}
			feet = append(feet, f)
		}
		return nil
	})
	tr.tries("overlaps", func() error { _, err := h.S.Collide(ctx, p.ID, feet[0], feet[1:]); return err })
	tr.tries("hunks of a file", func() error {
		_, err := h.S.Stage.Hunks(ctx, h.Actor.User.ID, w.ID, "a.txt", "head", "now")
		return err
	})
	r, hunks := h.Hunks(w, "a.txt", "head")
	one := wstest.With(r, stage.Part{Path: "a.txt", Hunks: hunks})
	tr.meets("staging", func() error { return h.S.Stage.Stage(ctx, h.Actor, w.ID, one, false) })
	tr.meets("discarding", func() error { _, err := h.S.Stage.Discard(ctx, h.Actor, w.ID, one); return err })
	tr.meets("committing a part", func() error {
		_, err := h.S.Stage.Commit(ctx, h.Actor, w.ID, stage.CommitRequest{Message: "m", Paths: []string{"a.txt"}})
		return err
	})
	tr.meets("taking files", func() error {
		_, err := h.S.Stage.Take(ctx, h.Actor, w.ID, stage.TakeRequest{From: other.ID, Paths: []string{"other.txt"}})
		return err
	})
	tr.meets("a commit in a folder of its own", func() error { _, err := h.S.Ingest.CheckOut(ctx, w.ID, w.BaseCommit, w.Base); return err })
	tr.tries("what is before the first commit", func() error {
		root := wstest.Git(t, p.GitDir, "rev-list", "--max-parents=0", "main")
		_, err := h.S.Snapshots.Resolve(ctx, w, root+"^", h.Actor.User.ID)
		return err
	})
	tr.tries("a large file", func() error {
		if err := os.WriteFile(filepath.Join(w.Path, "large"), make([]byte, 6<<20), 0o644); err != nil {
			return err
		}
		return h.S.Snapshots.Polled(ctx, w.ID, "", []string{"large"}, false)
	})
	tr.tries("a snapshot that is pinned, restored and let go of", func() error {
		sn, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: "to restore"})
		if err != nil {
			return err
		}
		wstest.Write(t, w.Path, "a.txt", "one\nafter\n")
		if sn, err = h.S.Snapshots.PinSnapshot(ctx, sn, true); err != nil {
			return err
		}
		if _, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{Paths: []string{"a.txt"}, EvenWhileWorking: true}); err != nil {
			tr.t.Logf("restoring: %v", err)
		}
		if sn, err = h.S.Snapshots.PinSnapshot(ctx, sn, false); err != nil {
			return err
		}
		return h.S.Snapshots.DeleteSnapshot(ctx, sn)
	})
	tr.tries("ignored files that are kept", func() error {
		for _, patterns := range [][]string{{".env"}, {}} {
			if _, err := h.S.Projects.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{KeepIgnored: &patterns}); err != nil {
				return err
			}
			wstest.Write(t, w.Path, ".env", "kept\n")
			sn, err := h.S.Snapshots.Take(ctx, w.ID, snapshot.Request{Kind: snapshot.SnapManual})
			if err == nil && sn.IgnoredN != len(patterns) {
				err = fmt.Errorf("%d files are kept: %+v", sn.IgnoredN, sn.Missing)
			}
			if err != nil {
				return err
			}
		}
		return os.Remove(filepath.Join(w.Path, ".env"))
	})
	tr.tries("sizes", func() error {
		_, err := h.S.Snapshots.KeptBytes(ctx, w.ID)
		if err == nil {
			_, err = h.S.Reclaim.UseOfWorkspace(ctx, w.ID, p.GitDir)
		}
		if err == nil {
			_, err = h.S.Reclaim.UseOfRepository(ctx, p)
		}
		return err
	})
	tr.tries("what is ahead", func() error {
		_, err := h.S.Ahead(ctx, w.ID)
		if err == nil {
			_, err = h.S.From.Origin(ctx, p.ID)
		}
		return err
	})
	tr.tries("putting objects together", func() error {
		_, err := hostgit.New(hostgit.Config{Path: "git", Env: os.Getenv}).Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"maintenance", "run", "--task=loose-objects", "--quiet"}})
		return err
	})
}

// conflictPaths is what this server does with git where a workspace and its base changed the same lines.
func conflictPaths(t *testing.T, h *wstest.Env, tr *trap, w workspaces.Workspace) {
	t.Helper()
	ctx := t.Context()
	for _, strategy := range []string{"merge", "rebase"} {
		tr.tries("conflicts of a "+strategy, func() error {
			r, err := h.S.Merging.Update(ctx, h.Actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, DryRun: true})
			if err == nil && len(r.Conflicts) == 0 {
				err = fmt.Errorf("no conflict: %+v", r)
			}
			return err
		})
		tr.meets("resolving a "+strategy, func() error { _, err := h.S.Conflicts.BeginResolve(ctx, h.Actor, w.ID, strategy); return err })
	}
	var open conflict.OpenConflicts
	tr.meets("open conflicts", func() (err error) { open, err = h.S.Conflicts.OpenConflicts(ctx, w.ID, true); return err })
	for _, c := range open.Files {
		tr.meets("a side of a conflict", func() error { _, _, err := h.S.Conflicts.ConflictFile(ctx, w.ID, c.Path, "base"); return err })
		for _, one := range []conflict.Decision{{Take: c.Choices[0]}, {Undo: true}} {
			tr.meets("deciding a conflict", func() error {
				now, err := h.S.Conflicts.OpenConflicts(ctx, w.ID, true)
				for _, x := range now.Files {
					if one.Path, one.Version = x.Path, x.Version; err == nil && x.Path == c.Path {
						_, err = h.S.Conflicts.Decide(ctx, h.Actor, w.ID, conflict.Decisions{List: []conflict.Decision{one}})
					}
				}
				return err
			})
		}
	}
	tr.meets("finishing", func() error { _, _, err := h.S.Conflicts.FinishResolve(ctx, h.Actor, w.ID); return err })
}

// endPaths is what this server does with git once work is merged or deleted.
func endPaths(t *testing.T, h *wstest.Env, tr *trap, p workspaces.Project, merged, gone workspaces.Workspace) {
	t.Helper()
	ctx := t.Context()
	tr.tries("a report", func() error { _, _, err := h.S.Annotate(ctx, h.Actor, merged.ID, "# Report\n"); return err })
	tr.tries("a merge elsewhere", func() error {
		w, err := h.S.Records.Workspace(ctx, merged.ID)
		if err == nil {
			err = h.S.MergedThere(ctx, w.ID, origin.MergedThere{Base: "main", Head: wstest.Git(t, p.GitDir, "rev-parse", w.Branch), Commit: w.MergedCommit, Text: "merged"})
		}
		return err
	})
	tr.tries("emptying the trash", func() error { return h.S.Reclaim.Purge(ctx, reclaim.TrashWorkspace, gone.ID) })
	tr.tries("a secret's value in the base", func() error {
		const value = "a value that no file has"
		h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Values: redact.NewFinder(value)}})
		defer h.S.Records.Connect(h.Sandboxes, h.Ses)
		f, err := h.S.SecretFiles.SecretFiles(ctx, merged.ID)
		if err == nil && !secretfiles.Value(f, []byte("x "+value+" x")) {
			err = errors.New("it was taken for a value of the base's")
		}
		return err
	})
	tr.tries("bringing back what the database has lost", func() error {
		_, err := h.S.Lifecycle.Adopt(ctx, h.Actor, lifecycle.Leftover{ID: id.New("ws"), Path: merged.Path, Name: "lost", Branch: merged.Branch, Project: p, At: 1})
		return err
	})
}

// notePaths is what this server does with git when reports go to a remote that has others' notes.
func notePaths(t *testing.T, h *wstest.Env, tr *trap, merged workspaces.Workspace, bare string) {
	t.Helper()
	for _, text := range []string{"first", "second"} {
		tr.tries("reports on the remote", func() error {
			commit, _, err := h.S.Annotate(t.Context(), h.Actor, merged.ID, text)
			if err != nil {
				return err
			}
			r, err := h.S.Push(t.Context(), h.Actor, merged.ID, workspaces.PushRequest{Base: true})
			if err == nil && (r.Notes != 1 || r.NotesProblem != "") {
				err = fmt.Errorf("%d notes went along: %s", r.Notes, r.NotesProblem)
			}
			wstest.Git(t, bare, "-c", "user.name=o", "-c", "user.email=o@example.com", "notes", "--ref=parawork", "append", "-m", "others", commit)
			return err
		})
	}
	tr.sprung()
}

// clonedPaths is what this server does with git for a project it cloned, whose repository agents without isolation write into.
func clonedPaths(t *testing.T, h *wstest.Env, url string) {
	t.Helper()
	ctx := t.Context()
	p, err := h.S.Projects.CreateProject(ctx, h.Actor, h.Team, workspaces.NewProject{Kind: workspaces.SourceURL, URL: url, Name: "cloned"})
	wstest.Must(t, err)
	if p = h.Cloned(p.ID); p.State != workspaces.ProjectReady {
		t.Fatalf("%+v", p)
	}
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID})
	wstest.Write(t, w.Path, "cloned.txt", "work\n")
	h.Commit(w, "work")
	tr := newTrap(t)
	tr.plant(p.GitDir, w.Path)
	broken := errors.New("no sandbox")
	h.Sandboxes.Fail(broken)
	defer h.Sandboxes.Fail(nil)
	tr.tries("fetching into a clone", func() error {
		b, err := h.S.Ingest.Branches(ctx, p.ID, true)
		if err == nil && b.FetchError != "" {
			err = errors.New(b.FetchError)
		}
		return err
	})
	private := filepath.Join(h.Data, "boxes", w.ID, "git") // of a sandbox that shares them
	wstest.Must(t, os.MkdirAll(filepath.Dir(private), 0o755))
	wstest.Git(t, h.Data, "init", "-q", "--bare", private)
	wstest.Write(t, private, "objects/info/alternates", filepath.Join(p.GitDir, "objects")+"\n")
	wstest.Git(t, private, "update-index", "--add", "--cacheinfo", "100644,"+wstest.Git(t, p.GitDir, "rev-parse", "main:a.txt")+",a.txt")
	tr.sprung()
	tr.tries("making room where git would ask a program what is needed", func() error {
		_, err := h.S.Reclaim.Collect(ctx, p)
		wstest.WantCode(t, err, "collect_failed")
		return nil
	})
	config := wstest.Read(t, tr.dir, "included")
	wstest.Write(t, tr.dir, "included", strings.Replace(config, "recentObjectsHook", "recentObjectsNot", 1))
	tr.tries("making room", func() error { _, err := h.S.Reclaim.Collect(ctx, p); return err })
	tr.tries("deleting a clone's workspace", func() error { _, err := h.S.Lifecycle.Delete(ctx, h.Actor, w.ID); return err })
	wstest.Must(t, os.RemoveAll(filepath.Dir(private)))
	tr.tries("emptying a clone's trash", func() error { return h.S.Reclaim.Purge(ctx, reclaim.TrashWorkspace, w.ID) })
	tr.tries("deleting a clone", func() error { return h.S.Projects.DeleteProject(ctx, h.Actor, p.ID) })
	tr.tries("the trash of a clone", func() error {
		_, err := h.S.Reclaim.Trashed(ctx, h.Team)
		if err == nil {
			err = h.S.Reclaim.Purge(ctx, reclaim.TrashProject, p.ID)
		}
		return err
	})
}

// noTrickTravels transfers the work of a repository full of attacks to a sandbox with its own disk, and back.
func noTrickTravels(t *testing.T, calls *hostCalls) {
	h, a := wstest.RemoteEnvWith(t, func(c *assembly.Config) { calls.hear(c); c.DefaultExecutor = string(wstest.RemoteKind) }, fake.Knobs{OwnDisk: true, Kind: wstest.RemoteKind})
	dir := h.LongRepo("r")
	p := h.PathProject(dir)
	tr := newTrap(t)
	tr.plant(filepath.Join(dir, ".git"))
	ctx := context.Background()
	var w workspaces.Workspace
	tr.tries("transfer to a remote sandbox", func() error { w = h.Ready(workspaces.NewWorkspace{ProjectID: p.ID}); return nil })
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one; echo staged > staged; git add staged; echo more >> a.txt; git branch side; git switch -q side; echo 2 > two; git add two; git commit -qm two; git switch -q -; git stash -q -u; git stash pop -q --index")
	tr.sprung()
	h.Keeping(w, "ignored/")
	a.Sh(w, "mkdir -p ignored; echo kept > ignored/one")
	a.KeepsOnEnd()
	place, _ := a.Manager.Live(w.ID)
	for range 2 { // the second time it is all there
		tr.tries("keeping what is left behind", func() error { return h.S.Ingest.SaveRemnants(ctx, place) })
	}
	for range 2 {
		tr.tries("coming home", func() error { a.End(w); return nil })
		tr.tries("going out again", func() error { a.Sh(w, "true"); return nil })
	}
}

// noTrickBorrows has a project whose repository is a folder of somebody's machine, in which agents write, too.
func noTrickBorrows(t *testing.T, calls *hostCalls) {
	h, a, o := wstest.RunnerEnv(t, calls.hear)
	dir := o.FolderRepo(h, "app")
	tr := newTrap(t)
	tr.plant(filepath.Join(dir, ".git"))
	var p workspaces.Project
	tr.tries("a project of a machine's folder", func() error { p = h.MachineProject(dir); return nil })
	var w workspaces.Workspace
	tr.tries("a workspace that borrows from it", func() error { w = h.Ready(workspaces.NewWorkspace{ProjectID: p.ID}); return nil })
	a.Sh(w, "echo 1 > one; git add one; git commit -qm one")
	tr.sprung()
	tr.tries("fetching from it", func() error {
		b, err := h.S.Ingest.Branches(t.Context(), p.ID, true)
		if err == nil && b.FetchError != "" {
			err = errors.New(b.FetchError)
		}
		return err
	})
	tr.tries("delivering to it", func() error { _, err := h.S.Transfer.Deliver(t.Context(), h.Actor, w.ID); return err })
}
