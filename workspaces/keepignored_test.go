package workspaces_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// keeping has a project keep ignored files.
func (h *house) keeping(w workspaces.Workspace, patterns ...string) workspaces.Project {
	h.t.Helper()
	p, err := h.s.UpdateProject(context.Background(), w.ProjectID, workspaces.ProjectPatch{KeepIgnored: &patterns})
	must(h.t, err)
	return p
}

// Ignored files a project chose are kept beside a snapshot's files, come back where nothing lies, and end with the snapshot.
func TestChosenIgnoredFilesAreKept(t *testing.T) {
	t.Parallel()
	eachHouse(t, func(t *testing.T, h *house) {
		ctx := context.Background()
		w := h.workspace()
		plain := h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual})
		p := h.keeping(w, ".env", "ignored/*.key")
		write(t, w.Path, ".env", "ONE=1\n")
		write(t, w.Path, "ignored/a.key", "key\n")
		write(t, w.Path, "ignored/out.o", "built")
		must(t, os.Chmod(filepath.Join(w.Path, "ignored/a.key"), 0o755))
		must(t, os.Symlink("/etc/passwd", filepath.Join(w.Path, "ignored/link.key")))
		sn := h.keep(w.ID, workspaces.KeepFor{Reason: "stop", Changed: true})
		if sn.IgnoredN != 2 || sn.Tree != plain.Tree || sn.ID == plain.ID {
			t.Fatalf("kept as %+v", sn)
		}
		if got := git(t, p.GitDir, "ls-tree", "-r", "--name-only", sn.Ignored); got != ".env\nignored/a.key" {
			t.Errorf("it holds %q", got)
		}
		if _, err := h.s.Resolve(ctx, w, sn.Ignored, h.actor.User.ID); err == nil {
			t.Error("they can be read as a revision")
		}
		if again := h.keep(w.ID, workspaces.KeepFor{Reason: "stop", Changed: true}); again.ID != sn.ID {
			t.Error("kept again though nothing changed")
		}
		write(t, w.Path, ".env", "TWO=2\n")
		second := h.keep(w.ID, workspaces.KeepFor{Reason: "stop", Changed: true})
		if second.ID == sn.ID || second.Ignored == sn.Ignored {
			t.Error("not kept though an ignored file changed")
		}
		write(t, w.Path, "a.txt", "changed\n")
		must(t, h.s.Polled(ctx, w.ID, "", []string{"a.txt"}, false))
		if poll := h.snaps(w)[0]; poll.Kind != workspaces.SnapPoll || poll.Ignored != "" {
			t.Errorf("a poll is %+v", poll)
		}

		// What is there with other bytes is left alone, what is not comes back.
		must(t, os.Remove(filepath.Join(w.Path, "ignored/a.key")))
		ask := workspaces.RestoreRequest{Ignored: true, DryRun: true}
		plan, err := h.s.RestoreSnapshot(ctx, h.actor, sn, ask)
		must(t, err)
		ask.DryRun = false
		done, err := h.s.RestoreSnapshot(ctx, h.actor, sn, ask)
		must(t, err)
		for what, r := range map[string]workspaces.Restored{"the plan": plan, "the restore": done} {
			if !slices.Equal(r.Ignored, []string{"ignored/a.key"}) || !slices.Equal(r.IgnoredLeft, []string{".env"}) || !slices.Equal(r.Changed, []string{"a.txt"}) {
				t.Errorf("%s says %+v", what, r)
			}
		}
		fi, err := os.Stat(filepath.Join(w.Path, "ignored/a.key"))
		must(t, err)
		if read(t, w.Path, ".env") != "TWO=2\n" || read(t, w.Path, "ignored/a.key") != "key\n" || fi.Mode().Perm() != 0o755 {
			t.Error("the files are not as they should be")
		}

		// Into a new workspace, and out of the trash.
		made, err := h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{New: true, Name: "again", Ignored: true})
		must(t, err)
		if len(made.Ignored) != 2 || read(t, made.Workspace.Path, ".env") != "ONE=1\n" {
			t.Errorf("a new workspace has %+v", made)
		}
		_, err = h.s.Delete(ctx, h.actor, w.ID)
		must(t, err)
		back, err := h.s.Restore(ctx, h.actor, w.ID)
		must(t, err)
		if read(t, back.Path, ".env") != "TWO=2\n" || read(t, back.Path, "ignored/a.key") != "key\n" {
			t.Error("a workspace out of the trash is without them")
		}

		// A server that did not store the row finds it again, ignored files and all; a pin keeps them too.
		last := h.keep(w.ID, workspaces.KeepFor{Kind: workspaces.SnapManual, Title: "last"})
		must(t, h.store.DeleteSnapshots(ctx, []string{last.ID}))
		h.stop()
		h.start()
		write(t, w.Path, "a.txt", "more\n")
		h.keep(w.ID, workspaces.KeepFor{})
		found, err := h.s.Snap(ctx, w.ID, last.ID)
		must(t, err)
		if found.Ignored != last.Ignored || found.IgnoredN != 2 || found.Commit != last.Commit {
			t.Errorf("found as %+v, it was %+v", found, last)
		}
		pinned, err := h.s.PinSnapshot(ctx, found, true)
		must(t, err)
		if got := git(t, p.GitDir, "rev-parse", pinned.Commit+"^2"); got != last.Ignored {
			t.Errorf("pinned with %s", got)
		}
		loose, err := h.s.PinSnapshot(ctx, pinned, false)
		must(t, err)
		if loose.Commit != last.Commit {
			t.Errorf("let go of as %+v", loose)
		}
	})
}

