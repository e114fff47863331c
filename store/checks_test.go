package store_test

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/overlap"
	"github.com/parawork/parawork/workspaces/snapshot"
)

func TestChecksAndQueueRows(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, team := storetest.Seed(t, db)
		ws := store.NewWorkspaces(db)
		if err := ws.InsertProject(ctx, workspaces.Project{ID: "p", TeamID: team.ID, Name: "p", State: workspaces.ProjectReady, CreatedBy: user.ID}); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"w1", "w2", "w3"} {
			if _, err := ws.InsertWorkspace(ctx, workspaces.Workspace{ID: id, TeamID: team.ID, ProjectID: "p", Name: id, Branch: id, State: workspaces.Ready, CreatedBy: user.ID}); err != nil {
				t.Fatal(err)
			}
		}
		s := store.NewChecks(db)
		run := func(id, check, queue string, at int64) checks.Run {
			return checks.Run{ID: id, TeamID: team.ID, WorkspaceID: "w1", ProjectID: "p", BatchID: "b", CheckID: check, QueueID: queue, State: checks.RunWaiting, CreatedAt: at, Required: true}
		}
		if err := s.InsertCheckRuns(ctx, []checks.Run{run("r1", "c", "", 1), run("r2", "c", "", 2), run("r3", "d", "", 2), run("r4", "c", "q", 3)}); err != nil {
			t.Fatal(err)
		}
		code := int64(3)
		for _, id := range []string{"r1", "r2"} {
			r, err := s.EditCheckRun(ctx, id, func(r *checks.Run) error {
				r.State, r.ExitCode, r.Output, r.Tree, r.EndedAt, r.Truncated = checks.RunFailed, &code, "out", "tree", 9, true
				return nil
			})
			if err != nil || r.Output != "out" {
				t.Fatal(r, err)
			}
		}
		got, err := s.CheckRun(ctx, "r2")
		if err != nil || got.Output != "out" || *got.ExitCode != 3 || !got.Truncated || !got.Required || got.State != checks.RunFailed {
			t.Errorf("%+v %v", got, err)
		}
		if _, err := s.CheckRun(ctx, "none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("none: %v", err)
		}
		ids := func(list []checks.Run, err error) (out []string) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			for _, r := range list {
				out = append(out, r.ID)
			}
			slices.Sort(out)
			return out
		}
		if a, b, c, d := ids(s.LatestRuns(ctx, team.ID)), ids(s.OpenCheckRuns(ctx)), ids(s.QueueRuns(ctx, []string{"q", "x"})), ids(s.CheckRuns(ctx, "w1", 10)); !slices.Equal(a, []string{"r2", "r3"}) ||
			!slices.Equal(b, []string{"r3", "r4"}) || !slices.Equal(c, []string{"r4"}) || len(d) != 4 {
			t.Errorf("latest %v, open %v, of the queue %v, all %v", a, b, c, d)
		}
		if err := s.DropCheckRuns(ctx, "w1", 1); err != nil {
			t.Fatal(err)
		}
		if d := ids(s.CheckRuns(ctx, "w1", 10)); !slices.Equal(d, []string{"r3", "r4"}) { // those that have not ended stay
			t.Errorf("kept %v", d)
		}
		for i, tree := range []string{"old", "new"} {
			if err := ws.InsertSnapshot(ctx, snapshot.Snap{ID: tree, TeamID: team.ID, WorkspaceID: "w1", Kind: snapshot.SnapPoll, Tree: tree, At: int64(i + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		if now, err := s.FilesNow(ctx, team.ID); err != nil || len(now) != 1 || now["w1"].Tree != "new" {
			t.Errorf("now %v %v", now, err)
		}

		entry := func(id, w string) error {
			_, err := s.InsertEntry(ctx, checks.Entry{ID: id, TeamID: team.ID, ProjectID: "p", WorkspaceID: w, State: checks.EntryWaiting, CreatedAt: 1})
			return err
		}
		if err := entry("e1", "w1"); err != nil {
			t.Fatal(err)
		}
		if err := entry("e2", "w2"); err != nil {
			t.Fatal(err)
		}
		if err := entry("e3", "w1"); fault.CodeOf(err) != "merge_queued" {
			t.Errorf("twice: %v", err)
		}
		if _, err := s.EditEntry(ctx, "e1", func(e *checks.Entry) error { e.State, e.EndedAt, e.Commit = checks.EntryMerged, 5, "c"; return nil }); err != nil {
			t.Fatal(err)
		}
		if err := entry("e3", "w1"); err != nil {
			t.Fatal(err)
		}
		open, err := s.OpenEntries(ctx, "p")
		if err != nil || len(open) != 2 || open[0].ID != "e2" || open[1].ID != "e3" || open[1].Position != 3 {
			t.Errorf("open %+v %v", open, err)
		}
		if all, err := s.TeamEntries(ctx, team.ID); err != nil || len(all) != 2 {
			t.Errorf("of the team %v %v", all, err)
		}
		if done, err := s.EndedEntries(ctx, "p", 5); err != nil || len(done) != 1 || done[0].Commit != "c" {
			t.Errorf("ended %v %v", done, err)
		}
		if e, err := s.NewestEntry(ctx, "w1"); err != nil || e == nil || e.ID != "e3" {
			t.Errorf("newest %v %v", e, err)
		}
		if e, err := s.NewestEntry(ctx, "w3"); err != nil || e != nil {
			t.Errorf("none %v %v", e, err)
		}

		o := store.NewOverlaps(db)
		over := func(a, b, file string) overlap.Overlap {
			return overlap.Overlap{TeamID: team.ID, ProjectID: "p", FirstID: a, SecondID: b, Files: []overlap.File{{Path: file, Kind: "content"}}}
		}
		changed := func(id string, list ...overlap.Overlap) []string {
			t.Helper()
			c, err := o.ReplaceOverlaps(ctx, id, list)
			if err != nil {
				t.Fatal(err)
			}
			slices.Sort(c)
			return c
		}
		if c := changed("w1", over("w1", "w2", "a"), over("w1", "w3", "a")); !slices.Equal(c, []string{"w1", "w2", "w3"}) {
			t.Errorf("changed %v", c)
		}
		if c := changed("w1", over("w1", "w2", "a"), over("w1", "w3", "b")); !slices.Equal(c, []string{"w1", "w3"}) {
			t.Errorf("changed %v", c)
		}
		if c := changed("w3"); !slices.Equal(c, []string{"w1", "w3"}) {
			t.Errorf("changed %v", c)
		}
		all, err := o.ProjectOverlaps(ctx, "p")
		if err != nil || len(all) != 1 || all[0].Second.Name != "w2" || all[0].First.Num == 0 || all[0].Files[0].Path != "a" {
			t.Errorf("overlaps %+v %v", all, err)
		}
		if all, err := o.TeamOverlaps(ctx, team.ID); err != nil || len(all) != 1 {
			t.Errorf("of the team %v %v", all, err)
		}
		if trees, err := o.NewestTrees(ctx, "p"); err != nil || trees["w1"] != "new" {
			t.Errorf("trees %v %v", trees, err)
		}
	})
}
