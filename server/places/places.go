package places

import (
	"context"
	"fmt"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// PolicyStore keeps what teams say about their places.
type PolicyStore interface {
	choice.Policies
	// RememberPlace keeps which place a user chose last in a project; LastPlace returns it, "" for none.
	RememberPlace(ctx context.Context, teamID, projectID, userID string, kind executors.Kind) error
	LastPlace(ctx context.Context, projectID, userID string) (executors.Kind, error)
	SetPlacePolicy(ctx context.Context, teamID string, p choice.Policy) error
}

func executorOf(s choice.Option) api.Executor {
	kind, runnerID := PlaceOf(s.Kind)
	out := api.Executor{Kind: kind, RunnerId: runnerID, Name: s.Name, Available: s.Available, Reason: s.Reason, Hint: s.Cure, Isolation: s.Isolation,
		Isolated: s.Isolated, Boundary: api.Boundary(s.Boundary), BoundaryName: BoundaryName(s.Boundary), Limits: s.Limits, Network: s.Network,
		StartMs: s.StartMs, Start: startWords(s.StartMs), Warning: s.Warning, Allowed: s.Allowed, Forbidden: s.Forbidden,
		PriceNanoPerHour: s.PriceNano, Default: s.Default, ChosenByDefault: s.Default, OwnDisk: s.OwnDisk, PauseFree: s.PauseFree,
		Sizes: rest.List(s.Sizes, sizeOf), LeaseMs: s.LeaseMs, RunMs: s.RunMs, IdleMinutes: int(s.IdleAfter.Minutes()), Fallback: s.Fallback}
	if s.NotSetUp {
		out.NotSetUp = &s.NotSetUp
	}
	if runnerID != nil {
		out.Owner, out.SharedHome, out.OfflineSince, out.Dangerous = &s.Owner.Name, &s.SharedHome, rest.Ptr(s.AwaySince), new(s.Boundary == executors.NoBoundary)
	}
	return out
}

func sizeOf(s executors.Size) api.PlaceSize {
	return api.PlaceSize{Cpus: s.CPUs, MemoryMb: s.MemoryMB, PriceNanoPerHour: s.PriceNano, Available: s.Available, Reason: s.Reason,
		Hint: s.Cure, Default: s.Default, Refused: refusalOf(s)}
}

// BoundaryName is a boundary in words, "" for none.
func BoundaryName(b executors.Boundary) string {
	if b == "" {
		return ""
	}
	return b.Name()
}

// startWords says how long a place takes to be ready.
func startWords(ms int64) string {
	switch {
	case ms <= 0:
		return ""
	case ms < 100:
		return "ready at once"
	case ms < 1000:
		return fmt.Sprintf("ready in about 0.%d s", max(ms/100, 1))
	case ms < 10_000:
		return fmt.Sprintf("ready in about %.1f s", float64(ms)/1000)
	}
	return fmt.Sprintf("ready in about %d s", ms/1000)
}

func (h Standings) ListExecutors(ctx context.Context, req api.ListExecutorsRequestObject) (api.ListExecutorsResponseObject, error) {
	call := rest.CallOf(ctx)
	all, policy, err := h.cfg.Choice.Options(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	all = choosable(all, call.Actor.User.ID)
	var last executors.Kind
	if id := rest.Val(req.Params.ProjectId); id != "" && rest.PlainID(id) {
		if last, err = h.cfg.Policies.LastPlace(ctx, id, call.Actor.User.ID); err != nil {
			return nil, err
		}
	}
	out := suggest(all, last, h.cfg.Choice.Fixed() || policy.NoChoice)
	alone, err := h.cfg.Choice.Alone(executors.As(ctx, "", call.Actor.User.ID), call.Team.ID)
	if err != nil {
		return nil, err
	}
	return api.ListExecutors200JSONResponse{Items: rest.List(all, h.executorsOf(ctx)), Suggested: &out, Alone: new(alone != "")}, nil
}

func (h Standings) GetTeamPlaces(ctx context.Context, _ api.GetTeamPlacesRequestObject) (api.GetTeamPlacesResponseObject, error) {
	p, err := h.teamPlaces(ctx, rest.CallOf(ctx).Team.ID)
	return api.GetTeamPlaces200JSONResponse(p), err
}

// maxBelow bounds how many workspaces in places that are too weak are listed.
const maxBelow = 200

func (h Standings) teamPlaces(ctx context.Context, teamID string) (api.TeamPlaces, error) {
	said, err := h.cfg.Policies.PlacePolicy(ctx, teamID)
	if err != nil {
		return api.TeamPlaces{}, err
	}
	all, holds, err := h.cfg.Choice.Options(ctx, teamID)
	if err != nil {
		return api.TeamPlaces{}, err
	}
	out := api.TeamPlaces{WeakestBoundary: api.Boundary(said.Weakest), InstanceWeakestBoundary: api.Boundary(h.cfg.Choice.Weakest()),
		EffectiveBoundary: api.Boundary(holds.Weakest), DefaultExecutor: string(said.Default), MayChoose: !h.cfg.Choice.Fixed(), AllowUserChoice: !said.NoChoice,
		Executors: rest.List(choosable(all, rest.CallOf(ctx).Actor.User.ID), h.executorsOf(ctx)), Below: []api.WeakWorkspace{}}
	weak := make(map[string]bool)
	for _, s := range all {
		if !s.Allowed && s.Boundary != "" {
			weak[string(s.Kind)] = true
		}
	}
	if len(weak) == 0 {
		return out, nil
	}
	sandboxes, err := h.cfg.Places.Sandboxes(ctx, teamID)
	if err != nil {
		return out, err
	}
	for cursor := ""; ; {
		items, next, err := h.cfg.Workspaces.Records.List(ctx, teamID, rest.ShownTo(rest.CallOf(ctx), workspaces.Filter{}), page.Page{Limit: maxBelow, Cursor: cursor})
		if err != nil {
			return out, err
		}
		for _, w := range items {
			if weak[w.Executor] && len(out.Below) < maxBelow {
				out.Below = append(out.Below, api.WeakWorkspace{Id: w.ID, Key: w.Key(), Name: w.Name, Executor: string(executors.Kind(w.Executor).Base()),
					Running: sandboxes[w.ID].State == executors.Running})
			}
		}
		if cursor = next; cursor == "" || len(out.Below) == maxBelow {
			return out, nil
		}
	}
}

func (h Standings) SetTeamPlaces(ctx context.Context, req api.SetTeamPlacesRequestObject) (api.SetTeamPlacesResponseObject, error) {
	call := rest.CallOf(ctx)
	old, err := h.cfg.Policies.PlacePolicy(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	p := old
	if b := req.Body.WeakestBoundary; b != nil {
		p.Weakest = executors.Boundary(*b)
		if p.Weakest != "" && !slices.Contains(executors.Boundaries, p.Weakest) {
			return nil, fault.New(fault.Invalid, "invalid_boundary", "weakest_boundary must be none, process, container, gvisor or microvm, or empty for the setting of the instance.").With("field", "weakest_boundary")
		}
		if !p.Weakest.AtLeast(h.cfg.Choice.Weakest()) && p.Weakest != "" {
			return nil, fault.New(fault.Invalid, "boundary_below_instance", "The instance requires at least %q: a team can only require more.", h.cfg.Choice.Weakest()).With("field", "weakest_boundary")
		}
	}
	if e := req.Body.DefaultExecutor; e != nil {
		p.Default = executors.Kind(*e)
	}
	if b := req.Body.AllowUserChoice; b != nil {
		p.NoChoice = !*b
	}
	if p != old {
		if err := h.cfg.Choice.CheckPolicy(ctx, p); err != nil {
			return nil, err
		}
		if err := h.cfg.Policies.SetPlacePolicy(ctx, call.Team.ID, p); err != nil {
			return nil, err
		}
		h.Log.Info("a team's places were changed", "team_id", call.Team.ID, "actor_id", call.Actor.User.ID, "weakest_boundary", p.Weakest,
			"weakest_boundary_before", old.Weakest, "default_executor", p.Default, "default_executor_before", old.Default, "allow_user_choice", !p.NoChoice)
	}
	out, err := h.teamPlaces(ctx, call.Team.ID)
	if err != nil {
		return nil, err
	}
	return api.SetTeamPlaces200JSONResponse(out), nil
}

func (h Standings) ListWorkspacePlaces(ctx context.Context, req api.ListWorkspacePlacesRequestObject) (api.ListWorkspacePlacesResponseObject, error) {
	w := rest.CallOf(ctx).Workspace
	all, _, err := h.cfg.Choice.Options(ctx, w.TeamID)
	if err != nil {
		return nil, err
	}
	base, runnerID := PlaceOf(executors.Kind(w.Executor))
	out := api.ListWorkspacePlaces200JSONResponse{Executor: base, RunnerId: runnerID, Movable: true, Items: []api.PlaceChange{}}
	var here executors.Capabilities
	for _, s := range all {
		if string(s.Kind) == w.Executor {
			here = s.Capabilities
		}
	}
	place := h.executorsOf(ctx)
	for _, s := range all {
		if s.Kind.Member() != "" && !s.Owner.Admits(rest.CallOf(ctx).Actor.User.ID) && string(s.Kind) != w.Executor {
			continue // somebody else's own
		}
		c := api.PlaceChange{Executor: place(s), Changes: []string{}}
		if string(s.Kind) != w.Executor {
			c.Changes = executors.Differences(here, s.Capabilities)
		}
		out.Items = append(out.Items, c)
	}
	if err := h.cfg.Moves.Movable(ctx, w); err != nil {
		f, ok := err.(*fault.Error)
		if !ok {
			return nil, err
		}
		out.Movable, out.Reason = false, f.Message
	}
	return out, nil
}

// Outlook says how the place of a workspace stands.
type Outlook struct {
	Boundary executors.Boundary
	Warning  string
	Blocked  bool
}

// Outlooks says it for every place a team's workspaces may name; running: while the sandbox runs.
func Outlooks(all []choice.Option) func(kind string, running bool) Outlook {
	byKind := make(map[string]choice.Option, len(all))
	for _, s := range all {
		byKind[string(s.Kind)] = s
	}
	return func(kind string, running bool) Outlook {
		s, ok := byKind[kind]
		switch {
		case kind == "" || kind == string(executors.Auto):
			return Outlook{}
		case !ok:
			if executors.Kind(kind).Member() != "" {
				return Outlook{Warning: "The machine it lives on is not connected to the team any more. Move it to another place.", Blocked: true}
			}
			return Outlook{Warning: fmt.Sprintf("Its place, %s, is not part of this server any more. Move it to another place.", kind), Blocked: true}
		case s.Away:
			return Outlook{s.Boundary, fmt.Sprintf("%s is %s. What runs there goes on and is shown again once it is back.", s.Name, s.Reason), true}
		case !s.Available:
			return Outlook{s.Boundary, fmt.Sprintf("%s cannot be used now: %s. %s", s.Name, s.Reason, s.Cure), !running}
		case !s.Allowed:
			return Outlook{s.Boundary, fmt.Sprintf("%s is %s. What runs goes on; nothing new starts here. Move it to another place.", s.Name, s.Forbidden), true}
		case s.Boundary == executors.NoBoundary && s.OwnDisk:
			return Outlook{s.Boundary, "DANGEROUS: nothing keeps agents in here. They have the rights of the machine's owner, with all of their files.", false}
		case s.Boundary == executors.NoBoundary:
			return Outlook{s.Boundary, "This place is no boundary: agents have the rights of the server's user.", false}
		}
		return Outlook{s.Boundary, s.Warning, false}
	}
}

// BoundaryOf is how strongly the place in which a workspace's sandbox lives now keeps an agent in; "" without one.
func (h Standings) BoundaryOf(ctx context.Context, workspaceID string) *api.Boundary {
	out := api.BoundaryUnknown
	if p, ok := h.cfg.Places.Live(workspaceID); ok {
		if c, ok := h.cfg.Choice.Place(ctx, p.Kind); ok {
			out = api.Boundary(c.Boundary)
		}
	}
	return &out
}

func (h Standings) teamCaches(ctx context.Context, teamID string) (api.TeamCaches, error) {
	out := api.TeamCaches{Enabled: h.cfg.Caches != nil, Items: []api.TeamCache{}}
	if h.cfg.Caches == nil {
		return out, nil
	}
	sizes, err := h.cfg.Caches.Sizes(ctx, teamID)
	for _, s := range sizes {
		out.Items = append(out.Items, api.TeamCache{Name: s.Name, Bytes: s.Bytes})
		out.Bytes += s.Bytes
	}
	out.MaxBytes = h.cfg.Caches.Max()
	return out, err
}

func (h Standings) GetTeamCaches(ctx context.Context, _ api.GetTeamCachesRequestObject) (api.GetTeamCachesResponseObject, error) {
	c, err := h.teamCaches(ctx, rest.CallOf(ctx).Team.ID)
	return api.GetTeamCaches200JSONResponse(c), err
}

func (h Standings) EmptyTeamCaches(ctx context.Context, _ api.EmptyTeamCachesRequestObject) (api.EmptyTeamCachesResponseObject, error) {
	call := rest.CallOf(ctx)
	if h.cfg.Caches != nil {
		if err := h.cfg.Caches.Empty(ctx, call.Team.ID); err != nil {
			return nil, err
		}
		h.Log.Info("a team's caches were emptied", "team_id", call.Team.ID, "actor_id", call.Actor.User.ID)
	}
	c, err := h.teamCaches(ctx, call.Team.ID)
	return api.EmptyTeamCaches200JSONResponse(c), err
}

// executorsOf turns standings into the API's, with what the budget has left for those that cost something.
func (h Standings) executorsOf(ctx context.Context) func(choice.Option) api.Executor {
	var left *int64
	b, err := h.cfg.Ledger.Standing(ctx)
	switch {
	case err != nil:
		h.Log.WarnContext(ctx, "the budget could not be read", "error", err)
	case b.Limited:
		left = new(b.LeftNano())
	}
	if own := h.teamLeft(ctx); own != nil && (left == nil || *own < *left) {
		left = own
	}
	return func(s choice.Option) api.Executor {
		out := executorOf(s)
		if s.Kind.Region() != "" {
			out.RegionOf = new(string(s.Kind.Provider()))
		} else if all := h.cfg.Choice.Regions(ctx, s.Kind); len(all) > 0 {
			list := rest.List(all, func(r choice.Region) api.PlaceRegion {
				return api.PlaceRegion{Executor: string(r.By()), Name: r.Name, Available: r.Available, Reason: r.Reason, Hint: r.Cure, LatencyMs: r.LatencyMs, ProbeUrl: r.ProbeURL, PriceNanoPerHour: r.PriceNano}
			})
			out.Regions = &list
		}
		if s.PriceNano > 0 || len(s.Sizes) > 0 && s.Sizes[len(s.Sizes)-1].PriceNano > 0 {
			out.BudgetLeftNano = left
		}
		return out
	}
}

// refusalOf says why who asks may not have a size; nil when they may.
func refusalOf(s executors.Size) *api.SizeRefusal {
	if s.Refused == nil {
		return nil
	}
	reason, _ := s.Refused.Details["reason"].(string)
	cure, _ := s.Refused.Details["hint"].(string)
	return &api.SizeRefusal{Code: s.Refused.Code, Reason: reason, Hint: cure}
}

// teamLeft is what the caller's team may still spend; nil where there is no bound, or it is not theirs to see.
func (h Standings) teamLeft(ctx context.Context) *int64 {
	call := rest.CallOf(ctx)
	if call.Team.ID == "" || call.Can(accounts.ViewCosts) != nil {
		return nil
	}
	st, err := h.cfg.Quota.TeamStanding(ctx, call.Team.ID)
	if err != nil {
		h.Log.WarnContext(ctx, "the team's budget could not be read", "error", err)
		return nil
	}
	return st.Left()
}
