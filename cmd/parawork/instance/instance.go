// Package instance opens what an instance keeps, for the server and for the command line: the lock of its data folder, the key its database is
// sealed with and how another takes that one's place, its accounts and its audit, and what says that a database has lost rows. It recovers and
// runs nothing. It has no goroutine; its only lock is the file in the data folder, which the kernel gives up with the process.
package instance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"strconv"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/accounts/signin"
	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/store"
)

// HeadsFile is where it is written down, apart from the database, how far the audit has come.
func HeadsFile(dataDir string) string { return filepath.Join(dataDir, "audit.heads") }

// ReserveFile is where entries of the audit wait while the database has no room. The server alone writes it.
func ReserveFile(dataDir string) string { return filepath.Join(dataDir, "audit.reserve") }

// Instance is what the commands of an administrator work with: the accounts, and the audit of what is done with them.
type Instance struct {
	Directory *directory.Service
	Signin    *signin.Service
	Vault     *vault.Vault
	Audit     *audit.Log
	Db        *store.DB
}

// Open opens an instance for the command line. close writes down how far the audit has come.
func Open(ctx context.Context, cfg *config.Config) (in *Instance, done func() error, err error) {
	db, err := store.Open(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil {
		return nil, nil, err
	}
	key, err := Key(ctx, cfg.DataDir, db)
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	in = &Instance{Db: db, Vault: vault.New(vault.Config{Store: store.NewAccounts(db), Key: key})}
	in.Audit = audit.New(audit.Config{Store: store.NewAudit(db), Sealer: in.Vault, Heads: HeadsFile(cfg.DataDir)})
	changed := false
	in.Directory, in.Signin, _ = People(cfg, db, in.Vault, directory.Config{Changed: func(string) { changed = true }}, slog.New(slog.DiscardHandler))
	return in, func() error {
		if changed { // a server that runs meanwhile looks at once who may still be connected
			if err := in.Directory.Announce(context.WithoutCancel(ctx)); err != nil {
				return errors.Join(err, db.Close())
			}
		}
		err := in.Audit.Flush(context.WithoutCancel(ctx))
		return errors.Join(err, db.Close())
	}, nil
}

// ByCommandLine returns a context in which the command line acts, for the user of this machine who runs it.
func ByCommandLine(ctx context.Context) context.Context {
	name := "uid " + strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	return audit.By(ctx, audit.Source{Kind: audit.ByCommandLine, ActorName: name})
}

// Notify records what a command did. facts are names and values in turn.
func (in *Instance) Notify(ctx context.Context, chain, action, kind, id, name string, facts ...string) error {
	e := audit.Entry{Chain: chain, Action: action, TargetKind: kind, TargetID: id, TargetName: name, Data: map[string]string{}}
	for i := 0; i+1 < len(facts); i += 2 {
		if facts[i+1] != "" {
			e.Data[facts[i]] = facts[i+1]
		}
	}
	return in.Audit.Append(ctx, e)
}

// ChainName is what people know a chain by.
func (in *Instance) ChainName(ctx context.Context, chain string) string {
	switch chain {
	case "":
		return "audit.heads"
	case audit.Instance:
		return "the instance"
	}
	if t, err := in.Directory.TeamByID(ctx, chain); err == nil {
		return "team " + t.Slug
	}
	return "team " + chain + " (gone)"
}

// FindTeam returns the team with a slug, or says how to see which there are.
func (in *Instance) FindTeam(ctx context.Context, slug string) (accounts.Team, error) {
	t, err := in.Directory.TeamBySlug(ctx, slug)
	if err != nil {
		return t, fmt.Errorf("there is no team %q: see parawork admin list-teams (%w)", slug, err)
	}
	return t, nil
}
