package workspaces_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parawork/parawork/workspaces"
)

// noRow is a store whose new rows meet insert first.
type noRow struct {
	*rows
	insert func() error
}

func (n noRow) InsertWorkspace(ctx context.Context, w workspaces.Workspace) (workspaces.Workspace, error) {
	if err := n.insert(); err != nil {
		return w, err
	}
	return n.rows.InsertWorkspace(ctx, w)
}

// A workspace that is made of a snapshot has refs before its row: without the row nothing of them stays.
func TestARestoreIntoANewWorkspaceThatIsCutLeavesNothing(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	write(t, w.Path, "later", "later\n")
	sn := h.keep(w.ID, workspaces.KeepFor{})
	p, err := h.s.Project(ctx, w.ProjectID)
	must(t, err)
	refs := func() string { return git(t, p.GitDir, "for-each-ref") }
	before := refs()
	restore := func() (workspaces.Restored, error) {
		return h.s.RestoreSnapshot(ctx, h.actor, sn, workspaces.RestoreRequest{New: true, Name: "Again"})
	}
	with := func(insert func() error) {
		h.stop()
		h.cfg.Store = noRow{h.store, insert}
		h.start()
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
	must(t, err)
	if read(t, made.Workspace.Path, "later") != "later\n" {
		t.Error("the file is not what it was")
	}
	if notes, err := os.ReadDir(filepath.Join(h.data, "restoring")); err != nil || len(notes) != 0 {
		t.Errorf("notes are left: %v %v", notes, err)
	}
	h.stop()
	h.start()
	if again, err := h.s.Workspace(ctx, made.Workspace.ID); err != nil || again.State != workspaces.Ready {
		t.Errorf("after the next start it is %s, %v", again.State, err)
	}
}
