package tooling

import (
	"context"
	"encoding/json"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// ByPermissionRule finds a rule that a path names. Who may change a project's rules may not change those of its team.
func (h Permissions) ByPermissionRule(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	r, err := h.cfg.Permissions.Rule(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	o := accounts.InTeam(r.TeamID)
	if r.ProjectID == "" && accounts.Can(call.Actor, accounts.ViewTeam, o) == nil {
		return o, accounts.Can(call.Actor, accounts.ManageTeam, o)
	}
	return o, nil
}

func ruleOf(r permissions.Rule, names map[string]string) api.PermissionRule {
	return api.PermissionRule{Id: r.ID, Scope: api.PermissionRuleScope(r.Scope()), Tool: r.Tool, Pattern: r.Pattern, Effect: api.PermissionEffect(r.Effect), CreatedBy: makerOf(r.CreatedBy, names), CreatedAt: r.CreatedAt}
}

func (h Permissions) rules(ctx context.Context, projectID string) (out api.PermissionRuleList, err error) {
	team := rest.CallOf(ctx).Object.TeamID
	rules, err := h.cfg.Permissions.Rules(ctx, team, projectID, "")
	if err != nil {
		return out, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, team)
	out.Items = rest.List(rules, func(r permissions.Rule) api.PermissionRule { return ruleOf(r, names) })
	return out, err
}

func (h Permissions) add(ctx context.Context, projectID string, b *api.NewPermissionRule) (api.PermissionRule, error) {
	call := rest.CallOf(ctx)
	r, err := h.cfg.Permissions.Add(ctx, permissions.Rule{TeamID: call.Object.TeamID, ProjectID: projectID, Tool: b.Tool, Pattern: rest.Val(b.Pattern), Effect: permissions.Effect(b.Effect), CreatedBy: call.Actor.User.ID})
	if err != nil {
		return api.PermissionRule{}, err
	}
	audit.Target(ctx, "permission_rule", r.ID, r.String())
	return ruleOf(r, map[string]string{call.Actor.User.ID: call.Actor.User.Name}), nil
}

func (h Permissions) try(ctx context.Context, projectID string, b *api.TriedCall) (out api.PermissionDecision, err error) {
	args := json.RawMessage("{}")
	if b.Arguments != nil {
		if args, err = json.Marshal(b.Arguments); err != nil {
			return out, err
		}
	}
	team := rest.CallOf(ctx).Object.TeamID
	d, err := h.cfg.Permissions.Try(ctx, team, projectID, b.Tool, args, b.Isolated == nil || *b.Isolated)
	if err != nil {
		return out, err
	}
	out = api.PermissionDecision{Effect: api.PermissionEffect(d.Effect), Reason: d.Reason}
	if d.Rule.ID == "" {
		return out, nil
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, team)
	r := ruleOf(d.Rule, names)
	out.Rule = &r
	return out, err
}

func (h Permissions) ListPermissionRules(ctx context.Context, req api.ListPermissionRulesRequestObject) (api.ListPermissionRulesResponseObject, error) {
	all, err := h.rules(ctx, req.Id)
	return api.ListPermissionRules200JSONResponse(all), err
}

func (h Permissions) ListTeamPermissionRules(ctx context.Context, _ api.ListTeamPermissionRulesRequestObject) (api.ListTeamPermissionRulesResponseObject, error) {
	all, err := h.rules(ctx, "")
	return api.ListTeamPermissionRules200JSONResponse(all), err
}

func (h Permissions) CreatePermissionRule(ctx context.Context, req api.CreatePermissionRuleRequestObject) (api.CreatePermissionRuleResponseObject, error) {
	r, err := h.add(ctx, req.Id, req.Body)
	return api.CreatePermissionRule201JSONResponse(r), err
}

func (h Permissions) CreateTeamPermissionRule(ctx context.Context, req api.CreateTeamPermissionRuleRequestObject) (api.CreateTeamPermissionRuleResponseObject, error) {
	r, err := h.add(ctx, "", req.Body)
	return api.CreateTeamPermissionRule201JSONResponse(r), err
}

func (h Permissions) TryPermissionRules(ctx context.Context, req api.TryPermissionRulesRequestObject) (api.TryPermissionRulesResponseObject, error) {
	d, err := h.try(ctx, req.Id, req.Body)
	return api.TryPermissionRules200JSONResponse(d), err
}

func (h Permissions) TryTeamPermissionRules(ctx context.Context, req api.TryTeamPermissionRulesRequestObject) (api.TryTeamPermissionRulesResponseObject, error) {
	d, err := h.try(ctx, "", req.Body)
	return api.TryTeamPermissionRules200JSONResponse(d), err
}

func (h Permissions) DeletePermissionRule(ctx context.Context, req api.DeletePermissionRuleRequestObject) (api.DeletePermissionRuleResponseObject, error) {
	r, err := h.cfg.Permissions.Rule(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "permission_rule", r.ID, r.String())
	return api.DeletePermissionRule204Response{}, h.cfg.Permissions.Delete(ctx, r)
}
