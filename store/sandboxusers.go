package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/parawork/parawork/internal/fault"
)

// boxUserTries bounds how often a number is asked for again that somebody else took at the same moment.
const boxUserTries = 8

// BoxUser returns the number of a workspace's user on this machine: the next one when it has none yet. Rows are never removed, so
// that no number is given twice.
func (s *Workspaces) BoxUser(ctx context.Context, workspaceID string) (int64, error) {
	var number int64
	var err error
	for range boxUserTries {
		err = s.db.Tx(ctx, func(ctx context.Context) error {
			err := s.db.QueryRow(ctx, `/* every team: numbers are of this machine */ SELECT number FROM sandbox_users WHERE workspace_id = ?`, workspaceID).Scan(&number)
			if !errors.Is(err, ErrNotFound) {
				return err
			}
			if err := s.db.QueryRow(ctx, `/* every team: no number is given twice */ SELECT COALESCE(MAX(number), 0) + 1 FROM sandbox_users`).Scan(&number); err != nil {
				return err
			}
			_, err = s.db.Exec(ctx, `/* every team: numbers are of this machine */ INSERT INTO sandbox_users (number, workspace_id) VALUES (?, ?)`, number, workspaceID)
			return err
		})
		if !fault.Is(err, fault.Conflict) {
			break
		}
	}
	if err != nil {
		return 0, fmt.Errorf("giving workspace %s a user: %w", workspaceID, err)
	}
	return number, nil
}
