package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/sessions/masks"
	"github.com/parawork/parawork/store"
)

// How one key takes the place of another, so that a cut at any instant leaves the one or the other, and never a value that neither opens:
//
//	1. the new key is written beside the old one, as secret.key.next
//	2. in one transaction every sealed value of the database is sealed with the new key, and the database notes which key that is
//	3. the files of sessions are sealed with it
//	4. it takes the old one's place
//
// Whoever finds a secret.key.next asks the database: if it notes that key, 3 and 4 are done; else the new key is thrown away.

// KeyPath is where the key of an instance lies.
func KeyPath(dataDir string) string { return filepath.Join(dataDir, "secret.key") }

// Key returns the key the database is sealed with. It changes nothing, so that it may be asked while a server runs.
func Key(ctx context.Context, dataDir string, db *store.DB) ([]byte, error) {
	next, err := WaitingKey(ctx, dataDir, db)
	if err != nil || next != nil {
		return next, err
	}
	return ProvenKey(ctx, dataDir, db)
}

// WaitingKey returns the key that has not taken its place yet though the database is sealed with it; nil when there is none.
func WaitingKey(ctx context.Context, dataDir string, db *store.DB) ([]byte, error) {
	if _, err := os.Lstat(vault.NextKey(KeyPath(dataDir))); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	next, err := vault.OpenKey(vault.NextKey(KeyPath(dataDir)))
	if err != nil {
		return nil, err
	}
	noted, err := keyPrint(ctx, db)
	if err != nil || noted != vault.Print(next) {
		return nil, err
	}
	return next, nil
}

func keyPrint(ctx context.Context, db *store.DB) (string, error) {
	noted, err := store.NewInstance(db).Setting(ctx, vault.KeyPrintSetting)
	if fault.Is(err, fault.NotFound) {
		return "", nil
	}
	return noted, err
}

// SettleKey ends a change of the key that was cut, and returns the key. The caller holds the lock of the data folder.
func SettleKey(ctx context.Context, dataDir string, db *store.DB) ([]byte, error) {
	path := KeyPath(dataDir)
	next, err := WaitingKey(ctx, dataDir, db)
	if err != nil {
		return nil, err
	}
	if next != nil {
		if _, err := placeKey(dataDir, next); err != nil {
			return nil, err
		}
	}
	key, err := ProvenKey(ctx, dataDir, db)
	if err != nil {
		return nil, err
	}
	if err := vault.DropNextKey(path); err != nil {
		return nil, err
	}
	return key, noteKey(ctx, db, key)
}

// placeKey does what is left once the database is sealed with the new key.
func placeKey(dataDir string, next []byte) (unreadable int, err error) {
	path := KeyPath(dataDir)
	before, err := vault.ReadKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, vault.PlaceKey(path) // the old key is gone, and with it what it alone opened
	}
	if err != nil {
		return 0, err
	}
	if _, unreadable, err = masks.ResealLaunches(dataDir, before, next); err != nil {
		return unreadable, fmt.Errorf("encrypting the files of sessions: %w", err)
	}
	failpoint.Reach(failpoint.KeyFiles)
	return unreadable, vault.PlaceKey(path)
}

// noteKey notes which key the database is sealed with, once that is proven.
func noteKey(ctx context.Context, db *store.DB, key []byte) error {
	noted, err := keyPrint(ctx, db)
	if err != nil || noted == vault.Print(key) {
		return err
	}
	return store.NewInstance(db).SetSetting(ctx, vault.KeyPrintSetting, vault.Print(key))
}

// ChangeKey gives the instance a new key. It returns how many values were sealed with it, and how many could not be opened.
func ChangeKey(ctx context.Context, cfg *config.Config, db *store.DB) (sealed, unreadable int, err error) {
	before, err := SettleKey(ctx, cfg.DataDir, db)
	if err != nil {
		return 0, 0, err
	}
	old := vault.New(vault.Config{Store: store.NewAccounts(db), Key: before})
	log := audit.New(audit.Config{Store: store.NewAudit(db), Sealer: old, Heads: HeadsFile(cfg.DataDir)})
	next, err := vault.OpenKey(vault.NextKey(KeyPath(cfg.DataDir))) // makes it
	if err != nil {
		return 0, 0, err
	}
	failpoint.Reach(failpoint.KeyMade)
	kept := store.NewInstance(db)
	err = kept.Tx(tenant.All(ctx, "every sealed value gets the new key"), func(ctx context.Context) error {
		sealed, unreadable = 0, 0
		// Told first: the audit seals it with keys that lie sealed in the database, which are the old key's until then.
		if err := log.Append(ctx, audit.Entry{Chain: audit.Instance, Action: "instance.key_rotated", TargetKind: "instance"}); err != nil {
			return err
		}
		err := kept.Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
			after, err := vault.Reseal(before, next, v.Raw, v.Value)
			switch {
			case err == nil:
				sealed++
				return after, nil
			case NotSealed(v):
				return nil, nil
			case errors.Is(err, vault.ErrNotSealed):
				unreadable++
				return nil, nil
			}
			return nil, err
		})
		if err != nil {
			return err
		}
		return kept.SetSetting(ctx, vault.KeyPrintSetting, vault.Print(next))
	})
	if err != nil {
		return 0, 0, fmt.Errorf("encrypting with the new key: %w", err)
	}
	failpoint.Reach(failpoint.KeySealed)
	lost, err := placeKey(cfg.DataDir, next)
	if err != nil {
		return sealed, unreadable, err
	}
	return sealed, unreadable + lost, log.Flush(ctx)
}

// sealedSettings are the settings of the instance that are sealed.
var sealedSettings = []string{"push keys", audit.KeysSetting}
