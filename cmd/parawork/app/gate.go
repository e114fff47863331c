package app

import (
	"context"
	"errors"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/tenant"
)

// reachable is what a workspace may reach now.
func (l *later) reachable(ctx context.Context, workspaceID string) (executors.Network, error) {
	if workspaceID == "" { // a build's: it keeps what it began with
		return executors.Network{}, errors.New("not the gate of a workspace")
	}
	return l.network.Load().Network(tenant.All(ctx, "gates of every team's sandboxes"), workspaceID)
}
