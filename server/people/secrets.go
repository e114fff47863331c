package people

import (
	"context"
	"strconv"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/masks"
)

// maxOutdated bounds how many sessions with an earlier value are named for one secret.
const maxOutdated = 20

func (h Secrets) ListMySecrets(ctx context.Context, _ api.ListMySecretsRequestObject) (api.ListMySecretsResponseObject, error) {
	all, err := h.cfg.Secrets.List(ctx, secrets.Owner{UserID: rest.CallOf(ctx).Actor.User.ID})
	if err != nil {
		return nil, err
	}
	return api.ListMySecrets200JSONResponse{Items: h.secretsOf(ctx, all)}, nil
}

func (h Secrets) ListSecrets(ctx context.Context, req api.ListSecretsRequestObject) (api.ListSecretsResponseObject, error) {
	owner, err := h.secretOwner(ctx, rest.Val(req.Params.ProjectId))
	if err != nil {
		return nil, err
	}
	all, err := h.cfg.Secrets.List(ctx, owner)
	if err != nil {
		return nil, err
	}
	return api.ListSecrets200JSONResponse{Items: h.secretsOf(ctx, all)}, nil
}

// secretOwner is the team the path names, or a project of it.
func (h Secrets) secretOwner(ctx context.Context, projectID string) (secrets.Owner, error) {
	owner := secrets.Owner{TeamID: rest.CallOf(ctx).Team.ID, ProjectID: projectID}
	if projectID == "" {
		return owner, nil
	}
	p, err := h.cfg.Workspaces.Records.Project(ctx, projectID)
	if fault.Is(err, fault.NotFound) || err == nil && p.TeamID != owner.TeamID {
		return owner, rest.ErrNotFound
	}
	return owner, err
}

func (h Secrets) CreateMySecret(ctx context.Context, req api.CreateMySecretRequestObject) (api.CreateMySecretResponseObject, error) {
	if rest.Val(req.Body.ProjectId) != "" {
		return nil, fault.New(fault.Invalid, "invalid_secret", "Your own secrets cannot be limited to a project.").With("field", "project_id")
	}
	k, err := h.addSecret(ctx, secrets.Owner{UserID: rest.CallOf(ctx).Actor.User.ID}, *req.Body)
	return api.CreateMySecret201JSONResponse(k), err
}

func (h Secrets) CreateSecret(ctx context.Context, req api.CreateSecretRequestObject) (api.CreateSecretResponseObject, error) {
	owner, err := h.secretOwner(ctx, rest.Val(req.Body.ProjectId))
	if err != nil {
		return nil, err
	}
	k, err := h.addSecret(ctx, owner, *req.Body)
	return api.CreateSecret201JSONResponse(k), err
}

func (h Secrets) addSecret(ctx context.Context, owner secrets.Owner, b api.NewSecret) (api.Secret, error) {
	k, err := h.cfg.Secrets.Add(ctx, rest.CallOf(ctx).Actor, owner, secrets.NewSecret{Kind: secrets.Kind(b.Kind), Name: b.Name, Value: b.Value, Target: rest.Val(b.Target),
		Username: rest.Val(b.Username), InSandbox: rest.Val(b.InSandbox), Agents: rest.Val(b.Agents)})
	if err != nil {
		return api.Secret{}, err
	}
	noteSecret(ctx, k)
	return h.secretsOf(ctx, []secrets.Secret{k})[0], nil
}

func (h Secrets) UpdateSecret(ctx context.Context, req api.UpdateSecretRequestObject) (api.UpdateSecretResponseObject, error) {
	b := req.Body
	k, err := h.cfg.Secrets.Change(ctx, rest.CallOf(ctx).Actor, req.Id, secrets.Change{Name: b.Name, Value: b.Value, Target: b.Target, Username: b.Username,
		InSandbox: b.InSandbox, Agents: b.Agents})
	if err != nil {
		return nil, err
	}
	noteSecret(ctx, k)
	audit.Note(ctx, "rotated", strconv.FormatBool(b.Value != nil))
	return api.UpdateSecret200JSONResponse(h.secretsOf(ctx, []secrets.Secret{k})[0]), nil
}

func (h Secrets) DeleteSecret(ctx context.Context, req api.DeleteSecretRequestObject) (api.DeleteSecretResponseObject, error) {
	k, err := h.cfg.Secrets.Delete(ctx, rest.CallOf(ctx).Actor, req.Id)
	if err != nil {
		return nil, err
	}
	noteSecret(ctx, k)
	return api.DeleteSecret204Response{}, nil
}

// noteSecret says in the audit which secret it was about.
func noteSecret(ctx context.Context, k secrets.Secret) {
	audit.Target(ctx, "secret", k.ID, k.Name)
	audit.Note(ctx, "kind", string(k.Kind))
	audit.Note(ctx, "scope", string(k.Scope()))
	audit.Note(ctx, "project", k.ProjectID)
	audit.Note(ctx, "target", k.Target)
	if k.Kind == secrets.Git {
		audit.Note(ctx, "in_sandbox", strconv.FormatBool(k.InSandbox))
	}
}

// secretsOf are secrets as the API shows them, with the sessions that were given them.
func (h Secrets) secretsOf(ctx context.Context, all []secrets.Secret) []api.Secret {
	uses := map[string][]masks.SecretUse{}
	for _, u := range h.cfg.Sessions.Masks.SecretUses() {
		uses[u.SecretID] = append(uses[u.SecretID], u)
	}
	actor := rest.CallOf(ctx).Actor
	return rest.List(all, func(k secrets.Secret) api.Secret {
		out := api.Secret{Id: k.ID, Scope: api.SecretScope(k.Scope()), Kind: api.SecretKind(k.Kind), Name: k.Name, Target: k.Target, Username: k.Username,
			InSandbox: k.InSandbox, Agents: k.Agents, LastFour: k.LastFour, CreatedBy: k.CreatedBy, CreatedAt: k.CreatedAt, UpdatedAt: k.UpdatedAt,
			RotatedAt: rest.Ptr(k.RotatedAt), LastUsedAt: rest.Ptr(k.UsedAt), Sessions: len(uses[k.ID]), Outdated: []api.SecretSession{}}
		if k.ProjectID != "" {
			out.ProjectId = &k.ProjectID
		}
		if out.Agents == nil {
			out.Agents = []string{}
		}
		if k.TeamID != "" && accounts.Can(actor, accounts.ManageSecrets, accounts.InTeam(k.TeamID)) != nil {
			out.LastFour = ""
		}
		for _, u := range uses[k.ID] {
			if u.Version == k.Version() || len(out.Outdated) >= maxOutdated {
				continue
			}
			w, err := h.cfg.Workspaces.Records.Workspace(ctx, u.WorkspaceID)
			if err != nil {
				continue
			}
			if ok, err := h.Sees(ctx, rest.CallOf(ctx), w); err != nil || !ok {
				continue
			}
			out.Outdated = append(out.Outdated, api.SecretSession{SessionId: u.SessionID, WorkspaceId: w.ID, WorkspaceKey: w.Key(), WorkspaceName: w.Name, Agent: u.Agent})
		}
		return out
	})
}
