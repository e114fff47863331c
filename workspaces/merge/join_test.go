package merge_test

import (
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// siblings are a workspace with an uncommitted change, and another one that began with its files.
func siblings(t *testing.T, h *wstest.Env) (w, other workspaces.Workspace, r workspaces.JoinRequest) {
	t.Helper()
	w = h.Workspace()
	wstest.Write(t, w.Path, "lines.txt", "1\n2\n3\n4\n5\n6\n7\n8\n9\n")
	h.Commit(w, "Add lines")
	wstest.Write(t, w.Path, "lines.txt", "one\n2\n3\n4\n5\n6\n7\n8\n9\n")
	wstest.Write(t, w.Path, "draft.txt", "draft\n")
	sn := h.Keep(w.ID, snapshot.Request{Kind: snapshot.SnapManual})
	made, err := h.S.Lifecycle.RestoreSnapshot(t.Context(), h.Actor, sn, snapshot.RestoreRequest{New: true, Name: "Other"})
	wstest.Must(t, err)
	other = h.Settled(made.Workspace.ID)
	if wstest.Read(t, other.Path, "draft.txt") != "draft\n" {
		t.Fatal("the other one does not begin with the files")
	}
	return w, other, workspaces.JoinRequest{From: other.ID, Began: sn.Commit, BeganHead: sn.Head}
}

func join(t *testing.T, h *wstest.Env, w workspaces.Workspace, r workspaces.JoinRequest) workspaces.UpdateResult {
	t.Helper()
	u, err := h.S.Merging.Join(t.Context(), h.Actor, w.ID, r)
	wstest.Must(t, err)
	return u
}

// What another workspace did since it began is merged, once; uncommitted changes with which both began stay uncommitted, and later ones too.
func TestJoin(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w, other, r := siblings(t, h)
	wstest.Write(t, other.Path, "theirs.txt", "theirs\n")
	wstest.Write(t, other.Path, "lines.txt", "one\n2\n3\n4\n5\n6\n7\n8\nnine\n")
	h.Commit(other, "Their work")
	wstest.Write(t, w.Path, "lines.txt", "ONE\n2\n3\n4\n5\n6\n7\n8\n9\n")
	wstest.Write(t, w.Path, "draft.txt", "second draft\n")
	u := join(t, h, w, r)
	if !u.Updated || u.SnapshotID == "" || wstest.Git(t, w.Path, "log", "-1", "--format=%P") != u.Head+" "+u.BaseCommit {
		t.Fatalf("%+v", u)
	}
	if got := wstest.Read(t, w.Path, "lines.txt"); got != "ONE\n2\n3\n4\n5\n6\n7\n8\nnine\n" {
		t.Errorf("lines: %q", got)
	}
	if wstest.Read(t, w.Path, "draft.txt") != "second draft\n" || wstest.Read(t, w.Path, "theirs.txt") != "theirs\n" {
		t.Error("a file of one side is lost")
	}
	if got := wstest.Git(t, w.Path, "show", "HEAD:lines.txt"); got != "1\n2\n3\n4\n5\n6\n7\n8\nnine" {
		t.Errorf("committed: %q", got)
	}
	if got := wstest.Git(t, w.Path, "status", "--porcelain"); got != " M lines.txt\n?? draft.txt" {
		t.Errorf("status: %q", got)
	}
	if row, err := h.S.Records.Workspace(t.Context(), w.ID); err != nil || row.BaseCommit != w.BaseCommit {
		t.Errorf("the base is now %s, %v", row.BaseCommit, err)
	}
	if u := join(t, h, w, r); !u.UpToDate || u.Updated {
		t.Errorf("again: %+v", u)
	}
	wstest.Write(t, other.Path, "theirs.txt", "theirs, again\n")
	h.Commit(other, "More work")
	if u := join(t, h, w, r); !u.Updated || u.Commits != 1 || wstest.Read(t, w.Path, "theirs.txt") != "theirs, again\n" || wstest.Read(t, w.Path, "draft.txt") != "second draft\n" {
		t.Errorf("more: %+v", u)
	}
}

// A change of the other one to an uncommitted change of this one is merged into it.
func TestJoinOnTopOfUncommittedChanges(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w, other, r := siblings(t, h)
	wstest.Write(t, other.Path, "draft.txt", "draft\nand theirs\n")
	h.Commit(other, "Their work")
	u := join(t, h, w, r)
	if !u.Updated || wstest.Read(t, w.Path, "draft.txt") != "draft\nand theirs\n" || wstest.Read(t, w.Path, "lines.txt") != "one\n2\n3\n4\n5\n6\n7\n8\n9\n" {
		t.Errorf("%+v", u)
	}
}

// Conflicts leave everything as it was, whether they are with commits or with uncommitted changes.
func TestJoinWithConflicts(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	w, other, r := siblings(t, h)
	wstest.Write(t, other.Path, "draft.txt", "theirs\n")
	wstest.Write(t, other.Path, "more.txt", "more\n")
	h.Commit(other, "Their work")
	wstest.Write(t, w.Path, "draft.txt", "mine\n")
	before := wstest.Git(t, w.Path, "status", "--porcelain") + wstest.Git(t, w.Path, "rev-parse", "HEAD")
	same := func() {
		t.Helper()
		if now := wstest.Git(t, w.Path, "status", "--porcelain") + wstest.Git(t, w.Path, "rev-parse", "HEAD"); now != before || wstest.Read(t, w.Path, "draft.txt") != "mine\n" {
			t.Errorf("it was %q and is %q", before, now)
		}
	}
	if u := join(t, h, w, r); u.Updated || len(u.Dirty) != 1 || u.Dirty[0] != "draft.txt" {
		t.Errorf("%+v", u)
	}
	same()
	h.Commit(w, "My work")
	before = wstest.Git(t, w.Path, "status", "--porcelain") + wstest.Git(t, w.Path, "rev-parse", "HEAD")
	if u := join(t, h, w, r); u.Updated || len(u.Conflicts) != 1 || u.Conflicts[0].Path != "draft.txt" {
		t.Errorf("%+v", u)
	}
	same()
	_, err := h.S.Merging.Join(t.Context(), h.Actor, other.ID, r)
	wstest.WantCode(t, err, "workspace_not_found")
}
