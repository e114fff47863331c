package store_test

import (
	"fmt"
	"testing"

	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestOldConnectionsOfMachinesAreDropped(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		u, team := storetest.Seed(t, db)
		s := store.NewMachines(db)
		for _, id := range []string{"rnr_a", "rnr_b"} {
			must(t, s.InsertRunner(t.Context(), machines.Machine{ID: id, TeamID: team.ID, UserID: u.ID, Name: id, CreatedAt: 1}))
			for i := range 6 {
				c := machines.Connection{ID: fmt.Sprint(id, i), RunnerID: id, TeamID: team.ID, BeganAt: int64(10 * (i + 1))}
				must(t, s.BeginConnection(t.Context(), c, machines.Machine{ID: id}))
				if i == 0 && id == "rnr_b" {
					continue // the oldest lives
				}
				c.EndedAt, c.Reason = c.BeganAt+5, "words"
				must(t, s.EndConnection(t.Context(), c))
			}
		}
		for _, tok := range []machines.Token{{ID: "t1", ExpiresAt: 10}, {ID: "t2", RevokedAt: 10}, {ID: "t3", Reusable: true}} {
			tok.TeamID, tok.UserID, tok.Hash = team.ID, u.ID, []byte("h")
			must(t, s.InsertRunnerToken(t.Context(), tok))
		}
		must(t, s.PruneRunners(t.Context(), 30, 3))
		for id, want := range map[string]string{"rnr_a": "[rnr_a5 rnr_a4 rnr_a3]", "rnr_b": "[rnr_b5 rnr_b4 rnr_b3 rnr_b0]"} {
			all, _, err := s.RunnerConnections(t.Context(), id, page.Page{})
			must(t, err)
			var got []string
			for _, c := range all {
				got = append(got, c.ID)
			}
			if fmt.Sprint(got) != want {
				t.Errorf("%v, want %s", got, want)
			}
		}
		for id, there := range map[string]bool{"t1": false, "t2": false, "t3": true} {
			if _, err := s.RunnerToken(t.Context(), id); (err == nil) != there {
				t.Errorf("token %s: %v", id, err)
			}
		}
	})
}

func TestWhatLivesOnMachines(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		u, team := storetest.Seed(t, db)
		_, err := db.Exec(t.Context(), `INSERT INTO projects (id, team_id, name, source_kind, source, git_dir, default_branch, state, created_by, created_at) VALUES ('p', ?, 'p', 'sample', '', '', 'main', 'ready', ?, 1)`, team.ID, u.ID)
		must(t, err)
		for i, w := range [][2]string{{"runner:rnr_a", "0"}, {"docker", "0"}, {"runner:rnr_b", "0"}, {"runner:rnr_a", "5"}} {
			_, err := db.Exec(t.Context(), `INSERT INTO workspaces (id, team_id, project_id, num, name, branch, base, executor, state, created_by, created_at, updated_at, archived_at)
				VALUES (?, ?, 'p', ?, 'w', ?, 'main', ?, 'ready', ?, ?, 1, `+w[1]+`)`, fmt.Sprint("ws", i), team.ID, i+1, fmt.Sprint("b", i), w[0], u.ID, i)
			must(t, err)
		}
		got, err := store.NewMachines(db).RunnerWork(t.Context(), team.ID)
		must(t, err)
		if fmt.Sprint(got) != "[{rnr_b ws2 PW-3 w ready} {rnr_a ws0 PW-1 w ready}]" {
			t.Errorf("%v", got)
		}
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
