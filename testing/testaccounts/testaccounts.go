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
	"github.com/parawork/parawork/accounts/password"
	"github.com/parawork/parawork/accounts/signin"
)

// The services, by what they are called in Accounts.
type (
	Directory = accounts.Service
	Logins    = signin.Service
)

// Store is what the services keep. store.Accounts is one.
type Store interface {
	accounts.Store
	signin.Store
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
	*Directory
	*Logins
	Limits *password.Limits
}

// New returns Accounts.
func New(cfg Config) *Accounts {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	hasher, limits := password.NewHasher(cmp.Or[io.Reader](cfg.Rand, rand.Reader)), password.NewLimits(cfg.Now)
	directory := accounts.New(accounts.Config{Store: cfg.Store, Key: cfg.Key, CheckAgent: cfg.CheckAgent, Hasher: hasher, Limits: limits,
		Changed: cfg.Changed, Seats: cfg.Seats, NoPassword: cfg.NoPassword, Now: cfg.Now, Mailer: cfg.Mailer, PublicURL: cfg.PublicURL, Rand: cfg.Rand})
	return &Accounts{Directory: directory, Limits: limits,
		Logins: signin.New(signin.Config{Store: cfg.Store, Directory: directory, Vault: directory, Hasher: hasher, Limits: limits, Changed: cfg.Changed,
			NoPassword: cfg.NoPassword, NoPasskeys: cfg.NoPasskeys, Now: cfg.Now, Mailer: cfg.Mailer, PublicURL: cfg.PublicURL, Rand: cfg.Rand})}
}
