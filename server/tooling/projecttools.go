package tooling

import (
	"context"
	"strings"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/toolgroups"
)

func projectToolsOf(o toolgroups.Overview) api.ProjectTools {
	return api.ProjectTools{Listed: o.Listed, MaxListed: tools.MaxListed, ContextTokens: o.ContextTokens, Groups: rest.List(o.Groups, func(g toolgroups.Group) api.ToolGroup {
		return api.ToolGroup{Name: g.Name, Title: g.Title, Description: g.Description, Enabled: g.On, Default: !g.Off, Listed: g.Listed, ContextTokens: g.ContextTokens,
			Tools: rest.List(g.Tools, func(s tools.Spec) api.GroupedTool {
				return api.GroupedTool{Name: s.Name, Title: s.Title, Listed: !s.Unlisted, ContextTokens: s.ContextTokens()}
			})}
	})}
}

func (h Tools) GetProjectTools(ctx context.Context, req api.GetProjectToolsRequestObject) (api.GetProjectToolsResponseObject, error) {
	o, err := h.cfg.Groups.Overview(ctx, req.Id)
	return api.GetProjectTools200JSONResponse(projectToolsOf(o)), err
}

func (h Tools) SetProjectTools(ctx context.Context, req api.SetProjectToolsRequestObject) (api.SetProjectToolsResponseObject, error) {
	o, err := h.cfg.Groups.Set(ctx, req.Id, req.Body.Enabled)
	if err != nil {
		return nil, err
	}
	p := rest.CallOf(ctx).Project
	audit.Target(ctx, "project", p.ID, p.Name)
	audit.Note(ctx, "enabled", strings.Join(req.Body.Enabled, " "))
	return api.SetProjectTools200JSONResponse(projectToolsOf(o)), nil
}
