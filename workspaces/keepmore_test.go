package workspaces_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
)

func (h *house) snaps(w workspaces.Workspace) []workspaces.Snap {
	h.t.Helper()
	items, _, err := h.s.Snapshots(context.Background(), w.ID, nil, page.Page{Limit: page.MaxLimit})
	must(h.t, err)
	return items
}

func (h *house) snapRefs(p workspaces.Project) string {
	h.t.Helper()
	return git(h.t, p.GitDir, "for-each-ref", "--format=%(refname)", "refs/parawork/snapshots")
}

// A pin that is let go of leaves no ref, and a snapshot that was removed does not come back with the next server.
func TestWhatIsLetGoOfIsGone(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	p, err := h.s.Project(ctx, w.ProjectID)
	must(t, err)
	var all []workspaces.Snap
	for _, text := range []string{"one\n", "two\n", "three\n"} {
		write(t, w.Path, "a.txt", text)
		all = append(all, h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual, Title: text}))
	}
	pinned, err := h.s.PinSnapshot(ctx, all[1], true)
	must(t, err)
	if !strings.Contains(h.snapRefs(p), "pinned/"+all[1].ID) || pinned.ExpiresAt != 0 {
		t.Fatalf("pinned as %+v", pinned)
	}
	loose, err := h.s.PinSnapshot(ctx, pinned, false)
	must(t, err)
	if strings.Contains(h.snapRefs(p), "pinned/") || loose.Commit != all[1].Commit || loose.ExpiresAt == 0 {
		t.Errorf("let go of, it is %+v, with\n%s", loose, h.snapRefs(p))
	}
	// Polls go on, so that those before are no longer the newest. The end of their day is removed, last what stands before it.
	write(t, w.Path, "a.txt", "four\n")
	must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
	must(t, h.s.DeleteSnapshot(ctx, all[1]))
	must(t, h.s.DeleteSnapshot(ctx, all[2]))
	h.stop()
	h.start()
	write(t, w.Path, "a.txt", "five\n")
	must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
	left := h.snaps(w)
	if len(left) != 3 || left[2].ID != all[0].ID || h.fileOf(w, all[0].ID, "a.txt") != "one\n" {
		t.Errorf("there are %d: %+v", len(left), left)
	}
	must(t, h.s.DeleteSnapshot(ctx, all[0]))
	if strings.Contains(h.snapRefs(p), "/kept/") {
		t.Errorf("nothing of the day is left, and there is\n%s", h.snapRefs(p))
	}
}

// secretSessions are sessions that were given files of secrets.
type secretSessions struct {
	*setups
	files workspaces.SecretFiles
}

func (s secretSessions) SecretFiles(context.Context, string) (workspaces.SecretFiles, error) {
	return s.files, nil
}

