package snapshot_test

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
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
	"github.com/parawork/parawork/workspaces/snapshot"
	"github.com/parawork/parawork/workspaces/stage"
)

func snapRefs(h *wstest.Env, p workspaces.Project) string {
	h.T.Helper()
	return wstest.Git(h.T, p.GitDir, "for-each-ref", "--format=%(refname)", "refs/parawork/snapshots")
}

// An unpinned snapshot leaves no ref, and a removed one does not come back with the next server.
func TestReleasedSnapshotsAreGone(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	p, err := h.S.Records.Project(ctx, w.ProjectID)
	wstest.Must(t, err)
	var all []snapshot.Snap
	for _, text := range []string{"one\n", "two\n", "three\n"} {
		wstest.Write(t, w.Path, "a.txt", text)
		all = append(all, h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: text}))
	}
	pinned, err := h.S.Snapshots.PinSnapshot(ctx, all[1], true)
	wstest.Must(t, err)
	if !strings.Contains(snapRefs(h, p), "pinned/"+all[1].ID) || pinned.ExpiresAt != 0 {
		t.Fatalf("pinned as %+v", pinned)
	}
	loose, err := h.S.Snapshots.PinSnapshot(ctx, pinned, false)
	wstest.Must(t, err)
	if strings.Contains(snapRefs(h, p), "pinned/") || loose.Commit != all[1].Commit || loose.ExpiresAt == 0 {
		t.Errorf("let go of, it is %+v, with\n%s", loose, snapRefs(h, p))
	}
	// Polls go on, so that those before are no longer the newest. The end of their day is removed, last what stands before it.
	wstest.Write(t, w.Path, "a.txt", "four\n")
	wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
	wstest.Must(t, h.S.Snapshots.DeleteSnapshot(ctx, all[1]))
	wstest.Must(t, h.S.Snapshots.DeleteSnapshot(ctx, all[2]))
	h.Stop()
	h.Start()
	wstest.Write(t, w.Path, "a.txt", "five\n")
	wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
	left := h.Snaps(w)
	if len(left) != 3 || left[2].ID != all[0].ID || h.FileOf(w, all[0].ID, "a.txt") != "one\n" {
		t.Errorf("there are %d: %+v", len(left), left)
	}
	wstest.Must(t, h.S.Snapshots.DeleteSnapshot(ctx, all[0]))
	if strings.Contains(snapRefs(h, p), "/kept/") {
		t.Errorf("nothing of the day is left, and there is\n%s", snapRefs(h, p))
	}
}

