package toolstore_test

import (
	"testing"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
)

func TestToolGroups(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := storetest.Seed(t, db)
		ctx := tenant.In(t.Context(), team.ID)
		if _, err := db.Exec(tenant.All(ctx, "a test"), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
			VALUES ('prj', ?, 'p', 'sample', '', '', 'ready', ?, 1)`, team.ID, user.ID); err != nil {
			t.Fatal(err)
		}
		s := toolstore.NewGroups(db)
		if got, err := s.ToolGroups(ctx, "prj"); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
		for _, want := range []map[string]bool{{"tasks": false, "commands": true}, {"memory": false}, {}} {
			if err := s.SetToolGroups(ctx, "prj", want); err != nil {
				t.Fatal(err)
			}
			got, err := s.ToolGroups(ctx, "prj")
			if err != nil || len(got) != len(want) {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
			for name, on := range want {
				if got[name] != on {
					t.Errorf("%v, want %v", got, want)
				}
			}
		}
		// Another team neither sees nor changes them.
		if err := s.SetToolGroups(ctx, "prj", map[string]bool{"tasks": false}); err != nil {
			t.Fatal(err)
		}
		foreign := tenant.In(t.Context(), "another")
		if err := s.SetToolGroups(foreign, "prj", map[string]bool{"commands": true}); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ToolGroups(foreign, "prj"); err != nil || len(got) != 0 {
			t.Errorf("%v, %v", got, err)
		}
		if got, err := s.ToolGroups(ctx, "prj"); err != nil || len(got) != 1 || got["tasks"] {
			t.Errorf("%v, %v", got, err)
		}
	})
}
