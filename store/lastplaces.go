package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// RememberPlace keeps which place a user chose last in a project.
func (s *Executors) RememberPlace(ctx context.Context, teamID, projectID, userID string, kind executors.Kind) error {
	_, err := s.db.Exec(ctx, `INSERT INTO project_places (project_id, user_id, team_id, executor, chosen_at) VALUES (?, ?, {team?}, ?, ?)
		ON CONFLICT (project_id, user_id) DO UPDATE SET executor = excluded.executor, chosen_at = excluded.chosen_at`,
		projectID, userID, teamID, string(kind), s.db.now().UnixMilli())
	return wrap(err, "keeping which place was chosen")
}

// LastPlace returns the place a user chose last in a project, "" for none.
func (s *Executors) LastPlace(ctx context.Context, projectID, userID string) (executors.Kind, error) {
	var kind string
	err := s.db.QueryRow(ctx, `SELECT executor FROM project_places WHERE project_id = ? AND user_id = ? AND {team}`, projectID, userID).Scan(&kind)
	if errors.Is(err, ErrNotFound) || fault.Is(err, fault.NotFound) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading which place was chosen last: %w", err)
	}
	return executors.Kind(kind), nil
}
