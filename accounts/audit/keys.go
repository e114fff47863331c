package audit

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/parawork/parawork/internal/fault"
)

// Sealer keeps the keys of the seals safe: it seals them with the instance's secret.key. accounts.Service is one.
type Sealer interface {
	Seal(name, value string) (string, error)
	Unseal(name, sealed string) (string, error)
}

// KeysSetting is the setting of the instance under which the keys are stored, sealed for the purpose of the same name. A change of
// secret.key seals it again.
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

// readKeys returns the stored keys, if any.
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
	err = l.cfg.Store.Tx(ctx, func(ctx context.Context) error {
		if keys, err = l.readKeys(ctx); err != nil || len(keys) > 0 {
			return err
		}
		keys, err = l.freshKey(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keeping a key of the audit: %w", err)
	}
	return keys, nil
}

// freshKey stores a new key as the only one.
func (l *Log) freshKey(ctx context.Context) ([][]byte, error) {
	fresh := make([]byte, 32)
	rand.Read(fresh) // never fails
	text, err := json.Marshal([]string{base64.StdEncoding.EncodeToString(fresh)})
	if err != nil {
		return nil, err
	}
	sealed, err := l.cfg.Sealer.Seal(KeysSetting, string(text))
	if err != nil {
		return nil, err
	}
	return [][]byte{fresh}, l.cfg.Store.SetSetting(ctx, KeysSetting, sealed)
}

// KeyLost is the action of the entry with which a chain starts over, because the key of the seals before it was lost. Its facts hold the number
// and the seal of the last entry that can no longer be checked.
const KeyLost = "audit.key_lost"

// ReplaceLostKey makes a new key after secret.key was lost, and starts every chain over with an entry that says so. It belongs into a
// transaction.
func (l *Log) ReplaceLostKey(ctx context.Context) error {
	l.keys.Store(nil) // also of an earlier attempt of this transaction
	if _, err := l.freshKey(ctx); err != nil {
		return fmt.Errorf("making a key of the audit: %w", err)
	}
	chains, err := l.cfg.Store.AuditChains(ctx)
	if err != nil {
		return fmt.Errorf("reading the chains of the audit: %w", err)
	}
	if !slices.Contains(chains, Instance) {
		chains = append(chains, Instance)
	}
	for _, chain := range chains {
		seq, seal, err := l.cfg.Store.AuditTail(ctx, chain)
		if err != nil {
			return fmt.Errorf("reading the end of the audit: %w", err)
		}
		err = l.Append(ctx, Entry{Chain: chain, Action: KeyLost, TargetKind: "instance", Data: map[string]string{"through": strconv.FormatInt(seq, 10), "seal": seal}})
		if err != nil {
			return err
		}
	}
	return nil
}

// lostThrough returns the number of a chain's last entry whose key was lost; 0 when none was.
func (l *Log) lostThrough(ctx context.Context, chain string) (int64, error) {
	rows, err := l.cfg.Store.AuditRows(ctx, Query{Chain: chain, Action: KeyLost, Limit: 1})
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	// What the entry says counts only for what lies right before it: its own seal is checked like any other's.
	return rows[0].Seq - 1, nil
}
