package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// replaceLostKey goes on without the key the database is sealed with: what the key at hand does not open is listed and, when that was meant,
// forgotten. People's second factors stay in force: who has no other proof needs `admin reset-factors`.
func (p program) replaceLostKey(ctx context.Context, cfg *config.Config, db *store.DB, yes bool) error {
	path := instance.KeyPath(cfg.DataDir)
	if next, err := instance.WaitingKey(ctx, cfg.DataDir, db); err != nil {
		return err
	} else if next != nil {
		return fault.New(fault.Conflict, "key_not_lost", "%s is the key that encrypts the database. Start the server: it moves the key into place.", vault.NextKey(path))
	}
	aside := ""
	if _, err := instance.ProvenKey(ctx, cfg.DataDir, db); err == nil {
		return fault.New(fault.Conflict, "key_not_lost", "%s is the key that encrypts the database, so nothing is lost. To change the key, use `parawork admin rotate-key --yes`.", path)
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
		fmt.Fprintf(p.stdout, "Nothing was changed. To delete %s and continue, run this again with --yes.\n", instance.Count(lost, "value"))
		return errReported
	}
	if aside != "" {
		if err := os.Rename(path, aside); err != nil {
			return fmt.Errorf("moving the damaged key aside: %w", err)
		}
	}
	if key, err = vault.OpenKey(path); err != nil { // makes one where there is none
		return err
	}
	if err := instance.ForgetLostKey(ctx, cfg, db, key); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "deleted %s; the audit starts a new chain with an entry about this; store the backup of secret.key separately from the database's\n", instance.Count(lost, "value"))
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
	fmt.Fprintln(p.stdout, "The lost key encrypted these values, which nobody can decrypt any more:")
	err = in.Rekey(ctx, func(v store.SealedValue) ([]byte, error) {
		if instance.NotSealed(v) || vault.Opens(key, v.Raw, v.Value) {
			return nil, nil
		}
		n++
		switch v.Table {
		case "secrets", "totp":
			fmt.Fprintf(p.stdout, "  %s\n", names[v.Table+" "+v.Key])
		case "instance_keys":
			fmt.Fprintln(p.stdout, "  operators: the key that signs commands to members' machines; every machine must enrol again")
		case "place_settings":
			fmt.Fprintf(p.stdout, "  operators: the key of %s, in Settings > Places\n", v.Key)
		case "mails":
			mails++
		case "ceremonies":
			logins++
		case "instance":
			if v.Key == audit.KeysSetting {
				fmt.Fprintln(p.stdout, "  nobody: the key of the audit's seals; existing entries stay but can no longer be verified")
			} else {
				fmt.Fprintln(p.stdout, "  everybody: push messages; browsers subscribe again")
			}
		}
		return nil, nil
	})
	if err != nil {
		return 0, fmt.Errorf("finding lost values: %w", err)
	}
	if mails > 0 {
		fmt.Fprintf(p.stdout, "  nobody: %s waiting to be sent\n", instance.Count(mails, "mail"))
	}
	if logins > 0 {
		fmt.Fprintf(p.stdout, "  users who are signing in now: %s\n", instance.Count(logins, "sign-in"))
	}
	fmt.Fprintln(p.stdout, "Running sessions can no longer mask the secrets they received: stop them after the next start.")
	return n, nil
}
