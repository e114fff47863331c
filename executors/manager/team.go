package manager

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/executors"
)

// Sandboxes returns the sandbox of each workspace of a team that ever had one, or of each that is named: the open one, else the last. It
// runs one query, however many workspaces there are.
func (m *Manager) Sandboxes(ctx context.Context, teamID string, workspaceIDs ...string) (map[string]executors.Record, error) {
	recs, err := m.cfg.Store.TeamSandboxes(ctx, teamID, workspaceIDs...)
	if err != nil {
		return nil, fmt.Errorf("reading the sandboxes of a team: %w", err)
	}
	out := make(map[string]executors.Record, len(recs))
	for _, r := range recs {
		out[r.WorkspaceID] = r
	}
	return out, nil
}
