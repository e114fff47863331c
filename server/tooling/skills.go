package tooling

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/skills"
)

// BySkill finds a skill that a path names.
func (h Skills) BySkill(ctx context.Context, _ *rest.Call, id string) (accounts.Object, error) {
	k, err := h.cfg.Skills.Get(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	return accounts.InTeam(k.TeamID), nil
}

func skillOf(k skills.Skill, names map[string]string) api.TeamSkill {
	out := api.TeamSkill{Id: k.ID, Name: k.Name, Description: k.Description, Text: k.Text, InUse: k.InUse, Draft: k.Draft, Version: k.Latest, Agent: k.Agent, SavedBy: makerOf(k.UserID, names),
		CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt}
	out.ProjectId = rest.Text(k.ProjectID)
	return out
}

// skill answers with a skill.
func (h Skills) skill(ctx context.Context, k skills.Skill) (api.TeamSkill, error) {
	audit.Target(ctx, "skill", k.ID, k.Name)
	names, err := rest.MemberNames(ctx, h.cfg.Directory, k.TeamID)
	return skillOf(k, names), err
}

func (h Skills) ListSkills(ctx context.Context, req api.ListSkillsRequestObject) (api.ListSkillsResponseObject, error) {
	team := rest.CallOf(ctx).Object.TeamID
	all, next, err := h.cfg.Skills.List(ctx, team, skills.Filter{ProjectID: rest.Val(req.Params.Project), Query: rest.Val(req.Params.Q), Drafts: rest.Val(req.Params.Drafts)}, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, team)
	return api.ListSkills200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(all, func(k skills.Skill) api.TeamSkill { return skillOf(k, names) })}, err
}

func (h Skills) CreateSkill(ctx context.Context, req api.CreateSkillRequestObject) (api.CreateSkillResponseObject, error) {
	call, b := rest.CallOf(ctx), req.Body
	k, err := h.cfg.Skills.Create(ctx, skills.Skill{TeamID: call.Object.TeamID, ProjectID: rest.Val(b.ProjectId), Name: b.Name,
		Version: skills.Version{Description: b.Description, Text: b.Text, UserID: call.Actor.User.ID}})
	if err != nil {
		return nil, err
	}
	out, err := h.skill(ctx, k)
	return api.CreateSkill201JSONResponse(out), err
}

func (h Skills) GetSkill(ctx context.Context, req api.GetSkillRequestObject) (api.GetSkillResponseObject, error) {
	k, err := h.cfg.Skills.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	out, err := h.skill(ctx, k)
	return api.GetSkill200JSONResponse(out), err
}

func (h Skills) UpdateSkill(ctx context.Context, req api.UpdateSkillRequestObject) (api.UpdateSkillResponseObject, error) {
	b := req.Body
	k, err := h.cfg.Skills.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	switch {
	case b.UseVersion != nil && (b.Text != nil || b.Description != nil):
		err = fault.New(fault.Invalid, "skill_invalid", "Put a version into use, or save a new one: not both at once.").With("field", "use_version")
	case b.UseVersion != nil:
		k, err = h.cfg.Skills.Use(ctx, k, *b.UseVersion)
	default:
		if b.Text != nil {
			k.Text = *b.Text
		}
		if b.Description != nil {
			k.Description = *b.Description
		}
		mustBe := int64(-1)
		if b.Version != nil {
			mustBe = *b.Version
		}
		k.UserID, k.Agent, k.SessionID = rest.CallOf(ctx).Actor.User.ID, "", ""
		k, err = h.cfg.Skills.Save(ctx, k, mustBe)
	}
	if err != nil {
		return nil, err
	}
	out, err := h.skill(ctx, k)
	return api.UpdateSkill200JSONResponse(out), err
}

func (h Skills) DeleteSkill(ctx context.Context, req api.DeleteSkillRequestObject) (api.DeleteSkillResponseObject, error) {
	k, err := h.cfg.Skills.Get(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	audit.Target(ctx, "skill", k.ID, k.Name)
	return api.DeleteSkill204Response{}, h.cfg.Skills.Delete(ctx, k)
}

func (h Skills) ListSkillVersions(ctx context.Context, req api.ListSkillVersionsRequestObject) (api.ListSkillVersionsResponseObject, error) {
	all, err := h.cfg.Skills.Versions(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Object.TeamID)
	return api.ListSkillVersions200JSONResponse{Items: rest.List(all, func(v skills.Version) api.SkillVersion {
		return api.SkillVersion{Version: v.Number, Description: v.Description, Text: v.Text, Agent: v.Agent, SessionId: v.SessionID, SavedBy: makerOf(v.UserID, names), SavedAt: v.SavedAt}
	})}, err
}

// instructions answers with the instructions of a team or a project.
func (h Skills) instructions(ctx context.Context, i skills.Instructions, err error) (api.AgentInstructions, error) {
	out := api.AgentInstructions{Text: i.Text, AcceptSkills: i.Accepts, UpdatedAt: rest.Ptr(i.UpdatedAt)}
	if err != nil || i.UpdatedBy == "" {
		return out, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, i.TeamID)
	by := makerOf(i.UpdatedBy, names)
	out.UpdatedBy = &by
	return out, err
}

func (h Skills) setInstructions(ctx context.Context, projectID string, b *api.NewAgentInstructions) (api.AgentInstructions, error) {
	call := rest.CallOf(ctx)
	i, err := h.cfg.Skills.SetInstructions(ctx, skills.Instructions{TeamID: call.Object.TeamID, ProjectID: projectID, Text: b.Text, UpdatedBy: call.Actor.User.ID}, b.AcceptSkills)
	return h.instructions(ctx, i, err)
}

func (h Skills) GetTeamInstructions(ctx context.Context, _ api.GetTeamInstructionsRequestObject) (api.GetTeamInstructionsResponseObject, error) {
	i, err := h.cfg.Skills.Instructions(ctx, rest.CallOf(ctx).Object.TeamID, "")
	out, err := h.instructions(ctx, i, err)
	return api.GetTeamInstructions200JSONResponse(out), err
}

func (h Skills) SetTeamInstructions(ctx context.Context, req api.SetTeamInstructionsRequestObject) (api.SetTeamInstructionsResponseObject, error) {
	out, err := h.setInstructions(ctx, "", req.Body)
	return api.SetTeamInstructions200JSONResponse(out), err
}

func (h Skills) GetProjectInstructions(ctx context.Context, req api.GetProjectInstructionsRequestObject) (api.GetProjectInstructionsResponseObject, error) {
	i, err := h.cfg.Skills.Instructions(ctx, rest.CallOf(ctx).Object.TeamID, req.Id)
	out, err := h.instructions(ctx, i, err)
	return api.GetProjectInstructions200JSONResponse(out), err
}

func (h Skills) SetProjectInstructions(ctx context.Context, req api.SetProjectInstructionsRequestObject) (api.SetProjectInstructionsResponseObject, error) {
	p := rest.CallOf(ctx).Project
	audit.Target(ctx, "project", p.ID, p.Name)
	out, err := h.setInstructions(ctx, req.Id, req.Body)
	return api.SetProjectInstructions200JSONResponse(out), err
}
