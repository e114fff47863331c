package running

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
)

// AdmissionConfig is what an admission works with.
type AdmissionConfig struct {
	Directory  *directory.Service
	Workspaces *assembly.Workspaces
	Places     *manager.Manager
	Choice     *choice.Chooser
	Masks      *masks.Masks
	Commands   *command.Commands
	Secrets    *secrets.Service
}

// Admission says who may have something done in a workspace's place, beyond what their role allows.
type Admission struct{ cfg AdmissionConfig }

// NewAdmission makes an Admission.
func NewAdmission(cfg AdmissionConfig) *Admission { return &Admission{cfg} }

// beside reports why the caller may not work in a workspace while its present sessions and commands run: they have somebody's own secrets,
// and the owner did not agree that others could read them. The owner learns who asked.
func (a *Admission) beside(ctx context.Context, actor accounts.Actor, workspaceID string) error {
	if workspaceID == "" {
		return nil
	}
	owners := append(a.cfg.Masks.OwnSecretsHere(workspaceID), a.cfg.Commands.OwnSecretsHere(workspaceID)...)
	for _, owner := range owners {
		if owner == actor.User.ID {
			continue
		}
		agreed, err := a.cfg.Secrets.Agreed(ctx, workspaceID, owner)
		if err != nil {
			return err
		}
		if agreed {
			continue
		}
		a.cfg.Masks.WantedBeside(workspaceID, owner, actor.User.Name)
		who, err := a.cfg.Directory.Actor(ctx, owner)
		if err != nil {
			return err
		}
		return fault.New(fault.Conflict, "personal_secrets_in_use", "A session or command of %s runs in this workspace with their own secrets, which you could read if you worked here. Ask them to agree, or wait until it has ended.",
			who.User.Name).With("user_id", owner)
	}
	return nil
}

// Works reports why the caller may not have anything done in a workspace: it is on somebody else's own machine, or somebody else's own
// secrets are there.
func (a *Admission) Works(ctx context.Context, call *rest.Call) error {
	if err := a.beside(ctx, call.Actor, rest.First(call.Workspace.ID, call.Session.WorkspaceID, call.Command.WorkspaceID)); err != nil {
		return err
	}
	w := call.Workspace
	if w.ID == "" {
		id := rest.First(call.Session.WorkspaceID, call.Command.WorkspaceID)
		if id == "" {
			return nil
		}
		if p, ok := a.cfg.Places.Live(id); ok {
			return a.cfg.Choice.Admit(ctx, p.Kind, call.Actor.User.ID)
		}
		var err error
		if w, err = a.cfg.Workspaces.Records.Workspace(ctx, id); err != nil {
			return err
		}
	}
	return a.cfg.Choice.Admit(ctx, executors.Kind(w.Executor), call.Actor.User.ID)
}

// Admits is Works for an agent that a user's agent, and no request, has work in a workspace.
func (a *Admission) Admits(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) error {
	if err := a.beside(ctx, actor, w.ID); err != nil {
		return err
	}
	return a.cfg.Choice.Admit(ctx, executors.Kind(w.Executor), actor.User.ID)
}
