package toolstore_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/storetest"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/code"
)

// A workspace keeps its newest runs of code, and those that have not ended; another workspace's stay.
func TestOldRunsOfCodeAreDeleted(t *testing.T) {
	storetest.Each(t, func(t *testing.T, db *store.DB) {
		user, team := seed(t, db, "ws_1", "ws_2")
		s, ctx := toolstore.NewCode(db), tenant.In(t.Context(), team.ID)
		add := func(id, ws string, at int64, state code.State) {
			t.Helper()
			if err := s.CreateRun(ctx, code.Run{ID: id, TeamID: team.ID, WorkspaceID: ws, UserID: user.ID, Language: code.Python, Kernel: "default", State: state, CreatedAt: at}, 3); err != nil {
				t.Fatal(err)
			}
		}
		add("code_other", "ws_2", 1, code.OK)
		add("code_0", "ws_1", 1, code.Running)
		for i := range 5 {
			add(fmt.Sprint("code_", i+1), "ws_1", int64(2+i/2), code.OK) // two in one millisecond
		}
		for ws, want := range map[string][]string{"ws_1": {"code_5", "code_4", "code_3", "code_0"}, "ws_2": {"code_other"}} {
			runs, _, err := s.Runs(ctx, ws, page.Page{Limit: 10})
			var got []string
			for _, r := range runs {
				got = append(got, r.ID)
			}
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("%s has %q, want %q; %v", ws, got, want, err)
			}
		}
	})
}
