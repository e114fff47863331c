package app

import (
	"context"

	"github.com/parawork/parawork/accounts/secrets"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
)

// commandSecrets are what commands are given.
type commandSecrets struct {
	workspaces *workspaces.Service
	secrets    *secrets.Service
	sessions   *sessions.Service
}

// of says what a command is given.
func (s commandSecrets) of(ctx context.Context, c command.Command) (command.Secrets, error) {
	w, err := s.workspaces.Workspace(ctx, c.WorkspaceID)
	if err != nil {
		return command.Secrets{}, err
	}
	g, err := s.secrets.For(ctx, secrets.Ask{TeamID: w.TeamID, ProjectID: w.ProjectID, UserID: c.ActorID, Agent: secrets.Commands,
		WorkspaceID: w.ID, Private: w.Private && w.CreatedBy == c.ActorID})
	if err != nil {
		return command.Secrets{}, err
	}
	if err := s.secrets.Remember(ctx, w.TeamID, w.ID, nil, g.Uses); err != nil {
		return command.Secrets{}, err
	}
	// A command reads what lies in the place for others, and their sessions what this one was given.
	masks := append(g.Masks, s.sessions.ShareMasks(w.ID, g.Masks)...)
	return command.Secrets{Env: sessions.GivenEnv(g), Masks: masks, Own: g.Personal}, nil
}
