package work

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// tendingOf makes the API's answer about a pull request that is brought to its merge.
func (h Forge) tendingOf(ctx context.Context, t tending.Tending, rounds []tending.Round) (api.Tending, error) {
	names, err := rest.MemberNames(ctx, h.cfg.Directory, t.TeamID)
	return api.Tending{State: api.TendingState(t.State), Code: t.Code, Because: t.Because, Since: t.Since, MaxRounds: t.Limits.Rounds, MaxNano: t.Limits.Nano, Merge: api.TendingMerge(t.Merge), Agent: t.Agent,
		Rounds: t.Rounds, SpentNano: t.SpentNano, NextAt: rest.Ptr(t.NextAt), CreatedBy: t.CreatedBy, CreatedByName: names[t.CreatedBy], CreatedAt: t.CreatedAt, Others: rest.List(t.Others, saidOf), History: rest.List(rounds, roundOf)}, err
}

func roundOf(r tending.Round) api.TendingRound {
	return api.TendingRound{Id: r.ID, Number: r.N, Step: api.TendingRoundStep(r.Step), Checks: rest.List(r.Checks, func(c tending.Broken) api.TendingCheck { return api.TendingCheck{Name: c.Name, Url: c.URL} }),
		Comments: rest.List(r.Comments, saidOf), Conflict: r.Conflict, SessionId: r.SessionID, Answer: r.Answer, Pushed: r.Pushed, Code: r.Code, Error: r.Error, CostNano: r.CostNano, StartedAt: r.StartedAt,
		EndedAt: rest.Ptr(r.EndedAt)}
}

func saidOf(s tending.Said) api.TendingComment {
	return api.TendingComment{Author: s.Author, Path: s.Path, Line: s.Line, Text: s.Text, Url: s.URL, Answer: s.Answer, Done: s.Done}
}

func (h Forge) GetTending(ctx context.Context, req api.GetTendingRequestObject) (api.GetTendingResponseObject, error) {
	t, rounds, err := h.cfg.Tending.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.tendingOf(ctx, t, rounds)
	return api.GetTending200JSONResponse(out), err
}

func (h Forge) SetTending(ctx context.Context, req api.SetTendingRequestObject) (api.SetTendingResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	r := tending.Request{Limits: tending.Limits{Rounds: rest.Val(b.MaxRounds), Nano: rest.Val(b.MaxNano)}, Merge: string(rest.Val(b.Merge)), Agent: rest.Val(b.Agent)}
	t, err := h.cfg.Tending.Set(ctx, call.Actor, call.Workspace, r)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "merge", r.Merge)
	audit.Note(ctx, "max_rounds", strconv.Itoa(t.Limits.Rounds))
	t, rounds, err := h.cfg.Tending.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.tendingOf(ctx, t, rounds)
	return api.SetTending200JSONResponse(out), err
}

func (h Forge) EndTending(ctx context.Context, _ api.EndTendingRequestObject) (api.EndTendingResponseObject, error) {
	return api.EndTending204Response{}, h.cfg.Tending.Drop(ctx, rest.CallOf(ctx).Workspace)
}
