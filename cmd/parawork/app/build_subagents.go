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
func newSubagents(a *App, t *toolbox) *subagents.Service {
	return subagents.New(subagents.Config{Store: toolstore.NewSubagents(a.db), Sessions: a.sessions, Prompts: a.sessions.Queue, Screens: a.sessions.Recordings,
		Workspaces: a.workspaces.Records, Snapshots: a.workspaces.Snapshots, Siblings: a.workspaces.Lifecycle, Commits: a.workspaces.Stage, Merging: a.workspaces.Merging, Accounts: a.directory, Admit: a.admits, Threads: ownThreads{t}, GroupOf: t.groupOf, Spent: spent{a.tokens}.of,
		Secrets: a.secrets, Bus: a.bus, Events: a.events, Log: a.logOf("subagents")})
}

// ownThreads are the conversations of Parawork's own agent, which is made after its subagents: nothing runs before both are.
type ownThreads struct{ *toolbox }

// SessionThread implements subagents.Threads.
func (o ownThreads) SessionThread(ctx context.Context, sessionID string) (subagents.Thread, bool, error) {
	return o.agent.SessionThread(ctx, sessionID)
}

// Wake implements subagents.Threads.
func (o ownThreads) Wake(ctx context.Context, sessionID string) error {
	return o.agent.Wake(ctx, sessionID)
}

// groupOf returns the group of a tool; "" when there is none of this name.
func (t *toolbox) groupOf(tool string) string {
	for _, s := range t.tools.Specs() {
		if s.Name == tool {
			return s.Group
		}
	}
	return ""
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
