package agents_test

import (
	"os"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/agents"
)

// Every agent Parawork knows has its row in the documentation, with the command that installs it.
func TestEveryAgentIsDocumented(t *testing.T) {
	t.Parallel()
	r, err := agents.New(agents.Config{HomesDir: "/homes", WorktreesDir: "/worktrees", LookPath: func(string) (string, error) { return "", os.ErrNotExist }})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../../docs/agents.md")
	if err != nil {
		t.Fatal(err)
	}
	known := r.List(t.Context())
	if len(known) < 6 {
		t.Fatalf("only %d agents", len(known))
	}
	for _, agent := range known {
		_, row, found := strings.Cut(string(page), "\n| `"+agent.Agent+"` |")
		row, _, _ = strings.Cut(row, "\n")
		if !found || !strings.Contains(row, agent.Install) {
			t.Errorf("docs/agents.md has no row for %s with %q", agent.Agent, agent.Install)
		}
	}
}
