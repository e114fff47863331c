package workspaces

import "context"

// ProjectLine is a project in a line of a list.
type ProjectLine struct {
	Name   string
	Active int // workspaces neither archived nor deleted
	Checks []Check
}

// ProjectLines returns a line for every project of a team by its id, deleted ones included: workspaces in the trash still name
// them. One query, however many there are.
func (s *Service) ProjectLines(ctx context.Context, teamID string) (map[string]ProjectLine, error) {
	return s.store.ProjectLines(ctx, teamID)
}
