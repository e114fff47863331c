package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/policy"
)

// endPlace ends everything an executor has, whether or not it answers.
func endPlace(ctx context.Context, e ending) (int, error) {
	all, err := e.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking for sandboxes: %w", err)
	}
	var mu sync.Mutex
	var bad []error
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			if err := e.End(ctx, h.ID); err != nil {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, fmt.Errorf("sandbox %s: %w", h.ID, err))
			}
		})
	}
	wg.Wait()
	return len(all) - len(bad), errors.Join(bad...)
}

// endAll ends everything a machine's executor has, without the running program.
func (p *Program) endAll(ctx context.Context, id *identity.Identity) (int, error) {
	pl, err := p.placeOf(id.Mode, policy.Default(), id.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer pl.close()
	return endPlace(ctx, pl.Executor)
}
