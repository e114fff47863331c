// Package agentaccounts stores the accounts that agents use, of users and of teams, and chooses the one for a session. The vault stores
// their keys, sealed.
//
// The package starts no goroutine and takes no lock.
package agentaccounts

import (
	"context"
	"time"

	"github.com/parawork/parawork/accounts"
)

// Store is the storage of agents' accounts. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// InsertAgentAccount stores a new account; false when its name is taken.
	InsertAgentAccount(ctx context.Context, a accounts.AgentAccount) (bool, error)
	// UpdateAgentAccount writes name, kind, secret, address and default; false when the name is taken.
	UpdateAgentAccount(ctx context.Context, a accounts.AgentAccount) (bool, error)
	AgentAccount(ctx context.Context, id string) (accounts.AgentAccount, error)
	// AgentAccounts are ordered by agent, then by the time they were made.
	AgentAccounts(ctx context.Context, o accounts.Holder) ([]accounts.AgentAccount, error)
	// ClearDefault leaves an owner's accounts of an agent without a default.
	ClearDefault(ctx context.Context, o accounts.Holder, agent string) error
	DeleteAgentAccount(ctx context.Context, id string) error
}

// Vault keeps the keys of accounts. vault.Vault is one.
type Vault interface {
	Insert(ctx context.Context, o accounts.Holder, name, value, by string) (accounts.Secret, error)
	// Open returns the value of a secret; before is what it was bound to before there was a table of secrets.
	OpenSecret(ctx context.Context, secretID string, o accounts.Holder, name string) (string, error)
	DropSecret(ctx context.Context, secretID string) error
}

// Config is what a Service is made of.
type Config struct {
	Store Store
	Vault Vault
	// CheckAgent says why an agent takes no account; nil error: it does. Nil: every name will do.
	CheckAgent func(agent string) error
	Now        func() time.Time // nil = time.Now
}

// Service keeps agents' accounts. Safe for concurrent use; it starts nothing.
type Service struct {
	cfg   Config
	store Store
	vault Vault
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return &Service{cfg: cfg, store: cfg.Store, vault: cfg.Vault}
}
