package accounts

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// Holder is whom something belongs to: a user or a team, never both.
type Holder struct{ UserID, TeamID string }

// OfUser and OfTeam make owners.
func OfUser(userID string) Holder { return Holder{UserID: userID} }

// OfTeam is the owner of what a team shares.
func OfTeam(teamID string) Holder { return Holder{TeamID: teamID} }

// Secret is the record of a value that is kept sealed. The value itself is told to nobody through the API.
type Secret struct {
	ID string
	Holder
	Name       string // what it is for
	KeyVersion int    // of the key it is sealed with
	LastFour   string
	CreatedBy  string
	CreatedAt  int64
	UpdatedAt  int64
}

// Versions of the key that seals secrets. A newer key gets the next number; what an older one sealed is opened with that one
// until UpgradeSecrets has sealed it again.
const (
	keyBefore  = 0 // sealed before the table of secrets: bound to a user and an agent
	keyDirect  = 1 // sealed with a key derived from the instance's
	keyCurrent = 2 // each has a key of its own, wrapped with the instance's
)

// ErrNoKey says that this process has not the key that seals secrets.
var ErrNoKey = errors.New("the key that seals secrets is missing")

// aead returns the cipher of a key version before keyCurrent. Keys are derived, so that other uses of the instance's key never share one.
func (s *Service) aead(version int) (cipher.AEAD, error) {
	purpose := map[int]string{keyBefore: "parawork agent accounts 1", keyDirect: "parawork secrets 1"}[version]
	if purpose == "" {
		return nil, ErrNoKey
	}
	key, err := s.Derive(purpose)
	if err != nil {
		return nil, err
	}
	return gcm(key)
}

// Derive returns a key for one purpose, made of the instance's. Errors: ErrNoKey.
func (s *Service) Derive(purpose string) ([]byte, error) {
	if len(s.cfg.Key) != KeyBytes {
		return nil, ErrNoKey
	}
	key, err := hkdf.Key(sha256.New, s.cfg.Key, nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	return key, nil
}

// bound is what a sealed value is bound to: it opens in no other row, for no other owner and for no other purpose.
func bound(secretID string, o Holder, name string) []byte {
	kind, owner := "user", o.UserID
	if o.TeamID != "" {
		kind, owner = "team", o.TeamID
	}
	return []byte(secretID + "\x00" + kind + "\x00" + owner + "\x00" + name)
}

// seal seals a value under the instance's key.
func (s *Service) seal(value string, with []byte) ([]byte, error) {
	return sealEnvelope(s.cfg.Rand, s.cfg.Key, []byte(value), with)
}

// unseal opens a sealed value; version says with which key, where it has none of its own. False when it is not what was sealed.
func (s *Service) unseal(version int, sealed, with []byte) (string, bool) {
	if len(sealed) == 0 {
		return "", false
	}
	if sealed[0] == formEnvelope {
		value, err := openEnvelope(s.cfg.Key, sealed, with)
		return string(value), err == nil
	}
	c, err := s.aead(version)
	if err != nil {
		return "", false
	}
	n := 1 + c.NonceSize()
	if len(sealed) < n || sealed[0] != formDirect {
		return "", false
	}
	value, err := c.Open(nil, sealed[1:n], sealed[n:], with)
	return string(value), err == nil
}

// keepSecret stores a value. It belongs into the transaction that stores what uses it.
func (s *Service) keepSecret(ctx context.Context, o Holder, name, value, by string) (Secret, error) {
	k := Secret{ID: id.New("sec"), Holder: o, Name: name, KeyVersion: keyCurrent, LastFour: lastFour(value), CreatedBy: by, CreatedAt: s.now()}
	k.UpdatedAt = k.CreatedAt
	sealed, err := s.seal(value, bound(k.ID, o, name))
	if err != nil {
		return Secret{}, err
	}
	return k, s.store.InsertSecret(ctx, k, sealed)
}

// openSecret returns the value of a secret for whoever it is meant for: the caller says whose it must be and what for, so that
// a row that points to another's secret opens nothing.
func (s *Service) openSecret(ctx context.Context, secretID string, o Holder, name string, before []byte) (string, error) {
	k, sealed, err := s.store.Secret(ctx, secretID)
	if err != nil {
		return "", err
	}
	with := bound(secretID, o, name)
	if k.KeyVersion == keyBefore {
		with = before
	}
	if value, ok := s.unseal(k.KeyVersion, sealed, with); ok && with != nil && k.KeyVersion <= keyCurrent {
		return value, nil
	}
	return "", fault.New(fault.Unavailable, "secret_unreadable",
		"The secret that is kept cannot be read: the instance's secret.key is not the one it was kept with. Enter it again.")
}

// UpgradeSecrets seals in today's form what is sealed in an older one, and says how many could not be opened: those stay as
// they are, and whoever uses one is told to enter it again. It is called once before the server opens its door.
func (s *Service) UpgradeSecrets(ctx context.Context) (unreadable int, err error) {
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		unreadable = 0
		agents, err := s.store.AgentAccountsSealedBefore(ctx, keyDirect)
		if err != nil {
			return err
		}
		before := map[string][]byte{}
		for _, a := range agents {
			before[a.SecretID] = a.boundBefore()
		}
		old, err := s.store.SecretsSealedBefore(ctx, keyCurrent)
		if err != nil {
			return err
		}
		for _, k := range old {
			value, err := s.openSecret(ctx, k.ID, k.Holder, k.Name, before[k.ID])
			if fault.CodeOf(err) == "secret_unreadable" {
				unreadable++
				continue
			}
			if err != nil {
				return err
			}
			sealed, err := s.seal(value, bound(k.ID, k.Holder, k.Name))
			if err != nil {
				return err
			}
			if err := s.store.ResealSecret(ctx, k.ID, keyCurrent, sealed); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return unreadable, fmt.Errorf("sealing secrets again: %w", err)
	}
	return unreadable, nil
}

// KeepSecret keeps a value of a user or a team, sealed, for one purpose. It may be called inside the caller's transaction.
func (s *Service) KeepSecret(ctx context.Context, o Holder, name, value, by string) (Secret, error) {
	k, err := s.keepSecret(ctx, o, name, value, by)
	if err != nil {
		return Secret{}, fmt.Errorf("keeping a secret: %w", err)
	}
	return k, nil
}

// OpenSecret returns what KeepSecret kept for this holder and purpose. Errors: not_found, secret_unreadable.
func (s *Service) OpenSecret(ctx context.Context, secretID string, o Holder, name string) (string, error) {
	return s.openSecret(ctx, secretID, o, name, nil)
}

// DropSecret forgets what KeepSecret kept. It belongs into the transaction that lets go of it.
func (s *Service) DropSecret(ctx context.Context, secretID string) error {
	return s.store.DeleteSecret(ctx, secretID)
}
