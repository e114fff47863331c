// Package signin authenticates people: by password, second factor, passkey, identity provider, API token or link. It stores login
// sessions, tokens, authenticator apps, recovery codes, passkeys and the state of sign-ins under way.
//
// Every way of signing in ends in SignIn. The service calls Config.Changed after it has stored a change that
// reduces what somebody may do. The package starts no goroutine and takes no lock but that of the limits it shares with the directory.
package signin

import (
	"cmp"
	"context"
	"time"

	"crypto/rand"
	"io"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
)

// Store is the storage of signing in. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	UserStore
	SessionStore
	TokenStore
	CeremonyStore
	TOTPStore
	RecoveryStore
	PasskeyStore
	FactorStore
	PasswordLinkStore
	// Memberships are ordered by the team's name.
	Memberships(ctx context.Context, userID string) ([]accounts.Membership, error)
}

// Directory knows who people are. directory.Service is one.
type Directory interface {
	// Actor returns the user with all memberships.
	Actor(ctx context.Context, userID string) (accounts.Actor, error)
}

// Vault seals what must not be read in the database. vault.Vault is one.
type Vault interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
	// Derive returns a key for one purpose, made of the instance's. Errors: vault.ErrNoKey.
	Derive(purpose string) ([]byte, error)
}

// Config is what a Service is made of.
type Config struct {
	Store     Store
	Directory Directory
	Vault     Vault
	// Hasher and Limits are the instance's only ones: separate counters would not limit anything.
	Hasher *password.Hasher
	Limits *password.Limits
	// Idle and Absolute bound a login session; 0 = 7 and 30 days.
	Idle, Absolute time.Duration
	// Changed is called after what a user may do became less (signed out, token ended, password changed), so that open sockets can be asked
	// again who they are. May be nil.
	Changed func(userID string)
	// NoPassword and NoPasskeys switch ways to sign in off.
	NoPassword, NoPasskeys bool

	Now func() time.Time // nil = time.Now
	// Mailer sends mail; nil = none is sent.
	Mailer accounts.Mailer
	// PublicURL is the address people use, for links in mails; "" = not known, and no links are mailed.
	PublicURL string
	Rand      io.Reader // nil = crypto/rand
}

// Service lets people in. Safe for concurrent use; it starts nothing.
type Service struct {
	cfg       Config
	store     Store
	directory Directory
	vault     Vault
	hasher    *password.Hasher
	limits    *password.Limits
	devices   devices
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	if cfg.Idle <= 0 {
		cfg.Idle = 7 * 24 * time.Hour
	}
	if cfg.Absolute <= 0 {
		cfg.Absolute = 30 * 24 * time.Hour
	}
	return &Service{cfg: cfg, store: cfg.Store, directory: cfg.Directory, vault: cfg.Vault, hasher: cfg.Hasher, limits: cfg.Limits,
		devices: devices{cfg.Vault, cfg.Rand}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

func (s *Service) changed(userID string) {
	if s.cfg.Changed != nil {
		s.cfg.Changed(userID)
	}
}
