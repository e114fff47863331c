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
		return fault.New(fault.Conflict, "key_not_lost", "%s is the key the database is sealed with: start the server, which puts it in its place.", vault.NextKey(path))
	}
	aside := ""
	if _, err := instance.ProvenKey(ctx, cfg.DataDir, db); err == nil {
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
		fmt.Fprintf(p.stdout, "Nothing was changed. To forget %s and go on, run this again with --yes.\n", instance.Count(lost, "value"))
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
	if err := instance.ForgetLostKey(ctx, cfg, db, key); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "forgot %s; the audit begins anew with an entry that says so; keep a backup of secret.key apart from the database's\n", instance.Count(lost, "value"))
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
		fmt.Fprintf(p.stdout, "  nobody: %s that waited to be sent\n", instance.Count(mails, "mail"))
	}
	if logins > 0 {
		fmt.Fprintf(p.stdout, "  whoever signs in just now: %s\n", instance.Count(logins, "sign-in"))
	}
	fmt.Fprintln(p.stdout, "Sessions that run cannot hide the secrets they were given any more: end them after the next start.")
	return n, nil
}
