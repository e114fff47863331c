package secrets

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/redact"
)

// Store is the storage that the service needs. A missing row is a fault.NotFound.
type Store interface {
	// Tx runs fn in one transaction, which the vault's calls join; fn may run several times.
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	SecretStore
	AgreementStore
	KnownStore
	// DropLoose forgets the secrets of projects that are deleted, and the values, sealed for what begins with prefix, to which nothing refers
	// any more. It says how many.
	DropLoose(ctx context.Context, prefix string) (int64, error)
}

// SecretStore keeps what sessions and commands are given.
type SecretStore interface {
	// InsertSessionSecret stores a secret; false when its owner has one of this kind, name and target.
	InsertSessionSecret(ctx context.Context, s Secret) (bool, error)
	// UpdateSessionSecret writes everything that may change; false when its new name and target are taken.
	UpdateSessionSecret(ctx context.Context, s Secret) (bool, error)
	SessionSecret(ctx context.Context, id string) (Secret, error)
	// SessionSecrets returns an owner's secrets by name; without a project those of the whole team alone.
	SessionSecrets(ctx context.Context, o Owner) ([]Secret, error)
	// TeamSessionSecrets returns those of a team and of all its projects, by name.
	TeamSessionSecrets(ctx context.Context, teamID string) ([]Secret, error)
	DeleteSessionSecret(ctx context.Context, s Secret) error
	// TouchSessionSecrets notes when secrets were last given, unless that is known to the minute.
	TouchSessionSecrets(ctx context.Context, ids []string, at int64) error
}

// AgreementStore stores which users agreed that their own secrets go to workspaces that others can see.
type AgreementStore interface {
	// Agreed reports whether a user has agreed that their own secrets are given to what they start in a workspace that others work in.
	Agreed(ctx context.Context, workspaceID, userID string) (bool, error)
	// SetAgreed notes since when (ms UTC) they have; 0 takes it back.
	SetAgreed(ctx context.Context, teamID, workspaceID, userID string, at int64) error
}

// KnownStore keeps what workspaces were given, so that it can be hidden.
type KnownStore interface {
	// RememberSecrets notes what a workspace is about to be given, and says whether something of it was not noted yet. A value that is not there
	// any more is a fault.Conflict.
	RememberSecrets(ctx context.Context, teamID, workspaceID string, files []KnownFile, uses []Use, at int64) (fresh bool, err error)
	// KnownSecrets returns what RememberSecrets noted of a workspace.
	KnownSecrets(ctx context.Context, workspaceID string) ([]KnownFile, []Use, error)
	// TeamKnownSecrets returns every value a team's workspaces were given.
	TeamKnownSecrets(ctx context.Context, teamID string) ([]Use, error)
	// SecretRemembered reports whether a workspace was given a sealed value.
	SecretRemembered(ctx context.Context, sealedID string) (bool, error)
}

// Vault keeps values sealed.
type Vault interface {
	KeepSecret(ctx context.Context, o accounts.Holder, name, value, by string) (accounts.Secret, error)
	OpenSecret(ctx context.Context, secretID string, o accounts.Holder, name string) (string, error)
	DropSecret(ctx context.Context, secretID string) error
}

// Config is what a Service is made of.
type Config struct {
	Store Store
	Vault Vault
	// Mask hides a value from now on in the output of sessions and commands that run already: of the secret's team, project or user. May be nil.
	Mask func(s Secret, masks []string)
	// Others reports whether somebody besides a user may work in the team's workspaces. Nil: nobody may.
	Others func(ctx context.Context, teamID, userID string) (bool, error)
	// Audit remembers what is done outside of requests. May be nil.
	Audit audit.Appender
	Now   func() time.Time
	Log   *slog.Logger
}

// Service stores secrets and hands them to sessions. Safe for concurrent use; it starts nothing.
type Service struct {
	cfg   Config
	known knownCache
}

