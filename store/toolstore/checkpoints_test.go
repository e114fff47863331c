package toolstore_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/checkpoints"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/snapshot"
)

// The oldest automatic checkpoints make room; those that somebody asked for stay, and other teams see none.
func TestCheckpointsAreBounded(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := storetest.Seed(t, db)
		ctx, rows, s := tenant.In(t.Context(), team.ID), store.NewWorkspaces(db), toolstore.NewCheckpoints(db)
		p := workspaces.Project{ID: id.New("prj"), TeamID: team.ID, Name: "p", CreatedBy: user.ID}
		if err := rows.InsertProject(ctx, p); err != nil {
			t.Fatal(err)
		}
		w, err := rows.InsertWorkspace(ctx, workspaces.Workspace{ID: id.New("ws"), TeamID: team.ID, ProjectID: p.ID, Name: "w", Base: "main", Executor: "local", State: workspaces.Ready, CreatedBy: user.ID})
		if err != nil {
			t.Fatal(err)
		}
		sn := snapshot.Snap{ID: id.New("snp"), TeamID: team.ID, WorkspaceID: w.ID, Kind: snapshot.SnapManual, At: 1, Commit: strings.Repeat("a", 40), Tree: strings.Repeat("b", 40), Head: strings.Repeat("c", 40)}
		if err := rows.InsertSnapshot(ctx, sn); err != nil {
			t.Fatal(err)
		}
		add := func(n int, why checkpoints.Reason, most int) error {
			return s.InsertCheckpoint(ctx, checkpoints.Checkpoint{ID: fmt.Sprintf("ckp_%02d", n), TeamID: team.ID, WorkspaceID: w.ID, SessionID: "ses_1", SnapshotID: sn.ID, Reason: why, At: int64(n),
				Messages: checkpoints.Messages{Items: n, Tail: []checkpoints.Message{{Role: "user", Text: "hello"}}}, Tasks: []checkpoints.Task{{ID: "T1"}}, Artifacts: []string{"art_1"}}, most)
		}
		for n, why := range []checkpoints.Reason{checkpoints.Manual, checkpoints.Prompt, checkpoints.Manual, checkpoints.Timeout, checkpoints.Prompt} {
			if err := add(n, why, 3); err != nil {
				t.Fatal(err)
			}
		}
		ids := func() (out []string) {
			for cursor, more := "", true; more; more = cursor != "" {
				items, next, err := s.Checkpoints(ctx, w.ID, page.Page{Limit: 2, Cursor: cursor})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range items {
					out = append(out, c.ID)
				}
				cursor = next
			}
			return out
		}
		if got := strings.Join(ids(), " "); got != "ckp_04 ckp_02 ckp_00" {
			t.Errorf("left are %s", got)
		}
		if err := add(5, checkpoints.Manual, 3); err != nil {
			t.Fatal(err)
		}
		if err := add(6, checkpoints.Prompt, 3); fault.CodeOf(err) != "checkpoints_full" {
			t.Errorf("a fourth beside three manual ones: %v", err)
		}
		last, err := s.SessionCheckpoint(ctx, "ses_1")
		if err != nil || last.ID != "ckp_05" || last.Messages.Items != 5 || len(last.Messages.Tail) != 1 || len(last.Tasks) != 1 || len(last.Artifacts) != 1 {
			t.Errorf("the newest is %+v, %v", last, err)
		}
		if used, err := rows.InCheckpoints(ctx, []string{sn.ID}); err != nil || !used[sn.ID] {
			t.Errorf("the snapshot is in a checkpoint: %v, %v", used, err)
		}
		if err := rows.DeleteSnapshots(ctx, []string{sn.ID}); err == nil {
			t.Error("the snapshot of a checkpoint could be removed")
		}
		if _, err := s.Checkpoint(tenant.In(t.Context(), "team_other"), last.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team reads it: %v", err)
		}
	})
}
