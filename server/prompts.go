package server

import (
	"context"

	"github.com/labstack/echo/v4"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/sessions"
)

func (h handlers) byPrompt(ctx context.Context, c echo.Context, call *call) (accounts.Object, error) {
	id, err := pathID(c)
	if err != nil {
		return accounts.Object{}, err
	}
	p, err := h.cfg.Sessions.Prompt(ctx, id)
	if err == nil {
		call.session, err = h.cfg.Sessions.Get(ctx, p.SessionID) // it says in which place it is to be typed
	}
	if err != nil {
		return accounts.Object{}, err
	}
	return h.within(ctx, call, call.session.WorkspaceID)
}

// promptOf makes the API's prompt; names are those of the team's members.
func promptOf(p sessions.Prompt, names map[string]string) api.Prompt {
	name := names[p.CreatedBy]
	if name == "" {
		name = "a former member"
	}
	return api.Prompt{Id: p.ID, SessionId: p.SessionID, Text: p.Text, State: api.PromptState(p.State), Reason: p.Reason, Held: p.Held != "",
		Waits: p.Waits, Urgent: p.Urgent, CreatedBy: p.CreatedBy, CreatedByName: name, CreatedAt: p.CreatedAt, SentAt: ptr(p.SentAt)}
}

func (h handlers) prompt(ctx context.Context, p sessions.Prompt) (api.Prompt, error) {
	names, err := memberNames(ctx, h.cfg.Accounts, p.TeamID)
	return promptOf(p, names), err
}

func (h handlers) ListPrompts(ctx context.Context, req api.ListPromptsRequestObject) (api.ListPromptsResponseObject, error) {
	all, err := h.cfg.Sessions.ListPrompts(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	names, err := memberNames(ctx, h.cfg.Accounts, callOf(ctx).team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListPrompts200JSONResponse{Items: list(all, func(p sessions.Prompt) api.Prompt { return promptOf(p, names) })}, nil
}

func (h handlers) CreatePrompt(ctx context.Context, req api.CreatePromptRequestObject) (api.CreatePromptResponseObject, error) {
	b := req.Body
	p, err := h.cfg.Sessions.AddPrompt(ctx, callOf(ctx).actor, req.Id, sessions.NewPrompt{Text: b.Text, Now: val(b.Now), Resume: val(b.Resume)})
	if err != nil {
		return nil, err
	}
	out, err := h.prompt(ctx, p)
	return api.CreatePrompt201JSONResponse(out), err
}

func (h handlers) UpdatePrompt(ctx context.Context, req api.UpdatePromptRequestObject) (api.UpdatePromptResponseObject, error) {
	b := req.Body
	p, err := h.cfg.Sessions.EditPrompt(ctx, callOf(ctx).actor, req.Id, sessions.PromptEdit{Text: b.Text, Position: b.Position,
		Release: val(b.Release), Now: val(b.Now)})
	if err != nil {
		return nil, err
	}
	out, err := h.prompt(ctx, p)
	return api.UpdatePrompt200JSONResponse(out), err
}

func (h handlers) DeletePrompt(ctx context.Context, req api.DeletePromptRequestObject) (api.DeletePromptResponseObject, error) {
	p, err := h.cfg.Sessions.CancelPrompt(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.prompt(ctx, p)
	return api.DeletePrompt200JSONResponse(out), err
}

func (h handlers) InterruptSession(ctx context.Context, req api.InterruptSessionRequestObject) (api.InterruptSessionResponseObject, error) {
	force := req.Body != nil && val(req.Body.Force)
	got, err := h.cfg.Sessions.Interrupt(ctx, callOf(ctx).actor, req.Id, force)
	if err != nil {
		return nil, err
	}
	return api.InterruptSession200JSONResponse{Outcome: api.InterruptionOutcome(got.Outcome), Keys: got.Keys, Held: got.Held, Session: sessionOf(got.Session)}, nil
}