// New returns a Service; it panics on a Config without Store or Vault.
func New(cfg Config) *Service {
	if cfg.Store == nil || cfg.Vault == nil {
		panic(errors.New("secrets: Store and Vault are needed"))
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	cfg.Log = cmp.Or(cfg.Log, slog.New(slog.DiscardHandler))
	return &Service{cfg: cfg, known: knownCache{of: map[string]*Known{}, teams: map[string]*redact.Finder{}}}
}

func (s *Service) now() int64 { return s.cfg.Now().UnixMilli() }

// purposePrefix begins the purpose that values of this package are sealed for.
const purposePrefix = "session secret "

func purpose(secretID string) string { return purposePrefix + secretID }

func holder(s Secret) accounts.Holder {
	if s.UserID != "" {
		return accounts.OfUser(s.UserID)
	}
	return accounts.OfTeam(s.TeamID)
}

func errNoSecret() error {
	return fault.New(fault.NotFound, "secret_not_found", "There is no such secret, or it is not yours to see.")
}

// mayManage decides whether actor may add, change and delete secrets of an owner.
func mayManage(actor accounts.Actor, o Owner) error {
	if o.TeamID != "" {
		return accounts.Can(actor, accounts.ManageSecrets, accounts.InTeam(o.TeamID))
	}
	if o.UserID == "" || o.UserID != actor.User.ID {
		return errNoSecret()
	}
	return nil
}

// Add keeps a new secret. The caller has checked the actor's right for the team's secrets; users may always add their own. Errors: invalid_secret,
// secret_exists, too_many_secrets, forbidden.
func (s *Service) Add(ctx context.Context, actor accounts.Actor, o Owner, n NewSecret) (Secret, error) {
	if err := mayManage(actor, o); err != nil {
		return Secret{}, err
	}
	return s.add(ctx, actor.User.ID, o, n)
}

func (s *Service) add(ctx context.Context, by string, o Owner, n NewSecret) (Secret, error) {
	k := Secret{ID: id.New("ssc"), TeamID: o.TeamID, ProjectID: o.ProjectID, UserID: o.UserID, Kind: n.Kind, Name: n.Name, Target: n.Target, Username: n.Username,
		InSandbox: n.InSandbox || n.Kind != Git, Agents: n.Agents, CreatedBy: by, CreatedAt: s.now()}
	k.UpdatedAt = k.CreatedAt
	if err := s.check(&k); err != nil {
		return Secret{}, err
	}
	if err := checkValue(k.Kind, n.Value); err != nil {
		return Secret{}, err
	}
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		all, err := s.cfg.Store.SessionSecrets(ctx, o)
		if err != nil {
			return err
		}
		if len(all) >= MaxSecrets {
			return fault.New(fault.Conflict, "too_many_secrets", "There are %d secrets here already, which is the most. Delete one that is not used.", len(all))
		}
		kept, err := s.cfg.Vault.KeepSecret(ctx, holder(k), purpose(k.ID), n.Value, by)
		if err != nil {
			return err
		}
		k.SecretID, k.LastFour = kept.ID, kept.LastFour
		if ok, err := s.cfg.Store.InsertSessionSecret(ctx, k); err != nil {
			return err
		} else if !ok {
			return errExists(k)
		}
		return nil
	})
	if err != nil {
		return Secret{}, fmt.Errorf("keeping a secret: %w", err)
	}
	s.mask(k, n.Value)
	return k, nil
}

// check is the package's check with the service's rules: only git credentials may stay outside of sandboxes.
func (s *Service) check(k *Secret) error {
	inside := k.InSandbox
	if k.Kind != Git {
		k.InSandbox = false
	}
	err := check(k)
	k.InSandbox = inside
	return err
}

func errExists(k Secret) error {
	what := fmt.Sprintf("a secret named %q", k.Name)
	if k.Kind == Git {
		what = fmt.Sprintf("a credential named %q for %s", k.Name, k.Target)
	}
	return fault.New(fault.Conflict, "secret_exists", "There is %s here already. Change that one, or choose another name.", what).With("field", "name")
}

// mask hides values from now on in the output of running sessions.
func (s *Service) mask(k Secret, value string) {
	s.known.forgetTeams()
	if s.cfg.Mask != nil {
		s.cfg.Mask(k, masksOf(k.Kind, value))
	}
}

// List returns an owner's secrets: of a project those of the project alone.
func (s *Service) List(ctx context.Context, o Owner) ([]Secret, error) {
	return s.cfg.Store.SessionSecrets(ctx, o)
}

// ListTeam returns a team's secrets and those of all its projects.
func (s *Service) ListTeam(ctx context.Context, teamID string) ([]Secret, error) {
	return s.cfg.Store.TeamSessionSecrets(ctx, teamID)
}

// Managed returns a secret the actor may change. Errors: secret_not_found, forbidden.
func (s *Service) Managed(ctx context.Context, actor accounts.Actor, secretID string) (Secret, error) {
	k, err := s.cfg.Store.SessionSecret(ctx, secretID)
	if fault.Is(err, fault.NotFound) {
		return Secret{}, errNoSecret()
	}
	if err != nil {
		return Secret{}, err
	}
	if err := mayManage(actor, Owner{TeamID: k.TeamID, UserID: k.UserID}); err != nil {
		if fault.Is(err, fault.NotFound) {
			return Secret{}, errNoSecret()
		}
		return Secret{}, err
	}
	return k, nil
}

