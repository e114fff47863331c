package places

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/network"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// Networked puts into a project what it says of the network.
func (h Network) Networked(p api.Project, policies map[string]network.Policy) api.Project {
	policy := policies[p.Id]
	allow := policy.Allow
	if allow == nil {
		allow = []string{}
	}
	p.Network = api.ProjectNetwork{Mode: string(policy.Mode), Allow: allow, AgentHosts: !policy.WithoutAgents,
		DefaultMode: api.ProjectNetworkDefaultMode(h.cfg.Network.Default())}
	return p
}

// PolicyOf is a project's policy once patch is applied.
func (h Network) PolicyOf(ctx context.Context, p workspaces.Project, patch *api.ProjectNetworkPatch) (network.Policy, error) {
	if patch == nil {
		return network.Policy{}, nil
	}
	policies, err := h.cfg.Network.Policies(ctx, p.TeamID)
	if err != nil {
		return network.Policy{}, err
	}
	policy := policies[p.ID]
	if patch.Mode != nil {
		policy.Mode = executors.NetworkMode(*patch.Mode)
	}
	if patch.Allow != nil {
		policy.Allow = *patch.Allow
	}
	if patch.AgentHosts != nil {
		policy.WithoutAgents = !*patch.AgentHosts
	}
	return network.CheckPolicy(policy)
}

// network describes the workspace's network.
func (h Network) network(ctx context.Context, workspaceID string) (api.Network, error) {
	info, err := h.cfg.Network.Show(ctx, workspaceID)
	if err != nil {
		return api.Network{}, err
	}
	out := api.Network{Mode: api.NetworkMode(info.Mode), Source: api.NetworkSource(info.Source), RefusedFull: info.Full,
		MayAllow: rest.CallOf(ctx).Can(accounts.AllowHost) == nil, Enforced: h.enforced(ctx, workspaceID)}
	out.Names = rest.List(info.Names, func(n network.Name) api.NetworkName {
		return api.NetworkName{Name: n.Name, From: api.NetworkNameFrom(n.From), Preset: rest.Text(n.Preset)}
	})
	out.Refused = rest.List(info.Refused, func(r network.Refused) api.RefusedHost {
		return api.RefusedHost{Host: r.Host, Port: r.Port, Reason: api.RefusedHostReason(r.Reason), Explanation: r.Words(), Allowable: info.Allowable(r),
			Times: r.Times, FirstAt: r.FirstAt, LastAt: r.LastAt}
	})
	return out, nil
}

// enforced reports whether the workspace's live place keeps to the network's rules, nil while there is none.
func (h Network) enforced(ctx context.Context, workspaceID string) *bool {
	p, ok := h.cfg.Places.Live(workspaceID)
	if !ok {
		return nil
	}
	for _, c := range h.cfg.Choice.Capabilities(ctx) {
		if c.Kind == p.Kind {
			kept := c.Isolated && c.Network
			return &kept
		}
	}
	return nil
}

func (h Network) GetNetwork(ctx context.Context, req api.GetNetworkRequestObject) (api.GetNetworkResponseObject, error) {
	n, err := h.network(ctx, req.Id)
	return api.GetNetwork200JSONResponse(n), err
}

func (h Network) AllowHost(ctx context.Context, req api.AllowHostRequestObject) (api.AllowHostResponseObject, error) {
	audit.Note(ctx, "host", req.Body.Host)
	if err := h.cfg.Network.Allow(ctx, req.Id, req.Body.Host); err != nil {
		return nil, err
	}
	call := rest.CallOf(ctx)
	h.Log.Info("host allowed for a workspace", "workspace_id", req.Id, "user_id", call.Actor.User.ID)
	n, err := h.network(ctx, req.Id)
	return api.AllowHost200JSONResponse(n), err
}

func (h Network) DisallowHost(ctx context.Context, req api.DisallowHostRequestObject) (api.DisallowHostResponseObject, error) {
	audit.Note(ctx, "host", req.Params.Host)
	if err := h.cfg.Network.Disallow(ctx, req.Id, req.Params.Host); err != nil {
		return nil, err
	}
	n, err := h.network(ctx, req.Id)
	return api.DisallowHost200JSONResponse(n), err
}
