package workspaces_test

import (
	"context"
	"testing"

	"github.com/parawork/parawork/testing/wstest"
)

// Changing a file's line ends changes the file: the timeline has both versions.
func TestSnapshotsHoldChangedLineEnds(t *testing.T) {
	t.Parallel()
	h := wstest.SQLiteEnv(t)
	ctx := context.Background()
	w := h.Workspace()
	wstest.Write(t, w.Path, "run.bat", "one\ntwo\n")
	wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"run.bat"}, true))
	wstest.Write(t, w.Path, "run.bat", "one\r\ntwo\r\n")
	wstest.Must(t, h.S.Snapshots.Polled(ctx, w.ID, w.BaseCommit, []string{"run.bat"}, false))
	sn, err := h.S.Snapshots.Now(ctx, w.ID)
	wstest.Must(t, err)
	if got := h.FileOf(w, sn.ID, "run.bat"); got != "one\r\ntwo\r\n" {
		t.Errorf("the file has %q", got)
	}
}
