package store_test

import (
	"testing"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/reclaim"
)

// Purging deletes what agents' tools stored for the workspace or the project, and nothing of others.
func TestPurgeDeletesWhatToolsStored(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := storetest.Seed(t, db)
		rows, trash := store.NewWorkspaces(db), store.NewTrash(db)
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		exec := func(q string, args ...any) {
			t.Helper()
			_, err := db.Exec(t.Context(), q, args...)
			must(err)
		}
		for i, x := range []string{"gone", "stays"} {
			project, workspace := "prj_"+x, "ws_"+x
			must(rows.InsertProject(t.Context(), workspaces.Project{ID: project, TeamID: team.ID, Name: x, State: workspaces.ProjectReady, CreatedBy: user.ID}))
			_, err := rows.InsertWorkspace(t.Context(), workspaces.Workspace{ID: workspace, TeamID: team.ID, ProjectID: project, Name: x, Branch: x, State: workspaces.Ready, CreatedBy: user.ID})
			must(err)
			exec(`INSERT INTO subagents (id, team_id, project_id, from_workspace_id, root, depth, name, task, agent, place, workspace_id, session_id, status, live, stop, worked, retried, kept, timeout_ms, deadline_at,
				created_by, created_at, updated_at) VALUES (?, ?, ?, ?, 'r', 1, 'n', 't', 'a', 'same', ?, ?, 'completed', FALSE, FALSE, TRUE, FALSE, FALSE, 1, 1, ?, 1, 1)`,
				"sub_"+x, team.ID, project, workspace, workspace, "ses_"+x, user.ID)
			exec(`INSERT INTO threads (id, team_id, project_id, workspace_id, session_id, conversation, created_by, model, mode, state, version, created_at, updated_at)
				VALUES (?, ?, ?, ?, 's', 'c', ?, '', 'build', 'idle', 1, 1, 1)`, "thr_"+x, team.ID, project, workspace, user.ID)
			exec(`INSERT INTO memories (id, team_id, project_id, text, user_id, created_at) VALUES (?, ?, ?, 'm', ?, 1)`, "mem_"+x, team.ID, project, user.ID)
			exec(`INSERT INTO tasks (id, team_id, project_id, num, title, type, priority, status, created_by, created_at, updated_at) VALUES (?, ?, ?, ?, 't', 'task', 2, 'open', ?, 1, 1)`,
				"tsk_"+x, team.ID, project, i+1, user.ID)
			exec(`INSERT INTO project_tools (project_id, team_id, switched) VALUES (?, ?, '{}')`, project, team.ID)
			exec(`INSERT INTO artifacts (id, team_id, project_id, workspace_id, created_by, name, version, mime, size, sha256, metadata, state, created_at)
				VALUES (?, ?, ?, ?, ?, 'a', 1, 'text/plain', 1, 'x', '{}', 'ready', 1)`, "art_"+x, team.ID, project, workspace, user.ID)
		}
		for _, x := range []string{"ws_stays", "ws_unmade"} { // siblings that were asked for in the workspace
			exec(`INSERT INTO subagents (id, team_id, project_id, from_workspace_id, root, depth, name, task, agent, place, workspace_id, session_id, status, live, stop, worked, retried, kept, timeout_ms, deadline_at,
				created_by, created_at, updated_at) VALUES (?, ?, 'prj_gone', 'ws_gone', 'r', 1, 'n', 't', 'a', 'sibling', ?, ?, 'working', TRUE, FALSE, TRUE, FALSE, TRUE, 1, 1, ?, 1, 1)`,
				"sub_in_"+x, team.ID, x, "ses_in_"+x, user.ID)
		}
		exec(`UPDATE workspaces SET deleted_at = 5 WHERE id = 'ws_gone'`)
		exec(`UPDATE projects SET deleted_at = 5 WHERE id = 'prj_gone'`)
		left := func(query string) string {
			t.Helper()
			r, err := db.Query(t.Context(), query)
			all, err := store.Collect(r, err, func(r store.Scanner) (v string, err error) { return v, r.Scan(&v) })
			must(err)
			out := ""
			for _, v := range all {
				out += v + " "
			}
			return out
		}
		must(trash.BeginPurge(t.Context(), reclaim.TrashWorkspace, "ws_gone", 9))
		must(trash.EndPurge(t.Context(), reclaim.TrashWorkspace, "ws_gone"))
		if got := left(`SELECT id || ' of ' || from_workspace_id || ';' FROM subagents ORDER BY id`); got != "sub_in_ws_stays of ws_stays; sub_stays of ws_stays; " {
			t.Errorf("with its workspace purged there are the subagents %s", got)
		}
		if got := left(`SELECT id FROM threads`); got != "thr_stays " {
			t.Errorf("with its workspace purged there are the threads %s", got)
		}
		if got := left(`SELECT id FROM tasks ORDER BY id`); got != "tsk_gone tsk_stays " {
			t.Errorf("the project is still there, and its tasks are %s", got)
		}
		must(trash.BeginPurge(t.Context(), reclaim.TrashProject, "prj_gone", 9))
		must(trash.EndPurge(t.Context(), reclaim.TrashProject, "prj_gone"))
		for query, want := range map[string]string{
			`SELECT id FROM memories ORDER BY id`:               "mem_stays ",
			`SELECT id FROM tasks ORDER BY id`:                  "tsk_stays ",
			`SELECT project_id FROM project_tools`:              "prj_stays ",
			`SELECT id FROM artifacts WHERE state = 'ready'`:    "art_stays ",
			`SELECT id FROM artifacts WHERE state = 'deleting'`: "art_gone ",
		} {
			if got := left(query); got != want {
				t.Errorf("%s: %s, want %s", query, got, want)
			}
		}
		if trash.EndPurge(t.Context(), reclaim.TrashProject, "prj_gone") == nil {
			t.Error("the purge ended twice")
		}
	})
}
