package places

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// PeopleStore keeps what people may and want of places, and why workspaces live where they do.
type PeopleStore interface {
	Person(ctx context.Context, teamID, userID string) (choice.Person, error)
	SetWishes(ctx context.Context, teamID, userID string, p choice.Person) error
	SetTrusted(ctx context.Context, teamID, userID string, trusted *bool) error
	// Rights returns the rights that somebody gave or took, by user; "" is the members.
	Rights(ctx context.Context, teamID string) (map[string]bool, error)
	KeepWhy(ctx context.Context, teamID, workspaceID string, d choice.Decision, at int64) error
	Why(ctx context.Context, workspaceID string) (d choice.Decision, at int64, err error)
}

// mostLatency bounds what is taken from a browser, ms.
const mostLatency = 600_000

// Latencies adds to ctx the round trips that a browser measured, by the names regions have in requests.
func Latencies(ctx context.Context, ms *map[string]int64) context.Context {
	if ms == nil {
		return ctx
	}
	out := make(map[executors.Kind]int64)
	for name, n := range *ms {
		if n >= 0 && n <= mostLatency {
			out[executors.Kind(name)] = max(n, 1)
		}
	}
	return executors.WithLatencies(ctx, out)
}

// latencies reads e2b@main:120,e2b@eu:31.
func latencies(text string) *map[string]int64 {
	out := make(map[string]int64)
	for part := range strings.SplitSeq(text, ",") {
		name, number, _ := strings.Cut(part, ":")
		if n, err := strconv.ParseInt(number, 10, 64); err == nil {
			out[name] = n
		}
	}
	return &out
}

// ByHand names a place as one who wants exactly this one does: where there are several regions, its own is named, too.
func (h Standings) ByHand(k executors.Kind) executors.Kind {
	if k.Region() == "" && len(h.cfg.Executors.Regions(k)) > 0 {
		return k.In(executors.HomeRegion)
	}
	return k
}

func (h Standings) ExplainPlace(ctx context.Context, req api.ExplainPlaceRequestObject) (api.ExplainPlaceResponseObject, error) {
	call := rest.CallOf(ctx)
	kind, err := PlaceKind(req.Params.Executor, req.Params.RunnerId)
	if err != nil {
		return nil, err
	}
	var project executors.Kind
	if id := rest.Val(req.Params.ProjectId); rest.PlainID(id) && id != "" {
		if p, err := h.cfg.Workspaces.Records.Project(ctx, id); err == nil && p.TeamID == call.Team.ID {
			project = executors.Kind(p.Executor)
		}
	}
	ctx = Latencies(choice.ByHand(executors.As(ctx, "", call.Actor.User.ID)), latencies(rest.Val(req.Params.Latencies)))
	d, err := h.cfg.Choice.Explain(ctx, call.Team.ID, kind, project)
	f, known := err.(*fault.Error)
	if err != nil && !known {
		return nil, err
	}
	out := h.decision(ctx, d)
	if known {
		out.Problem = &f.Message
		if next, ok := f.Details["next_region"].(string); ok {
			out.NextRegion = &next
		}
	}
	return api.ExplainPlace200JSONResponse(out), nil
}

func (h Standings) ExplainWorkspacePlace(ctx context.Context, _ api.ExplainWorkspacePlaceRequestObject) (api.ExplainWorkspacePlaceResponseObject, error) {
	w := rest.CallOf(ctx).Workspace
	d, at, err := h.cfg.People.Why(ctx, w.ID)
	if err != nil {
		return nil, err
	}
	switch {
	case at == 0:
		d.Kind = executors.Kind(w.Executor)
	case string(d.Kind) != w.Executor:
		d.Steps = append(d.Steps, choice.Step{Rule: choice.RuleNamed, Kind: executors.Kind(w.Executor), Words: "Moved since it was made; the activity says when and by whom.", Decided: true})
		d.Kind, d.LatencyMs = executors.Kind(w.Executor), 0
	}
	out := h.decision(ctx, d)
	if at > 0 {
		out.DecidedAt = &at
	}
	return api.ExplainWorkspacePlace200JSONResponse(out), nil
}

func (h Standings) decision(ctx context.Context, d choice.Decision) api.PlaceDecision {
	kind, runnerID := PlaceOf(d.Kind)
	out := api.PlaceDecision{Executor: kind, RunnerId: runnerID, LatencyMs: d.LatencyMs, Steps: []api.PlaceStep{}}
	if c, ok := h.cfg.Choice.Place(ctx, d.Kind); ok {
		out.Name = &c.Name
	}
	for _, s := range d.Steps {
		out.Steps = append(out.Steps, api.PlaceStep{Rule: api.PlaceStepRule(s.Rule), Executor: string(s.Kind), Words: s.Words, Decided: s.Decided})
	}
	return out
}

