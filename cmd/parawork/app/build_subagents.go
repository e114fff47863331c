package app

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/store/toolstore"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/workspaces"
)

// newSubagents makes the service of subagents.
func newSubagents(a *App) *subagents.Service {
	return subagents.New(subagents.Config{Store: toolstore.NewSubagents(a.db), Sessions: a.sessions, Prompts: a.sessions.Queue, Screens: a.sessions.Recordings,
		Workspaces: a.workspaces.Records, Snapshots: a.workspaces.Snapshots, Siblings: a.workspaces.Lifecycle, Commits: a.workspaces.Stage, Merging: a.workspaces.Merging, Accounts: a.directory, Admit: a.admits, Spent: spent{a.tokens}.of,
		Secrets: a.secrets, Bus: a.bus, Events: a.events, Log: a.logOf("subagents")})
}

// admits returns why a user may not have an agent work in a workspace, as the API does: it is on somebody else's own machine, or works with
// somebody else's own secrets.
func (a *App) admits(ctx context.Context, actor accounts.Actor, w workspaces.Workspace) error {
	return running.NewAdmission(running.AdmissionConfig{Directory: a.directory, Workspaces: a.workspaces, Places: a.places, Choice: a.choice, Masks: a.sessions.Masks, Commands: a.commands,
		Secrets: a.secrets}).Admits(ctx, actor, w)
}

// spent is what sessions spent on models.
type spent struct{ tokens *tokens.Meter }

func (s spent) of(ctx context.Context, sessionIDs ...string) (map[string]int64, error) {
	sums, err := s.tokens.OfSessions(ctx, sessionIDs...)
	out := make(map[string]int64, len(sums))
	for id, sum := range sums {
		out[id] = sum.CostNano
	}
	return out, err
}
