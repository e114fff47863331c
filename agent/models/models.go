// Package models knows which models an account's provider offers, and how long a conversation with one may be. It asks the provider with
// the account's key, which stays on the server, and remembers the answer for a while.
//
// The package starts no goroutine. Service.mu is a leaf, held briefly and never during I/O.
package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
)

// Info is a model that a provider offers.
type Info struct {
	Name   string // as requests name it
	Title  string // display name; "" = the provider has none
	Window int64  // tokens of input and output together; 0 = nobody says
	Output int64  // tokens of one answer at most; 0 = nobody says
}

// List is what an account offers.
type List struct {
	AccountID string
	API       string // messages, responses or chat: how the account is asked
	Default   string // the model of sessions that name none; "" = they must name one
	Models    []Info // by name, without those that the team does not allow; never nil
}

// Config configures a Service. All fields but Now are required.
type Config struct {
	// Account returns the account with this ID, or with "" the default of a user in a team: fault.NotFound when there is none.
	Account func(ctx context.Context, actor accounts.Actor, teamID, accountID string) (accounts.AgentAccount, error)
	// Direct returns how the account of a session is asked; projectID is the session's project. Where a person asks, the session has the
	// team, the person and the account alone.
	Direct func(ctx context.Context, row sessions.Session, projectID string) (Access, error)
	// Allowed returns those of models that a team allows.
	Allowed func(ctx context.Context, teamID string, models []string) ([]string, error)
	// Project returns the project of a workspace.
	Project func(ctx context.Context, workspaceID string) (projectID string, err error)
	Now     func() time.Time
}

// Access is how the provider of an account is asked.
type Access struct {
	Client            *http.Client // adds the account's key
	Anthropic, OpenAI string       // base URLs of the two kinds of API, for Client
	RequestHeader     string       // of answers: the request's ID where its cost is recorded; "" = there is none
	Says              string       // the API that the account says its address speaks; "" = it does not say
	ForAnthropic      bool         // the key is for Anthropic's API
	Own               bool         // the account has no address of its own: it is asked at the maker's
}

// base is the address of an API.
func (a Access) base(api string) string {
	if api == Messages {
		return a.Anthropic
	}
	return a.OpenAI
}

// Service finds models. Safe for concurrent use.
type Service struct {
	cfg Config
	mu  sync.Mutex
	has map[key]entry
}

// key is whose list is remembered. An account whose key or address changes has a new one after freshFor at most.
type key struct{ team, account, base string }

type entry struct {
	models []Info
	err    error
	at     time.Time
}

const (
	freshFor   = 10 * time.Minute // a list is believed
	failedFor  = 30 * time.Second // that a provider gave none is believed
	mostLists  = 500
	askFor     = 10 * time.Second // the provider, when a person waits for the list
	turnWaits  = 3 * time.Second  // a turn, which can do without
	mostOutput = 32_000           // tokens of one answer: what is asked for is reserved in budgets
	mostTries  = 25               // of a request: ten minutes of them, for a provider that does not say how long to wait
)

// New returns a Service. It starts nothing; it panics when a dependency is missing.
func New(cfg Config) *Service {
	if cfg.Account == nil || cfg.Direct == nil || cfg.Allowed == nil || cfg.Project == nil {
		panic("models: Account, Direct, Allowed and Project are required")
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, has: map[key]entry{}}
}

// The APIs of models.
const (
	Messages  = "messages"
	Responses = "responses"
	Chat      = "chat"
)

// defaults are the models of sessions that name none.
var defaults = map[string]string{Messages: "claude-sonnet-4-5", Responses: "gpt-5"}

// apiOf is how an account is asked: as the session says, as the account says, or as is usual for its key.
func apiOf(said string, d Access) string {
	switch said = cmp.Or(said, d.Says); {
	case said == Messages || said == Responses || said == Chat:
		return said
	case d.ForAnthropic:
		return Messages
	case d.Own:
		return Responses
	}
	return Chat
}

