package store_test

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/workspaces"
)

// A list of workspaces that are named has those of the team alone, in brief too.
func TestNamedWorkspacesAreTheTeams(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		ctx := t.Context()
		team, user, ws := sessionHouse(t, db)
		other, _, foreign := sessionHouse(t, db)
		st := store.NewWorkspaces(db)
		for _, c := range []struct {
			team string
			f    workspaces.Filter
			want []string
		}{
			{team, workspaces.Filter{IDs: []string{ws[1], foreign[0], "ws_none"}, For: user}, []string{ws[1]}},
			{team, workspaces.Filter{IDs: []string{ws[1]}, Brief: true}, []string{ws[1]}},
			{other, workspaces.Filter{IDs: []string{ws[1]}}, nil},
			{team, workspaces.Filter{IDs: []string{}}, nil},
		} {
			got, _, err := st.Workspaces(ctx, c.team, c.f, page.Page{})
			if err != nil {
				t.Fatal(err)
			}
			var ids []string
			for _, w := range got {
				ids = append(ids, w.ID)
			}
			if !slices.Equal(ids, c.want) {
				t.Errorf("%+v: %v, not %v", c.f, ids, c.want)
			}
		}
	})
}
