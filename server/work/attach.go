package work

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/tools/artifacts"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/forge"
)

// attachedToMerge finds the workspace's artifacts with these ids, for the record of a merge.
func (h *group) attachedToMerge(ctx context.Context, workspaceID string, ids []string) ([]workspaces.AttachedArtifact, error) {
	choices := rest.List(ids, func(id string) artifacts.Choice { return artifacts.Choice{ID: id} })
	chosen, err := h.cfg.Artifacts.Choose(ctx, rest.CallOf(ctx).Actor, workspaceID, "", choices)
	return rest.List(chosen, attachedOf), err
}

func attachedOf(c artifacts.Chosen) workspaces.AttachedArtifact {
	return workspaces.AttachedArtifact{ID: c.ID, Name: c.Name, Size: c.Size, SHA256: c.SHA256}
}

// openWithArtifacts opens a pull request whose description lists artifacts. The links to them end again when it is certain that nobody
// can read the description.
func (h Forge) openWithArtifacts(ctx context.Context, workspaceID string, ask forge.Ask, picked []api.ArtifactChoice) (forge.PullRequest, error) {
	call := rest.CallOf(ctx)
	choices := rest.List(picked, func(c api.ArtifactChoice) artifacts.Choice {
		return artifacts.Choice{ID: c.Id, LinkMinutes: rest.Val(c.LinkMinutes)}
	})
	chosen, err := h.cfg.Artifacts.Choose(ctx, call.Actor, workspaceID, "Pull request", choices)
	if err != nil {
		return forge.PullRequest{}, err
	}
	for _, c := range chosen {
		at := forge.Attachment{AttachedArtifact: attachedOf(c)}
		if c.Token != "" {
			at.URL, at.ExpiresAt = h.Here(call.Request)+rest.Base+"/shared-artifacts/"+c.Token, c.Link.ExpiresAt
			audit.Note(ctx, "link_"+c.Link.ID, time.UnixMilli(c.Link.ExpiresAt).UTC().Format(time.RFC3339))
		}
		ask.Artifacts = append(ask.Artifacts, at)
	}
	p, err := h.cfg.Forge.Open(ctx, call.Actor, workspaceID, ask)
	if err != nil && p.Number == 0 && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Timeout) {
		if rerr := h.cfg.Artifacts.RevokeChosen(ctx, call.Actor, chosen); rerr != nil {
			h.Log.WarnContext(ctx, "links to artifacts remain after a pull request was not opened; they end by themselves", "workspace_id", workspaceID, "error", rerr)
		}
	}
	return p, err
}
