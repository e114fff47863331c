package store_test

import (
	"context"
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// strict opens the database of cfg as the program does: work that names no team touches none.
func strict(t *testing.T, fn func(t *testing.T, db *store.DB)) {
	t.Helper()
	test := func(t *testing.T, cfg store.Config) {
		db, err := store.Open(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { db.Close() })
		fn(t, db)
	}
	t.Run("sqlite", func(t *testing.T) { test(t, store.Config{URL: "sqlite", DataDir: t.TempDir()}) })
	t.Run("postgres", func(t *testing.T) { test(t, store.Config{URL: storetest.PostgresURL(t)}) })
}

func TestASVS_8_4_1_WorkTouchesTheRowsOfItsTeamsAlone(t *testing.T) {
	t.Parallel()
	strict(t, func(t *testing.T, db *store.DB) {
		bare := t.Context()
		all := tenant.All(bare, "a test")
		_, mine := storetest.Seed(t, db)
		_, theirs := storetest.Seed(t, db)
		_, third := storetest.Seed(t, db)
		in := func(teams ...accounts.Team) context.Context {
			ids := []string{}
			for _, team := range teams {
				ids = append(ids, team.ID)
			}
			return tenant.In(bare, ids...)
		}
		s := store.NewWorkspaces(db)
		project := workspaces.Project{ID: id.New("prj"), TeamID: mine.ID, Name: "engine", SourceKind: "sample", State: "ready", CreatedBy: "usr_1", CreatedAt: 1}

		for name, ctx := range map[string]context.Context{"no scope": bare, "another team's": in(theirs), "no team": in()} {
			if err := s.InsertProject(ctx, project); fault.KindOf(err) != fault.Internal {
				t.Errorf("a new row with %s scope: %v", name, err)
			}
		}
		if err := s.InsertProject(in(mine), project); err != nil {
			t.Fatal(err)
		}
		for name, ctx := range map[string]context.Context{"own": in(mine), "several": in(theirs, third, mine), "all": all} {
			if p, err := s.Project(ctx, project.ID); err != nil || p.Name != "engine" {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
			if list, _, err := s.Projects(ctx, mine.ID, page.Page{}); err != nil || len(list) != 1 {
				t.Errorf("list, %s: %+v, %v", name, list, err)
			}
			if _, err := s.EditProject(ctx, project.ID, func(p *workspaces.Project) error { p.SetupScript = name; return nil }); err != nil {
				t.Errorf("edit, %s: %v", name, err)
			}
		}
		for name, ctx := range map[string]context.Context{"another team's": in(theirs), "others'": in(theirs, third), "none": in()} {
			if p, err := s.Project(ctx, project.ID); !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %+v, %v", name, p, err)
			}
			if list, _, err := s.Projects(ctx, mine.ID, page.Page{}); fault.KindOf(err) != fault.Internal {
				t.Errorf("list, %s: %+v, %v", name, list, err)
			}
			if _, err := s.EditProject(ctx, project.ID, func(p *workspaces.Project) error { p.Name = "theirs"; return nil }); !fault.Is(err, fault.NotFound) {
				t.Errorf("edit, %s: %v", name, err)
			}
			if err := s.DeleteProject(ctx, project.ID, "usr_1", 5); !fault.Is(err, fault.NotFound) {
				t.Errorf("delete, %s: %v", name, err)
			}
		}
		if _, err := s.Project(bare, project.ID); fault.KindOf(err) != fault.Internal {
			t.Errorf("work without a scope: %v", err)
		}
		if p, err := s.Project(all, project.ID); err != nil || p.Name != "engine" || p.SetupScript == "" {
			t.Errorf("after all of that: %+v, %v", p, err)
		}
	})
}

// People's own rows have no team: they stay theirs, whichever teams they work in.
func TestRowsOfPeopleHaveNoTeam(t *testing.T) {
	t.Parallel()
	strict(t, func(t *testing.T, db *store.DB) {
		u, mine := storetest.Seed(t, db)
		_, theirs := storetest.Seed(t, db)
		s := store.NewAccounts(db)
		own := accounts.AgentAccount{ID: id.New("acc"), Holder: accounts.Holder{UserID: u.ID}, Agent: "codex", Name: "own", Kind: accounts.Terminal, CreatedBy: u.ID}
		shared := accounts.AgentAccount{ID: id.New("acc"), Holder: accounts.Holder{TeamID: mine.ID}, Agent: "codex", Name: "shared", Kind: accounts.Terminal, CreatedBy: u.ID}
		in := tenant.In(t.Context(), mine.ID)
		for _, a := range []accounts.AgentAccount{own, shared} {
			if ok, err := s.InsertAgentAccount(in, a); err != nil || !ok {
				t.Fatalf("%s: %v", a.Name, err)
			}
		}
		elsewhere := tenant.In(t.Context(), theirs.ID)
		if _, err := s.AgentAccount(elsewhere, own.ID); err != nil {
			t.Errorf("a person's own account, in another team: %v", err)
		}
		if _, err := s.AgentAccount(elsewhere, shared.ID); !fault.Is(err, fault.NotFound) {
			t.Errorf("a team's account, in another team: %v", err)
		}
	})
}
