package store_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// workspaceSeed is a team with a project.
func workspaceSeed(t *testing.T, db *store.DB) (*store.Workspaces, workspaces.Project) {
	t.Helper()
	user, team := storetest.Seed(t, db)
	s := store.NewWorkspaces(db)
	p := workspaces.Project{ID: id.New("prj"), TeamID: team.ID, Name: "p", SourceKind: "path", Source: "/x", GitDir: "/x/.git", State: workspaces.ProjectReady,
		CopyIgnored: []string{".env", "a b"}, CreatedBy: user.ID, CreatedAt: 7}
	if err := s.InsertProject(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	return s, p
}

func workspaceOf(p workspaces.Project, name string) workspaces.Workspace {
	return workspaces.Workspace{ID: id.New("ws"), TeamID: p.TeamID, ProjectID: p.ID, Name: name, Branch: "b", Base: "main", State: workspaces.Creating,
		Steps: []workspaces.Step{{Name: "fetch", State: "pending"}}, CreatedBy: p.CreatedBy, CreatedAt: 1, UpdatedAt: 1}
}

func TestWorkspaceNumbersNeverRepeat(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s, p := workspaceSeed(t, db)
		_, p2 := workspaceSeed(t, db)
		var wg sync.WaitGroup
		var mu sync.Mutex
		var nums []int64
		for i := range 12 {
			wg.Go(func() {
				w, err := s.InsertWorkspace(t.Context(), workspaceOf(p, fmt.Sprint(i)))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				nums = append(nums, w.Num)
				mu.Unlock()
			})
		}
		wg.Wait()
		slices.Sort(nums)
		if !slices.Equal(nums, []int64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12}) {
			t.Errorf("numbers %v", nums)
		}
		if w, err := s.InsertWorkspace(t.Context(), workspaceOf(p2, "x")); err != nil || w.Num != 1 {
			t.Errorf("another team begins at %d: %v", w.Num, err)
		}
		other := workspaceOf(p, "x")
		other.TeamID = p2.TeamID
		if _, err := s.InsertWorkspace(t.Context(), other); !fault.Is(err, fault.NotFound) {
			t.Errorf("a project of another team was used: %v", err)
		}
	})
}

func TestWorkspaceRowsComeBackWhole(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s, p := workspaceSeed(t, db)
		got, err := s.Project(t.Context(), p.ID)
		if err != nil || got.Name != "p" || !slices.Equal(got.CopyIgnored, p.CopyIgnored) || got.CreatedAt != 7 {
			t.Errorf("%+v %v", got, err)
		}
		w, err := s.InsertWorkspace(t.Context(), workspaceOf(p, "n"))
		if err != nil {
			t.Fatal(err)
		}
		w, err = s.EditWorkspace(t.Context(), w.ID, func(w *workspaces.Workspace) error {
			w.State, w.Path, w.MergedCommit = workspaces.Ready, "/p", "abc"
			w.Steps[0].State = "done"
			w.Snapshot = &workspaces.Snapshot{Ref: "r", Unmerged: 3}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.Workspace(t.Context(), w.ID)
		if err != nil || back.State != workspaces.Ready || back.Path != "/p" || back.Steps[0].State != "done" || back.Snapshot == nil || back.Snapshot.Unmerged != 3 || back.Num != 1 {
			t.Errorf("%+v %v", back, err)
		}
		boom := errors.New("boom")
		if _, err := s.EditWorkspace(t.Context(), w.ID, func(w *workspaces.Workspace) error { w.Name = "changed"; return boom }); !errors.Is(err, boom) {
			t.Errorf("%v", err)
		}
		if back, _ = s.Workspace(t.Context(), w.ID); back.Name != "n" {
			t.Error("a refused edit was stored")
		}
		if _, err := s.EditWorkspace(t.Context(), "ws_none", func(*workspaces.Workspace) error { return nil }); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if err := s.DeleteProject(t.Context(), p.ID, "usr_1", 5); fault.CodeOf(err) != "project_has_workspaces" {
			t.Errorf("%v", err)
		}
		if _, err := s.Project(t.Context(), p.ID); err != nil {
			t.Errorf("a refused deletion was stored: %v", err)
		}
		if list, err := s.WorkspacesIn(t.Context(), workspaces.Ready, workspaces.Paused); err != nil || len(list) != 1 {
			t.Errorf("%v %v", list, err)
		}
		if _, err := s.EditWorkspace(t.Context(), w.ID, func(w *workspaces.Workspace) error { w.DeletedAt = 9; return nil }); err != nil {
			t.Fatal(err)
		}
		for show, n := range map[workspaces.Show]int{"": 0, workspaces.ShowActive: 0, workspaces.ShowArchived: 0, workspaces.ShowTrash: 1, workspaces.ShowAll: 0} {
			if list, _, err := s.Workspaces(t.Context(), p.TeamID, workspaces.Filter{Show: show}, page.Page{}); err != nil || len(list) != n {
				t.Errorf("%q: %d %v", show, len(list), err)
			}
		}
		if err := s.DeleteProject(t.Context(), p.ID, "usr_1", 5); err != nil {
			t.Error(err)
		}
		if _, err := s.Project(t.Context(), p.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if _, err := s.InsertWorkspace(t.Context(), workspaceOf(p, "late")); !fault.Is(err, fault.NotFound) {
			t.Errorf("a deleted project took a workspace: %v", err)
		}
	})
}

func TestActivityIsPaged(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s, p := workspaceSeed(t, db)
		w, err := s.InsertWorkspace(t.Context(), workspaceOf(p, "n"))
		if err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			a := workspaces.Activity{ID: id.New("act"), TeamID: p.TeamID, WorkspaceID: w.ID, At: int64(i / 2), Kind: "k", Text: fmt.Sprint(i), Data: map[string]any{"n": i}}
			if err := s.InsertActivity(t.Context(), a); err != nil {
				t.Fatal(err)
			}
		}
		var texts string
		pg := page.Page{Limit: 2}
		for {
			items, next, err := s.Activity(t.Context(), w.ID, pg)
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range items {
				texts += a.Text
				if a.Data["n"] == nil {
					t.Errorf("%+v", a)
				}
			}
			if pg.Cursor = next; next == "" {
				break
			}
		}
		if texts != "43210" {
			t.Errorf("order %q", texts)
		}
		if _, _, err := s.Activity(t.Context(), w.ID, page.Page{Cursor: "rubbish"}); !fault.Is(err, fault.Invalid) {
			t.Errorf("%v", err)
		}
	})
}
