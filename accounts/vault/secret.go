package vault

import (
	"context"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
)

// keyVersion says how a secret is sealed: with a key of its own, which the instance's key wraps. Another way of sealing gets the next number.
const keyVersion = 2

// ErrNoKey says that this process does not have the key that seals secrets.
var ErrNoKey = errors.New("the key that seals secrets is missing")

func errUnreadable() error {
	return fault.New(fault.Unavailable, "secret_unreadable",
		"This secret cannot be read, because it was sealed with another secret.key than the instance has now. Enter the secret again.")
}

// Derive returns a key for one purpose, derived from the instance's. Errors: ErrNoKey.
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

// bound returns the data that a sealed value is authenticated with: it opens in no other row, for no other owner and for no other purpose.
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

// unseal opens a sealed value. It returns false when the value is damaged, or was sealed with another key or for another purpose.
func (v *Vault) unseal(sealed, with []byte) (string, bool) {
	value, err := openEnvelope(v.key, sealed, with)
	return string(value), err == nil
}

// Insert stores a value. Call it in the transaction that stores what refers to it.
func (v *Vault) Insert(ctx context.Context, o accounts.Holder, name, value, by string) (accounts.Secret, error) {
	k := accounts.Secret{ID: id.New("sec"), Holder: o, Name: name, KeyVersion: keyVersion, LastFour: lastFour(value), CreatedBy: by, CreatedAt: v.now()}
	k.UpdatedAt = k.CreatedAt
	sealed, err := v.seal(value, bound(k.ID, o, name))
	if err != nil {
		return accounts.Secret{}, err
	}
	return k, v.store.InsertSecret(ctx, k, sealed)
}

// KeepSecret stores a value of a user or a team, sealed, for one purpose. It may be called inside the caller's transaction.
func (v *Vault) KeepSecret(ctx context.Context, o accounts.Holder, name, value, by string) (accounts.Secret, error) {
	k, err := v.Insert(ctx, o, name, value, by)
	if err != nil {
		return accounts.Secret{}, fmt.Errorf("keeping a secret: %w", err)
	}
	return k, nil
}

// OpenSecret returns what KeepSecret stored for this holder and purpose. The caller passes both, so that a row that points to another
// holder's secret opens nothing. Errors: not_found, secret_unreadable.
func (v *Vault) OpenSecret(ctx context.Context, secretID string, o accounts.Holder, name string) (string, error) {
	k, sealed, err := v.store.Secret(ctx, secretID)
	if err != nil {
		return "", err
	}
	if value, ok := v.unseal(sealed, bound(secretID, o, name)); ok && k.KeyVersion == keyVersion {
		return value, nil
	}
	return "", errUnreadable()
}

// DropSecret deletes what KeepSecret stored. Call it in the transaction that removes the reference to it.
func (v *Vault) DropSecret(ctx context.Context, secretID string) error {
	return v.store.DeleteSecret(ctx, secretID)
}

// lastFour returns the end of a key, by which people recognise it; "" for a short one.
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
