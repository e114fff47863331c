package store_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
)

func TestWhatIsSaidOfTheNetwork(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewNetwork(db)
		team, ws := seedWorkspace(t, db)
		said, err := s.Said(ctx, ws)
		if err != nil || said.TeamID != team || said.Project.Mode != "" || len(said.Allowed) != 0 {
			t.Fatalf("%+v, %v", said, err)
		}
		if p, err := s.ProjectPolicies(ctx, team); err != nil || len(p) != 0 {
			t.Errorf("%v, %v", p, err)
		}
		want := network.Policy{Mode: executors.NetworkAllow, Allow: []string{"a.example", "@registries"}, WithoutAgents: true}
		if err := s.SetProjectPolicy(ctx, said.ProjectID, want); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"b.example", "c.example:22"} {
			if err := s.EditAllowed(ctx, ws, func(all []string) ([]string, error) { return append(all, name), nil }); err != nil {
				t.Fatal(err)
			}
		}
		no := errors.New("no")
		if err := s.EditAllowed(ctx, ws, func([]string) ([]string, error) { return nil, no }); !errors.Is(err, no) {
			t.Errorf("%v", err)
		}
		said, err = s.Said(ctx, ws)
		if err != nil || said.Project.Mode != want.Mode || !slices.Equal(said.Project.Allow, want.Allow) || !said.Project.WithoutAgents ||
			!slices.Equal(said.Allowed, []string{"b.example", "c.example:22"}) {
			t.Errorf("%+v, %v", said, err)
		}
		if p, err := s.ProjectPolicies(ctx, team); err != nil || p[said.ProjectID].Mode != executors.NetworkAllow {
			t.Errorf("%v, %v", p, err)
		}
		if _, err := s.Said(ctx, "ws_none"); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if err := s.SetProjectPolicy(ctx, "prj_none", want); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
		if err := s.EditAllowed(ctx, "ws_none", nil); !fault.Is(err, fault.NotFound) {
			t.Errorf("%v", err)
		}
	})
}

// A member's own account must not widen what a whole team's agents reach.
func TestAddressesOfAccountsThatCount(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		owner, team := storetest.Seed(t, db)
		member, _ := storetest.Seed(t, db)
		exec := func(q string, args ...any) {
			t.Helper()
			if _, err := db.Exec(ctx, q, args...); err != nil {
				t.Fatal(err)
			}
		}
		exec(`DELETE FROM members WHERE team_id = ?`, team.ID)
		exec(`INSERT INTO members (team_id, user_id, role, created_at) VALUES (?, ?, 'owner', 1)`, team.ID, owner.ID)
		exec(`INSERT INTO members (team_id, user_id, role, created_at) VALUES (?, ?, 'member', 1)`, team.ID, member.ID)
		for i, a := range []struct {
			user, team any
			url        string
		}{{owner.ID, nil, "https://owner.example"}, {member.ID, nil, "https://member.example"}, {nil, team.ID, "https://team.example"}, {owner.ID, nil, ""}} {
			exec(`INSERT INTO agent_accounts (id, user_id, team_id, agent, name, kind, base_url, is_default, in_home, created_by, created_at, updated_at)
				VALUES (?, ?, ?, 'codex', ?, 'api_key', ?, FALSE, FALSE, ?, 1, 1)`, fmt.Sprintf("acc_%s_%d", team.ID, i), a.user, a.team, fmt.Sprint(i), a.url, owner.ID)
		}
		got, err := store.NewNetwork(db).BaseURLs(ctx, team.ID)
		if err != nil || !slices.Equal(got, []string{"https://owner.example", "https://team.example"}) {
			t.Errorf("%q, %v", got, err)
		}
	})
}

func TestReachedHosts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewNetwork(db)
		team, ws := seedWorkspace(t, db)
		reached := func(workspace, host string, at int64) network.Reached {
			return network.Reached{Reach: executors.Reach{TeamID: team, WorkspaceID: workspace, Host: host, Port: 443}, Times: 2, FirstAt: at, LastAt: at}
		}
		for _, some := range [][]network.Reached{{reached(ws, "b.example", 20), reached(ws, "a.example", 10), reached("ws_gone", "x.example", 10)}, {reached(ws, "a.example", 30)},
			{reached(ws, "c.example", 40), reached(ws, "d.example", 50)}} {
			if err := s.AddReached(ctx, some, 3); err != nil {
				t.Fatal(err)
			}
		}
		all, err := s.Reached(ctx, ws)
		if err != nil || len(all) != 3 || all[0].Host != "d.example" || all[1].Host != "c.example" || all[2].Host != "a.example" ||
			all[2].Times != 4 || all[2].FirstAt != 10 || all[2].LastAt != 30 || all[2].TeamID != team {
			t.Errorf("%+v, %v", all, err)
		}
	})
}

func TestRefusedHosts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		s := store.NewNetwork(db)
		team, ws := seedWorkspace(t, db)
		refused := func(workspace, host string, at int64) network.Refused {
			return network.Refused{Refusal: executors.Refusal{TeamID: team, WorkspaceID: workspace, Host: host, Port: 443, Reason: executors.NotListed}, Times: 2, FirstAt: at, LastAt: at}
		}
		news, err := s.AddRefused(ctx, []network.Refused{refused(ws, "b.example", 20), refused(ws, "a.example", 10), refused("ws_gone", "x.example", 10)}, 3)
		if err != nil || !slices.Equal(news, []string{ws}) {
			t.Fatalf("%v, %v", news, err)
		}
		again := refused(ws, "a.example", 30)
		again.Reason = executors.BadPort
		if news, err := s.AddRefused(ctx, []network.Refused{again}, 3); err != nil || len(news) != 0 {
			t.Errorf("%v, %v", news, err)
		}
		all, err := s.Refused(ctx, ws)
		if err != nil || len(all) != 2 || all[0].Host != "a.example" || all[0].Times != 4 || all[0].FirstAt != 10 || all[0].LastAt != 30 || all[0].Reason != executors.BadPort || all[0].TeamID != team {
			t.Fatalf("%+v, %v", all, err)
		}
		// More than are kept: those seen longest ago go.
		if _, err := s.AddRefused(ctx, []network.Refused{refused(ws, "c.example", 40), refused(ws, "d.example", 50)}, 3); err != nil {
			t.Fatal(err)
		}
		all, err = s.Refused(ctx, ws)
		var hosts []string
		for _, r := range all {
			hosts = append(hosts, r.Host)
		}
		if err != nil || !slices.Equal(hosts, []string{"d.example", "c.example", "a.example"}) {
			t.Errorf("%q, %v", hosts, err)
		}
		if err := s.DropRefused(ctx, ws, all[:2]); err != nil {
			t.Fatal(err)
		}
		if all, err = s.Refused(ctx, ws); err != nil || len(all) != 1 || all[0].Host != "a.example" {
			t.Errorf("%+v, %v", all, err)
		}
	})
}
