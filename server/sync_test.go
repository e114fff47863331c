package server

import (
	"net/http"
	"testing"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/store"
	filesync "github.com/parawork/parawork/sync"
)

// The sync status of a remote disk is available without a sandbox, and a conflict can be settled once.
func TestSyncStatus(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	people := h.people(t)
	h.serve()
	ws := people.ids["workspace"]
	d := filesync.MirrorDelta{WorkspaceID: ws, TeamID: people.team.ID, State: filesync.MirrorState{State: filesync.Behind, Pending: 2, Reason: "The disk is full.", SyncedAt: 7},
		Upserts: []filesync.File{{Path: "big\xff", Size: 1 << 30, State: filesync.FileTooLarge, Reason: "It is too large."}, {Path: "ok", Hash: "h", State: filesync.FileSynced}}}
	if err := store.NewChanges(h.db).ApplyMirror(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	path := "/api/v1/workspaces/" + ws + "/sync"
	var got api.SyncStatus
	h.do(http.MethodGet, path, "", bearer(people.tokens["viewer"])...).into(t, &got)
	if got.State != api.Behind || got.Pending != 2 || got.Reason != "The disk is full." || got.SyncedAt == nil || *got.SyncedAt != 7 {
		t.Errorf("got %+v", got)
	}
	if len(got.NotSynced) != 1 || got.NotSynced[0].Path != "big\uf7ff" || got.NotSynced[0].State != api.NotSyncedStateTooLarge || got.NotSynced[0].Size != 1<<30 {
		t.Errorf("not synced: %+v", got.NotSynced)
	}
	if len(got.Conflicts) != 1 || got.Conflicts[0].Id != people.ids["conflict"] || got.Conflicts[0].KeptPath != "a.server" {
		t.Fatalf("conflicts: %+v", got.Conflicts)
	}
	for range 2 {
		if r := h.do(http.MethodDelete, "/api/v1/sync-conflicts/"+people.ids["conflict"], "", bearer(people.tokens["member"])...); r.StatusCode != http.StatusNoContent {
			t.Fatalf("settling: %d %s", r.StatusCode, r.body)
		}
	}
	h.do(http.MethodGet, path, "", bearer(people.tokens["viewer"])...).into(t, &got)
	if len(got.Conflicts) != 0 {
		t.Errorf("settled, and told still: %+v", got.Conflicts)
	}
}
