package app

import (
	"context"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/workspaces"
)

// forAgent says how an agent in a workspace reaches the tools: which it must ask about, and the instructions for the command line of
// those that are on in its project.
func (t *toolbox) forAgent(ctx context.Context, w workspaces.Workspace) (agents.Tools, error) {
	var out agents.Tools
	on, err := t.groups.Selection(ctx, w.ProjectID)
	if err != nil {
		return out, err
	}
	var specs []tools.Spec
	for _, s := range t.tools.Specs() {
		if s.Permission != tools.Allow { // also of groups that are off: they may be switched on while the agent runs
			out.Ask = append(out.Ask, s.Name)
		}
		if on.Has(s.Group) {
			specs = append(specs, s)
		}
	}
	if len(specs) > 0 {
		out.Skill = cli.Skill(specs)
	}
	return out, nil
}
