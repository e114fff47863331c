package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/cmd/parawork/instance"
)

// rotateKey makes a new secret.key and seals everything with it. A server that runs would go on with the old one.
func (p program) rotateKey(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("rotate-key")
	yes, lost := fs.Bool("yes", false, ""), fs.Bool("lost", false, "")
	cfg, db, done, err := p.openAlone(ctx, fs, file, args, func() error {
		if *lost { // without --yes it says what would be forgotten
			return nil
		}
		return p.need(fs, "yes")
	})
	if err != nil {
		return err
	}
	defer done()
	if *lost {
		return errors.Join(p.replaceLostKey(instance.ByCommandLine(ctx), cfg, db, *yes), db.Close())
	}
	sealed, unreadable, err := instance.ChangeKey(instance.ByCommandLine(ctx), cfg, db)
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "created a new secret.key and encrypted %s with it; store its backup separately from the database's, and destroy the backup of the old key\n", instance.Count(sealed, "value"))
	if unreadable > 0 {
		fmt.Fprintf(p.stdout, "%s could not be decrypted with the old key and are unchanged: enter them again\n", instance.Count(unreadable, "value"))
	}
	return nil
}
