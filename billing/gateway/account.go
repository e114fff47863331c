package gateway

import (
	"context"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// Accounts are those that agents work with.
type Accounts interface {
	SessionAccount(ctx context.Context, teamID, userID, accountID string) (accounts.AgentAccount, string, error)
}

// FromAccounts finds the account of a session, with its key: looked up for each request, so that a key that was changed or taken back counts at once. Provider
// says of an agent whose API its accounts' keys are for, "" where the agent does not tell.
func FromAccounts(from Accounts, provider func(agent string) string) func(ctx context.Context, g Grant) (Account, error) {
	return func(ctx context.Context, g Grant) (Account, error) {
		a, key, err := from.SessionAccount(ctx, g.TeamID, g.UserID, g.AccountID)
		switch {
		case fault.Is(err, fault.NotFound):
			return Account{}, fault.New(fault.Invalid, "gateway_no_account", "The account of this session was deleted. Start the agent again with another account.")
		case err != nil:
			return Account{}, err
		case a.Kind != accounts.APIKey || key == "":
			return Account{}, fault.New(fault.Invalid, "gateway_no_key", "The account this session works with has no API key: its agent asks its provider itself.")
		}
		return Account{ID: a.ID, Provider: provider(a.Agent), BaseURL: a.BaseURL, API: a.API, Key: key}, nil
	}
}

// TeamAccounts are the accounts of teams.
type TeamAccounts interface {
	TeamAgentAccounts(ctx context.Context, teamID string) ([]accounts.AgentAccount, error)
}

var errNoTeamKey = fault.New(fault.Invalid, "gateway_no_key", "The team has no account of its own with an API key for OpenAI's API.")

// OpenAIOf finds the account of a team whose API key is for OpenAI's API: the default before others. Members' own accounts are not used.
func OpenAIOf(from TeamAccounts, provider func(agent string) string) func(ctx context.Context, teamID string) (string, error) {
	return func(ctx context.Context, teamID string) (id string, err error) {
		all, err := from.TeamAgentAccounts(ctx, teamID)
		if err != nil {
			return "", err
		}
		for _, a := range all {
			if a.Kind == accounts.APIKey && provider(a.Agent) == string(openAIDialect) && (id == "" || a.Default) {
				id = a.ID
			}
		}
		if id == "" {
			return "", errNoTeamKey
		}
		return id, nil
	}
}
