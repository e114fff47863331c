// Package vault encrypts what must not be readable in the database with the instance's key: secrets of users and teams, each in its own
// row, and values of the instance that other packages store. It also makes, reads and replaces the key's file.
//
// A sealed value opens only for the owner and the purpose it was sealed for. The package starts no goroutine and takes no lock.
package vault

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/parawork/parawork/accounts"
)

// Store is the storage of secrets. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	InsertSecret(ctx context.Context, k accounts.Secret, sealed []byte) error
	Secret(ctx context.Context, id string) (k accounts.Secret, sealed []byte, err error)
	DeleteSecret(ctx context.Context, id string) error
}

// Config configures a Vault.
type Config struct {
	// Store stores secrets. A Vault that only seals and opens values of the instance needs none.
	Store Store
	// Key seals secrets: 32 bytes, stored outside of the database (OpenKey).
	Key  []byte
	Now  func() time.Time // nil = time.Now
	Rand io.Reader        // nil = crypto/rand
}

// Vault seals and opens. Safe for concurrent use; it starts nothing.
type Vault struct {
	store Store
	key   []byte
	clock func() time.Time
	rand  io.Reader
}

// New returns a Vault.
func New(cfg Config) *Vault {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	return &Vault{store: cfg.Store, key: cfg.Key, clock: cfg.Now, rand: cfg.Rand}
}

func (v *Vault) now() int64 { return v.clock().UnixMilli() }
