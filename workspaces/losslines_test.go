package workspaces_test

import (
	"context"
	"testing"
)

// Whoever turns the line ends of a file changes it: the timeline has both.
func TestSnapshotsHoldChangedLineEnds(t *testing.T) {
	t.Parallel()
	h := sqliteHouse(t)
	ctx := context.Background()
	w := h.workspace()
	write(t, w.Path, "run.bat", "one\ntwo\n")
	must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"run.bat"}, true))
	write(t, w.Path, "run.bat", "one\r\ntwo\r\n")
	must(t, h.s.Polled(ctx, w.ID, w.BaseCommit, []string{"run.bat"}, false))
	sn, err := h.s.Now(ctx, w.ID)
	must(t, err)
	if got := h.fileOf(w, sn.ID, "run.bat"); got != "one\r\ntwo\r\n" {
		t.Errorf("the file has %q", got)
	}
}
