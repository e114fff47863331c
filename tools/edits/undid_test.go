package edits_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/tools/edits"
	"github.com/parawork/parawork/workspaces/lifecycle"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// What an agent changes after an undo that failed is not the person's, and marks no edit as undone.
func TestFailedUndoClaimsNoLaterChange(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	last := func() edits.Edit { all := b.list(); return all[len(all)-1] }
	unclaimed := func(what string, of edits.Edit) {
		t.Helper()
		e := last()
		was, err := b.s.Get(t.Context(), b.w.ID, of.ID)
		wstest.Must(t, err)
		if e.ID == of.ID || e.Evidence == edits.ByOperation || e.UndoOf != "" || e.UserID != "" || was.UndoneAt != 0 {
			t.Errorf("%s: %+v; the edit: %+v", what, e, was)
		}
	}
	wstest.Write(t, b.w.Path, "f.txt", ten)
	b.list()
	wstest.Write(t, b.w.Path, "f.txt", strings.Replace(ten, "2\n", "two\n", 1))
	of := last()
	wstest.Write(t, b.w.Path, "f.txt", strings.Replace(ten, "2\n", "TWO\n", 1))
	last()
	wstest.WantCode(t, b.undo(of), "edit_conflict")
	kept, _, err := b.S.Snapshots.Snapshots(t.Context(), b.w.ID, []string{snapshot.SnapKept}, page.Page{Limit: page.MaxLimit})
	wstest.Must(t, err)
	for _, sn := range kept {
		if sn.Reason == lifecycle.SnapUndo {
			t.Errorf("an undo that wrote nothing left a snapshot: %+v", sn)
		}
	}
	wstest.Write(t, b.w.Path, "f.txt", strings.Replace(ten, "2\n", "2nd\n", 1))
	unclaimed("after a conflict", of)

	wstest.Write(t, b.w.Path, "f.txt", strings.Replace(ten, "2\n", "two\n", 1)+"11\n")
	last()
	dies := func() { // an undo that took its snapshot and then wrote nothing
		b.Keep(b.w.ID, snapshot.Request{Reason: lifecycle.SnapUndo, Title: of.ID, ActorID: b.Actor.User.ID})
	}
	dies()
	wstest.Write(t, b.w.Path, "other.txt", "1\n")
	unclaimed("another file", of)
	dies()
	wstest.Write(t, b.w.Path, "f.txt", strings.Replace(ten, "2\n", "two\n", 1)+"12\n")
	unclaimed("the same file", of)
	dies()
	wstest.Write(t, b.w.Path, "f.txt", ten+"12\n") // the inverse, among later changes
	e := last()
	was, err := b.s.Get(t.Context(), b.w.ID, of.ID)
	wstest.Must(t, err)
	if e.UndoOf != of.ID || e.UserID != b.Actor.User.ID || was.UndoneAt == 0 {
		t.Errorf("an undo that was written: %+v; the edit: %+v", e, was)
	}
}

// An undo of a rename that ended between its two steps is finished by the next one.
func TestUndoOfARenameGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	wstest.Write(t, b.w.Path, "old.txt", ten)
	b.list()
	wstest.Must(t, os.Rename(filepath.Join(b.w.Path, "old.txt"), filepath.Join(b.w.Path, "new.txt")))
	all := b.list()
	e := all[len(all)-1]
	if e.Kind != edits.Renamed {
		t.Fatalf("%+v", e)
	}
	wstest.Write(t, b.w.Path, "old.txt", "another\n")
	wstest.WantCode(t, b.undo(e), "edit_conflict")
	if b.read("old.txt") != "another\n" || b.read("new.txt") != ten {
		t.Error("a conflict changed a file")
	}
	wstest.Must(t, os.Remove(filepath.Join(b.w.Path, "old.txt")))
	wstest.Write(t, b.w.Path, "new.txt", ten+"11\n")
	b.list()
	b.Keep(b.w.ID, snapshot.Request{Reason: lifecycle.SnapUndo, Title: e.ID, ActorID: b.Actor.User.ID})
	wstest.Write(t, b.w.Path, "old.txt", ten+"11\n") // what the undo writes first
	b.list()
	if half, err := b.s.Get(t.Context(), b.w.ID, e.ID); err != nil || half.UndoneAt != 0 {
		t.Errorf("half of an undo: %+v, %v", half, err)
	}
	wstest.Must(t, b.undo(e))
	if b.read("old.txt") != ten+"11\n" || b.read("new.txt") != "-" {
		t.Errorf("old %q, new %q", b.read("old.txt"), b.read("new.txt"))
	}
	again, err := b.s.Get(t.Context(), b.w.ID, e.ID)
	wstest.Must(t, err)
	if again.UndoneAt == 0 {
		t.Errorf("%+v", again)
	}
}

// An agent whose record has costly diffs does not keep the timelines of others waiting.
func TestCostlyDiffsAreGivenUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, wstest.SQLiteEnv(t))
	wstest.Write(t, b.w.Path, "f.txt", strings.Repeat("\n", 190_000))
	wstest.Write(t, b.w.Path, "long.txt", strings.Repeat("\n", 1<<20))
	b.list()
	for range 20 {
		b.agents.edits("ses_1", "f.txt", "@@\n"+strings.Repeat("-\n", 16_000)+"-x\n")
		b.agents.edits("ses_1", "long.txt", "@@\n"+strings.Repeat("-\n", 16_000)+"-x\n")
	}
	wstest.Write(t, b.w.Path, "f.txt", strings.Repeat("\n", 190_001))
	wstest.Write(t, b.w.Path, "long.txt", strings.Repeat("\n", 1<<20)+"1\n")
	began := time.Now()
	all := b.list()
	if took := time.Since(began); took > 30*time.Second {
		t.Errorf("it took %s", took)
	}
	for _, e := range all[len(all)-2:] {
		if e.Evidence != edits.ByInterval || len(e.Calls) != 20 {
			t.Errorf("%+v", e)
		}
	}
}
