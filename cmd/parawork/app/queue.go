package app

import (
	"context"

	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/overlap"
)

// buildQueue joins checks, the merge queue and the overlaps of workspaces.
func (h *App) buildQueue(bus *events.Bus, publisher events.Publisher) {
	h.checks = checks.New(checks.Config{Store: store.NewChecks(h.db), Workspaces: h.workspaces, Commands: h.commands, Accounts: h.directory, Events: publisher,
		Approved: func(ctx context.Context, workspaceID, tree string) (bool, error) {
			ok, _, err := h.reviews.Approved(ctx, workspaceID, tree)
			return ok, err
		}, Log: h.log.With("room", "checks")})
	h.overlap = overlap.New(overlap.Config{Store: store.NewOverlaps(h.db), Workspaces: overlap.NewTrees(h.workspaces, store.NewWorkspaces(h.db)), Bus: bus, Events: publisher, Log: h.log.With("room", "overlap")})
	h.workspaces.GateBy(h.checks)
	h.workspaces.OnSnapshot(func(workspaceID string, sn workspaces.Snap) {
		if sn.Kind == workspaces.SnapTurn {
			h.checks.AfterTurn(workspaceID)
		}
	})
}
