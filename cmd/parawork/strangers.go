package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
)

// endStrangers lists the sandboxes the database does not know and, with yes, ends them with all that is only there.
func (p program) endStrangers(ctx context.Context, cfg *config.Config, db *store.DB, yes bool) error {
	ctx = tenant.All(ctx, "sandboxes the database does not know")
	guest, err := guestPath(cfg.DataDir, p.env)
	if err != nil {
		return err
	}
	groups, err := fromconfig.OpenGroups(cfg.DataDir)
	if err != nil {
		groups = nil // places work without
	}
	one := func(context.Context) (int, error) { return 1, nil }
	made, err := fromconfig.NewExecutors(cfg, p.kinds, fromconfig.Site{Guest: guest, Groups: groups, Teams: one, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer made.Close()
	return endUnknown(ctx, p.stdout, made, db, yes)
}

func endUnknown(ctx context.Context, out io.Writer, places []executors.Executor, db *store.DB, yes bool) error {
	found, err := fromconfig.Strangers(ctx, places, db)
	if err != nil {
		return err
	}
	var failed []error
	for e, list := range found {
		for _, h := range list {
			if !yes {
				fmt.Fprintf(out, "  sandbox %s in %s is unknown and would be destroyed\n", h.ID, e.Kind())
				continue
			}
			if err := manager.End(ctx, e, h, fromconfig.StrangersEnd); err != nil {
				failed = append(failed, fmt.Errorf("destroying sandbox %s in %s: %w", h.ID, e.Kind(), err))
				continue
			}
			fmt.Fprintf(out, "  destroyed sandbox %s in %s\n", h.ID, e.Kind())
		}
	}
	return errors.Join(failed...)
}
