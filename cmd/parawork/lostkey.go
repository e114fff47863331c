package main

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
	sealed, opened, undecided int
	audit                     vault.Verdict // on the keys of the audit, which are sealed with the instance's first entry
	audited                   bool          // there are such keys
}

// right reports whether the database is sealed with the key. The keys of the audit decide where there are any: an earlier version went on with
// a wrong key, and what was entered meanwhile opens with that.
func (f keyFit) right() bool {
	if f.audited {
		return f.audit == vault.Opened
	}
	return f.sealed == 0 || f.opened > 0
}

// fit tries a key on the database; nil fits nothing.
func fit(ctx context.Context, db *store.DB, key []byte) (f keyFit, err error) {
	ctx = tenant.All(ctx, "the instance's key is proven on every sealed value")
	err = store.NewInstance(db).Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
		if notSealed(v) {
			return nil, nil
		}
		f.sealed++
		verdict := vault.Try(key, v.Purpose, v.Raw, v.Value)
		switch verdict {
		case vault.Opened:
			f.opened++
		case vault.Undecided:
			f.undecided++
		}
		if v.Table == "instance" && v.Key == audit.KeysSetting {
			f.audited, f.audit = true, verdict
		}
		return nil, nil // as it is
	})
	if err != nil {
		return f, fmt.Errorf("trying secret.key: %w", err)
	}
	return f, nil
}

// notSealed reports whether a value of the instance's settings is one that is not sealed at all.
func notSealed(v store.SealedValue) bool {
	return v.Table == "instance" && !slices.Contains(sealedSettings, v.Key)
}

// howToGoOn is what the doctor says of a key that does not fit.
const howToGoOn = "Restore it from a backup and start again. If it is lost for good, `parawork admin rotate-key --lost` lists what must be entered again, and forgets it with --yes."

// provenKey returns the key of the data folder, proven on what the database holds. It makes one only for a database in which nothing is sealed:
// a new key beside sealed values would hide that the old one is missing until nobody has its backup any more. Errors: key_missing, key_wrong.
func provenKey(ctx context.Context, dataDir string, db *store.DB) ([]byte, error) {
	path := keyPath(dataDir)
	key, err := vault.ReadKey(path)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return nil, err
	}
	f, err := fit(ctx, db, key)
	switch {
	case err != nil:
		return nil, err
	case missing && f.sealed == 0:
		return vault.OpenKey(path) // makes it
	case missing:
		return nil, fault.New(fault.Unavailable, "key_missing", "%s is missing, and the database holds %s that only it opens. "+
			"Restore it from a backup and start again. If it is lost for good, `parawork admin rotate-key --lost` lists what must be entered again, and forgets it with --yes.", path, count(f.sealed, "sealed value"))
	case f.right():
		return key, nil
	}
	if f.undecided > 0 {
		sealed := vault.New(vault.Config{Store: store.NewAccounts(db), Key: key})
		if _, err := sealed.UpgradeSecrets(tenant.All(ctx, "values of an older form are tried, too")); err != nil {
			return nil, err
		}
		if f, err = fit(ctx, db, key); err != nil {
			return nil, err
		} else if f.right() {
			return key, nil
		}
	}
	return nil, fault.New(fault.Unavailable, "key_wrong", "%s is not the key the database is sealed with: it opens %d of %s. "+
		"Restore it from a backup and start again. If it is lost for good, `parawork admin rotate-key --lost` lists what must be entered again, and forgets it with --yes.", path, f.opened, count(f.sealed, "sealed value"))
}

