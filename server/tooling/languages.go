package tooling

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/lsp"
)

// mayAsk returns the team of a workspace whose language servers the caller may ask. Who may only read starts no sandbox.
func (h Languages) mayAsk(ctx context.Context, workspaceID string) (teamID string, err error) {
	call := rest.CallOf(ctx)
	if accounts.Can(call.Actor, accounts.EditWorkspace, call.Object) != nil && !h.cfg.Languages.Reachable(workspaceID) {
		return "", fault.New(fault.Conflict, "language_sandbox_stopped", "The workspace's sandbox does not run, and you may not start it, so its language servers cannot be asked.")
	}
	return call.Object.TeamID, nil
}

func positionOf(p *api.CodePosition) lsp.At {
	return lsp.At{Path: guest.EncodePath(p.Path), Line: p.Line, Character: p.Character}
}

func (h Languages) ListLanguages(_ context.Context, req api.ListLanguagesRequestObject) (api.ListLanguagesResponseObject, error) {
	return api.ListLanguages200JSONResponse{Items: rest.List(h.cfg.Languages.Statuses(req.Id), func(s lsp.Status) api.LanguageServer {
		return api.LanguageServer{Language: s.Language, Title: s.Title, State: api.LanguageServerState(s.State), Program: s.Program, Version: s.Version, Doing: s.Doing, Pid: s.PID, Since: s.Since, MemoryBytes: s.RSSBytes, Failure: s.Failure}
	})}, nil
}

func (h Languages) GetDiagnostics(ctx context.Context, req api.GetDiagnosticsRequestObject) (api.GetDiagnosticsResponseObject, error) {
	team, err := h.mayAsk(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	files, err := h.cfg.Languages.Diagnostics(ctx, team, req.Id, []string{guest.EncodePath(req.Params.Path)})
	if err != nil {
		return nil, err
	}
	f := files[0]
	return api.GetDiagnostics200JSONResponse{Path: req.Params.Path, Language: f.Language, Hash: f.Hash, Ready: f.NotReady == "", Reason: f.NotReady, Items: rest.List(f.Items, func(d lsp.Diagnostic) api.Diagnostic {
		return api.Diagnostic{Line: d.Line, Character: d.Character, EndLine: d.EndLine, EndCharacter: d.EndCharacter, Severity: api.DiagnosticSeverity(d.Severity), Code: d.Code, Source: d.Source, Message: d.Message}
	})}, nil
}

func (h Languages) GetHover(ctx context.Context, req api.GetHoverRequestObject) (api.GetHoverResponseObject, error) {
	team, err := h.mayAsk(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	text, err := h.cfg.Languages.Hover(ctx, team, req.Id, positionOf(req.Body))
	return api.GetHover200JSONResponse{Text: text}, err
}

func (h Languages) locate(ctx context.Context, workspaceID, what string, p *api.CodePosition) (api.CodeLocationList, error) {
	team, err := h.mayAsk(ctx, workspaceID)
	if err != nil {
		return api.CodeLocationList{}, err
	}
	found, err := h.cfg.Languages.Locate(ctx, team, workspaceID, what, positionOf(p))
	return api.CodeLocationList{Items: rest.List(found, func(l lsp.Location) api.CodeLocation {
		return api.CodeLocation{Path: guest.DecodePath(l.Path), Line: l.Line, Character: l.Character, EndLine: l.EndLine, EndCharacter: l.EndCharacter, Outside: l.Outside, Text: l.Text}
	})}, err
}

func (h Languages) FindDefinition(ctx context.Context, req api.FindDefinitionRequestObject) (api.FindDefinitionResponseObject, error) {
	found, err := h.locate(ctx, req.Id, "definition", req.Body)
	return api.FindDefinition200JSONResponse(found), err
}

func (h Languages) FindReferences(ctx context.Context, req api.FindReferencesRequestObject) (api.FindReferencesResponseObject, error) {
	found, err := h.locate(ctx, req.Id, "references", req.Body)
	return api.FindReferences200JSONResponse(found), err
}

func (h Languages) ListSymbols(ctx context.Context, req api.ListSymbolsRequestObject) (api.ListSymbolsResponseObject, error) {
	team, err := h.mayAsk(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	found, more, err := h.cfg.Languages.Symbols(ctx, team, req.Id, guest.EncodePath(req.Body.Path))
	return api.ListSymbols200JSONResponse{More: more, Items: rest.List(found, func(y lsp.Symbol) api.CodeSymbol {
		return api.CodeSymbol{Name: y.Name, Kind: y.Kind, Container: y.Container, Line: y.Line, Character: y.Character, EndLine: y.EndLine}
	})}, err
}

func (h Languages) ListCompletions(ctx context.Context, req api.ListCompletionsRequestObject) (api.ListCompletionsResponseObject, error) {
	team, err := h.mayAsk(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	found, err := h.cfg.Languages.Completions(ctx, team, req.Id, positionOf(req.Body))
	return api.ListCompletions200JSONResponse{Items: rest.List(found, func(c lsp.Completion) api.CodeCompletion {
		return api.CodeCompletion{Label: c.Label, Kind: c.Kind, Detail: c.Detail, Insert: c.Insert}
	})}, err
}

func (h Languages) GetProjectLanguages(ctx context.Context, req api.GetProjectLanguagesRequestObject) (api.GetProjectLanguagesResponseObject, error) {
	a, err := h.cfg.Languages.AfterEdits(ctx, req.Id)
	return api.GetProjectLanguages200JSONResponse{AfterEdits: api.ProjectLanguagesAfterEdits(a)}, err
}

func (h Languages) SetProjectLanguages(ctx context.Context, req api.SetProjectLanguagesRequestObject) (api.SetProjectLanguagesResponseObject, error) {
	if err := h.cfg.Languages.SetAfterEdits(ctx, req.Id, lsp.AfterEdits(req.Body.AfterEdits)); err != nil {
		return nil, err
	}
	p := rest.CallOf(ctx).Project
	audit.Target(ctx, "project", p.ID, p.Name)
	audit.Note(ctx, "after_edits", string(req.Body.AfterEdits))
	return api.SetProjectLanguages200JSONResponse(*req.Body), nil
}
