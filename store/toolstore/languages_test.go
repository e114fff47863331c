package toolstore_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/lsp"
)

// A language server's record is replaced by the next one's, and goes with its process. Another team can neither see nor change it.
func TestRecordsOfLanguageServers(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		user, team := storetest.Seed(t, db)
		for _, q := range []string{`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('prj_1', ?, 'p', 'path', '/p', '/p/.git', 'ready', ?, 1)`,
			`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at) VALUES ('ws_1', ?, 'prj_1', 1, 'w', 'b', 'main', 'fake', 'ready', ?, 1, 1)`} {
			if _, err := db.Exec(ctx, q, team.ID, user.ID); err != nil {
				t.Fatal(err)
			}
		}
		s, ours, theirs := toolstore.NewLanguages(db), tenant.In(ctx, team.ID), tenant.In(ctx, "team_other")
		want := lsp.Record{}
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
			if got, err := s.Record(ours, "ws_1", "go"); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, %v; want %+v", got, err, want)
			}
			if got, err := s.Record(theirs, "ws_1", "go"); err != nil || got.ProcessID != "" {
				t.Errorf("another team: %+v, %v", got, err)
			}
		}
		check(nil)
		r := lsp.Record{WorkspaceID: "ws_1", Language: "go", ProcessID: "lsp-1"}
		check(s.SaveRecord(theirs, r))
		r.State = lsp.RecordState{Abilities: json.RawMessage(`{"a":1}`), Pulls: true, Version: 5, Open: []string{"a"}, Known: []string{"a", "b"}}
		want = r
		check(s.SaveRecord(ours, r))
		r.ProcessID, r.State.Open = "lsp-2", []string{}
		want = r
		check(s.SaveRecord(ours, r))
		check(s.DeleteRecord(ours, "ws_1", "lsp-1"))
		check(s.DeleteRecord(theirs, "ws_1", "lsp-2"))
		want = lsp.Record{}
		check(s.DeleteRecord(ours, "ws_1", "lsp-2"))
	})
}

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
