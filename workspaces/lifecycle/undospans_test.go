package lifecycle_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// What two turns changed is undone; what people changed before, between and after them stays. A plan can be written again, and a place that
// a person changed after the turn refuses all of it.
func TestUndoSpansKeepsOthersChanges(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w := h.Workspace()
	take := func() string {
		sn, err := h.S.Snapshots.Take(t.Context(), w.ID, snapshot.Request{Kind: snapshot.SnapPoll})
		wstest.Must(t, err)
		return sn.ID
	}
	has := func(name, want string) {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(w.Path, name))
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		if string(b) != want {
			t.Errorf("%s has %q, not %q", name, b, want)
		}
	}
	lines := strings.Split("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n13\n14\n15\n", "\n")
	text := func(changes ...string) string {
		all := append([]string(nil), lines...)
		for i := 0; i < len(changes); i += 2 {
			for at, l := range lines {
				if l == changes[i] {
					all[at] = changes[i+1]
				}
			}
		}
		return strings.Join(all, "\n")
	}
	wstest.Write(t, w.Path, "f.txt", text())
	wstest.Write(t, w.Path, "gone.txt", "to be removed\n")
	a := take()
	wstest.Write(t, w.Path, "f.txt", text("2", "two"))
	wstest.Write(t, w.Path, "new/made.txt", "made\n")
	wstest.Must(t, os.Remove(filepath.Join(w.Path, "gone.txt")))
	b := take()
	wstest.Write(t, w.Path, "f.txt", text("2", "two", "8", "a person's"))
	c := take()
	wstest.Write(t, w.Path, "f.txt", text("2", "TWO", "8", "a person's", "14", "fourteen"))
	d := take()
	wstest.Write(t, w.Path, "other.txt", "a person's\n")
	spans := []lifecycle.Span{{Before: a, After: b}, {Before: c, After: d}}

	plan, err := h.S.Lifecycle.PlanUndo(t.Context(), w.ID, spans)
	wstest.Must(t, err)
	has("f.txt", text("2", "TWO", "8", "a person's", "14", "fourteen"))
	var kept snapshot.Snap
	for i := range 2 { // the second time, all of it is written already
		done, err := h.S.Lifecycle.ApplyUndo(t.Context(), h.Actor, w.ID, plan)
		wstest.Must(t, err)
		if i == 0 {
			kept = done.Kept
		}
		has("f.txt", text("8", "a person's"))
		has("new/made.txt", "")
		has("gone.txt", "to be removed\n")
		has("other.txt", "a person's\n")
	}
	_, err = h.S.Lifecycle.RestoreSnapshot(t.Context(), h.Actor, kept, snapshot.RestoreRequest{})
	wstest.Must(t, err)
	has("f.txt", text("2", "TWO", "8", "a person's", "14", "fourteen"))
	has("new/made.txt", "made\n")

	// Somebody writes one of the files between the plan and its writing: nothing stays written.
	wstest.Write(t, w.Path, "new/made.txt", "changed\n")
	_, err = h.S.Lifecycle.ApplyUndo(t.Context(), h.Actor, w.ID, plan)
	wstest.WantCode(t, err, "file_busy")
	has("f.txt", text("2", "TWO", "8", "a person's", "14", "fourteen"))
	has("gone.txt", "")
	has("new/made.txt", "changed\n")

	wstest.Write(t, w.Path, "f.txt", text("2", "zwei"))
	_, err = h.S.Lifecycle.PlanUndo(t.Context(), w.ID, spans)
	wstest.WantCode(t, err, "undo_conflict")
	has("f.txt", text("2", "zwei"))
	f, _ := errors.AsType[*fault.Error](err)
	if all, _ := f.Details["files"].([]lifecycle.FileConflict); len(all) != 2 || all[0].Path != "f.txt" || all[0].Conflicts == nil || all[1].Path != "new/made.txt" {
		t.Errorf("the conflicts: %+v", f.Details)
	}
}
