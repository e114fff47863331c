package instance

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// keyFit is what a key proves on the sealed values of the database.
type keyFit struct {
	Sealed, Opened int
	audit          bool // it opens the keys of the audit, which are sealed with the instance's first entry
	audited        bool // there are such keys
}

// Right reports whether the database is sealed with the key. The keys of the audit decide where there are any: an earlier version went on with
// a wrong key, and what was entered meanwhile opens with that.
func (f keyFit) Right() bool {
	if f.audited {
		return f.audit
	}
	return f.Sealed == 0 || f.Opened > 0
}

// Fit tries a key on the database; nil fits nothing.
func Fit(ctx context.Context, db *store.DB, key []byte) (f keyFit, err error) {
	ctx = tenant.All(ctx, "the instance's key is proven on every sealed value")
	err = store.NewInstance(db).Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
		if NotSealed(v) {
			return nil, nil
		}
		f.Sealed++
		opens := vault.Opens(key, v.Raw, v.Value)
		if opens {
			f.Opened++
		}
		if v.Table == "instance" && v.Key == audit.KeysSetting {
			f.audited, f.audit = true, opens
		}
		return nil, nil // as it is
	})
	if err != nil {
		return f, fmt.Errorf("checking secret.key: %w", err)
	}
	return f, nil
}

// NotSealed reports whether a value of the instance's settings is one that is not sealed at all.
func NotSealed(v store.SealedValue) bool {
	return v.Table == "instance" && !slices.Contains(sealedSettings, v.Key)
}

// HowToGoOn is what the doctor says of a key that does not fit.
const HowToGoOn = "Restore it from a backup and start again. If it is lost for good, `parawork admin rotate-key --lost` lists what must be entered again, and forgets it with --yes."

// ProvenKey returns the key of the data folder, proven on what the database holds. It makes one only for a database in which nothing is sealed:
// a new key beside sealed values would hide that the old one is missing until nobody has its backup any more. Errors: key_missing, key_wrong.
func ProvenKey(ctx context.Context, dataDir string, db *store.DB) ([]byte, error) {
	path := KeyPath(dataDir)
	key, err := vault.ReadKey(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, err
	}
	f, err := Fit(ctx, db, key)
	switch {
	case err != nil:
		return nil, err
	case missing && f.Sealed == 0:
		return vault.OpenKey(path) // makes it
	case missing:
		return nil, fault.New(fault.Unavailable, "key_missing", "%s is missing, and the database holds %s that only it opens. "+
			"Restore it from a backup and start again. If it is lost for good, `parawork admin rotate-key --lost` lists what must be entered again, and forgets it with --yes.", path, Count(f.Sealed, "sealed value"))
	case f.Right():
		return key, nil
	}
	return nil, fault.New(fault.Unavailable, "key_wrong", "%s is not the key the database is sealed with: it opens %d of %s. "+
		"Restore it from a backup and start again. If it is lost for good, `parawork admin rotate-key --lost` lists what must be entered again, and forgets it with --yes.", path, f.Opened, Count(f.Sealed, "sealed value"))
}

// ForgetLostKey forgets what key does not open, in one transaction that notes the key.
func ForgetLostKey(ctx context.Context, cfg *config.Config, db *store.DB, key []byte) error {
	sealed := vault.New(vault.Config{Store: store.NewAccounts(db), Key: key})
	log := audit.New(audit.Config{Store: store.NewAudit(db), Sealer: sealed, Heads: HeadsFile(cfg.DataDir)})
	// Their seals are the lost key's. Before the transaction: without the files nothing is taken for tampering.
	for _, file := range []string{HeadsFile(cfg.DataDir), ReserveFile(cfg.DataDir)} {
		if err := os.Rename(file, fmt.Sprintf("%s.lost-%d", file, time.Now().Unix())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("moving %s aside: %w", filepath.Base(file), err)
		}
	}
	kept := store.NewInstance(db)
	err := kept.Tx(tenant.All(ctx, "every value of the lost key is forgotten"), func(ctx context.Context) error {
		machinesToo, settings := false, []string(nil)
		err := kept.Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
			switch {
			case NotSealed(v), vault.Opens(key, v.Raw, v.Value):
				return nil, nil
			case v.Table == "instance":
				settings = append(settings, v.Key)
				return nil, nil
			case v.Table == "instance_keys":
				machinesToo = true
				return nil, nil
			}
			return []byte{}, nil // opens as nothing: whoever needs it learns that it must be entered again
		})
		if err != nil {
			return err
		}
		for _, s := range settings { // made anew when they are needed
			if err := kept.DeleteSetting(ctx, s); err != nil {
				return err
			}
		}
		if machinesToo {
			m := machines.New(machines.Config{Store: store.NewMachines(db), Sealer: sealed, Events: events.New(), Enabled: true})
			if _, err := m.RenewServerKey(ctx); err != nil {
				return err
			}
		}
		if err := log.ReplaceLostKey(ctx); err != nil {
			return err
		}
		return kept.SetSetting(ctx, vault.KeyPrintSetting, vault.Print(key))
	})
	if err != nil {
		return fmt.Errorf("deleting the values of the lost key: %w", err)
	}
	return log.Flush(ctx)
}
