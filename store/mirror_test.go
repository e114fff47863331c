package store_test

import (
	"reflect"
	"strconv"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	filesync "github.com/parawork/parawork/sync"
)

func TestMirror(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		st := store.NewChanges(db)
		team, _, all := sessionHarness(t, db)
		ws := all[0]
		if got, err := st.MirrorState(ctx, ws); err != nil || got != (filesync.MirrorState{}) {
			t.Fatalf("before the first: %+v, %v", got, err)
		}
		d := filesync.MirrorDelta{WorkspaceID: ws, TeamID: team, State: filesync.MirrorState{SandboxID: "sbx_1", BaseCommit: "b", State: filesync.Syncing, Pending: 3, SyncedAt: 5}}
		for i := range 1200 {
			d.Upserts = append(d.Upserts, filesync.File{Path: "f" + strconv.Itoa(10_000+i), Hash: "h", Mode: "100644", Size: int64(i), State: filesync.FileSynced, At: 5})
		}
		odd := filesync.File{Path: "a\xff\n", Size: 1 << 40, State: filesync.FileTooLarge, Reason: "too large", At: 6}
		d.Upserts = append(d.Upserts, odd)
		conflicts := []filesync.Conflict{{ID: "sco_2", TeamID: team, WorkspaceID: ws, Path: "x\xfe", Kept: "x\xfe.server", FoundAt: 7},
			{ID: "sco_1", TeamID: team, WorkspaceID: ws, Path: "y", Kept: "y.server", FoundAt: 8}}
		d.Conflicts = conflicts
		if err := st.ApplyMirror(ctx, d); err != nil {
			t.Fatal(err)
		}
		files, err := st.MirrorFiles(ctx, ws)
		if err != nil || len(files) != 1201 || files[0] != odd || files[1200] != d.Upserts[1199] {
			t.Fatalf("%d files, %v", len(files), err)
		}
		if got, err := st.NotSynced(ctx, ws, 10); err != nil || !reflect.DeepEqual(got, []filesync.File{odd}) {
			t.Errorf("not synced: %v, %v", got, err)
		}
		if got, err := st.MirrorState(ctx, ws); err != nil || got != d.State {
			t.Errorf("state %+v, %v", got, err)
		}
		if got, err := st.OpenConflicts(ctx, ws, 10); err != nil || !reflect.DeepEqual(got, conflicts) {
			t.Errorf("conflicts %v, %v", got, err)
		}
		for range 2 {
			if err := st.SettleConflict(ctx, "sco_2", 9); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := st.Conflict(ctx, "sco_2"); err != nil || got.SettledAt != 9 || got.Path != "x\xfe" {
			t.Errorf("settled %+v, %v", got, err)
		}
		if got, err := st.OpenConflicts(ctx, ws, 10); err != nil || len(got) != 1 || got[0].ID != "sco_1" {
			t.Errorf("open %v, %v", got, err)
		}
		if _, err := st.Conflict(ctx, "sco_none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("got %v", err)
		}
		next := filesync.MirrorDelta{WorkspaceID: ws, TeamID: team, State: filesync.MirrorState{State: filesync.Synced}}
		for _, f := range d.Upserts[:1199] {
			next.Removes = append(next.Removes, f.Path)
		}
		changed := odd
		changed.State, changed.Hash, changed.Mode = filesync.FileSynced, "n", "120000"
		next.Upserts = []filesync.File{changed}
		if err := st.ApplyMirror(ctx, next); err != nil {
			t.Fatal(err)
		}
		if got, err := st.MirrorFiles(ctx, ws); err != nil || !reflect.DeepEqual(got, []filesync.File{changed, d.Upserts[1199]}) {
			t.Errorf("left %v, %v", got, err)
		}
		if got, err := st.MirrorFiles(ctx, all[1]); err != nil || len(got) != 0 {
			t.Errorf("another workspace has %v, %v", got, err)
		}
	})
}
