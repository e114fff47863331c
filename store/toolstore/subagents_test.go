package toolstore_test

import (
	"context"
	"sync"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/subagents"
)

// Subagents are stored whole, bounded below their root whoever inserts at once, and seen by their own team alone.
func TestSubagents(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := storetest.Seed(t, db)
		_, other := storetest.Seed(t, db)
		for _, sql := range []string{`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES ('prj_1', ?, 'p', 'sample', '', '', 'ready', ?, 1)`,
			`INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, path, steps, created_by, created_at, updated_at)
				VALUES ('ws_1', ?, 'prj_1', 1, 'w', 'b', 'main', 'local', 'ready', '', '[]', ?, 1, 1)`} {
			if _, err := db.Exec(t.Context(), sql, team.ID, user.ID); err != nil {
				t.Fatal(err)
			}
		}
		s := toolstore.NewSubagents(db)
		mine := tenant.In(t.Context(), team.ID)
		sub := func(id string) subagents.Subagent {
			return subagents.Subagent{ID: id, TeamID: team.ID, ProjectID: "prj_1", FromWorkspaceID: "ws_1", ParentSessionID: "ses_top", Root: "ws_1", Depth: 1, Name: "n", Task: "t", Agent: "codex", Model: "m",
				Mode: "ask", Tools: []string{"tasks"}, ToReturn: true, Where: subagents.Sibling, WorkspaceID: "ws_" + id, SessionID: "ses_" + id, Status: subagents.Spawned, Live: true, Kept: true, MaxCostNano: 1, TimeoutMs: 2,
				DeadlineAt: 3, CreatedBy: user.ID, CreatedAt: 4, UpdatedAt: 5}
		}
		first := sub("first")
		if err := s.InsertSubagent(mine, first, 3, 5); err != nil {
			t.Fatal(err)
		}
		got, err := s.SubagentOfSession(mine, "ses_first")
		if err != nil || got.ID != "first" || len(got.Tools) != 1 || got.Mode != "ask" || !got.ToReturn || got.Where != subagents.Sibling || !got.Kept || got.DeadlineAt != 3 {
			t.Errorf("%+v, %v", got, err)
		}
		var all sync.WaitGroup
		codes := make(chan string, 6)
		for i := range cap(codes) {
			all.Go(func() { codes <- fault.CodeOf(s.InsertSubagent(mine, sub(string(rune('a'+i))), 3, 5)) })
		}
		all.Wait()
		close(codes)
		refused := 0
		for code := range codes {
			if code == "subagents_at_once" {
				refused++
			} else if code != "" {
				t.Errorf("refused with %s", code)
			}
		}
		if refused != 4 {
			t.Errorf("%d of 6 were refused, want 4", refused)
		}
		tree, err := s.SubagentsOfRoot(mine, "ws_1")
		if err != nil || len(tree) != 3 {
			t.Fatalf("%d, %v", len(tree), err)
		}
		got, err = s.EditSubagent(mine, "first", func(a *subagents.Subagent) error {
			a.Status, a.Result, a.Live, a.Files, a.MoreFiles = subagents.Completed, "done", false, []string{"a.go"}, 2
			return nil
		})
		if err != nil || got.Result != "done" {
			t.Errorf("%+v, %v", got, err)
		}
		if got, err = s.Subagent(mine, "first"); err != nil || len(got.Files) != 1 || got.MoreFiles != 2 {
			t.Errorf("%+v, %v", got, err)
		}
		if live, err := s.OpenSubagents(tenant.All(t.Context(), "a test"), ""); err != nil || len(live) != 3 {
			t.Errorf("%d are live or to be returned, %v", len(live), err)
		}
		for session, want := range map[string]int{"ses_top": 3, "ses_other": 0} {
			if back, err := s.OpenSubagents(mine, session); err != nil || len(back) != want {
				t.Errorf("%d are to be returned to %s, %v", len(back), session, err)
			}
		}
		if back, err := s.OpenSubagents(tenant.In(context.WithoutCancel(t.Context()), other.ID), "ses_top"); err != nil || len(back) != 0 {
			t.Errorf("another team gets %v, %v", back, err)
		}
		if _, err := s.EditSubagent(mine, "first", func(a *subagents.Subagent) error { a.ToReturn = false; return nil }); err != nil {
			t.Error(err)
		}
		if live, err := s.OpenSubagents(tenant.All(t.Context(), "a test"), ""); err != nil || len(live) != 2 {
			t.Errorf("%d are live, %v", len(live), err)
		}
		if err := s.InsertSubagent(mine, sub("more"), 3, 5); err != nil {
			t.Errorf("after one has ended: %v", err)
		}
		if _, err := s.WorkOnSubagent(mine, "first", 3, func(*subagents.Subagent) error { return nil }); fault.CodeOf(err) != "subagents_at_once" {
			t.Errorf("the fourth at once: %v", err)
		}
		if err := s.InsertSubagent(mine, sub("toomany"), 9, 4); fault.CodeOf(err) != "subagents_total" {
			t.Errorf("more than there may be: %v", err)
		}
		items, next, err := s.SubagentsOfWorkspace(mine, "ws_1", page.Page{Limit: 3})
		if err != nil || len(items) != 3 || next == "" {
			t.Errorf("a page of %d, %q, %v", len(items), next, err)
		}
		if parents, err := s.Parents(mine, "ses_first", "ses_unknown"); err != nil || len(parents) != 1 || parents["ses_first"] != "ses_top" {
			t.Errorf("parents: %v, %v", parents, err)
		}
		theirs := tenant.In(context.WithoutCancel(t.Context()), other.ID)
		if parents, err := s.Parents(theirs, "ses_first"); err != nil || len(parents) != 0 {
			t.Errorf("another team sees %v, %v", parents, err)
		}
		if _, err := s.Subagent(theirs, "first"); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team reads it: %v", err)
		}
		if _, err := s.EditSubagent(theirs, "first", func(*subagents.Subagent) error { return nil }); !fault.Is(err, fault.NotFound) {
			t.Errorf("another team changes it: %v", err)
		}
	})
}
