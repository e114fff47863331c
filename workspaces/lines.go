package workspaces

import (
	"context"
)

// ProjectLine is a project as one line of a list.
type ProjectLine struct {
	Name   string
	Active int // workspaces neither archived nor deleted; 0 unless the caller has counted them
	Checks []Check
}

// ProjectLines returns a line for every project of a team by its id, deleted ones included: workspaces in the trash still refer to them. It
// does not count their workspaces. It is one query regardless of their number.
func (s *Records) ProjectLines(ctx context.Context, teamID string) (map[string]ProjectLine, error) {
	return s.store.ProjectLines(ctx, teamID)
}

// CountActive returns how many workspaces that are neither archived nor deleted each project of a team has, by its id.
func (s *Records) CountActive(ctx context.Context, teamID string) (map[string]int, error) {
	return s.store.CountActive(ctx, teamID)
}