// A secret's file that git sees, or a copy of it, is in no snapshot, and cannot be read from one.
func TestNoSnapshotHoldsASecretsFile(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	const value = "TOKEN=the-secret\n"
	blob, blob256 := snapshot.BlobNames([]byte(value))
	before := h.Keep(w.ID, snapshot.Request{})
	wstest.Write(t, w.Path, "conf/token", value+"changed by an agent\n")
	wstest.Write(t, w.Path, "copy", value)
	wstest.Write(t, w.Path, "work", "mine\n")
	open := h.Keep(w.ID, snapshot.Request{}) // nobody has said yet that it is a secret's
	h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Paths: map[string]bool{"conf/token": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	tree := func(rev string) git.Tree {
		at, err := h.S.Snapshots.Resolve(ctx, w, rev, "")
		wstest.Must(t, err)
		return at
	}
	for _, name := range []string{"conf/token", "copy"} {
		_, _, err := h.S.Snapshots.FileAt(ctx, w.ID, tree(open.ID), name)
		wstest.WantCode(t, err, "secret_file")
	}
	patch := func(paths ...string) string {
		r, err := h.S.Snapshots.Patch(ctx, w.ID, tree(before.ID), tree(open.ID), paths, 3, false)
		wstest.Must(t, err)
		b, err := io.ReadAll(r)
		wstest.Must(t, err)
		wstest.Must(t, r.Close())
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
		if f, err := h.S.Stage.Hunks(ctx, h.Actor.User.ID, w.ID, name, before.ID, open.ID); fault.CodeOf(err) != "secret_file" {
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
	hits, _, err := h.S.Snapshots.SearchDiff(ctx, w.ID, tree(before.ID), tree(open.ID), "the-secret", false)
	wstest.Must(t, err)
	if len(hits) != 0 {
		t.Errorf("a search finds %+v", hits)
	}
	wstest.Write(t, w.Path, "copy2", value)
	wstest.Write(t, w.Path, "work", "mine too\n")
	sn := h.Keep(w.ID, snapshot.Request{Reason: "stop"})
	names := wstest.Git(t, wstest.ProjectOf(h, w).GitDir, "ls-tree", "-r", "--name-only", sn.Commit)
	if strings.Contains(names, "copy2") || !strings.Contains(names, "work") {
		t.Errorf("the snapshot holds\n%s", names)
	}
	if !slices.ContainsFunc(sn.Missing, func(m workspaces.Missing) bool { return m.Path == "copy2" }) {
		t.Errorf("it does not say what it lacks: %+v", sn.Missing)
	}
}

// A secret's file that git sees is in no commit that is made here, whatever is requested.
func TestNoCommitHoldsASecretsFile(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	const value = "TOKEN=the-secret\n"
	blob, blob256 := snapshot.BlobNames([]byte(value))
	h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Paths: map[string]bool{"conf/token": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	wstest.Write(t, w.Path, "conf/token", value)
	wstest.Write(t, w.Path, "a.txt", value) // a copy, in a file that is committed
	commit := func(r stage.CommitRequest) error {
		r.Message = "Work"
		_, err := h.S.Stage.Commit(ctx, h.Actor, w.ID, r)
		return err
	}
	wstest.WantCode(t, commit(stage.CommitRequest{}), "nothing_to_commit")
	wstest.Write(t, w.Path, "work", "mine\n")
	wstest.WantCode(t, commit(stage.CommitRequest{Paths: []string{"work", "conf"}}), "secret_file_staged")
	wstest.Git(t, w.Path, "add", "conf/token", "work")
	wstest.WantCode(t, commit(stage.CommitRequest{Staged: true}), "secret_file_staged")
	wstest.Must(t, commit(stage.CommitRequest{}))
	if got := wstest.Git(t, w.Path, "show", "--format=", "--name-status", "HEAD"); got != "A\twork" {
		t.Errorf("the commit holds %q", got)
	}
	if wstest.Read(t, w.Path, "conf/token") != value || wstest.Read(t, w.Path, "a.txt") != value {
		t.Error("the files have changed")
	}
	// What was committed by others may be taken out.
	wstest.Git(t, w.Path, "add", "conf/token")
	wstest.Git(t, w.Path, "-c", "user.name=agent", "-c", "user.email=agent@example.com", "commit", "-qm", "by the agent")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "conf/token")))
	wstest.Must(t, commit(stage.CommitRequest{Paths: []string{"conf/token"}}))
	// Neither does finishing a merge commit it.
	baseMoves(h, w)
	wstest.Write(t, w.Path, "b.txt", value)
	wstest.Git(t, w.Path, "add", "b.txt")
	_, _, err := h.S.Conflicts.FinishResolve(ctx, h.Actor, w.ID)
	wstest.WantCode(t, err, "secret_file_staged")
}

// baseMoves leaves a merge under way in the workspace that conflicts in nothing any more.
func baseMoves(h *wstest.Env, w workspaces.Workspace) {
	h.T.Helper()
	wstest.Git(h.T, w.Path, "checkout", "-q", "--", "a.txt")
	other := wstest.Git(h.T, w.Path, "commit-tree", "-p", w.BaseCommit, "-m", "other", w.BaseCommit+"^{tree}")
	wstest.Git(h.T, w.Path, "merge", "-q", "--no-ff", "--no-commit", other)
}

// Retention may change: the new one also applies to existing snapshots.
func TestSnapshotsExpireByRetention(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		ctx := context.Background()
		const day = 24 * time.Hour
		w := h.Workspace()
		wstest.Write(t, w.Path, "a.txt", "one\n")
		wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"a.txt"}, true))
		kept := h.Keep(w.ID, snapshot.Request{Reason: "stop"})
		ends := func(polls, others time.Duration) {
			t.Helper()
			h.Stop()
			h.Cfg.Retention = func() snapshot.Retention { return snapshot.Retention{Polls: polls, Others: others} }
			h.Start()
			end := func(sn snapshot.Snap, keep time.Duration) int64 {
				if keep == 0 {
					return 0
				}
				return time.UnixMilli(sn.At).UTC().Truncate(day).Add(day + keep).UnixMilli()
			}
			wstest.WaitFor(t, "the retention to be applied", func() bool {
				for _, sn := range h.Snaps(w) {
					want := end(sn, others)
					if sn.Kind == snapshot.SnapPoll {
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
		_, err := h.S.Snapshots.PinSnapshot(ctx, kept, true)
		wstest.Must(t, err)
		ends(day, 0)
		ends(0, 0)
	})
}
