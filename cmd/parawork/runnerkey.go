package main

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts/vault"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/store"
)

// newRunnerKey makes a new key for machines. A server that runs would go on with the old one.
func (p program) newRunnerKey(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("new-runner-key")
	fs.Bool("yes", false, "")
	cfg, db, done, err := p.openAlone(ctx, fs, file, args, func() error { return p.need(fs, "yes") })
	if err != nil {
		return err
	}
	defer done()
	defer db.Close()
	key, err := instance.SettleKey(ctx, cfg.DataDir, db)
	if err != nil {
		return err
	}
	sealed := vault.New(vault.Config{Store: store.NewAccounts(db), Key: key})
	n, err := machines.New(machines.Config{Store: store.NewMachines(db), Sealer: sealed, Events: events.New(), Enabled: true}).RenewServerKey(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "created a new key; to enrol again: %s (on the Machines page, request a new key, then run its command on the machine)\n", instance.Count(n, "machine"))
	return nil
}
