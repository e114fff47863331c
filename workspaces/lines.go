package workspaces

import (
	"context"
)

// ProjectLine is a project in a line of a list.
type ProjectLine struct {
	Name   string
	Active int // workspaces neither archived nor deleted; 0 unless whoever made the line has counted them
	Checks []Check
}

// ProjectLines returns a line for every project of a team by its id, deleted ones included: workspaces in the trash still name
// them. It does not count their workspaces. One query, however many there are.
func (s *Records) ProjectLines(ctx context.Context, teamID string) (map[string]ProjectLine, error) {
	return s.store.ProjectLines(ctx, teamID)
}

// CountActive returns how many workspaces that are neither archived nor deleted each project of a team has, by its id.
func (s *Records) CountActive(ctx context.Context, teamID string) (map[string]int, error) {
	return s.store.CountActive(ctx, teamID)
}
