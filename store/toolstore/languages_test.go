package toolstore_test

import (
	"testing"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/lsp"
)

// A project has no choice until it makes one, and another team can neither see nor make it.
func TestLanguagesOfProjects(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := storetest.Seed(t, db)
		if _, err := db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at)
			VALUES ('prj_1', ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`, team.ID, user.ID); err != nil {
			t.Fatal(err)
		}
		s, ours, theirs := toolstore.NewLanguages(db), tenant.In(t.Context(), team.ID), tenant.In(t.Context(), "team_other")
		for _, step := range []struct{ set, want lsp.AfterEdits }{{"", ""}, {lsp.TurnEnd, lsp.TurnEnd}, {lsp.Off, lsp.Off}} {
			if step.set != "" {
				if err := s.SetAfterEdits(ours, "prj_1", step.set); err != nil {
					t.Fatal(err)
				}
				if err := s.SetAfterEdits(theirs, "prj_1", lsp.Errors); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := s.AfterEdits(ours, "prj_1"); err != nil || got != step.want {
				t.Errorf("%q, %v; want %q", got, err, step.want)
			}
			if got, err := s.AfterEdits(theirs, "prj_1"); err != nil || got != "" {
				t.Errorf("another team: %q, %v", got, err)
			}
		}
	})
}
