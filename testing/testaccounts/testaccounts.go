// Package testaccounts makes the services of accounts over one store, joined as the program joins them, for tests that need people, their
// rights or something that seals. What the services do is reached through one value: no two of them have a method of the same name.
package testaccounts

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/agentaccounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/vault"
)

// The services, by what they are called in Accounts.
type (
	Vault     = vault.Vault
	Directory = directory.Service
	Logins    = signin.Service
	Agents    = agentaccounts.Service
)

// Store is what the services keep. store.Accounts is one.
type Store interface {
	vault.Store
	directory.Store
	signin.Store
	agentaccounts.Store
}

// Config is what Accounts are made of; see the services' own.
type Config struct {
	Store                  Store
	Key                    []byte
	CheckAgent             func(agent string) error
	Changed                func(userID string)
	Seats                  func(ctx context.Context, teamID string) error
	NoPassword, NoPasskeys bool
	Now                    func() time.Time // nil = time.Now
	Mailer                 accounts.Mailer
	PublicURL              string
	Rand                   io.Reader // nil = crypto/rand
}

// Accounts are the services of accounts.
type Accounts struct {
	*Vault
	*Directory
	*Logins
	*Agents
	Limits *password.Limits
}

// Cost is what these accounts hash passwords with. The cost of an instance takes a test's time and tells it nothing.
var Cost = password.Cost{Memory: 64, Time: 1} //nolint:gochecknoglobals // a constant

// New returns Accounts.
func New(cfg Config) *Accounts {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	a := &Accounts{Limits: password.NewLimits(cfg.Now)}
	hasher := password.NewHasherAt(cfg.Rand, Cost)
	a.Vault = vault.New(vault.Config{Store: cfg.Store, Key: cfg.Key, Now: cfg.Now, Rand: cfg.Rand})
	a.Agents = agentaccounts.New(agentaccounts.Config{Store: cfg.Store, Vault: a.Vault, CheckAgent: cfg.CheckAgent, Now: cfg.Now})
	a.Directory = directory.New(directory.Config{Store: cfg.Store, Hasher: hasher, Limits: a.Limits, Changed: cfg.Changed, Seats: cfg.Seats,
		NoPassword: cfg.NoPassword, Now: cfg.Now, Mailer: cfg.Mailer, PublicURL: cfg.PublicURL, Rand: cfg.Rand})
	a.Logins = signin.New(signin.Config{Store: cfg.Store, Directory: a.Directory, Vault: a.Vault, Hasher: hasher, Limits: a.Limits, Changed: cfg.Changed,
		NoPassword: cfg.NoPassword, NoPasskeys: cfg.NoPasskeys, Now: cfg.Now, Mailer: cfg.Mailer, PublicURL: cfg.PublicURL, Rand: cfg.Rand})
	return a
}
