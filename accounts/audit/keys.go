package audit

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"

	"github.com/parawork/parawork/internal/fault"
)

// Sealer keeps the keys of the seals safe: it seals them with the instance's secret.key. accounts.Service is one.
type Sealer interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// KeysSetting is the setting of the instance under which the keys are kept, sealed for the purpose of the same name. Whoever changes
// secret.key seals it anew.
const KeysSetting = "audit_keys"

// ring returns the keys, oldest first: the last one seals. It makes the first.
func (l *Log) ring(ctx context.Context) ([][]byte, error) {
	if keys := l.keys.Load(); keys != nil {
		return *keys, nil
	}
	keys, err := l.readKeys(ctx)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 {
		if keys, err = l.addKey(ctx); err != nil {
			return nil, err
		}
		if l.cfg.Store.InTx(ctx) {
			return keys, nil // it may be undone: not to be remembered
		}
	}
	l.keys.Store(&keys)
	return keys, nil
}

// readKeys returns the keys that are kept, none when there are none.
func (l *Log) readKeys(ctx context.Context) ([][]byte, error) {
	sealed, err := l.cfg.Store.Setting(ctx, KeysSetting)
	if fault.Is(err, fault.NotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the audit's keys: %w", err)
	}
	text, err := l.cfg.Sealer.Unseal(KeysSetting, sealed)
	if err != nil {
		return nil, fault.Wrap(err, fault.Unavailable, "audit_keys_unreadable",
			"The keys of the audit's seals cannot be read: the instance's secret.key is not the one they were kept with. Restore secret.key from a backup.")
	}
	var kept []string
	if err := json.Unmarshal([]byte(text), &kept); err != nil {
		return nil, fmt.Errorf("reading the audit's keys: %w", err)
	}
	keys := make([][]byte, len(kept))
	for i, k := range kept {
		if keys[i], err = base64.StdEncoding.DecodeString(k); err != nil {
			return nil, fmt.Errorf("reading the audit's keys: %w", err)
		}
	}
	return keys, nil
}

// addKey adds a key, which seals from now on. It runs in a transaction, so that two processes that start at once agree.
func (l *Log) addKey(ctx context.Context) (keys [][]byte, err error) {
	fresh := make([]byte, 32)
	if _, err := io.ReadFull(rand.Reader, fresh); err != nil {
		return nil, fmt.Errorf("making a key of the audit: %w", err)
	}
	err = l.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if keys, err = l.readKeys(ctx); err != nil || len(keys) > 0 {
			return err
		}
		keys = [][]byte{fresh}
		text, err := json.Marshal([]string{base64.StdEncoding.EncodeToString(fresh)})
		if err != nil {
			return err
		}
		sealed, err := l.cfg.Sealer.Seal(KeysSetting, string(text))
		if err != nil {
			return err
		}
		return l.cfg.Store.SetSetting(ctx, KeysSetting, sealed)
	})
	if err != nil {
		return nil, fmt.Errorf("keeping a key of the audit: %w", err)
	}
	return keys, nil
}
