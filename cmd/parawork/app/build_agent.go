package app

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/models"
	"github.com/parawork/parawork/agent/permissions"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/client"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/firststart"
	"github.com/parawork/parawork/sessions/toolrelay"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/store/threadstore"
	"github.com/parawork/parawork/tools"
)

// newAgent makes Parawork's own agent.
func newAgent(a *App, t *toolbox) *agent.Service {
	threads := threadstore.New(a.db)
	return agent.New(agent.Config{
		Store: threads, Sessions: hostedSessions{a.sessions}, Tools: t.tools, Subagents: t.subagents, Project: a.projectOf, Owner: a.serverID, Events: a.events, Log: a.logOf("agent"),
		Model: t.models.Of,
		Caller: func(ctx context.Context, s sessions.Session) (tools.Caller, error) {
			c, err := t.relayed.Caller(ctx, toolrelay.Session{ID: s.ID, TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, UserID: s.CreatedBy, Agent: s.Agent}, agent.Name)
			c.Groups.On = slices.Concat(c.Groups.On, agent.CoreGroups())
			return c, err
		},
		Rules:  t.permissions,
		Limits: agent.Limits{Steps: a.cfg.Agent.MaxSteps, Time: time.Duration(a.cfg.Agent.MaxMinutes) * time.Minute, CostNano: int64(a.cfg.Agent.MaxCostUSD * 1e9)}, TurnLimits: threads,
		Tasks: planTasks{a}.create,
		Place: agentPlaces{a.sandboxes}.of,
		Cost:  recordedCost{store.NewTokens(a.db)}.of,
		Guide: newGuide(a, t.skills), Briefings: threads, Fork: a.sessions.StartAfter, Checkpoints: &a.later, Files: turnFiles{a}, Siblings: turnFiles{a},
		Attach: attached{a.chosen()}.place, First: firstFiles{a.starts},
	})
}

// agentPlaces says where the agent works.
type agentPlaces struct{ *sandboxes }

func (s agentPlaces) of(ctx context.Context, workspaceID string) (agent.Place, error) {
	p, err := s.chosen().Ensure(ctx, workspaceID)
	if err != nil {
		return agent.Place{}, err
	}
	caps, _ := s.choice.Place(ctx, p.Kind)
	return agent.Place{Isolated: caps.Boundary != "" && caps.Boundary != executors.NoBoundary, Real: permissions.RealIn(ctx, p.Guest, p.Hello.Root), Done: p.Use()}, nil
}

// hostedSessions gives the agent its sessions.
type hostedSessions struct{ *sessions.Service }

// Hosted returns a running session.
func (h hostedSessions) Hosted(id string) (agent.Host, bool) { return h.Service.Hosted(id) }

// Session returns a session.
func (h hostedSessions) Session(ctx context.Context, id string) (sessions.Session, error) {
	return h.Get(ctx, id)
}

// Continuing returns the sessions that continued a conversation, the first one first.
func (h hostedSessions) Continuing(ctx context.Context, workspaceID, conversation string) ([]sessions.Session, error) {
	all, err := h.List(ctx, workspaceID)
	all = slices.DeleteFunc(all, func(s sessions.Session) bool { return s.Agent != agent.Name || s.Conversation != conversation })
	slices.SortFunc(all, func(a, b sessions.Session) int { return cmp.Compare(a.StartedAt, b.StartedAt) })
	return all, err
}

// recordedCost reads what a request cost where the model gateway recorded it.
type recordedCost struct{ requests *store.Tokens }

func (c recordedCost) of(ctx context.Context, sessionID, request string) (agent.Cost, bool, error) {
	r, err := c.requests.FromGateway(ctx, sessionID, request)
	switch {
	case fault.Is(err, fault.NotFound), err == nil && r.Error == tokens.ErrUnderWay:
		return agent.Cost{}, false, nil
	case err != nil:
		return agent.Cost{}, false, err
	case r.CostNano != nil:
		return agent.Cost{Nano: r.CostNano}, true, nil
	}
	return agent.Cost{Nano: r.EstimateNano, Estimated: r.EstimateNano != nil}, true, nil
}

// newModels finds the models of sessions, and those that people choose from.
func newModels(a *App) *models.Service {
	return models.New(models.Config{Allowed: a.money.gateway.AllowedModels, Project: a.projectOf,
		Account: func(ctx context.Context, actor accounts.Actor, teamID, accountID string) (accounts.AgentAccount, error) {
			account, _, err := a.people.agentAccounts.AgentAccountFor(ctx, actor, teamID, agent.Name, accountID)
			return account, err
		},
		Direct: func(ctx context.Context, s sessions.Session, projectID string) (models.Access, error) {
			d, err := a.money.gateway.Direct(ctx, gateway.Grant{SessionID: s.ID, TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, ProjectID: projectID, UserID: s.CreatedBy, Agent: s.Agent, AccountID: s.AccountID})
			return models.Access{Client: d.Client, Anthropic: gateway.AnthropicBase, OpenAI: gateway.OpenAIBase, RequestHeader: gateway.RequestHeader, Says: d.Says, ForAnthropic: d.API == "anthropic", Own: d.Own}, err
		}})
}

// projectOf returns the project of a workspace.
func (a *App) projectOf(ctx context.Context, workspaceID string) (string, error) {
	w, err := a.workspaces.Records.Workspace(ctx, workspaceID)
	return w.ProjectID, err
}

// attached places in sandboxes the files that people give the agent.
type attached struct {
	places interface {
		Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	}
}

// placed places a file under its own name and returns its path.
func (t attached) placed(ctx context.Context, workspaceID, name string, data []byte) (string, error) {
	file := agent.AttachmentPath(name, data)
	return file, t.place(ctx, workspaceID, file, data)
}

// firstFiles are the files of first prompts.
type firstFiles struct{ starts *firststart.Service }

// Files returns those of a session.
func (f firstFiles) Files(ctx context.Context, sessionID string) ([]agent.Attachment, error) {
	all, err := f.starts.FilesOf(ctx, sessionID)
	out := make([]agent.Attachment, len(all))
	for i, one := range all {
		out[i] = agent.Attachment{Name: one.Name, Data: one.Data}
	}
	return out, err
}

// Taken forgets them.
func (f firstFiles) Taken(ctx context.Context, sessionID string) error {
	return f.starts.Taken(ctx, sessionID)
}

const attachTime = 2 * time.Minute

func (t attached) place(ctx context.Context, workspaceID, file string, data []byte) error {
	ctx, cancel := context.WithTimeout(ctx, attachTime)
	defer cancel()
	p, err := t.places.Ensure(ctx, workspaceID)
	if err != nil {
		return err
	}
	// They are nobody's changes: git ignores the folder, with this file.
	if _, err := p.Guest.WriteFile(ctx, agent.AttachmentsDir+"/.gitignore", strings.NewReader("*\n"), client.WriteOptions{}); err != nil {
		return err
	}
	_, err = p.Guest.WriteFile(ctx, guest.EncodePath(file), bytes.NewReader(data), client.WriteOptions{})
	return err
}
