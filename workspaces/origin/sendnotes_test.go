package origin_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
)

// Reports are sent with the commits they are about, next to the notes others made there.
func TestReportsArePushed(t *testing.T) {
	t.Parallel()
	h, f, keys, p, bare := pushHarness(t)
	ctx := t.Context()
	keys.Put(h.Actor.User.ID, secrets.Credential{Host: f.Host(), Username: "person", Token: "their-own-long-token"})
	w := h.Ready(workspaces.NewWorkspace{ProjectID: p.ID, Base: "refs/heads/main", Name: "Push it"})
	wstest.Write(t, w.Path, "new.txt", "new\n")
	h.Commit(w, "Add new")
	push := func(r workspaces.PushRequest, notes int, problem string) {
		t.Helper()
		got, err := h.S.Push(ctx, h.Actor, w.ID, r)
		wstest.Must(t, err)
		if got.Notes != notes || !strings.Contains(got.NotesProblem, problem) || problem == "" && got.NotesProblem != "" {
			t.Errorf("%+v, want %d notes and %q", got, notes, problem)
		}
	}
	attach := func(text string) string {
		t.Helper()
		commit, _, err := h.S.Annotate(ctx, h.Actor, w.ID, text)
		wstest.Must(t, err)
		return commit
	}
	there := func(on string) string { t.Helper(); return wstest.Git(t, bare, "notes", "--ref=parawork", "show", on) }

	wstest.Git(t, p.GitDir, "update-ref", "refs/heads/main", wstest.Git(t, p.GitDir, "commit-tree", "-p", "main", "-m", "meanwhile", "main^{tree}"))
	merged := h.Merge(w, "merge")
	commit := attach("# Report\n")
	if wstest.Git(t, p.GitDir, "rev-parse", w.Branch) == commit {
		t.Fatal("the merge is the branch")
	}
	// The merge is not on the remote: the report stays local with it.
	push(workspaces.PushRequest{}, 0, "")
	if refs := wstest.Git(t, bare, "for-each-ref", "refs/notes"); refs != "" {
		t.Fatalf("the remote has %s", refs)
	}
	// A remote that rejects notes has the branch nevertheless.
	hook := filepath.Join(bare, "hooks", "update")
	wstest.Must(t, os.MkdirAll(filepath.Dir(hook), 0o755))
	wstest.Must(t, os.WriteFile(hook, []byte("#!/bin/sh\ncase $1 in refs/notes/*) exit 1;; esac\n"), 0o755))
	push(workspaces.PushRequest{Base: true}, 0, "rejected refs/notes/parawork")
	if got := wstest.Git(t, bare, "rev-parse", "main"); got != merged.Commit || commit != merged.Commit {
		t.Fatalf("main is %s there", got)
	}
	wstest.Must(t, os.Remove(hook))
	push(workspaces.PushRequest{Base: true}, 1, "")
	push(workspaces.PushRequest{Base: true}, 0, "") // once
	// Others read it.
	clone := filepath.Join(t.TempDir(), "clone")
	wstest.Git(t, h.Data, "clone", "-q", bare, clone)
	wstest.Git(t, clone, "fetch", "-q", "origin", "refs/notes/parawork:refs/notes/parawork")
	if got := wstest.Git(t, clone, "log", "-1", "--notes=parawork", "--format=%N", commit); got != "# Report" {
		t.Errorf("others read %q", got)
	}
	// They edit it, and write to another commit; the report is attached again here: all of it is there afterwards.
	other := func(on, text string) {
		wstest.Git(t, clone, "fetch", "-q", "origin", "+refs/notes/parawork:refs/notes/parawork")
		wstest.Git(t, clone, "-c", "user.name=other", "-c", "user.email=o@example.com", "notes", "--ref=parawork", "append", "-m", text, on)
		wstest.Git(t, clone, "push", "-q", "origin", "refs/notes/parawork")
	}
	other(commit, "Seen by others")
	other(commit+"^", "An older one")
	attach("# Report, again\n")
	push(workspaces.PushRequest{Base: true}, 1, "")
	if got := there(commit); got != "# Report\n\nSeen by others\n\n# Report, again" {
		t.Errorf("the remote has %q", got)
	}
	for _, dir := range []string{bare, p.GitDir} {
		if got := wstest.Git(t, dir, "notes", "--ref=parawork", "show", commit+"^"); got != "An older one" {
			t.Errorf("%s has %q", dir, got)
		}
	}
	// A note that nobody else changed is replaced by its newer text.
	attach("# Report, at last\n")
	push(workspaces.PushRequest{Base: true}, 1, "")
	if got := there(commit); got != "# Report, at last" {
		t.Errorf("the remote has %q", got)
	}
}
