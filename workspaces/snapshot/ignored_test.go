package snapshot_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// Selected ignored files are stored with a snapshot, are restored where there are no others, and are deleted with the snapshot.
func TestSelectedIgnoredFilesAreSnapshotted(t *testing.T) {
	t.Parallel()
	wstest.EachEnv(t, func(t *testing.T, h *wstest.Env) {
		ctx := context.Background()
		w := h.Workspace()
		plain := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
		p := h.Keeping(w, ".env", "ignored/*.key")
		wstest.Write(t, w.Path, ".env", "ONE=1\n")
		wstest.Write(t, w.Path, "ignored/a.key", "key\n")
		wstest.Write(t, w.Path, "ignored/out.o", "built")
		wstest.Must(t, os.Chmod(filepath.Join(w.Path, "ignored/a.key"), 0o755))
		wstest.Must(t, os.Symlink("/etc/passwd", filepath.Join(w.Path, "ignored/link.key")))
		sn := h.Keep(w.ID, snapshot.Request{Reason: "stop", Changed: true})
		if sn.IgnoredN != 2 || sn.Tree != plain.Tree || sn.ID == plain.ID {
			t.Fatalf("kept as %+v", sn)
		}
		if got := wstest.Git(t, p.GitDir, "ls-tree", "-r", "--name-only", sn.Ignored); got != ".env\nignored/a.key" {
			t.Errorf("it holds %q", got)
		}
		if _, err := h.S.Snapshots.Resolve(ctx, w, sn.Ignored, h.Actor.User.ID); err == nil {
			t.Error("they can be read as a revision")
		}
		if again := h.Keep(w.ID, snapshot.Request{Reason: "stop", Changed: true}); again.ID != sn.ID {
			t.Error("kept again though nothing changed")
		}
		wstest.Write(t, w.Path, ".env", "TWO=2\n")
		second := h.Keep(w.ID, snapshot.Request{Reason: "stop", Changed: true})
		if second.ID == sn.ID || second.Ignored == sn.Ignored {
			t.Error("not kept though an ignored file changed")
		}
		wstest.Write(t, w.Path, "a.txt", "changed\n")
		wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, "", []string{"a.txt"}, false))
		if poll := h.Snaps(w)[0]; poll.Kind != snapshot.SnapPoll || poll.Ignored != "" {
			t.Errorf("a poll is %+v", poll)
		}

		// Files with other bytes are left alone, missing ones are restored.
		wstest.Must(t, os.Remove(filepath.Join(w.Path, "ignored/a.key")))
		ask := snapshot.RestoreRequest{Ignored: true, DryRun: true}
		plan, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, ask)
		wstest.Must(t, err)
		ask.DryRun = false
		done, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, ask)
		wstest.Must(t, err)
		for what, r := range map[string]snapshot.Restored{"the plan": plan, "the restore": done} {
			if !slices.Equal(r.Ignored, []string{"ignored/a.key"}) || !slices.Equal(r.IgnoredLeft, []string{".env"}) || !slices.Equal(r.Changed, []string{"a.txt"}) {
				t.Errorf("%s says %+v", what, r)
			}
		}
		fi, err := os.Stat(filepath.Join(w.Path, "ignored/a.key"))
		wstest.Must(t, err)
		if wstest.Read(t, w.Path, ".env") != "TWO=2\n" || wstest.Read(t, w.Path, "ignored/a.key") != "key\n" || fi.Mode().Perm() != 0o755 {
			t.Error("the files are not as they should be")
		}

		// Into a new workspace, and out of the trash.
		made, err := h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{New: true, Name: "again", Ignored: true})
		wstest.Must(t, err)
		if len(made.Ignored) != 2 || wstest.Read(t, made.Workspace.Path, ".env") != "ONE=1\n" {
			t.Errorf("a new workspace has %+v", made)
		}
		_, err = h.S.Lifecycle.Delete(ctx, h.Actor, w.ID)
		wstest.Must(t, err)
		back, err := h.S.Lifecycle.Restore(ctx, h.Actor, w.ID)
		wstest.Must(t, err)
		if wstest.Read(t, back.Path, ".env") != "TWO=2\n" || wstest.Read(t, back.Path, "ignored/a.key") != "key\n" {
			t.Error("a workspace out of the trash is without them")
		}

		// A server that did not store the row finds it again, ignored files included; a pin keeps them too.
		last := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual, Title: "last"})
		wstest.Must(t, h.Store.DeleteSnapshots(ctx, []string{last.ID}))
		h.Stop()
		h.Start()
		wstest.Write(t, w.Path, "a.txt", "more\n")
		h.Keep(w.ID, snapshot.Request{})
		found, err := h.S.Snapshots.Snap(ctx, w.ID, last.ID)
		wstest.Must(t, err)
		if found.Ignored != last.Ignored || found.IgnoredN != 2 || found.Commit != last.Commit {
			t.Errorf("found as %+v, it was %+v", found, last)
		}
		pinned, err := h.S.Snapshots.PinSnapshot(ctx, found, true)
		wstest.Must(t, err)
		if got := wstest.Git(t, p.GitDir, "rev-parse", pinned.Commit+"^2"); got != last.Ignored {
			t.Errorf("pinned with %s", got)
		}
		loose, err := h.S.Snapshots.PinSnapshot(ctx, pinned, false)
		wstest.Must(t, err)
		if loose.Commit != last.Commit {
			t.Errorf("let go of as %+v", loose)
		}
	})
}

