package vault

import (
	"context"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

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
func (v *Vault) aead(version int) (cipher.AEAD, error) {
	purpose := map[int]string{keyBefore: "parawork agent accounts 1", keyDirect: "parawork secrets 1"}[version]
	if purpose == "" {
		return nil, ErrNoKey
	}
	key, err := v.Derive(purpose)
	if err != nil {
		return nil, err
	}
	return gcm(key)
}

// Derive returns a key for one purpose, made of the instance's. Errors: ErrNoKey.
func (v *Vault) Derive(purpose string) ([]byte, error) {
	if len(v.key) != KeyBytes {
		return nil, ErrNoKey
	}
	key, err := hkdf.Key(sha256.New, v.key, nil, purpose, 32)
	if err != nil {
		return nil, fmt.Errorf("deriving a key: %w", err)
	}
	return key, nil
}

// bound is what a sealed value is bound to: it opens in no other row, for no other owner and for no other purpose.
func bound(secretID string, o accounts.Holder, name string) []byte {
	kind, owner := "user", o.UserID
	if o.TeamID != "" {
		kind, owner = "team", o.TeamID
	}
	return []byte(secretID + "\x00" + kind + "\x00" + owner + "\x00" + name)
}

// seal seals a value under the instance's key.
func (v *Vault) seal(value string, with []byte) ([]byte, error) {
	return sealEnvelope(v.rand, v.key, []byte(value), with)
}

// unseal opens a sealed value; version says with which key, where it has none of its own. False when it is not what was sealed.
func (v *Vault) unseal(version int, sealed, with []byte) (string, bool) {
	if len(sealed) == 0 {
		return "", false
	}
	if sealed[0] == formEnvelope {
		value, err := openEnvelope(v.key, sealed, with)
		return string(value), err == nil
	}
	c, err := v.aead(version)
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

// Insert stores a value. It belongs into the transaction that stores what uses it.
func (v *Vault) Insert(ctx context.Context, o accounts.Holder, name, value, by string) (accounts.Secret, error) {
	k := accounts.Secret{ID: id.New("sec"), Holder: o, Name: name, KeyVersion: keyCurrent, LastFour: lastFour(value), CreatedBy: by, CreatedAt: v.now()}
	k.UpdatedAt = k.CreatedAt
	sealed, err := v.seal(value, bound(k.ID, o, name))
	if err != nil {
		return accounts.Secret{}, err
	}
	return k, v.store.InsertSecret(ctx, k, sealed)
}

// Open returns the value of a secret for whoever it is meant for: the caller says whose it must be and what for, so that
// a row that points to another's secret opens nothing.
func (v *Vault) Open(ctx context.Context, secretID string, o accounts.Holder, name string, before []byte) (string, error) {
	k, sealed, err := v.store.Secret(ctx, secretID)
	if err != nil {
		return "", err
	}
	with := bound(secretID, o, name)
	if k.KeyVersion == keyBefore {
		with = before
	}
	if value, ok := v.unseal(k.KeyVersion, sealed, with); ok && with != nil && k.KeyVersion <= keyCurrent {
		return value, nil
	}
	return "", fault.New(fault.Unavailable, "secret_unreadable",
		"The secret that is kept cannot be read: the instance's secret.key is not the one it was kept with. Enter it again.")
}

// UpgradeSecrets seals in today's form what is sealed in an older one, and says how many could not be opened: those stay as
// they are, and whoever uses one is told to enter it again. It is called once before the server opens its door.
func (v *Vault) UpgradeSecrets(ctx context.Context) (unreadable int, err error) {
	err = v.store.Tx(ctx, func(ctx context.Context) error {
		unreadable = 0
		agents, err := v.store.AgentAccountsSealedBefore(ctx, keyDirect)
		if err != nil {
			return err
		}
		before := map[string][]byte{}
		for _, a := range agents {
			before[a.SecretID] = a.BoundBefore()
		}
		old, err := v.store.SecretsSealedBefore(ctx, keyCurrent)
		if err != nil {
			return err
		}
		for _, k := range old {
			value, err := v.Open(ctx, k.ID, k.Holder, k.Name, before[k.ID])
			if fault.CodeOf(err) == "secret_unreadable" {
				unreadable++
				continue
			}
			if err != nil {
				return err
			}
			sealed, err := v.seal(value, bound(k.ID, k.Holder, k.Name))
			if err != nil {
				return err
			}
			if err := v.store.ResealSecret(ctx, k.ID, keyCurrent, sealed); err != nil {
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
func (v *Vault) KeepSecret(ctx context.Context, o accounts.Holder, name, value, by string) (accounts.Secret, error) {
	k, err := v.Insert(ctx, o, name, value, by)
	if err != nil {
		return accounts.Secret{}, fmt.Errorf("keeping a secret: %w", err)
	}
	return k, nil
}

// OpenSecret returns what KeepSecret kept for this holder and purpose. Errors: not_found, secret_unreadable.
func (v *Vault) OpenSecret(ctx context.Context, secretID string, o accounts.Holder, name string) (string, error) {
	return v.Open(ctx, secretID, o, name, nil)
}

// DropSecret forgets what KeepSecret kept. It belongs into the transaction that lets go of it.
func (v *Vault) DropSecret(ctx context.Context, secretID string) error {
	return v.store.DeleteSecret(ctx, secretID)
}

// lastFour is what a key is recognised by; of a short one nothing is told.
func lastFour(secret string) string {
	secret = strings.TrimSpace(secret)
	if len(secret) < 16 {
		return ""
	}
	end := secret[len(secret)-4:]
	if strings.ContainsFunc(end, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return end
}
