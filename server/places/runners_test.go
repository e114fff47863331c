package places

import (
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
)

// Only the machine's owner sees questions on a team's machine about a private workspace.
func TestQuestionsOfMachinesForPrivateWorkspaces(t *testing.T) {
	t.Parallel()
	h := Machines{&group{cfg: Config{Machines: machines.New(machines.Config{Enabled: true})}}}
	m := machines.Machine{ID: "rnr_1", UserID: "usr_owner", TeamID: "team_1", Online: true, Hello: wire.Hello{Share: machines.ShareTeam},
		Questions: []wire.Question{{ID: "q1", WorkspaceID: "ws_private", Text: "run secret plans"}, {ID: "q2", WorkspaceID: "ws_open", Text: "run tests"}, {ID: "q3", Text: "read"}}}
	for who, want := range map[string]int{"usr_owner": 3, "usr_member": 2} {
		got := h.runnerOf(accounts.Actor{User: accounts.User{ID: who}, Memberships: []accounts.Membership{{Team: accounts.Team{ID: m.TeamID}, Role: accounts.Member}}}, crowd{hidden: map[string]bool{"ws_private": true}}, m)
		if len(got.Questions) != want {
			t.Errorf("%s sees %+v", who, got.Questions)
		}
	}
	if len(m.Questions) != 3 || m.Questions[0].ID != "q1" {
		t.Errorf("the machine's own questions were changed: %+v", m.Questions)
	}
}
