// Package directory manages the people of an instance: its users, its teams and their members, invites, suspensions, and what operators
// see and change of them.
//
// The service calls Config.Changed after it has stored a change that reduces what somebody may do. The package starts no goroutine and
// takes no lock but that of the limits it shares with signin.
package directory

import (
	"cmp"
	"context"
	"crypto/rand"
	"io"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/password"
)

// Store is the storage of the directory. Every call joins the transaction in ctx. A missing row is a fault.NotFound.
type Store interface {
	// Tx runs fn in one serializable transaction; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	UserStore
	TeamStore
	MemberStore
	InviteStore
	OverviewStore
	SuspensionStore
	SettingStore
	// DeletePasswordLinks ends a user's links to choose a password.
	DeletePasswordLinks(ctx context.Context, userID string) error
}

// Config is what a Service is made of.
type Config struct {
	Store Store
	// Hasher and Limits are the instance's only ones: separate counters would not limit anything.
	Hasher *password.Hasher
	Limits *password.Limits
	// Changed is called after what a user may do became less (role changed, removed from a team, suspended), so that open sockets can be
	// asked again who they are. May be nil.
	Changed func(userID string)
	// Seats refuses a member a team has no room for. It is asked once they were added, in the same transaction. May be nil.
	Seats func(ctx context.Context, teamID string) error
	// NoPassword says that nobody signs in with a password.
	NoPassword bool

	Now func() time.Time // nil = time.Now
	// Mailer sends mail; nil = none is sent.
	Mailer accounts.Mailer
	// PublicURL is the address people use, for links in mails; "" = not known, and no links are mailed.
	PublicURL string
	Rand      io.Reader // nil = crypto/rand
}

// Service manages users, teams and members. Safe for concurrent use; it starts nothing.
type Service struct {
	cfg    Config
	store  Store
	hasher *password.Hasher
	limits *password.Limits
}

// New returns a Service.
func New(cfg Config) *Service {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Rand = cmp.Or(cfg.Rand, rand.Reader)
	return &Service{cfg: cfg, store: cfg.Store, hasher: cfg.Hasher, limits: cfg.Limits}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

func (s *Service) changed(userID string) {
	if s.cfg.Changed != nil {
		s.cfg.Changed(userID)
	}
}
