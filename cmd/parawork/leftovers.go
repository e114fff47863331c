package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/cmd/parawork/instance"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/assembly"
)

// adoptLeftovers brings back what a database has lost: what is intact in its log, then workspaces whose folders lie on the disk. Without --yes it
// lists them.
func (p program) adoptLeftovers(ctx context.Context, args []string) error {
	fs, file := p.adminFlags("adopt-leftovers")
	yes := fs.Bool("yes", false, "")
	end := fs.Bool("end-sandboxes", false, "")
	if err := p.parse(fs, args); err != nil {
		return err
	}
	cfg, err := p.config(*file)
	if err != nil {
		return err
	}
	lock, err := instance.LockData(cfg.DataDir)
	if err != nil {
		return err
	}
	defer lock.Release()
	d, err := instance.LookBefore(ctx, cfg)
	if err != nil {
		return err
	}
	for _, what := range d.Found {
		fmt.Fprintf(p.stdout, "found: %s\n", what)
	}
	if d.Copy != "" {
		if err := p.salvage(ctx, cfg, d, *yes); err != nil {
			return err
		}
		if !*yes {
			return p.notYet()
		}
	}
	if len(d.Found) > 0 {
		if err := soundNow(ctx, cfg); err != nil {
			return err
		}
	}
	in, done, err := instance.Open(ctx, cfg)
	if err != nil {
		return err
	}
	err = p.adopt(instance.ByCommandLine(tenant.All(ctx, "what lies on the disk of any team")), cfg, in, *yes)
	if err == nil && *end { // after what they belong to is back
		err = p.endStrangers(ctx, cfg, in.Db, *yes)
	}
	if err = errors.Join(err, done()); err != nil {
		return err
	}
	if !*yes {
		return p.notYet()
	}
	if err := os.Remove(instance.DoubtFile(cfg.DataDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("settling the state of the database: %w", err)
	}
	fmt.Fprintln(p.stdout, "You can start the server now.")
	return nil
}

// soundNow refuses to settle anything with a corrupt SQLite database: the files on disk cannot repair it.
func soundNow(ctx context.Context, cfg *config.Config) error {
	path, err := store.SQLiteFile(store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil || path == "" {
		return err
	}
	wrong, err := store.Sound(ctx, path)
	if err == nil && wrong != "" {
		err = fault.New(fault.Unavailable, "database_corrupt", "%s is corrupt: %s. Replace it with a backup of the database, then run this again.", path, wrong)
	}
	return err
}

func (p program) notYet() error {
	fmt.Fprintln(p.stdout, "Nothing was changed. To restore this, run the command again with --yes.")
	return errReported
}

// salvage puts the database together of the copy that was set aside and, when that is sound, in the place of the one that forgot.
func (p program) salvage(ctx context.Context, cfg *config.Config, d *instance.Doubt, yes bool) error {
	path, err := store.SQLiteFile(store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir})
	if err != nil {
		return err
	}
	fresh := filepath.Join(d.Copy, "salvaged.db")
	w, err := store.SalvageWAL(filepath.Join(d.Copy, "parawork.db"), fresh)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the copy of the damaged database is gone: %w", err)
	}
	if err != nil {
		return err
	}
	wrong, err := store.Sound(ctx, fresh)
	switch {
	case err != nil:
		return err
	case wrong != "":
		fmt.Fprintf(p.stdout, "  the intact part of the log is not a valid database (%s): it stays in %s\n", wrong, d.Copy)
		return nil
	case w.Whole():
		fmt.Fprintf(p.stdout, "  all %s after the damage are intact: the whole database is restored\n", instance.Count(w.Lost, "transaction"))
	default:
		fmt.Fprintf(p.stdout, "  the database is restored with the intact transactions after the damage; rows of the damaged page may be older\n")
	}
	if !yes {
		return nil
	}
	// The one that forgot goes beside the copy, the log first: with another database's log SQLite would read what is not its own.
	for _, end := range []string{"-wal", "-shm", ""} {
		if err := os.Rename(path+end, filepath.Join(d.Copy, "replaced.db"+end)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("moving the damaged database aside: %w", err)
		}
	}
	if err := os.Rename(fresh, path); err != nil {
		return fmt.Errorf("installing the recovered database: %w", err)
	}
	fmt.Fprintf(p.stdout, "  a copy of the previous database is in %s\n", d.Copy)
	return nil
}

// adopt brings back workspaces whose folders lie on the disk, and has no number given twice.
func (p program) adopt(ctx context.Context, cfg *config.Config, in *instance.Instance, yes bool) error {
	svc := assembly.New(assembly.Config{Store: store.NewWorkspaces(in.Db), DataDir: cfg.DataDir, AllowedRoots: cfg.Projects.AllowedRoots,
		BranchPrefix: cfg.Projects.BranchPrefix})
	teams, err := svc.Lifecycle.NumbersForgotten(ctx)
	if err != nil {
		return err
	}
	for id, num := range teams {
		name := id
		if t, err := in.Directory.TeamByID(ctx, id); err == nil {
			name = t.Slug
		}
		fmt.Fprintf(p.stdout, "  team %s: numbers up to %d are in use and will not be assigned again\n", name, num)
	}
	left, err := svc.Lifecycle.Forgotten(ctx)
	if err != nil {
		return err
	}
	for _, l := range left {
		if l.Why != "" {
			fmt.Fprintf(p.stdout, "  cannot be restored: %s (%s)\n", l.Path, l.Why)
			continue
		}
		fmt.Fprintf(p.stdout, "  workspace %s of project %s, branch %s: %s\n", l.Name, l.Project.Name, l.Branch, l.Path)
	}
	behind, err := in.Audit.Behind(ctx)
	if err != nil {
		return err
	}
	for _, chain := range behind {
		fmt.Fprintf(p.stdout, "  the newest audit entries of %s are lost; %s is kept as evidence\n", in.ChainName(ctx, chain), filepath.Base(instance.HeadsFile(cfg.DataDir)))
	}
	if !yes {
		return nil
	}
	if _, err := svc.Lifecycle.SkipNumbers(ctx); err != nil {
		return err
	}
	n := 0
	for _, l := range left {
		if l.Why != "" {
			continue
		}
		w, err := svc.Lifecycle.Adopt(ctx, accounts.Actor{}, l)
		if err != nil {
			return fmt.Errorf("restoring %s: %w", l.Path, err)
		}
		n++
		if err := in.Notify(ctx, w.TeamID, "workspace.adopted", "workspace", w.ID, w.Name, "branch", w.Branch); err != nil {
			return err
		}
	}
	if len(behind) > 0 {
		heads := instance.HeadsFile(cfg.DataDir)
		if err := os.Rename(heads, fmt.Sprintf("%s.lost-%d", heads, time.Now().Unix())); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("moving the heads of the audit aside: %w", err)
		}
	}
	if err := in.Notify(ctx, audit.Instance, "instance.leftovers_adopted", "instance", "", "", "workspaces", fmt.Sprint(n)); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "restored %s\n", instance.Count(n, "workspace"))
	return nil
}
