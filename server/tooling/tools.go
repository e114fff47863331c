package tooling

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools"
)

// apiClient is what calls over the API are recorded as.
const apiClient = "api"

func (h Tools) ListTools(context.Context, api.ListToolsRequestObject) (api.ListToolsResponseObject, error) {
	specs := h.cfg.Tools.Specs()
	items := make([]api.Tool, len(specs))
	for i, s := range specs {
		items[i] = api.Tool{Name: s.Name, Title: s.Title, Description: s.Description, Group: s.Group, Arguments: s.Arguments, Result: s.Result, Permission: api.ToolPermission(s.Permission),
			TimeoutMs: cmp.Or(s.Timeout, tools.DefaultTimeout).Milliseconds(),
			Unlisted:  s.Unlisted,
			Command:   api.ToolCommand{Positional: append([]string{}, s.Command.Positional...), Stdin: s.Command.Stdin, Paths: append([]string{}, s.Command.Paths...)},
			Needs:     api.ToolNeeds{Workspace: s.Needs.Workspace, Writes: s.Needs.Writes, Network: s.Needs.Network, ImageParts: append([]string{}, s.Needs.ImageParts...)}}
	}
	return api.ListTools200JSONResponse{Items: items}, nil
}

// groupOf is the group of a tool; "" when there is no such tool.
func (h Tools) groupOf(name string) string {
	for _, s := range h.cfg.Tools.Specs() {
		if s.Name == name {
			return s.Group
		}
	}
	return ""
}

func (h Tools) CallTool(ctx context.Context, req api.CallToolRequestObject) (api.CallToolResponseObject, error) {
	call := rest.CallOf(ctx)
	audit.Note(ctx, "tool", req.Name)
	if h.groupOf(req.Name) == "subagents" { // they type into terminals and read them, for which the API's own operations ask as well
		if err := call.Can(accounts.TypeTerminal); err != nil {
			return nil, err
		}
	}
	r, err := h.cfg.Tools.Call(ctx, tools.Caller{TeamID: call.Object.TeamID, WorkspaceID: req.Id, UserID: call.Actor.User.ID, Client: apiClient}, req.Name, req.Body.Arguments)
	if err != nil {
		return nil, err
	}
	out := api.CallTool200JSONResponse{Content: make([]api.ToolContent, len(r.Content)), Structured: r.Structured, IsError: r.IsError, Truncated: r.Truncated}
	for i, c := range r.Content {
		if c.MIME == "" {
			out.Content[i] = api.ToolContent{Type: api.ToolContentTypeText, Text: &c.Text}
			continue
		}
		out.Content[i] = api.ToolContent{Type: api.ToolContentTypeData, MimeType: &c.MIME, Data: &c.Data}
	}
	return out, nil
}
