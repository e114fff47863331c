package store_test

import (
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

func TestWhatTeamsSayAboutPlaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		_, team := storetest.Seed(t, db)
		s := store.NewExecutors(db)
		if p, err := s.PlacePolicy(ctx, team.ID); err != nil || p != (choice.Policy{}) {
			t.Errorf("of a new team: %+v, %v", p, err)
		}
		want := choice.Policy{Weakest: executors.ContainerBoundary, Default: "docker"}
		if err := s.SetPlacePolicy(ctx, team.ID, want); err != nil {
			t.Fatal(err)
		}
		if p, err := s.PlacePolicy(ctx, team.ID); err != nil || p != want {
			t.Errorf("got %+v, %v; want %+v", p, err, want)
		}
		if err := s.SetPlacePolicy(ctx, "team_none", want); !fault.Is(err, fault.NotFound) {
			t.Errorf("of no team: %v", err)
		}
	})
}

func TestTeamsHaveGroupsOfTheirOwn(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		s := store.NewExecutors(db)
		seen := make(map[int64]string)
		for _, team := range []string{"team_1", "team_2", "team_1", "team_3"} {
			n, err := s.TeamGroup(t.Context(), team)
			if err != nil || n < 1 {
				t.Fatalf("group of %s: %d, %v", team, n, err)
			}
			if other, ok := seen[n]; ok && other != team {
				t.Errorf("%s and %s share group %d", team, other, n)
			}
			seen[n] = team
		}
		if len(seen) != 3 {
			t.Errorf("groups: %v", seen)
		}
	})
}

func TestProjectsAndWorkspacesKeepWhatTheySayAboutPlaces(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		_, ws := seedWorkspace(t, db)
		s := store.NewWorkspaces(db)
		w, err := s.EditWorkspace(ctx, ws, func(w *workspaces.Workspace) error {
			w.Executor, w.Limits.MemoryMB, w.AllowedHosts, w.Folder = "bubblewrap", 2048, []string{"example.com"}, "/home/ada/app"
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if w, err = s.Workspace(ctx, ws); err != nil || w.Executor != "bubblewrap" || w.Limits.MemoryMB != 2048 || len(w.AllowedHosts) != 1 || w.Folder != "/home/ada/app" {
			t.Errorf("workspace %+v, %v", w, err)
		}
		if _, err := s.EditProject(ctx, w.ProjectID, func(p *workspaces.Project) error {
			p.Executor, p.NoCaches, p.Limits.CPUs, p.Network = "docker", true, 1.5, executors.Network{Mode: executors.NetworkAllow, Allow: []string{"*.example.com"}}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		p, err := s.Project(ctx, w.ProjectID)
		if err != nil || p.Executor != "docker" || !p.NoCaches || p.Limits.CPUs != 1.5 || p.Network.Mode != executors.NetworkAllow || len(p.Network.Allow) != 1 {
			t.Errorf("project %+v, %v", p, err)
		}
	})
}
