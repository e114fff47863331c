package store_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

// What suspended teams and users left running is found, and nothing else.
func TestBarred(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		exec := func(q string, args ...any) {
			t.Helper()
			if _, err := db.Exec(ctx, q, args...); err != nil {
				t.Fatal(err)
			}
		}
		for _, u := range []string{"ada", "bob", "carl"} {
			exec(`INSERT INTO users (id, email, name, password_hash, operator, created_at) VALUES (?, ?, ?, '!', FALSE, 1)`, u, u+"@example.com", u)
		}
		for _, team := range []string{"t1", "t2"} {
			exec(`INSERT INTO teams (id, slug, name, created_at) VALUES (?, ?, ?, 1)`, team, team, team)
			for _, u := range []string{"ada", "bob"} {
				exec(`INSERT INTO members (team_id, user_id, role, created_at) VALUES (?, ?, 'member', 1)`, team, u)
			}
			exec(`INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, state, created_by, created_at) VALUES (?, ?, 'p', 'sample', '', '', 'ready', 'ada', 1)`, "p-"+team, team)
			for _, u := range []string{"ada", "bob"} {
				ws := team + "-" + u
				exec(`INSERT INTO workspaces (id, team_id, num, project_id, name, branch, base, executor, path, state, created_by, created_at, updated_at)
					VALUES (?, ?, ?, ?, 'w', ?, 'main', 'local', ?, 'ready', ?, 1, 1)`, ws, team, map[string]int{"ada": 1, "bob": 2}[u], "p-"+team, ws, ws, u)
				exec(`INSERT INTO sandboxes (id, team_id, workspace_id, kind, state, started_at) VALUES (?, ?, ?, 'local', 'running', 1)`, "sbx-"+ws, team, ws)
				exec(`INSERT INTO sessions (id, team_id, workspace_id, agent, state, state_at, cols, rows, created_by, started_at) VALUES (?, ?, ?, 'shell', 'working', 1, 80, 24, ?, 1)`, "ses-"+ws, team, ws, u)
			}
		}
		exec(`INSERT INTO agent_accounts (id, user_id, agent, name, kind, created_by, created_at, updated_at) VALUES ('acc', 'carl', 'codex', 'c', 'terminal', 'carl', 1, 1)`)
		find := func(want string) {
			t.Helper()
			all, err := store.NewAccounts(db).Barred(ctx)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, b := range all {
				got = append(got, b.Reason+":"+b.WorkspaceID+b.SessionID)
			}
			slices.Sort(got)
			if s := strings.Join(got, " "); s != want {
				t.Errorf("found %q, want %q", s, want)
			}
		}
		find("")
		exec(`UPDATE teams SET suspended_at = 5 WHERE id = 't1'`)
		find("team:t1-ada team:t1-bob")
		exec(`UPDATE sandboxes SET ended_at = 6 WHERE team_id = 't1'`)
		exec(`UPDATE sessions SET ended_at = 6 WHERE team_id = 't1'`)
		find("")
		exec(`UPDATE users SET suspended_at = 5 WHERE id = 'bob'`)
		find("user:ses-t2-bob user:t2-bob")
		exec(`UPDATE sessions SET created_by = 'ada' WHERE id = 'ses-t2-bob'`) // somebody else works there
		find("")
		exec(`UPDATE sessions SET account_id = 'acc' WHERE id = 'ses-t2-ada'`) // carl's, who is no member
		find("account:ses-t2-ada")
		exec(`INSERT INTO members (team_id, user_id, role, created_at) VALUES ('t2', 'carl', 'member', 1)`)
		find("")
	})
}