// Files of secrets are in no snapshot, also those that somebody changed and that stayed when their session ended; what is left out is named.
func TestIgnoredFilesThatAreNotKept(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	p := h.keeping(w, ".env", "ignored/")
	const value = "TOKEN=the-secret\n"
	blob, blob256 := workspaces.BlobNames([]byte(value))
	must(t, h.s.Exclude(ctx, w.ID, []string{".env"}))
	write(t, w.Path, ".env", value+"changed\n")
	write(t, w.Path, "ignored/secret", "now\n")
	write(t, w.Path, "ignored/copy", value)
	write(t, w.Path, "ignored/mine", "mine\n")
	f, err := os.Create(filepath.Join(w.Path, "ignored/large"))
	must(t, err)
	must(t, f.Truncate(65<<20))
	must(t, f.Close())
	h.s.Connect(h.box, secretSessions{h.ses, workspaces.SecretFiles{Paths: map[string]bool{"ignored/secret": true}, Blobs: map[string]bool{blob: true, blob256: true}}})
	sn := h.keep(w.ID, workspaces.KeepFor{})
	if got := git(t, p.GitDir, "ls-tree", "-r", "--name-only", sn.Ignored); got != "ignored/mine" || sn.IgnoredN != 1 {
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
		write(t, w.Path, fmt.Sprintf("ignored/%04d", i), "x")
	}
	must(t, os.Remove(filepath.Join(w.Path, "ignored/large")))
	if sn = h.keep(w.ID, workspaces.KeepFor{}); sn.IgnoredN != 2000 || len(sn.Missing) != 101 {
		t.Errorf("it holds %d and names %d", sn.IgnoredN, len(sn.Missing))
	}
}

// Ignored files in a sandbox with a disk of its own are asked for there, and brought back there.
func TestIgnoredFilesAfarAreKept(t *testing.T) {
	t.Parallel()
	h, a := farHouse(t)
	ctx := context.Background()
	w := h.ready(workspaces.NewWorkspace{ProjectID: h.pathProject(h.repo("app")).ID, Name: "Work"})
	p := h.keeping(w, ".env", "ignored/*.key")
	a.sh(w, "echo far > .env; mkdir -p ignored; printf key > ignored/a.key; chmod +x ignored/a.key; echo built > ignored/out.o; ln -s /etc/passwd ignored/l.key; : > ignored/empty.key")
	sn := h.keep(w.ID, workspaces.KeepFor{Reason: "stop"})
	if sn.Ignored == "" {
		t.Fatalf("kept as %+v", sn)
	}
	if got := git(t, p.GitDir, "ls-tree", "-r", "--format=%(objectmode) %(path)", sn.Ignored); got != "100644 .env\n100755 ignored/a.key\n100644 ignored/empty.key" || sn.IgnoredN != 3 {
		t.Errorf("it holds %q", got)
	}
	if got := git(t, p.GitDir, "show", sn.Ignored+":ignored/a.key"); got != "key" {
		t.Errorf("the key is %q", got)
	}
	_, err := h.s.Archive(ctx, h.actor, w.ID)
	must(t, err)
	if put := h.snaps(w)[0]; put.Reason != "archive" || put.Ignored != sn.Ignored {
		t.Errorf("put away with %+v", put)
	}
}
