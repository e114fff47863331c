package vault

import (
	"context"
	"encoding/base64"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
)

// KeepTeamSecret stores a value of a team, sealed, for one purpose. It may be called inside the caller's transaction.
func (v *Vault) KeepTeamSecret(ctx context.Context, teamID, name, value, by string) (secretID string, err error) {
	k, err := v.Insert(ctx, accounts.OfTeam(teamID), name, value, by)
	if err != nil {
		return "", fmt.Errorf("keeping a secret: %w", err)
	}
	return k.ID, nil
}

// TeamSecret returns what KeepTeamSecret stored for this team and purpose. Errors: not_found, secret_unreadable.
func (v *Vault) TeamSecret(ctx context.Context, secretID, teamID, name string) (string, error) {
	return v.OpenSecret(ctx, secretID, accounts.OfTeam(teamID), name)
}

// DropTeamSecret deletes a secret of a team. It ignores a missing secret, and one of another team.
func (v *Vault) DropTeamSecret(ctx context.Context, secretID, teamID string) error {
	k, _, err := v.store.Secret(ctx, secretID)
	if fault.Is(err, fault.NotFound) || err == nil && k.TeamID != teamID {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading a secret: %w", err)
	}
	return v.store.DeleteSecret(ctx, secretID)
}

// boundInstance returns the data that a value of the instance itself is authenticated with.
func boundInstance(name string) []byte { return []byte("instance\x00" + name) }

// Seal seals a value of the instance itself for one purpose, as text.
func (v *Vault) Seal(name, value string) (string, error) {
	sealed, err := v.seal(value, boundInstance(name))
	return base64.StdEncoding.EncodeToString(sealed), err
}

// Unseal opens what Seal sealed for the same purpose. Errors: secret_unreadable.
func (v *Vault) Unseal(name, sealed string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(sealed)
	if err == nil {
		if value, ok := v.unseal(raw, boundInstance(name)); ok {
			return value, nil
		}
	}
	return "", errUnreadable()
}
