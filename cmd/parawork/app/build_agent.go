package app

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"slices"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/billing/gateway"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/toolrelay"
	"github.com/parawork/parawork/store/threadstore"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/serve"
)

// owner is who runs turns: one process at a time works with a database.
const owner = "server"

// newAgent makes Parawork's own agent.
func newAgent(a *App, set *tools.Set, relayed *serve.Server) *agent.Service {
	project := func(ctx context.Context, workspaceID string) (string, error) {
		w, err := a.workspaces.Records.Workspace(ctx, workspaceID)
		return w.ProjectID, err
	}
	return agent.New(agent.Config{
		Store: threadstore.New(a.db), Sessions: hostedSessions{a.sessions}, Tools: set, Project: project, Owner: owner, Events: a.events, Log: a.logOf("agent"),
		Model: models{a.money.gateway, project}.of,
		Caller: func(ctx context.Context, s sessions.Session) (tools.Caller, error) {
			c, err := relayed.Caller(ctx, toolrelay.Session{ID: s.ID, TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, UserID: s.CreatedBy, Agent: s.Agent}, agent.Name)
			c.Groups.On = slices.Concat(c.Groups.On, agent.CoreGroups())
			return c, err
		},
		Instructions: instructions{a.chosen()}.of,
	})
}

// hostedSessions gives the agent its sessions.
type hostedSessions struct{ *sessions.Service }

// Hosted returns a running session.
func (h hostedSessions) Hosted(id string) (agent.Host, bool) { return h.Service.Hosted(id) }

// Session returns a session.
func (h hostedSessions) Session(ctx context.Context, id string) (sessions.Session, error) {
	return h.Get(ctx, id)
}

// models finds the model of a session: that of its account, asked through the model gateway.
type models struct {
	gateway *gateway.Service
	project func(ctx context.Context, workspaceID string) (string, error)
}

// Defaults where a session names no model, and bounds where the provider's are unknown.
const (
	anthropicModel  = "claude-sonnet-4-5"
	openAIModel     = "gpt-5"
	anthropicWindow = 200_000
	openAIWindow    = 400_000
	unknownWindow   = 128_000
	mostOutput      = 32_000
)

func (m models) of(ctx context.Context, s sessions.Session, o agent.Options) (agent.Model, error) {
	project, err := m.project(ctx, s.WorkspaceID)
	if err != nil {
		return agent.Model{}, err
	}
	d, err := m.gateway.Direct(ctx, gateway.Grant{SessionID: s.ID, TeamID: s.TeamID, WorkspaceID: s.WorkspaceID, ProjectID: project, UserID: s.CreatedBy, Agent: s.Agent, AccountID: s.AccountID})
	if err != nil {
		return agent.Model{}, err
	}
	out := agent.Model{Name: o.Model, Output: mostOutput}
	cfg := providers.Config{HTTP: d.Client, BaseURL: d.BaseURL(), Account: s.AccountID}
	switch {
	case o.API == "messages" || o.API == "" && d.API == "anthropic":
		d.API = "anthropic"
		cfg.BaseURL = d.BaseURL()
		out.Provider, out.Window = providers.Anthropic(cfg), anthropicWindow
		if out.Name == "" {
			out.Name = anthropicModel
		}
	case o.API == "responses" || o.API == "" && d.Own:
		out.Provider, out.Window = providers.Responses(cfg), openAIWindow
		if out.Name == "" {
			out.Name = openAIModel
		}
	default:
		out.Provider, out.Window, out.Output = providers.Chat(cfg), unknownWindow, 8_000
		if out.Name == "" {
			return out, fault.New(fault.Invalid, "model_not_chosen", "The account's server has models of its own. Choose one: enter /model and its name, or start the session with it.")
		}
	}
	out.Provider = providers.Retrying(out.Provider, providers.Policy{})
	return out, nil
}

// instructionFiles are read in the root of the worktree; the first of each row that exists counts.
var instructionFiles = [][]string{{"AGENTS.md", "CLAUDE.md"}, {".parawork/AGENTS.md"}}

const (
	maxInstruction  = 32 << 10
	instructionTime = 10 * time.Second
)

// instructions reads the repository's instructions for agents where the agent's tools work.
type instructions struct {
	places interface {
		Ensure(ctx context.Context, workspaceID string) (*executors.Place, error)
	}
}

func (i instructions) of(ctx context.Context, workspaceID string) (out []agent.Instruction, err error) {
	ctx, cancel := context.WithTimeout(ctx, instructionTime)
	defer cancel()
	p, err := i.places.Ensure(ctx, workspaceID)
	if err != nil {
		return nil, err
	}
	for _, names := range instructionFiles {
		for _, name := range names {
			r, info, err := p.Guest.ReadFile(ctx, name)
			if fault.Is(err, fault.NotFound) || errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return out, err
			}
			text, err := io.ReadAll(io.LimitReader(r, maxInstruction))
			_ = r.Close()
			if err != nil && info.Size <= maxInstruction {
				return out, err
			}
			out = append(out, agent.Instruction{Path: name, Text: string(text)})
			break
		}
	}
	return out, nil
}