// Change changes a secret, or replaces its value: sessions that run keep the one they were given. Errors: as Add, secret_not_found.
func (s *Service) Change(ctx context.Context, actor accounts.Actor, secretID string, ch Change) (Secret, error) {
	var k Secret
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if k, err = s.Managed(ctx, actor, secretID); err != nil {
			return err
		}
		before := k
		set(&k.Name, ch.Name)
		set(&k.Target, ch.Target)
		set(&k.Username, ch.Username)
		if k.Kind == Git {
			set(&k.InSandbox, ch.InSandbox)
		}
		set(&k.Agents, ch.Agents)
		if err := s.check(&k); err != nil {
			return err
		}
		if k.Kind == Git && k.Target != before.Target && ch.Value == nil {
			// Else somebody who may change the host could have the token sent to their own machine, and read it.
			return bad("value", "Enter the token again: it is not sent to another host without.")
		}
		k.UpdatedAt = s.now()
		if ch.Value != nil {
			if err := s.rotate(ctx, actor.User.ID, &k, *ch.Value); err != nil {
				return err
			}
		}
		if ok, err := s.cfg.Store.UpdateSessionSecret(ctx, k); err != nil {
			return err
		} else if !ok {
			return errExists(k)
		}
		if k.SecretID != before.SecretID {
			return s.drop(ctx, before.SecretID)
		}
		return nil
	})
	if err != nil {
		return Secret{}, fmt.Errorf("changing a secret: %w", err)
	}
	if ch.Value != nil {
		s.mask(k, *ch.Value)
	}
	return k, nil
}

// rotate keeps a new value for k.
func (s *Service) rotate(ctx context.Context, by string, k *Secret, value string) error {
	if err := checkValue(k.Kind, value); err != nil {
		return err
	}
	kept, err := s.cfg.Vault.KeepSecret(ctx, holder(*k), purpose(k.ID), value, by)
	if err != nil {
		return err
	}
	// Later than the value before, whatever the clock says: sessions know by it that theirs is an older one.
	k.SecretID, k.LastFour, k.RotatedAt = kept.ID, kept.LastFour, max(s.now(), k.Version()+1)
	return nil
}

func set[T any](to *T, from *T) {
	if from != nil {
		*to = *from
	}
}

// Delete forgets a secret and its value. Sessions that run keep what they were given. Errors: secret_not_found, forbidden.
func (s *Service) Delete(ctx context.Context, actor accounts.Actor, secretID string) (Secret, error) {
	var k Secret
	err := s.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		var err error
		if k, err = s.Managed(ctx, actor, secretID); err != nil {
			return err
		}
		if err := s.cfg.Store.DeleteSessionSecret(ctx, k); err != nil {
			return err
		}
		return s.drop(ctx, k.SecretID)
	})
	if err != nil {
		return Secret{}, fmt.Errorf("deleting a secret: %w", err)
	}
	return k, nil
}

// drop forgets a value, unless a workspace was given it: what is in its commits must be known for as long as there is the workspace.
func (s *Service) drop(ctx context.Context, sealedID string) error {
	if kept, err := s.cfg.Store.SecretRemembered(ctx, sealedID); err != nil || kept {
		return err
	}
	return s.cfg.Vault.DropSecret(ctx, sealedID)
}

// Sweep forgets the secrets that went with their team, project or user, and their values. It is called at the start, and once a project is
// deleted.
func (s *Service) Sweep(ctx context.Context) error {
	n, err := s.cfg.Store.DropLoose(ctx, purposePrefix)
	if err != nil {
		return fmt.Errorf("forgetting secrets that are gone: %w", err)
	}
	if n > 0 {
		s.cfg.Log.InfoContext(ctx, "deleted secrets of deleted projects, teams and users", "count", n)
	}
	return nil
}

// open returns a secret's value.
func (s *Service) open(ctx context.Context, k Secret) (string, error) {
	value, err := s.cfg.Vault.OpenSecret(ctx, k.SecretID, holder(k), purpose(k.ID))
	if fault.CodeOf(err) == "secret_unreadable" {
		return "", fault.Wrap(err, fault.Unavailable, "secret_unreadable",
			"The secret %q cannot be read, because it was sealed with another secret.key than the instance has now. Enter its value again, or delete it.", k.Name)
	}
	return value, err
}

// touch notes that secrets were given. What cannot be noted is no reason to give nothing.
func (s *Service) touch(ctx context.Context, uses []string) {
	if len(uses) == 0 {
		return
	}
	slices.Sort(uses)
	if err := s.cfg.Store.TouchSessionSecrets(ctx, slices.Compact(uses), s.now()); err != nil {
		s.cfg.Log.WarnContext(ctx, "use of secrets not recorded", "error", err)
	}
}
