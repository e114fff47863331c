package sessions_test

import (
	"slices"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
)

// Where nothing keeps an agent in, it asks unless somebody said that they know; what was chosen is kept with the session.
func TestPermissionsWithoutABoundary(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.settings["mine"] = agents.Settings{Enabled: true, Command: "/bin/echo", Permissions: agents.AllPermissions, PermissionArgs: []string{"--trust"}, Prompt: agents.PromptNone}
	s := h.start()
	for code, req := range map[string]sessions.StartRequest{
		"no_boundary":              {Agent: "mine", Permissions: agents.AllPermissions},
		"invalid_permissions":      {Agent: "mine", Permissions: "some"},
		"agent_has_no_permissions": {Agent: agents.Shell, Permissions: agents.AllPermissions, ConfirmNoBoundary: true},
	} {
		if _, err := s.Start(t.Context(), h.actor, h.ws.ID, req); fault.CodeOf(err) != code {
			t.Errorf("%s: got %v", code, err)
		}
	}
	if rows, err := s.List(t.Context(), h.ws.ID); err != nil || len(rows) != 0 {
		t.Errorf("refused sessions left rows: %v, %v", rows, err)
	}
	started := func(row sessions.Session, permissions string) {
		t.Helper()
		row = s.ended(t, row.ID)
		if row.Permissions != permissions || slices.Contains(row.Argv, "--trust") != (permissions == agents.AllPermissions) {
			t.Errorf("%q with %q, want %q", row.Permissions, row.Argv, permissions)
		}
	}
	// What config.json says holds only where something keeps it in.
	started(s.begin(t, sessions.StartRequest{Agent: "mine"}), agents.AskPermissions)
	row := s.begin(t, sessions.StartRequest{Agent: "mine", Permissions: agents.AllPermissions, ConfirmNoBoundary: true})
	started(row, agents.AllPermissions)
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	started(next, agents.AllPermissions)
}