// A secret's file that git sees is in no snapshot, and is read out of none, nor is a copy of it.
func TestNoSnapshotHoldsASecretsFile(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	const value = "TOKEN=the-secret\n"
	blob, blob256 := workspaces.BlobNames([]byte(value))
	before := h.keep(w.ID, workspaces.KeepFor{})
	write(t, w.Path, "conf/token", value+"changed by an agent\n")
	write(t, w.Path, "copy", value)
	write(t, w.Path, "work", "mine\n")
	open := h.keep(w.ID, workspaces.KeepFor{}) // nobody has said yet that it is a secret's
	h.s.Connect(h.box, secretSessions{h.ses, workspaces.SecretFiles{Paths: map[string]bool{"conf/token": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	tree := func(rev string) workspaces.Tree {
		at, err := h.s.Resolve(ctx, w, rev, "")
		must(t, err)
		return at
	}
	for _, name := range []string{"conf/token", "copy"} {
		_, _, err := h.s.FileAt(ctx, w.ID, tree(open.ID), name)
		wantCode(t, err, "secret_file")
	}
	patch := func(paths ...string) string {
		r, err := h.s.Patch(ctx, w.ID, tree(before.ID), tree(open.ID), paths, 3, false)
		must(t, err)
		b, err := io.ReadAll(r)
		must(t, err)
		must(t, r.Close())
		return string(b)
	}
	if got := patch(); strings.Contains(got, "the-secret") || !strings.Contains(got, "+mine") {
		t.Errorf("the patch of all is\n%s", got)
	}
	if got := patch("conf/token", "copy"); got != "" {
		t.Errorf("the patch of the files is\n%s", got)
	}
	// Nor hunk by hunk.
	for _, name := range []string{"conf/token", "copy"} {
		if f, err := h.s.Hunks(ctx, h.actor.User.ID, w.ID, name, before.ID, open.ID); fault.CodeOf(err) != "secret_file" {
			t.Errorf("the hunks of %s: %+v, %v", name, f, err)
		}
	}
	// git knows a file by many names, and takes that of a folder for all below it.
	for _, name := range []string{"conf", "conf/", "./conf/token", "conf/../copy", "conf//token", "."} {
		if got := patch(name); strings.Contains(got, "the-secret") {
			t.Errorf("the patch of %q is\n%s", name, got)
		}
	}
	if got := patch("./work"); !strings.Contains(got, "+mine") {
		t.Errorf("the patch of another file is\n%s", got)
	}
	hits, _, err := h.s.SearchDiff(ctx, w.ID, tree(before.ID), tree(open.ID), "the-secret", false)
	must(t, err)
	if len(hits) != 0 {
		t.Errorf("a search finds %+v", hits)
	}
	write(t, w.Path, "copy2", value)
	write(t, w.Path, "work", "mine too\n")
	sn := h.keep(w.ID, workspaces.KeepFor{Reason: "stop"})
	names := git(t, projectOf(h, w).GitDir, "ls-tree", "-r", "--name-only", sn.Commit)
	if strings.Contains(names, "copy2") || !strings.Contains(names, "work") {
		t.Errorf("the snapshot holds\n%s", names)
	}
	if !slices.ContainsFunc(sn.Missing, func(m workspaces.Missing) bool { return m.Path == "copy2" }) {
		t.Errorf("it does not say what it lacks: %+v", sn.Missing)
	}
}

// A secret's file that git sees is in no commit that is made here, whatever is asked to be in it.
func TestNoCommitHoldsASecretsFile(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	const value = "TOKEN=the-secret\n"
	blob, blob256 := workspaces.BlobNames([]byte(value))
	h.s.Connect(h.box, secretSessions{h.ses, workspaces.SecretFiles{Paths: map[string]bool{"conf/token": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	write(t, w.Path, "conf/token", value)
	write(t, w.Path, "a.txt", value) // a copy, in a file that is committed
	commit := func(r workspaces.CommitRequest) error {
		r.Message = "Work"
		_, err := h.s.Commit(ctx, h.actor, w.ID, r)
		return err
	}
	wantCode(t, commit(workspaces.CommitRequest{}), "nothing_to_commit")
	write(t, w.Path, "work", "mine\n")
	wantCode(t, commit(workspaces.CommitRequest{Paths: []string{"work", "conf"}}), "secret_file_staged")
	git(t, w.Path, "add", "conf/token", "work")
	wantCode(t, commit(workspaces.CommitRequest{Staged: true}), "secret_file_staged")
	must(t, commit(workspaces.CommitRequest{}))
	if got := git(t, w.Path, "show", "--format=", "--name-status", "HEAD"); got != "A\twork" {
		t.Errorf("the commit holds %q", got)
	}
	if read(t, w.Path, "conf/token") != value || read(t, w.Path, "a.txt") != value {
		t.Error("the files have changed")
	}
	// What was committed by others may be taken out.
	git(t, w.Path, "add", "conf/token")
	git(t, w.Path, "-c", "user.name=agent", "-c", "user.email=agent@example.com", "commit", "-qm", "by the agent")
	must(t, os.Remove(filepath.Join(w.Path, "conf/token")))
	must(t, commit(workspaces.CommitRequest{Paths: []string{"conf/token"}}))
	// Nor does a merge that is finished hold it.
	h.baseMoves(w)
	write(t, w.Path, "b.txt", value)
	git(t, w.Path, "add", "b.txt")
	_, _, err := h.s.FinishResolve(ctx, h.actor, w.ID)
	wantCode(t, err, "secret_file_staged")
}

// baseMoves leaves a merge under way in the workspace that conflicts in nothing any more.
func (h *house) baseMoves(w workspaces.Workspace) {
	h.t.Helper()
	git(h.t, w.Path, "checkout", "-q", "--", "a.txt")
	other := git(h.t, w.Path, "commit-tree", "-p", w.BaseCommit, "-m", "other", w.BaseCommit+"^{tree}")
	git(h.t, w.Path, "merge", "-q", "--no-ff", "--no-commit", other)
}

func projectOf(h *house, w workspaces.Workspace) workspaces.Project {
	h.t.Helper()
	p, err := h.s.Project(context.Background(), w.ProjectID)
	must(h.t, err)
	return p
}

// How long snapshots are kept may be set anew: it counts for those there are, too.
func TestSnapshotsEndAsTheyAreToldTo(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		ctx := context.Background()
		const day = 24 * time.Hour
		w := h.workspace()
		write(t, w.Path, "a.txt", "one\n")
		must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
		kept := h.keep(w.ID, workspaces.KeepFor{Reason: "stop"})
		ends := func(polls, others time.Duration) {
			t.Helper()
			h.stop()
			h.cfg.Retention = func() workspaces.Retention { return workspaces.Retention{Polls: polls, Others: others} }
			h.start()
			end := func(sn workspaces.Snap, keep time.Duration) int64 {
				if keep == 0 {
					return 0
				}
				return time.UnixMilli(sn.At).UTC().Truncate(day).Add(day + keep).UnixMilli()
			}
			waitFor(t, "snapshots end as they are told to", func() bool {
				for _, sn := range h.snaps(w) {
					want := end(sn, others)
					if sn.Kind == workspaces.SnapPoll {
						want = end(sn, polls)
					}
					if sn.Pinned {
						want = 0
					}
					if sn.ExpiresAt != want {
						return false
					}
				}
				return true
			})
		}
		ends(2*day, 3*day)
		_, err := h.s.PinSnapshot(ctx, kept, true)
		must(t, err)
		ends(day, 0)
		ends(0, 0)
	})
}
