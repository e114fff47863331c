package testkit_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/executors/e2b/e2btest"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/testing/testkit"
)

// The orchestrator of a self-hosted E2B restarts, and all sandboxes are gone at once: the workspaces say so, begin anew with every file that
// was synced, and no second is charged twice.
func TestTheOrchestratorOfE2BRestarts(t *testing.T) {
	c := cloudHarness(t, e2btest.Config{})
	began := time.Now()
	project := c.Sample()
	all := []testkit.Workspace{c.Workspace(project, "First"), c.Workspace(project, "Second")}
	for _, ws := range all {
		c.sh(ws, "echo kept by "+ws.ID+" > kept")
		c.same2(ws, "kept")
	}
	old := c.e2b.All()
	for _, b := range old {
		c.e2b.Crash(b.ID)
	}
	for _, ws := range all {
		c.Wait("the workspace says that its sandbox is gone", func() bool {
			b := boxOf(c.Instance, ws)
			return (b.State == "gone" || b.State == "failed") && strings.Contains(b.StateReason, "on the server as of")
		})
		if b, err := os.ReadFile(filepath.Join(ws.Path, "kept")); err != nil || string(b) != "kept by "+ws.ID+"\n" {
			t.Errorf("on the server: %q, %v", b, err)
		}
		if out := c.sh(ws, "cat kept"); out != "kept by "+ws.ID+"\n" {
			t.Errorf("the next sandbox has %q", out)
		}
	}
	if now := c.e2b.Alive(); len(now) != len(all) {
		t.Errorf("%d sandboxes of %d workspaces", len(now), len(all))
	}

	ctx := tenant.All(t.Context(), "a test")
	db, err := store.Open(ctx, store.Config{URL: "sqlite", DataDir: c.DataDir()})
	must(t, err)
	defer db.Close()
	var sandboxes, open, ms, overlaps int64
	must(t, db.QueryRow(ctx, `SELECT COUNT(DISTINCT sandbox_id), SUM(CASE WHEN ended_at = 0 THEN 1 ELSE 0 END), SUM(CASE WHEN ended_at = 0 THEN 0 ELSE ended_at - started_at END) FROM segments`).Scan(&sandboxes, &open, &ms))
	must(t, db.QueryRow(ctx, `SELECT COUNT(*) FROM segments a JOIN segments b ON a.workspace_id = b.workspace_id AND a.id < b.id
		WHERE a.started_at < CASE WHEN b.ended_at = 0 THEN 9000000000000 ELSE b.ended_at END AND b.started_at < CASE WHEN a.ended_at = 0 THEN 9000000000000 ELSE a.ended_at END`).Scan(&overlaps))
	if sandboxes != 4 || open != 2 || overlaps != 0 || ms > 2*time.Since(began).Milliseconds() {
		t.Errorf("charged: %d sandboxes, %d open segments, %d overlaps, %d ms that have ended", sandboxes, open, overlaps, ms)
	}
	for _, ws := range all {
		c.API("POST", "/workspaces/"+ws.ID+"/destroy-sandbox", nil, nil)
	}
}
