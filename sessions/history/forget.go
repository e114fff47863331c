package history

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/damage"
)

// Forget permanently removes the history of a workspace's sessions: their output, and their agents' records. The sessions stay
// listed. It fails for running sessions.
func (s *Recordings) Forget(ctx context.Context, workspaceID string) error {
	all, err := s.cfg.Sessions.Rows(ctx, workspaceID)
	if err != nil {
		return fmt.Errorf("listing the sessions: %w", err)
	}
	var errs []error
	for _, row := range all {
		if s.cfg.Sessions.InMemory(row.ID) != nil {
			errs = append(errs, fault.New(fault.Conflict, "session_running", "A session of this workspace is still running."))
			continue
		}
		for _, dir := range append(damage.Aside(s.dir(row.ID)), s.dir(row.ID)) {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// HistoryBytes is the disk usage of the history of a workspace's sessions.
func (s *Recordings) HistoryBytes(ctx context.Context, workspaceID string) (n int64, err error) {
	all, err := s.cfg.Sessions.Rows(ctx, workspaceID)
	if err != nil {
		return 0, fmt.Errorf("listing the sessions: %w", err)
	}
	for _, row := range all {
		files, err := s.historyFiles(row.ID)
		if err != nil {
			return n, err
		}
		for _, f := range files {
			n += f.size
		}
	}
	return n, nil
}
