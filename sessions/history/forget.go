package history

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/damage"
)

// Forget removes the history of a workspace's sessions for good: what they printed, and what their agents wrote down. That they ran stays
// known. Sessions that run are refused.
func (s *Recordings) Forget(ctx context.Context, workspaceID string) error {
	all, err := s.cfg.Sessions.Rows(ctx, workspaceID)
	if err != nil {
		return fmt.Errorf("listing the sessions: %w", err)
	}
	var errs []error
	for _, row := range all {
		if s.cfg.Sessions.InMemory(row.ID) != nil {
			errs = append(errs, fault.New(fault.Conflict, "session_running", "A session of this workspace still runs."))
			continue
		}
		for _, dir := range append(damage.Aside(s.dir(row.ID)), s.dir(row.ID)) {
			errs = append(errs, os.RemoveAll(dir))
		}
	}
	return errors.Join(errs...)
}

// HistoryBytes is what the history of a workspace's sessions takes on disk.
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
