package testkit_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parawork/parawork/testing/testkit"
)

// The real program offers its tools, and one works in a sandbox that isolates.
func TestTools(t *testing.T) {
	t.Parallel()
	h := testkit.Start(t)
	var me struct{ Teams []struct{ Slug string } }
	h.API("GET", "/me", nil, &me)
	var list struct{ Items []struct{ Name string } }
	h.API("GET", "/teams/"+me.Teams[0].Slug+"/tools", nil, &list)
	if !slices.ContainsFunc(list.Items, func(tool struct{ Name string }) bool { return tool.Name == "run_command" }) {
		t.Fatalf("%+v", list)
	}
	ws := h.WorkspaceIn("bubblewrap", h.Sample(), "Tools")
	var r struct {
		Content    []struct{ Text string }
		Structured command
		IsError    bool `json:"is_error"`
	}
	h.API("POST", "/workspaces/"+ws.ID+"/tools/run_command", map[string]any{"arguments": map[string]any{"command": "echo made >file", "timeout_ms": 60000}}, &r)
	if r.Structured.State != "completed" || len(r.Content) != 1 {
		t.Errorf("%+v", r)
	}
	if b, err := os.ReadFile(filepath.Join(ws.Path, "file")); err != nil || string(b) != "made\n" {
		t.Errorf("%q, %v", b, err)
	}
	h.Refused(400, "tool_arguments_invalid", "POST", "/workspaces/"+ws.ID+"/tools/run_command", map[string]any{"arguments": map[string]any{"cmd": "true"}})
}
