package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner/identity"
	"github.com/parawork/parawork/executors/runner/policy"
)

// endPlace ends whatever an executor has, whether it answers or not.
func endPlace(ctx context.Context, e executors.Executor) (int, error) {
	if p, ok := e.(*place); ok {
		e = p.Executor
	}
	all, err := e.List(ctx)
	if err != nil {
		return 0, fmt.Errorf("looking for sandboxes: %w", err)
	}
	var mu sync.Mutex
	var bad []error
	var wg sync.WaitGroup
	for _, h := range all {
		wg.Go(func() {
			if err := endOne(ctx, e, h); err != nil {
				mu.Lock()
				defer mu.Unlock()
				bad = append(bad, fmt.Errorf("sandbox %s: %w", h.ID, err))
			}
		})
	}
	wg.Wait()
	return len(all) - len(bad), errors.Join(bad...)
}

func endOne(ctx context.Context, e executors.Executor, h executors.Handle) error {
	if ender, ok := e.(executors.Ender); ok {
		return ender.End(ctx, h.ID)
	}
	sb, err := e.Recover(ctx, h)
	if errors.Is(err, executors.ErrGone) {
		return nil
	}
	if err != nil {
		return err
	}
	return sb.Destroy(ctx)
}

// endAll ends what a machine's executor has, without the program.
func (p *Program) endAll(ctx context.Context, id *identity.Identity) (int, error) {
	pl, err := p.placeOf(id.Mode, policy.Default(), id.Dir, slog.New(slog.DiscardHandler))
	if err != nil {
		return 0, err
	}
	defer pl.close()
	return endPlace(ctx, pl)
}
