package running

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/prompt"
)

// promptOf makes the API's prompt; names are those of the team's members.
func promptOf(p prompt.Prompt, names map[string]string) api.Prompt {
	name := cmp.Or(names[p.CreatedBy], "a former member")
	return api.Prompt{Id: p.ID, SessionId: p.SessionID, Text: p.Text, State: api.PromptState(p.State), Reason: p.Reason, Held: p.Held != "",
		Waits: p.Waits, Urgent: p.Urgent, CreatedBy: p.CreatedBy, CreatedByName: name, CreatedAt: p.CreatedAt, SentAt: rest.Ptr(p.SentAt)}
}

func (h Prompts) prompt(ctx context.Context, p prompt.Prompt) (api.Prompt, error) {
	names, err := rest.MemberNames(ctx, h.cfg.Directory, p.TeamID)
	return promptOf(p, names), err
}

func (h Prompts) ListPrompts(ctx context.Context, req api.ListPromptsRequestObject) (api.ListPromptsResponseObject, error) {
	all, err := h.cfg.Prompts.ListPrompts(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListPrompts200JSONResponse{Items: rest.List(all, func(p prompt.Prompt) api.Prompt { return promptOf(p, names) })}, nil
}

func (h Prompts) CreatePrompt(ctx context.Context, req api.CreatePromptRequestObject) (api.CreatePromptResponseObject, error) {
	b := req.Body
	p, err := h.cfg.Prompts.AddPrompt(ctx, rest.CallOf(ctx).Actor, req.Id, prompt.Request{Text: b.Text, Now: rest.Val(b.Now), Resume: rest.Val(b.Resume)})
	if err != nil {
		return nil, err
	}
	out, err := h.prompt(ctx, p)
	return api.CreatePrompt201JSONResponse(out), err
}

func (h Prompts) UpdatePrompt(ctx context.Context, req api.UpdatePromptRequestObject) (api.UpdatePromptResponseObject, error) {
	b := req.Body
	p, err := h.cfg.Prompts.EditPrompt(ctx, rest.CallOf(ctx).Actor, req.Id, prompt.Edit{Text: b.Text, Position: b.Position,
		Release: rest.Val(b.Release), Now: rest.Val(b.Now)})
	if err != nil {
		return nil, err
	}
	out, err := h.prompt(ctx, p)
	return api.UpdatePrompt200JSONResponse(out), err
}

func (h Prompts) DeletePrompt(ctx context.Context, req api.DeletePromptRequestObject) (api.DeletePromptResponseObject, error) {
	p, err := h.cfg.Prompts.CancelPrompt(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.prompt(ctx, p)
	return api.DeletePrompt200JSONResponse(out), err
}

func (h Prompts) InterruptSession(ctx context.Context, req api.InterruptSessionRequestObject) (api.InterruptSessionResponseObject, error) {
	force := req.Body != nil && rest.Val(req.Body.Force)
	got, err := h.cfg.Sessions.Interrupt(ctx, rest.CallOf(ctx).Actor, req.Id, force)
	if err != nil {
		return nil, err
	}
	return api.InterruptSession200JSONResponse{Outcome: api.InterruptionOutcome(got.Outcome), Keys: got.Keys, Held: got.Held, Session: SessionOf(got.Session)}, nil
}
