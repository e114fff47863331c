package accounts

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

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
	keyCurrent = 1
)

// sealForm is the first byte of a sealed value, so that another way can follow.
const sealForm = 1

var errNoKey = errors.New("the key that seals secrets is missing")

// aead returns the cipher of a key version. Keys are derived, so that other uses of the instance's key never share one.
func (s *Service) aead(version int) (cipher.AEAD, error) {
	purpose := map[int]string{keyBefore: "parawork agent accounts 1", keyCurrent: "parawork secrets 1"}[version]
	if len(s.cfg.Key) != KeyBytes || purpose == "" {
		return nil, errNoKey
	}
	key, err := hkdf.Key(sha256.New, s.cfg.Key, nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("preparing the cipher: %w", err)
	}
	return cipher.NewGCM(block)
}

// bound is what a sealed value is bound to: it opens in no other row, for no other owner and for no other purpose.
func bound(secretID string, o Holder, name string) []byte {
	kind, owner := "user", o.UserID
	if o.TeamID != "" {
		kind, owner = "team", o.TeamID
	}
	return []byte(secretID + "\x00" + kind + "\x00" + owner + "\x00" + name)
}

// seal encrypts a value with the current key.
func (s *Service) seal(value string, with []byte) ([]byte, error) {
	c, err := s.aead(keyCurrent)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, c.NonceSize())
	if _, err := io.ReadFull(s.cfg.Rand, nonce); err != nil {
		return nil, fmt.Errorf("making a nonce: %w", err)
	}
	return c.Seal(append([]byte{sealForm}, nonce...), nonce, []byte(value), with), nil
}

// unseal opens what seal made with the key of a version; false when it is not what was sealed.
func (s *Service) unseal(version int, sealed, with []byte) (string, bool) {
	c, err := s.aead(version)
	if err != nil {
		return "", false
	}
	n := 1 + c.NonceSize()
	if len(sealed) < n || sealed[0] != sealForm {
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
	if value, ok := s.unseal(k.KeyVersion, sealed, with); ok && with != nil {
		return value, nil
	}
	return "", fault.New(fault.Unavailable, "secret_unreadable",
		"The secret that is kept cannot be read: the instance's secret.key is not the one it was kept with. Enter it again.")
}

// UpgradeSecrets seals with the current key what an older one sealed, and says how many could not be opened: those stay as
// they are, and whoever uses one is told to enter it again. It is called once before the server opens its door.
func (s *Service) UpgradeSecrets(ctx context.Context) (unreadable int, err error) {
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		unreadable = 0
		old, err := s.store.AgentAccountsSealedBefore(ctx, keyCurrent)
		if err != nil {
			return err
		}
		for _, a := range old {
			value, err := s.openSecret(ctx, a.SecretID, a.Holder, a.secretName(), a.boundBefore())
			if fault.CodeOf(err) == "secret_unreadable" {
				unreadable++
				continue
			}
			if err != nil {
				return err
			}
			sealed, err := s.seal(value, bound(a.SecretID, a.Holder, a.secretName()))
			if err != nil {
				return err
			}
			if err := s.store.ResealSecret(ctx, a.SecretID, keyCurrent, sealed); err != nil {
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
