// Package testaccounts makes the services of accounts over one store, joined as the program joins them, for tests that need people, their
// rights or something that seals. What the services do is reached through one value: no two of them have a method of the same name.
package testaccounts

import (
	"github.com/parawork/parawork/accounts"
)

// Directory is who belongs to the instance and its teams.
type Directory = accounts.Service

// Config is what Accounts are made of.
type Config = accounts.Config

// Accounts are the services of accounts.
type Accounts struct {
	*Directory
}

// New returns Accounts.
func New(cfg Config) *Accounts {
	return &Accounts{Directory: accounts.New(cfg)}
}