// Files of secrets are in no snapshot, including those that somebody changed and that stayed when their session ended; what is left out is
// listed.
func TestIgnoredFilesLeftOut(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	p := h.Keeping(w, ".env", "ignored/")
	const value = "TOKEN=the-secret\n"
	blob, blob256 := snapshot.BlobNames([]byte(value))
	wstest.Must(t, h.S.Repo.Exclude(ctx, w.ID, []string{".env"}))
	wstest.Write(t, w.Path, ".env", value+"changed\n")
	wstest.Write(t, w.Path, "ignored/secret", "now\n")
	wstest.Write(t, w.Path, "ignored/copy", value)
	wstest.Write(t, w.Path, "ignored/mine", "mine\n")
	f, err := os.Create(filepath.Join(w.Path, "ignored/large"))
	wstest.Must(t, err)
	wstest.Must(t, f.Truncate(65<<20))
	wstest.Must(t, f.Close())
	h.S.Records.Connect(h.Sandboxes, wstest.SecretSessions{Setups: h.Ses, Files: workspaces.SecretFiles{Paths: map[string]bool{"ignored/secret": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	sn := h.Keep(w.ID, snapshot.Request{})
	if got := wstest.Git(t, p.GitDir, "ls-tree", "-r", "--name-only", sn.Ignored); got != "ignored/mine" || sn.IgnoredN != 1 {
		t.Errorf("it holds %q", got)
	}
	var named []string
	for _, m := range sn.Missing {
		named = append(named, m.Path)
	}
	if got := strings.Join(named, " "); got != ".env ignored/copy ignored/large ignored/secret" {
		t.Errorf("it names %s", got)
	}
	for i := range 2105 {
		wstest.Write(t, w.Path, fmt.Sprintf("ignored/%04d", i), "x")
	}
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "ignored/large")))
	if sn = h.Keep(w.ID, snapshot.Request{}); sn.IgnoredN != 2000 || len(sn.Missing) != 101 {
		t.Errorf("it holds %d and names %d", sn.IgnoredN, len(sn.Missing))
	}
}

// Ignored files in a sandbox with its own disk are read from there, and restored there.
func TestRemoteIgnoredFilesAreSnapshotted(t *testing.T) {
	t.Parallel()
	h, a := wstest.RemoteEnv(t)
	ctx := context.Background()
	w := h.Ready(workspaces.NewWorkspace{ProjectID: h.PathProject(h.Repo("app")).ID, Name: "Work"})
	p := h.Keeping(w, ".env", "ignored/*.key")
	a.Sh(w, "echo far > .env; mkdir -p ignored; printf key > ignored/a.key; chmod +x ignored/a.key; echo built > ignored/out.o; ln -s /etc/passwd ignored/l.key; : > ignored/empty.key")
	sn := h.Keep(w.ID, snapshot.Request{Reason: "stop"})
	if sn.Ignored == "" {
		t.Fatalf("kept as %+v", sn)
	}
	if got := wstest.Git(t, p.GitDir, "ls-tree", "-r", "--format=%(objectmode) %(path)", sn.Ignored); got != "100644 .env\n100755 ignored/a.key\n100644 ignored/empty.key" || sn.IgnoredN != 3 {
		t.Errorf("it holds %q", got)
	}
	if got := wstest.Git(t, p.GitDir, "show", sn.Ignored+":ignored/a.key"); got != "key" {
		t.Errorf("the key is %q", got)
	}
	_, err := h.S.Lifecycle.Archive(ctx, h.Actor, w.ID)
	wstest.Must(t, err)
	if put := h.Snaps(w)[0]; put.Reason != "archive" || put.Ignored != sn.Ignored {
		t.Errorf("put away with %+v", put)
	}
}