// KeepWhy keeps why a new workspace lives where it does. What fails is no reason to refuse the workspace.
func (h Standings) KeepWhy(ctx context.Context, workspaceID string, d choice.Decision) {
	if err := h.cfg.People.KeepWhy(ctx, rest.CallOf(ctx).Team.ID, workspaceID, d, time.Now().UnixMilli()); err != nil {
		h.Log.WarnContext(ctx, "why a workspace lives where it does was not stored", "workspace_id", workspaceID, "error", err)
	}
}

func (h Standings) GetPlaceWishes(ctx context.Context, _ api.GetPlaceWishesRequestObject) (api.GetPlaceWishesResponseObject, error) {
	call := rest.CallOf(ctx)
	p, err := h.cfg.People.Person(ctx, call.Team.ID, call.Actor.User.ID)
	return api.GetPlaceWishes200JSONResponse(wishesOf(p)), err
}

func wishesOf(p choice.Person) api.PlaceWishes {
	return api.PlaceWishes{MachineFirst: p.MachineFirst, Executor: string(p.Default), Fallback: string(p.Fallback), FallbackNano: p.FallbackNano, Trusted: p.Trusted}
}

func (h Standings) SetPlaceWishes(ctx context.Context, req api.SetPlaceWishesRequestObject) (api.SetPlaceWishesResponseObject, error) {
	call := rest.CallOf(ctx)
	team, user := call.Team.ID, call.Actor.User.ID
	p, err := h.cfg.People.Person(ctx, team, user)
	if err != nil {
		return nil, err
	}
	if b := req.Body.MachineFirst; b != nil {
		p.MachineFirst = *b
	}
	if e := req.Body.Executor; e != nil {
		if err := h.cfg.Choice.CheckWish(ctx, team, executors.Kind(*e)); err != nil {
			return nil, err
		}
		p.Default = executors.Kind(*e)
	}
	if e := req.Body.Fallback; e != nil {
		k := executors.Kind(*e)
		if err := h.cfg.Choice.CheckWish(ctx, team, k); err != nil {
			return nil, err
		}
		if k == executors.Auto {
			return nil, fault.New(fault.Invalid, "fallback_unnamed", "Name the place that your work may go to: what it costs and how it isolates depends on that.").With("field", "fallback")
		}
		p.Fallback, p.FallbackNano = k, 0
		if c, ok := h.cfg.Choice.Place(ctx, k); ok {
			p.FallbackNano = c.PriceNano
		}
	}
	if err := h.cfg.People.SetWishes(ctx, team, user, p); err != nil {
		return nil, err
	}
	return api.SetPlaceWishes200JSONResponse(wishesOf(p)), nil
}

func (h Standings) GetPlaceRights(ctx context.Context, _ api.GetPlaceRightsRequestObject) (api.GetPlaceRightsResponseObject, error) {
	out, err := h.rights(ctx)
	return api.GetPlaceRights200JSONResponse(out), err
}

func (h Standings) rights(ctx context.Context) (api.PlaceRights, error) {
	all, err := h.cfg.People.Rights(ctx, rest.CallOf(ctx).Team.ID)
	out := api.PlaceRights{People: []api.PlaceRight{}}
	for user, trusted := range all {
		if user == "" {
			out.Members = &trusted
			continue
		}
		out.People = append(out.People, api.PlaceRight{UserId: user, Trusted: &trusted})
	}
	slices.SortFunc(out.People, func(a, b api.PlaceRight) int { return strings.Compare(a.UserId, b.UserId) })
	return out, err
}

func (h Standings) SetPlaceRights(ctx context.Context, req api.SetPlaceRightsRequestObject) (api.SetPlaceRightsResponseObject, error) {
	call := rest.CallOf(ctx)
	members, err := h.cfg.Directory.Members(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	for _, r := range req.Body.People {
		if !slices.ContainsFunc(members, func(m accounts.TeamMember) bool { return m.User.ID == r.UserId }) {
			return nil, fault.New(fault.NotFound, "member_not_found", "The team has no such member.").With("field", "people")
		}
	}
	if err := h.cfg.People.SetTrusted(ctx, call.Team.ID, "", req.Body.Members); err != nil {
		return nil, err
	}
	for _, r := range req.Body.People {
		if err := h.cfg.People.SetTrusted(ctx, call.Team.ID, r.UserId, r.Trusted); err != nil {
			return nil, err
		}
	}
	audit.Note(ctx, "people", strconv.Itoa(len(req.Body.People)))
	h.Log.InfoContext(ctx, "rights to use this server without isolation were changed", "team_id", call.Team.ID, "actor_id", call.Actor.User.ID, "members", req.Body.Members, "people", len(req.Body.People))
	out, err := h.rights(ctx)
	return api.SetPlaceRights200JSONResponse(out), err
}
