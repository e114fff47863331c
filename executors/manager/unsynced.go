package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// codeNotSynced is the code of the error by which the Manager refuses to end a sandbox that holds unsynced files.
const codeNotSynced = "sandbox_not_synced"

// mustBeHome copies to the server what a sandbox with a disk of its own holds, and refuses its end while something is left that would be
// lost. The caller holds the slot's turn.
func (s *slot) mustBeHome(ctx context.Context, p *place) error {
	if !p.OwnDisk || executors.Discarding(ctx) {
		return nil
	}
	if p.paused.Load() != nil {
		last, err := s.m.cfg.Store.LastSync(ctx, p.WorkspaceID)
		if err == nil && p.home.Load() && last.At != 0 && !last.Behind && last.Pending == 0 && last.Left == 0 {
			return nil // nothing changes in a suspended sandbox
		}
		if err := s.wake(ctx, p); err != nil {
			return unsyncedFault("It cannot be woken to copy its newest changes to the server.", err)
		}
	}
	if err := s.syncBeforeSuspend(context.WithoutCancel(ctx), p); err != nil {
		what := "Not all changes in it could be copied to the server."
		if f, ok := errors.AsType[*fault.Error](err); ok {
			what = f.Message
		}
		return unsyncedFault(what, err)
	}
	last, err := s.m.cfg.Store.LastSync(ctx, p.WorkspaceID)
	var left []string
	switch {
	case err != nil:
		return fmt.Errorf("reading the sync state of workspace %s: %w", p.WorkspaceID, err)
	case last.Pending == 1:
		left = append(left, "1 changed file is not on the server yet.")
	case last.Pending > 1:
		left = append(left, fmt.Sprintf("%d changed files are not on the server yet.", last.Pending))
	case last.Behind:
		left = append(left, "Its newest changes are not on the server yet.")
	}
	switch {
	case last.Left == 1:
		left = append(left, "1 file is only in the sandbox, because it is too large or of a kind that is not synced.")
	case last.Left > 1:
		left = append(left, fmt.Sprintf("%d files are only in the sandbox, because they are too large or of a kind that is not synced.", last.Left))
	}
	if len(left) == 0 {
		return nil
	}
	return unsyncedFault(strings.Join(left, " "), nil).With("pending", last.Pending).With("not_synced", last.Left)
}

// OnlyThere returns how many files only the workspace's sandbox holds, because they are too large or of a kind that is not synced.
func (m *Manager) OnlyThere(ctx context.Context, workspaceID string) (int64, error) {
	s, err := m.cfg.Store.LastSync(ctx, workspaceID)
	return s.Left, err
}

func unsyncedFault(what string, cause error) *fault.Error {
	return fault.Wrap(cause, fault.Conflict, codeNotSynced, "The sandbox was not ended: %s Ending it would lose them. Look at the files that are not synced, or end it anyway with discard.", what)
}
