package testkit_test

import (
	"slices"
	"strings"
	"testing"
)

// Before Codex compacts its conversation, a checkpoint is taken.
func TestCodexIsMarkedBeforeItCompacts(t *testing.T) {
	t.Parallel()
	w := ask(t, agentInstance(t, "codex"), "codex", map[string]any{"text": "Hello."})
	w.reaches("idle")
	// Its Stop hook runs before its turn is over, and until then it refuses the command.
	w.waits("the turn is over", func() bool { return strings.Contains(w.screen(), "Worked for") })
	term := w.h.Attach(w.id, "from=0")
	must(t, term.Type("/compact"))
	must(t, term.See("/compact"))
	must(t, term.Type("\r"))
	w.waits("a checkpoint is taken", func() bool {
		var all struct{ Items []struct{ Reason string } }
		w.h.API("GET", "/workspaces/"+w.ws.ID+"/checkpoints", nil, &all)
		return slices.ContainsFunc(all.Items, func(c struct{ Reason string }) bool { return c.Reason == "token_limit" })
	})
}