// List returns the models that a user may choose from with an account; "" = their default one in the team. Errors: not_found kinds of
// accounts, gateway_no_key, models_unavailable.
func (s *Service) List(ctx context.Context, actor accounts.Actor, teamID, accountID, api string) (List, error) {
	a, err := s.cfg.Account(ctx, actor, teamID, accountID)
	if err != nil {
		return List{}, err
	}
	d, err := s.cfg.Direct(ctx, sessions.Session{TeamID: teamID, CreatedBy: actor.User.ID, Agent: agent.Name, AccountID: a.ID}, "")
	if err != nil {
		return List{}, err
	}
	out := List{AccountID: a.ID, API: apiOf(api, d)}
	out.Default = defaults[out.API]
	all, err := s.listed(ctx, teamID, a.ID, d, out.API, askFor)
	if err != nil {
		return List{}, err
	}
	if d.Own && out.API != Messages {
		all = slices.DeleteFunc(all, func(m Info) bool { return !writes(m.Name) })
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
		f, _ := family(m.Name)
		all[i] = m.or(f)
	}
	if names, err = s.cfg.Allowed(ctx, teamID, names); err != nil {
		return List{}, err
	}
	out.Models = slices.DeleteFunc(all, func(m Info) bool { return !slices.Contains(names, m.Name) })
	return out, nil
}

// Of returns the model of a session. What is unknown about it is assumed.
func (s *Service) Of(ctx context.Context, row sessions.Session, o agent.Options) (agent.Model, error) {
	project, err := s.cfg.Project(ctx, row.WorkspaceID)
	if err != nil {
		return agent.Model{}, err
	}
	d, err := s.cfg.Direct(ctx, row, project)
	if err != nil {
		return agent.Model{}, err
	}
	api := apiOf(o.API, d)
	out := agent.Model{Name: cmp.Or(o.Model, defaults[api])}
	if out.Name == "" {
		return out, fault.New(fault.Invalid, "model_not_chosen", "The account's server has models of its own. Choose one: enter /model and its name, or start the session with it.")
	}
	cfg := providers.Config{HTTP: d.Client, BaseURL: d.base(api), RequestHeader: d.RequestHeader, Account: row.AccountID}
	switch api {
	case Messages:
		out.Provider = providers.Anthropic(cfg)
	case Responses:
		out.Provider = providers.Responses(cfg)
	default:
		out.Provider = providers.Chat(cfg)
	}
	out.Provider = providers.Retrying(out.Provider, providers.Policy{MaxTries: mostTries})
	info := assumed(api, out.Name)
	if all, err := s.listed(ctx, row.TeamID, row.AccountID, d, api, turnWaits); err == nil {
		if i := slices.IndexFunc(all, func(m Info) bool { return m.Name == out.Name }); i >= 0 {
			info = all[i].or(info)
		}
	} else if ctx.Err() != nil {
		return out, context.Cause(ctx)
	}
	out.Window = info.Window
	out.Output = int(min(info.Output, mostOutput, max(info.Window/2, 1)))
	return out, nil
}

// listed returns the models of an account, as the provider or the memory has them; the caller may change the list.
func (s *Service) listed(ctx context.Context, teamID, accountID string, d Access, api string, within time.Duration) ([]Info, error) {
	k, now := key{teamID, accountID, d.base(api)}, s.cfg.Now()
	s.mu.Lock()
	e, ok := s.has[k]
	s.mu.Unlock()
	if age := now.Sub(e.at); ok && age >= 0 && (age < failedFor || e.err == nil && age < freshFor) {
		return slices.Clone(e.models), e.err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	models, err := ask(ctx, d, api)
	if errors.Is(ctx.Err(), context.Canceled) {
		return nil, context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.has) >= mostLists {
		clear(s.has)
	}
	s.has[k] = entry{models, err, now}
	return slices.Clone(models), err
}

func unavailable(err error, format string, args ...any) error {
	return fault.Wrap(err, fault.Unavailable, "models_unavailable", "The provider did not list its models: %s Enter the name of a model instead.", fmt.Sprintf(format, args...))
}
