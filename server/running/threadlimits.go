package running

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// limits answers with the limits of turns of a team or a project.
func (h Threads) limits(ctx context.Context, l agent.TurnLimits, err error) (api.AgentLimits, error) {
	out := api.AgentLimits{MaxSteps: l.Steps, MaxMinutes: l.Minutes, MaxCostNanoUsd: l.CostNano, UpdatedAt: rest.Ptr(l.UpdatedAt)}
	if err != nil || l.UpdatedBy == "" {
		return out, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, l.TeamID)
	out.UpdatedBy = &api.Maker{Id: l.UpdatedBy, Name: cmp.Or(names[l.UpdatedBy], "a former member")}
	return out, err
}

func (h Threads) getLimits(ctx context.Context, projectID string) (api.AgentLimits, error) {
	l, err := h.cfg.Agent.TurnLimits(ctx, rest.CallOf(ctx).Object.TeamID, projectID)
	return h.limits(ctx, l, err)
}

func (h Threads) setLimits(ctx context.Context, projectID string, b *api.NewAgentLimits) (api.AgentLimits, error) {
	call := rest.CallOf(ctx)
	l, err := h.cfg.Agent.SetTurnLimits(ctx, agent.TurnLimits{TeamID: call.Object.TeamID, ProjectID: projectID, Steps: b.MaxSteps, Minutes: b.MaxMinutes, CostNano: b.MaxCostNanoUsd, UpdatedBy: call.Actor.User.ID})
	return h.limits(ctx, l, err)
}

func (h Threads) GetTeamAgentLimits(ctx context.Context, _ api.GetTeamAgentLimitsRequestObject) (api.GetTeamAgentLimitsResponseObject, error) {
	out, err := h.getLimits(ctx, "")
	return api.GetTeamAgentLimits200JSONResponse(out), err
}

func (h Threads) SetTeamAgentLimits(ctx context.Context, req api.SetTeamAgentLimitsRequestObject) (api.SetTeamAgentLimitsResponseObject, error) {
	out, err := h.setLimits(ctx, "", req.Body)
	return api.SetTeamAgentLimits200JSONResponse(out), err
}

func (h Threads) GetProjectAgentLimits(ctx context.Context, req api.GetProjectAgentLimitsRequestObject) (api.GetProjectAgentLimitsResponseObject, error) {
	out, err := h.getLimits(ctx, req.Id)
	return api.GetProjectAgentLimits200JSONResponse(out), err
}

func (h Threads) SetProjectAgentLimits(ctx context.Context, req api.SetProjectAgentLimitsRequestObject) (api.SetProjectAgentLimitsResponseObject, error) {
	p := rest.CallOf(ctx).Project
	audit.Target(ctx, "project", p.ID, p.Name)
	out, err := h.setLimits(ctx, req.Id, req.Body)
	return api.SetProjectAgentLimits200JSONResponse(out), err
}
