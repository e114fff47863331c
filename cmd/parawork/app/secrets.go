package app

import (
	"context"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/store"
)

// buildSecrets joins the room of secrets. What must not be shown any more is told to whatever runs.
func (h *App) buildSecrets() {
	h.secrets = secrets.New(secrets.Config{Store: store.NewSecrets(h.db), Vault: h.vault, Others: h.directory.OthersWork, Log: h.log.With("room", "secrets"),
		Mask: func(k secrets.Secret, masks []string) {
			h.sessions.Mask(k, masks)
			h.commands.Mask(func(c command.Command) bool {
				return k.TeamID != "" && c.TeamID == k.TeamID || k.UserID != "" && c.ActorID == k.UserID
			}, masks)
		}})
}

// commandSecrets says what a command is given.
func (h *App) commandSecrets(ctx context.Context, c command.Command) (command.Secrets, error) {
	w, err := h.workspaces.Workspace(ctx, c.WorkspaceID)
	if err != nil {
		return command.Secrets{}, err
	}
	g, err := h.secrets.For(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: c.ActorID, Agent: secrets.Commands,
		WorkspaceID: w.ID, Private: w.Private && w.CreatedBy == c.ActorID})
	if err != nil {
		return command.Secrets{}, err
	}
	if err := h.secrets.Remember(ctx, w.TeamID, w.ID, nil, g.Uses); err != nil {
		return command.Secrets{}, err
	}
	// A command reads what lies in the place for others, and their sessions what this one was given.
	masks := append(g.Masks, h.sessions.ShareMasks(w.ID, g.Masks)...)
	return command.Secrets{Env: sessions.GivenEnv(g), Masks: masks, Own: g.Personal}, nil
}
