package toolstore_test

import (
	"testing"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// seed stores a team with a project p-<name> and workspaces of these names in it.
func seed(t *testing.T, db *store.DB, names ...string) (accounts.User, accounts.Team) {
	t.Helper()
	user, team := storetest.Seed(t, db)
	rows := store.NewWorkspaces(db)
	project := "p-" + names[0]
	if err := rows.InsertProject(t.Context(), workspaces.Project{ID: project, TeamID: team.ID, Name: "p", State: workspaces.ProjectReady, CreatedBy: user.ID}); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if _, err := rows.InsertWorkspace(t.Context(), workspaces.Workspace{ID: name, TeamID: team.ID, ProjectID: project, Name: name, Branch: name, State: workspaces.Ready, CreatedBy: user.ID}); err != nil {
			t.Fatal(err)
		}
	}
	return user, team
}
