package fromconfig

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/manager"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/store"
)

// Bounds of a look at the sandboxes of one place.
const (
	strangersTime = 15 * time.Second
	StrangersEnd  = 2 * time.Minute
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

// Strangers lists the sandboxes at the places of this server that the database does not know. A place that does not answer has none: what
// is wrong with it is said where places are.
func Strangers(ctx context.Context, places []executors.Executor, db *store.DB) (map[executors.Executor][]executors.Handle, error) {
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
