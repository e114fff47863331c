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
		return Account{ID: a.ID, Provider: provider(a.Agent), BaseURL: a.BaseURL, Key: key}, nil
	}
}
