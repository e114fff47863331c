package app

import (
	"context"

	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/cli"
	"github.com/parawork/parawork/tools/lsp"
	"github.com/parawork/parawork/tools/lsp/languages"
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
	if on.Has("language_servers") {
		mode, err := t.languages.AfterEdits(ctx, w.ProjectID)
		if err != nil {
			return out, err
		}
		if mode != lsp.Off {
			out.Languages = map[string]map[string]string{}
			for _, l := range languages.All() {
				out.Languages[l.ID] = l.Extensions
			}
		}
	}
	return out, nil
}
