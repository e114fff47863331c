package testkit_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

type editRow struct {
	ID, Path, Agent, Evidence, Kind, Tool string
	CallID                                string `json:"call_id"`
	SessionID                             string `json:"session_id"`
}

// What a real agent writes is named after its tool call, one edit is undone while a later one stays, and a contradiction changes nothing.
func TestEditsOfARealAgent(t *testing.T) {
	t.Parallel()
	h := agentInstance(t, "claude-code", bubbled(t))
	w := &work{t: t, h: h, ws: h.WorkspaceIn("bubblewrap", h.Sample(), "Edits")}
	var s testkit.Session
	h.API("POST", "/workspaces/"+w.ws.ID+"/sessions", map[string]any{"agent": "claude-code", "cols": 120, "rows": 40, "permissions": "all", "prompt": script(t,
		tool("Write", map[string]any{"file_path": "poem.txt", "content": "one\ntwo\nthree\nfour\nfive\nsix\nseven\n"}),
		bash("parawork checkpoint create --note written"), // the file as it is now is kept
		tool("Edit", map[string]any{"file_path": "poem.txt", "old_string": "two", "new_string": "TWO"}),
		bash("parawork checkpoint create --note 'first edit'"),
		tool("Edit", map[string]any{"file_path": "poem.txt", "old_string": "six", "new_string": "SIX"}),
		bash("parawork checkpoint create --note 'second edit'"),
		map[string]any{"text": "All done."})}, &s)
	w.id = s.ID
	var list struct{ Items []editRow }
	w.waits("three edits of the file are known", func() bool {
		h.API("GET", "/workspaces/"+w.ws.ID+"/edits?path=poem.txt", nil, &list)
		return len(list.Items) == 3
	})
	for i, want := range []struct{ tool, kind string }{{"Edit", "modified"}, {"Edit", "modified"}, {"Write", "created"}} {
		if e := list.Items[i]; e.Agent != "claude-code" || e.SessionID != s.ID || e.Tool != want.tool || e.Kind != want.kind || e.CallID == "" {
			t.Errorf("edit %d: %+v, want one by %s", i, e, want.tool)
		}
	}
	w.reaches("idle")
	h.API("POST", "/workspaces/"+w.ws.ID+"/edits/"+list.Items[1].ID+"/undo", map[string]any{}, nil)
	file := filepath.Join(w.ws.Path, "poem.txt")
	if b, err := os.ReadFile(file); string(b) != "one\ntwo\nthree\nfour\nfive\nSIX\nseven\n" {
		t.Errorf("after undoing the first of two edits: %q %v", b, err)
	}
	if err := os.WriteFile(file, []byte("one\ntwo\nthree\nfour\nfive\nSIX and more\nseven\n"), 0o666); err != nil { //nolint:gosec // the sandbox's user writes it, too
		t.Fatal(err)
	}
	h.Refused(409, "edit_conflict", "POST", "/workspaces/"+w.ws.ID+"/edits/"+list.Items[0].ID+"/undo", map[string]any{})
	if b, err := os.ReadFile(file); string(b) != "one\ntwo\nthree\nfour\nfive\nSIX and more\nseven\n" {
		t.Errorf("a conflict changed the file: %q %v", b, err)
	}
}
