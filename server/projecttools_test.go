package server

import (
	"testing"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/tools"
)

// A project's admins choose which tools its agents have, and see what they cost; everybody sees it.
func TestToolsOfAProject(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.serve()
	p := h.people(t)
	path := "/api/v1/projects/" + p.ids["project"] + "/tools"
	read := func(method, body, who string) (all api.ProjectTools, commands api.ToolGroup) {
		t.Helper()
		h.do(method, path, body, bearer(p.tokens[who])...).into(t, &all)
		for _, g := range all.Groups {
			if g.Name == "commands" {
				return all, g
			}
		}
		t.Fatalf("no group of commands: %+v", all)
		return all, commands
	}
	all, commands := read("GET", "", "viewer")
	if commands.Enabled || commands.Default || commands.Listed != 1 || commands.ContextTokens <= 0 || commands.Tools[0].Name != "run_command" || all.MaxListed != tools.MaxListed {
		t.Errorf("%+v", all)
	}
	all, commands = read("PUT", `{"enabled":["commands"]}`, "admin")
	if !commands.Enabled || all.Listed != 1 || all.ContextTokens != commands.ContextTokens {
		t.Errorf("%+v", all)
	}
	if all, commands = read("GET", "", "viewer"); !commands.Enabled || all.Listed != 1 {
		t.Errorf("not stored: %+v", all)
	}
	if r := h.do("PUT", path, `{"enabled":["nonsense"]}`, bearer(p.tokens["admin"])...); r.StatusCode != 400 || r.code() != "tool_group_unknown" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if r := h.do("PUT", path, `{"enabled":[]}`, bearer(p.tokens["member"])...); r.StatusCode != 403 || r.code() != "forbidden" {
		t.Errorf("%d %s", r.StatusCode, r.body)
	}
	if all, commands = read("PUT", `{"enabled":[]}`, "admin"); commands.Enabled || all.Listed != 0 {
		t.Errorf("%+v", all)
	}
}
