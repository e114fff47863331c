package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/e2b"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
)

// Bounds of a look at the sandboxes of one place.
const (
	strangersTime = 15 * time.Second
	strangersEnd  = 2 * time.Minute
)

// sandboxKnown says whether the database has a sandbox, open or ended.
func sandboxKnown(db *store.DB) func(context.Context, string) (bool, error) {
	kept := store.NewExecutors(db)
	return func(ctx context.Context, id string) (bool, error) {
		_, err := kept.Sandbox(ctx, id)
		if fault.Is(err, fault.NotFound) {
			return false, nil
		}
		return err == nil, err
	}
}

// strangersOf lists the sandboxes at the places of this server that the database does not know. A place that does not answer has none: what
// is wrong with it is said where places are.
func strangersOf(ctx context.Context, places []executors.Executor, db *store.DB) (map[executors.Executor][]executors.Handle, error) {
	out := make(map[executors.Executor][]executors.Handle)
	for _, e := range places {
		soon, cancel := context.WithTimeout(ctx, strangersTime)
		if _, err := e.List(soon); err != nil {
			cancel()
			continue
		}
		found, err := manager.Strangers(soon, e, sandboxKnown(db))
		cancel()
		if err != nil {
			return nil, fmt.Errorf("comparing the sandboxes in %s with the database: %w", e.Kind(), err)
		}
		if len(found) > 0 {
			out[e] = found
		}
	}
	return out, nil
}

// strangers says what runs without a row, and which folders two teams share.
func (r *report) strangers(ctx context.Context, cfg *config.Config, st store.State, places []executors.Executor) {
	if st.Missing || st.Empty || st.Problem != nil || st.Known == 0 || st.Applied != st.Known {
		return
	}
	ctx = tenant.All(ctx, "the doctor looks at sandboxes and folders of every team")
	err := store.Peek(ctx, store.Config{URL: cfg.Database.URL, DataDir: cfg.DataDir, AllTeams: true}, func(db *store.DB) error {
		found, err := strangersOf(ctx, places, db)
		if err != nil {
			return err
		}
		for e, list := range found {
			var ids []string
			for _, h := range list {
				ids = append(ids, h.ID)
			}
			r.say(minor, "sandboxes", fmt.Sprintf("%s in %s that the database does not know, and that the server leaves alone: %s", count(len(ids), "sandbox"), e.Kind(), strings.Join(ids, ", ")),
				"Put the newer database back; or look into them, then stop the server and run: parawork admin adopt-leftovers --end-sandboxes")
		}
		all, err := store.NewWorkspaces(db).FolderProjects(ctx)
		if err != nil {
			return err
		}
		for _, pair := range workspaces.SharedFolders(all) {
			r.say(minor, "folders", fmt.Sprintf("two teams have projects in %s (%s, %s): each may read the other's work there", pair[0].Source, pair[0].ID, pair[1].ID),
				"Delete one of the two projects, and add it again by its URL or as a copy made with git clone --no-hardlinks.")
		}
		return nil
	})
	if err != nil {
		r.say(minor, "sandboxes", "what runs could not be compared with the database: "+err.Error(), "")
	}
}

// endStrangers lists the sandboxes the database does not know and, with yes, ends them with all that is only there.
func (p program) endStrangers(ctx context.Context, cfg *config.Config, db *store.DB, yes bool) error {
	ctx = tenant.All(ctx, "sandboxes the database does not know")
	guest, err := guestPath(cfg.DataDir, p.env)
	if err != nil {
		return err
	}
	groups, err := openGroups(cfg.DataDir)
	if err != nil {
		groups = nil // places work without
	}
	one := func(context.Context) (int, error) { return 1, nil }
	made, err := placesOf(cfg, guest, groups, one, func(context.Context) e2b.Settings { return e2bFromFile(cfg) }, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if made.docker != nil {
		defer made.docker.Close()
	}
	defer made.e2b.Close()
	return endUnknown(ctx, p.stdout, made.all, db, yes)
}

func endUnknown(ctx context.Context, out io.Writer, places []executors.Executor, db *store.DB, yes bool) error {
	found, err := strangersOf(ctx, places, db)
	if err != nil {
		return err
	}
	var failed []error
	for e, list := range found {
		for _, h := range list {
			if !yes {
				fmt.Fprintf(out, "  sandbox %s in %s is not known: it would be ended\n", h.ID, e.Kind())
				continue
			}
			if err := manager.End(ctx, e, h, strangersEnd); err != nil {
				failed = append(failed, fmt.Errorf("ending sandbox %s in %s: %w", h.ID, e.Kind(), err))
				continue
			}
			fmt.Fprintf(out, "  sandbox %s in %s is ended\n", h.ID, e.Kind())
		}
	}
	return errors.Join(failed...)
}
