package machines

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"io"

	"github.com/parawork/parawork/internal/fault"
)

// keyName is the name of the server's key among the instance's.
const keyName = "runner"

// sealVersion is the version of the accounts key that seals ours.
const sealVersion = 1

// ServerKey returns the key that signs the server's commands to machines, and makes it on first use. Errors: runner_key_unreadable.
func (s *Service) ServerKey(ctx context.Context) (ed25519.PrivateKey, error) {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	if s.key != nil {
		return s.key, nil
	}
	kept, err := s.store.InstanceKey(ctx, keyName)
	if fault.Is(err, fault.NotFound) {
		if err := s.makeKey(ctx); err != nil {
			return nil, err
		}
		kept, err = s.store.InstanceKey(ctx, keyName) // another process may have been first
	}
	if err != nil {
		return nil, fmt.Errorf("reading the key for machines: %w", err)
	}
	key, err := s.openKey(kept)
	if err != nil {
		return nil, err
	}
	s.key = key
	return key, nil
}

func (s *Service) makeKey(ctx context.Context) error {
	seed := make([]byte, ed25519.SeedSize)
	if _, err := io.ReadFull(s.cfg.Rand, seed); err != nil {
		return fmt.Errorf("making the key for machines: %w", err)
	}
	sealed, err := s.cfg.Sealer.Seal(keyName, string(seed))
	if err != nil {
		return fmt.Errorf("sealing the key for machines: %w", err)
	}
	public := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	return s.store.PutInstanceKey(ctx, InstanceKey{Name: keyName, Public: public, Sealed: []byte(sealed), Version: sealVersion, CreatedAt: s.now()})
}

func (s *Service) openKey(kept InstanceKey) (ed25519.PrivateKey, error) {
	seed, err := s.cfg.Sealer.Unseal(keyName, string(kept.Sealed))
	if err == nil && len(seed) == ed25519.SeedSize {
		key := ed25519.NewKeyFromSeed([]byte(seed))
		if key.Public().(ed25519.PublicKey).Equal(ed25519.PublicKey(kept.Public)) {
			return key, nil
		}
	}
	return nil, fault.Wrap(err, fault.Unavailable, "runner_key_unreadable",
		"The key that signs the server's commands to machines cannot be read: secret.key is not the one that encrypted it. Restore secret.key from a backup; without it, "+
			"an operator makes a new key with `parawork admin new-runner-key`, and every machine is enrolled again.")
}

// RenewServerKey makes a new key for the instance. No machine trusts it: each must be enrolled again, so their keys no longer count.
func (s *Service) RenewServerKey(ctx context.Context) (machines int, err error) {
	s.keyMu.Lock()
	defer s.keyMu.Unlock()
	err = s.store.Tx(ctx, func(ctx context.Context) error {
		machines = 0
		if err := s.store.DeleteInstanceKey(ctx, keyName); err != nil {
			return err
		}
		all, err := s.store.Runners(ctx)
		if err != nil {
			return err
		}
		for _, m := range all {
			if m.Revoked() {
				continue
			}
			machines++
			if err := s.store.SetRunnerKey(ctx, m.ID, nil, s.now()); err != nil {
				return err
			}
		}
		return s.makeKey(ctx)
	})
	s.key = nil
	return machines, err
}