// replaceLostKey goes on without the key the database is sealed with: what the key at hand does not open is listed and, when that was meant,
// forgotten. People's second factors stay in force: who has no other proof needs `admin reset-factors`.
func (p program) replaceLostKey(ctx context.Context, cfg *config.Config, db *store.DB, yes bool) error {
	path := keyPath(cfg.DataDir)
	if next, err := waitingKey(ctx, cfg.DataDir, db); err != nil {
		return err
	} else if next != nil {
		return fault.New(fault.Conflict, "key_not_lost", "%s is the key the database is sealed with: start the server, which puts it in its place.", vault.NextKey(path))
	}
	aside := ""
	if _, err := provenKey(ctx, cfg.DataDir, db); err == nil {
		return fault.New(fault.Conflict, "key_not_lost", "%s is the key the database is sealed with: nothing is lost. For another key use `parawork admin rotate-key --yes`.", path)
	} else if fault.CodeOf(err) == "key_damaged" {
		aside = fmt.Sprintf("%s.damaged-%d", path, time.Now().Unix())
	} else if code := fault.CodeOf(err); code != "key_missing" && code != "key_wrong" {
		return err
	}
	key, err := vault.ReadKey(path) // another one opens what was entered since it is here
	if err != nil && aside == "" && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	lost, err := p.listLost(ctx, db, key)
	if err != nil {
		return err
	}
	if !yes {
		fmt.Fprintf(p.stdout, "Nothing was changed. To forget %s and go on, run this again with --yes.\n", count(lost, "value"))
		return errReported
	}
	if aside != "" {
		if err := os.Rename(path, aside); err != nil {
			return fmt.Errorf("putting the damaged key aside: %w", err)
		}
	}
	if key, err = vault.OpenKey(path); err != nil { // makes one where there is none
		return err
	}
	if err := forgetLost(ctx, cfg, db, key); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "forgot %s; the audit begins anew with an entry that says so; keep a backup of secret.key apart from the database's\n", count(lost, "value"))
	return nil
}

// listLost prints what the key does not open, by who must enter it again, and counts it.
func (p program) listLost(ctx context.Context, db *store.DB, key []byte) (n int, err error) {
	in := store.NewInstance(db)
	names, err := in.SealedNames(ctx)
	if err != nil {
		return 0, err
	}
	mails, logins := 0, 0
	fmt.Fprintln(p.stdout, "The key that is lost sealed, and nobody can open any more:")
	err = in.Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
		if notSealed(v) || vault.Try(key, v.Purpose, v.Raw, v.Value) == vault.Opened {
			return nil, nil
		}
		n++
		switch v.Table {
		case "secrets", "totp":
			fmt.Fprintf(p.stdout, "  %s\n", names[v.Table+" "+v.Key])
		case "instance_keys":
			fmt.Fprintln(p.stdout, "  operators: the key that signs what members' machines are told; every machine must be connected anew")
		case "place_settings":
			fmt.Fprintf(p.stdout, "  operators: the key of %s, in Settings > Places\n", v.Key)
		case "mails":
			mails++
		case "ceremonies":
			logins++
		case "instance":
			if v.Key == audit.KeysSetting {
				fmt.Fprintln(p.stdout, "  nobody: the key of the audit's seals; entries up to now stay, and can no longer be proven")
			} else {
				fmt.Fprintln(p.stdout, "  everybody: push messages; browsers ask for them again")
			}
		}
		return nil, nil
	})
	if err != nil {
		return 0, fmt.Errorf("looking for what is lost: %w", err)
	}
	if mails > 0 {
		fmt.Fprintf(p.stdout, "  nobody: %s that waited to be sent\n", count(mails, "mail"))
	}
	if logins > 0 {
		fmt.Fprintf(p.stdout, "  whoever signs in just now: %s\n", count(logins, "sign-in"))
	}
	fmt.Fprintln(p.stdout, "Sessions that run cannot hide the secrets they were given any more: end them after the next start.")
	return n, nil
}

// forgetLost forgets what key does not open, in one transaction that notes the key.
func forgetLost(ctx context.Context, cfg *config.Config, db *store.DB, key []byte) error {
	sealed := vault.New(vault.Config{Store: store.NewAccounts(db), Key: key})
	log := audit.New(audit.Config{Store: store.NewAudit(db), Sealer: sealed, Heads: headsFile(cfg.DataDir)})
	// Their seals are the lost key's. Before the transaction: without the files nothing is taken for tampering.
	for _, file := range []string{headsFile(cfg.DataDir), reserveFile(cfg.DataDir)} {
		if err := os.Rename(file, fmt.Sprintf("%s.lost-%d", file, time.Now().Unix())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("putting %s aside: %w", filepath.Base(file), err)
		}
	}
	kept := store.NewInstance(db)
	err := kept.Tx(tenant.All(ctx, "every value of the lost key is forgotten"), func(ctx context.Context) error {
		machinesToo, settings := false, []string(nil)
		err := kept.Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
			switch {
			case notSealed(v), vault.Try(key, v.Purpose, v.Raw, v.Value) == vault.Opened:
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
		return fmt.Errorf("forgetting what the lost key sealed: %w", err)
	}
	return log.Flush(ctx)
}
