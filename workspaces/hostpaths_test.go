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
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/origin"
	"github.com/parawork/parawork/workspaces/overlap"
)

// tries makes what a room does be done beside tricks: none may run, and all goes on to work.
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

// meets is tries for what may be refused.
func (tr *trap) meets(what string, fn func() error) {
	tr.t.Helper()
	tr.tries(what, func() error {
		if err := fn(); err != nil {
			tr.t.Logf("%s: %v", what, err)
		}
		return nil
	})
}

// partPaths is what this server does with git of its own for reading and for parts of work.
func partPaths(t *testing.T, h *house, tr *trap, p workspaces.Project, w, other workspaces.Workspace) {
	t.Helper()
	ctx := t.Context()
	tr.tries("the base's differences", func() error {
		_, err := h.s.BaseDiff(ctx, w.ID, w.BaseCommit, git(t, p.GitDir, "rev-parse", "main"))
		return err
	})
	tr.tries("all files of the base", func() error { _, err := h.s.BaseFiles(ctx, w.ID, w.BaseCommit, nil); return err })
	tr.tries("files of a commit", func() error {
		files, err := h.s.CommitFiles(ctx, p.ID, w.BaseCommit, "")
		if err == nil {
			err = h.s.CommitBlobs(ctx, p.ID, files[:1], func(_ hostgit.TreeFile, r io.Reader) error { _, err := io.Copy(io.Discard, r); return err })
		}
		return err
	})
	var feet []overlap.Footprint
	tr.tries("footprints", func() error {
		for _, one := range []workspaces.Workspace{w, other} {
			f, err := h.s.Footprint(ctx, one, "", overlap.Footprint{})
			if err != nil {
				return err
			}
			feet = append(feet, f)
		}
		return nil
	})
	tr.tries("overlaps", func() error { _, err := h.s.Collide(ctx, p.ID, feet[0], feet[1:]); return err })
	tr.tries("hunks of a file", func() error {
		_, err := h.s.Hunks(ctx, h.actor.User.ID, w.ID, "a.txt", "head", "now")
		return err
	})
	r, hunks := h.hunks(w, "a.txt", "head")
	one := with(r, workspaces.Part{Path: "a.txt", Hunks: hunks})
	tr.meets("staging", func() error { return h.s.Stage(ctx, h.actor, w.ID, one, false) })
	tr.meets("discarding", func() error { _, err := h.s.Discard(ctx, h.actor, w.ID, one); return err })
	tr.meets("committing a part", func() error {
		_, err := h.s.Commit(ctx, h.actor, w.ID, workspaces.CommitRequest{Message: "m", Paths: []string{"a.txt"}})
		return err
	})
	tr.meets("taking files", func() error {
		_, err := h.s.Take(ctx, h.actor, w.ID, workspaces.TakeRequest{From: other.ID, Paths: []string{"other.txt"}})
		return err
	})
	tr.meets("a commit in a folder of its own", func() error { _, err := h.s.CheckOut(ctx, w.ID, w.BaseCommit, w.Base); return err })
	tr.tries("what is before the first commit", func() error {
		root := git(t, p.GitDir, "rev-list", "--max-parents=0", "main")
		_, err := h.s.Resolve(ctx, w, root+"^", h.actor.User.ID)
		return err
	})
	tr.tries("a large file", func() error {
		if err := os.WriteFile(filepath.Join(w.Path, "large"), make([]byte, 6<<20), 0o644); err != nil {
			return err
		}
		return h.s.Polled(ctx, w.ID, "", []string{"large"}, false)
	})
	tr.tries("a snapshot that is pinned, restored and let go of", func() error {
		sn, err := h.s.Keep(ctx, w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual, Title: "to restore"})
		if err != nil {
			return err
		}
		write(t, w.Path, "a.txt", "one\nafter\n")
		if sn, err = h.s.PinSnapshot(ctx, sn, true); err != nil {
			return err
		}
		if _, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{Paths: []string{"a.txt"}, EvenWhileWorking: true}); err != nil {
			tr.t.Logf("restoring: %v", err)
		}
		if sn, err = h.s.PinSnapshot(ctx, sn, false); err != nil {
			return err
		}
		return h.s.DeleteSnapshot(ctx, sn)
	})
	tr.tries("ignored files that are kept", func() error {
		for _, patterns := range [][]string{{".env"}, {}} {
			if _, err := h.s.UpdateProject(ctx, p.ID, workspaces.ProjectPatch{KeepIgnored: &patterns}); err != nil {
				return err
			}
			write(t, w.Path, ".env", "kept\n")
			sn, err := h.s.Keep(ctx, w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
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
		_, err := h.s.KeptBytes(ctx, w.ID)
		if err == nil {
			_, err = h.s.UseOfWorkspace(ctx, w.ID, p.GitDir)
		}
		if err == nil {
			_, err = h.s.UseOfRepository(ctx, p)
		}
		return err
	})
	tr.tries("what is ahead", func() error {
		_, err := h.s.Ahead(ctx, w.ID)
		if err == nil {
			_, err = h.s.Origin(ctx, p.ID)
		}
		return err
	})
	tr.tries("putting objects together", func() error {
		_, err := hostgit.New(hostgit.Config{Path: "git", Env: os.Getenv}).Run(ctx, hostgit.Call{GitDir: p.GitDir, Args: []string{"maintenance", "run", "--task=loose-objects", "--quiet"}})
		return err
	})
}

// conflictPaths is what this server does with git of its own where a workspace and its base changed the same lines.
func conflictPaths(t *testing.T, h *house, tr *trap, w workspaces.Workspace) {
	t.Helper()
	ctx := t.Context()
	for _, strategy := range []string{"merge", "rebase"} {
		tr.tries("conflicts of a "+strategy, func() error {
			r, err := h.s.Update(ctx, h.actor, w.ID, workspaces.UpdateRequest{Strategy: strategy, DryRun: true})
			if err == nil && len(r.Conflicts) == 0 {
				err = fmt.Errorf("no conflict: %+v", r)
			}
			return err
		})
		tr.meets("resolving a "+strategy, func() error { _, err := h.s.BeginResolve(ctx, h.actor, w.ID, strategy); return err })
	}
	var open workspaces.OpenConflicts
	tr.meets("open conflicts", func() (err error) { open, err = h.s.OpenConflicts(ctx, w.ID, true); return err })
	for _, c := range open.Files {
		tr.meets("a side of a conflict", func() error { _, _, err := h.s.ConflictFile(ctx, w.ID, c.Path, "base"); return err })
		for _, one := range []workspaces.Decision{{Take: c.Choices[0]}, {Undo: true}} {
			tr.meets("deciding a conflict", func() error {
				now, err := h.s.OpenConflicts(ctx, w.ID, true)
				for _, x := range now.Files {
					if one.Path, one.Version = x.Path, x.Version; err == nil && x.Path == c.Path {
						_, err = h.s.Decide(ctx, h.actor, w.ID, workspaces.Decisions{List: []workspaces.Decision{one}})
					}
				}
				return err
			})
		}
	}
	tr.meets("finishing", func() error { _, _, err := h.s.FinishResolve(ctx, h.actor, w.ID); return err })
}

// endPaths is what this server does with git of its own once work is merged or gone.
func endPaths(t *testing.T, h *house, tr *trap, p workspaces.Project, merged, gone workspaces.Workspace) {
	t.Helper()
	ctx := t.Context()
	tr.tries("a report", func() error { _, _, err := h.s.Annotate(ctx, h.actor, merged.ID, "# Report\n"); return err })
	tr.tries("a merge elsewhere", func() error {
		w, err := h.s.Workspace(ctx, merged.ID)
		if err == nil {
			err = h.s.MergedThere(ctx, w.ID, origin.MergedThere{Base: "main", Head: git(t, p.GitDir, "rev-parse", w.Branch), Commit: w.MergedCommit, Text: "merged"})
		}
		return err
	})
	tr.tries("emptying the trash", func() error { return h.s.Purge(ctx, workspaces.TrashWorkspace, gone.ID) })
	tr.tries("a secret's value in the base", func() error {
		const value = "a value that no file has"
		h.s.Connect(h.box, secretSessions{h.ses, workspaces.SecretFiles{Values: redact.NewFinder(value)}})
		defer h.s.Connect(h.box, h.ses)
		f, err := h.s.SecretFiles(ctx, merged.ID)
		if err == nil && !f.Value([]byte("x "+value+" x")) {
			err = errors.New("it was taken for a value of the base's")
		}
		return err
	})
	tr.tries("bringing back what the database has lost", func() error {
		_, err := h.s.Adopt(ctx, h.actor, workspaces.Leftover{ID: id.New("ws"), Path: merged.Path, Name: "lost", Branch: merged.Branch, Project: p, At: 1})
		return err
	})
}

// notePaths is what this server does with git of its own when reports go to a remote that has others' notes.
func notePaths(t *testing.T, h *house, tr *trap, merged workspaces.Workspace, bare string) {
	t.Helper()
	for _, text := range []string{"first", "second"} {
		tr.tries("reports on the remote", func() error {
			commit, _, err := h.s.Annotate(t.Context(), h.actor, merged.ID, text)
			if err != nil {
				return err
			}
			r, err := h.s.Push(t.Context(), h.actor, merged.ID, workspaces.PushRequest{Base: true})
			if err == nil && (r.Notes != 1 || r.NotesProblem != "") {
				err = fmt.Errorf("%d notes went along: %s", r.Notes, r.NotesProblem)
			}
			git(t, bare, "-c", "user.name=o", "-c", "user.email=o@example.com", "notes", "--ref=parawork", "append", "-m", "others", commit)
			return err
		})
	}
	tr.sprung()
}

// clonedPaths is what this server does with git of its own for a project it cloned, whose repository agents without walls write into.
func clonedPaths(t *testing.T, h *house, url string) {
	t.Helper()
	ctx := t.Context()
	p, err := h.s.CreateProject(ctx, h.actor, h.team, workspaces.NewProject{Kind: workspaces.SourceURL, URL: url, Name: "cloned"})
	must(t, err)
	if p = h.cloned(p.ID); p.State != workspaces.ProjectReady {
		t.Fatalf("%+v", p)
	}
	w := h.ready(workspaces.NewWorkspace{ProjectID: p.ID})
	write(t, w.Path, "cloned.txt", "work\n")
	h.commit(w, "work")
	tr := newTrap(t)
	tr.plant(p.GitDir, w.Path)
	broken := errors.New("no sandbox")
	h.box.fail(broken)
	defer h.box.fail(nil)
	tr.tries("fetching into a clone", func() error {
		b, err := h.s.Branches(ctx, p.ID, true)
		if err == nil && b.FetchError != "" {
			err = errors.New(b.FetchError)
		}
		return err
	})
	private := filepath.Join(h.data, "boxes", w.ID, "git") // of a sandbox that borrows
	must(t, os.MkdirAll(filepath.Dir(private), 0o755))
	git(t, h.data, "init", "-q", "--bare", private)
	write(t, private, "objects/info/alternates", filepath.Join(p.GitDir, "objects")+"\n")
	git(t, private, "update-index", "--add", "--cacheinfo", "100644,"+git(t, p.GitDir, "rev-parse", "main:a.txt")+",a.txt")
	tr.sprung()
	tr.tries("making room where git would ask a program what is needed", func() error {
		_, err := h.s.Collect(ctx, p)
		wantCode(t, err, "collect_failed")
		return nil
	})
	config := read(t, tr.dir, "included")
	write(t, tr.dir, "included", strings.Replace(config, "recentObjectsHook", "recentObjectsNot", 1))
	tr.tries("making room", func() error { _, err := h.s.Collect(ctx, p); return err })
	tr.tries("deleting a clone's workspace", func() error { _, err := h.s.Delete(ctx, h.actor, w.ID); return err })
	must(t, os.RemoveAll(filepath.Dir(private)))
	tr.tries("emptying a clone's trash", func() error { return h.s.Purge(ctx, workspaces.TrashWorkspace, w.ID) })
	tr.tries("deleting a clone", func() error { return h.s.DeleteProject(ctx, h.actor, p.ID) })
	tr.tries("the trash of a clone", func() error {
		_, err := h.s.Trashed(ctx, h.team)
		if err == nil {
			err = h.s.Purge(ctx, workspaces.TrashProject, p.ID)
		}
		return err
	})
}

// noTrickTravels has the work of a repository full of tricks go to a place with a disk of its own, and come back.
func noTrickTravels(t *testing.T, calls *hostCalls) {
	h, a := farHouseWith(t, func(c *workspaces.Config) { calls.hear(c); c.DefaultExecutor = string(farKind) }, fake.Knobs{OwnDisk: true, Kind: farKind})
	dir := h.longRepo("r")
	p := h.pathProject(dir)
	tr := newTrap(t)
	tr.plant(filepath.Join(dir, ".git"))
	ctx := context.Background()
	var w workspaces.Workspace
	tr.tries("arriving afar", func() error { w = h.ready(workspaces.NewWorkspace{ProjectID: p.ID}); return nil })
	a.sh(w, "echo 1 > one; git add one; git commit -qm one; echo staged > staged; git add staged; echo more >> a.txt; git branch side; git switch -q side; echo 2 > two; git add two; git commit -qm two; git switch -q -; git stash -q -u; git stash pop -q --index")
	tr.sprung()
	h.keeping(w, "ignored/")
	a.sh(w, "mkdir -p ignored; echo kept > ignored/one")
	a.keepsOnEnd()
	place, _ := a.Manager.Live(w.ID)
	for range 2 { // the second time it is all there
		tr.tries("keeping what is left behind", func() error { return h.s.KeepLeft(ctx, place) })
	}
	for range 2 {
		tr.tries("coming home", func() error { a.end(w); return nil })
		tr.tries("going out again", func() error { a.sh(w, "true"); return nil })
	}
}

// noTrickBorrows has a project whose repository is a folder of somebody's machine, in which agents write, too.
func noTrickBorrows(t *testing.T, calls *hostCalls) {
	h, a, o := laptopHouse(t, calls.hear)
	dir := o.folderRepo(h, "app")
	tr := newTrap(t)
	tr.plant(filepath.Join(dir, ".git"))
	var p workspaces.Project
	tr.tries("a project of a machine's folder", func() error { p = h.machineProject(dir); return nil })
	var w workspaces.Workspace
	tr.tries("a workspace that borrows from it", func() error { w = h.ready(workspaces.NewWorkspace{ProjectID: p.ID}); return nil })
	a.sh(w, "echo 1 > one; git add one; git commit -qm one")
	tr.sprung()
	tr.tries("fetching from it", func() error {
		b, err := h.s.Branches(t.Context(), p.ID, true)
		if err == nil && b.FetchError != "" {
			err = errors.New(b.FetchError)
		}
		return err
	})
	tr.tries("delivering to it", func() error { _, err := h.s.Deliver(t.Context(), h.actor, w.ID); return err })
}
