package e2b

import (
	"context"
	"errors"
	"io/fs"
	"net/http"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/sandboxdir"
)

var _ executors.RunRecorder = (*Executor)(nil)

// Ran returns the sandbox's latest run as E2B records it, which is what E2B charges for. E2B resets startedAt with each run, and the endAt
// of a paused one is when it was paused; that of a running one is only when its lease would end.
func (e *Executor) Ran(ctx context.Context, h executors.Handle) (executors.Ran, error) {
	if err := sandboxdir.CheckID(h.ID); err != nil {
		return executors.Ran{}, err
	}
	rec, err := e.about(h)
	if errors.Is(err, fs.ErrNotExist) {
		return executors.Ran{}, executors.ErrGone
	}
	if err != nil {
		return executors.Ran{}, err
	}
	a, err := e.account(ctx)
	if err != nil {
		return executors.Ran{}, err
	}
	d, err := a.plane.get(ctx, rec.Sandbox)
	if isStatus(err, http.StatusNotFound) {
		return executors.Ran{}, executors.ErrGone
	}
	if err != nil {
		return executors.Ran{}, inWords(err, a.set, 0, 0)
	}
	var out executors.Ran
	if !d.Started.IsZero() {
		out.BeganAt = a.plane.clock.Ours(d.Started.UnixMilli())
	}
	if d.State == statePaused && !d.Ends.IsZero() {
		out.EndedAt = a.plane.clock.Ours(d.Ends.UnixMilli())
	}
	return out, nil
}
