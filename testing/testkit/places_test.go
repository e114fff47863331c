package testkit_test

import (
	"strings"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// A workspace is refused before anything of it is made when no sandbox could be had for it, and the answer says what to do.
func TestNothingIsMadeWhereNoPlaceIs(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t, testkit.Local)
	project := h.Sample()
	create := "/teams/" + h.Team + "/workspaces"
	h.Refused(501, "executor_unknown", "POST", create, map[string]any{"project_id": project, "name": "x", "executor": "balloon"})

	h.API("POST", "/teams", map[string]string{"name": "Quay"}, nil)
	p := h.Refused(503, "executor_unavailable", "POST", create, map[string]any{"project_id": project, "name": "x"})
	if !strings.Contains(p.Message, "sandboxing.local.enabled") {
		t.Errorf("no cure is named: %s", p.Message)
	}
	var all struct{ Items []testkit.Workspace }
	h.API("GET", create, nil, &all)
	if len(all.Items) != 0 {
		t.Errorf("a workspace was left behind: %+v", all.Items)
	}
}

// A second team takes places without isolation from every team: only operators may make one.
func TestOnlyOperatorsMakeTeams(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	other := h.As(h.NewUser("bea@example.com", "Bea"))
	other.Refused(403, "operators_only", "POST", "/teams", map[string]string{"name": "Quay"})
}
