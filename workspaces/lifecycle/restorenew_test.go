package lifecycle_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// noRow is a store whose new rows meet insert first.
type noRow struct {
	assembly.Store
	insert func() error
}

func (n noRow) InsertWorkspace(ctx context.Context, w workspaces.Workspace) (workspaces.Workspace, error) {
	if err := n.insert(); err != nil {
		return w, err
	}
	return n.Store.InsertWorkspace(ctx, w)
}

// A workspace that is made of a snapshot has refs before its row: without the row nothing of them stays.
func TestInterruptedRestoreIntoNewWorkspaceLeavesNothing(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "later", "later\n")
	sn := h.Keep(w.ID, snapshot.Request{})
	p, err := h.S.Records.Project(ctx, w.ProjectID)
	wstest.Must(t, err)
	refs := func() string { return wstest.Git(t, p.GitDir, "for-each-ref") }
	before := refs()
	restore := func() (snapshot.Restored, error) {
		return h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{New: true, Name: "Again"})
	}
	with := func(insert func() error) {
		h.Stop()
		h.Cfg.Store = noRow{h.Store, insert}
		h.Start()
	}

	with(func() error { return errors.New("the disk is full") })
	if _, err := restore(); err == nil {
		t.Fatal("there is a workspace without a row")
	}
	if now := refs(); now != before {
		t.Errorf("a refused restore left\n%s\nof\n%s", now, before)
	}

	var atDeath string
	with(func() error {
		atDeath = refs()
		runtime.Goexit() // the server is killed: nothing behind this happens
		return nil
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = restore()
	}()
	<-done
	if !strings.Contains(atDeath, "refs/parawork/trash/") {
		t.Fatalf("there is nothing to be left:\n%s", atDeath)
	}
	with(func() error { return nil })
	if now := refs(); now != before {
		t.Errorf("a killed restore left\n%s\nof\n%s", now, before)
	}

	made, err := restore()
	wstest.Must(t, err)
	if wstest.Read(t, made.Workspace.Path, "later") != "later\n" {
		t.Error("the file is not what it was")
	}
	if notes, err := os.ReadDir(filepath.Join(h.Data, "restoring")); err != nil || len(notes) != 0 {
		t.Errorf("notes are left: %v %v", notes, err)
	}
	h.Stop()
	h.Start()
	if again, err := h.S.Records.Workspace(ctx, made.Workspace.ID); err != nil || again.State != workspaces.Ready {
		t.Errorf("after the next start it is %s, %v", again.State, err)
	}
}

// rowAlone is a store behind which a server is killed as soon as it has stored a new row.
type rowAlone struct{ assembly.Store }

func (r rowAlone) InsertWorkspace(ctx context.Context, w workspaces.Workspace) (workspaces.Workspace, error) {
	if _, err := r.Store.InsertWorkspace(ctx, w); err != nil {
		return w, err
	}
	runtime.Goexit()
	return w, nil
}

// A server that was killed when it had stored a new workspace has the next one make it, and know the secrets in its files, under the ID that
// the caller chose.
func TestRestoreIntoNewWorkspaceContinues(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "later", "later\n")
	sn := h.Keep(w.ID, snapshot.Request{})
	restore := func() (snapshot.Restored, error) {
		return h.S.Lifecycle.RestoreSnapshot(ctx, h.Actor, sn, snapshot.RestoreRequest{New: true, ID: "ws_again", Name: "Again"})
	}
	h.Stop()
	h.Cfg.Store = rowAlone{h.Store}
	h.Start()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = restore()
	}()
	<-done
	h.Stop()
	h.Cfg.Store = h.Store
	h.Start()
	if got, err := h.S.Records.Workspace(ctx, "ws_again"); err != nil || got.State != workspaces.Archived || len(h.Ses.Passed()) != 0 {
		t.Fatalf("it is %s, %v; secrets were passed on between %q", got.State, err, h.Ses.Passed())
	}
	made, err := restore()
	wstest.Must(t, err)
	if made.Workspace.ID != "ws_again" || made.Workspace.State != workspaces.Ready || wstest.Read(t, made.Workspace.Path, "later") != "later\n" {
		t.Errorf("made %+v", made.Workspace)
	}
	if passed := h.Ses.Passed(); !slices.Equal(passed, []string{w.ID + " ws_again"}) {
		t.Errorf("secrets were passed on between %q", passed)
	}
}
