package app

import (
	"context"
	"errors"

	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/manager"
)

// heldPlaces are the sandboxes as limits see them.
type heldPlaces struct{ *manager.Manager }

// Hold has a sandbox stand still for a reason.
func (p heldPlaces) Hold(ctx context.Context, workspaceID, sandboxID, reason string) (bool, error) {
	paused, err := p.Manager.Hold(ctx, workspaceID, sandboxID, reason)
	if errors.Is(err, executors.ErrGone) {
		return false, quota.ErrElsewhere
	}
	return paused, err
}

// Paused says why a workspace's sandbox stands still, false when it does not.
func (p heldPlaces) Paused(workspaceID string) (string, bool) { return p.Held(workspaceID) }

// Wake has it go on.
func (p heldPlaces) Wake(ctx context.Context, workspaceID string) error {
	return p.Unhold(ctx, workspaceID)
}
