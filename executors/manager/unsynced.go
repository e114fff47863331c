package manager

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// codeNotHome is the code of the error that a sandbox is not ended while it alone holds something.
const codeNotHome = "sandbox_not_home"

// mustBeHome brings home what a sandbox with a disk of its own holds, and refuses its end while something is left that would be lost with
// it. The caller holds the slot's turn.
func (s *slot) mustBeHome(ctx context.Context, p *place) error {
	if !p.OwnDisk || executors.Discarding(ctx) {
		return nil
	}
	if p.paused.Load() != nil {
		last, err := s.m.cfg.Store.LastSync(ctx, p.WorkspaceID)
		if err == nil && p.home.Load() && last.At != 0 && !last.Behind && last.Pending == 0 && last.Left == 0 {
			return nil // nothing changes in what stands still
		}
		if err := s.wake(ctx, p); err != nil {
			return notHome("It cannot be woken to bring its newest changes home.", err)
		}
	}
	if err := s.standStill(context.WithoutCancel(ctx), p); err != nil {
		what := "Not all that was made in it could be brought home."
		if f, ok := errors.AsType[*fault.Error](err); ok {
			what = f.Message
		}
		return notHome(what, err)
	}
	last, err := s.m.cfg.Store.LastSync(ctx, p.WorkspaceID)
	var left []string
	switch {
	case err != nil:
		return fmt.Errorf("reading how far workspace %s is home: %w", p.WorkspaceID, err)
	case last.Pending == 1:
		left = append(left, "1 changed file is not on the server yet.")
	case last.Pending > 1:
		left = append(left, fmt.Sprintf("%d changed files are not on the server yet.", last.Pending))
	case last.Behind:
		left = append(left, "Its newest changes are not on the server yet.")
	}
	switch {
	case last.Left == 1:
		left = append(left, "1 file is in the sandbox alone, for it is too large or of a kind that is not brought home.")
	case last.Left > 1:
		left = append(left, fmt.Sprintf("%d files are in the sandbox alone, for they are too large or of a kind that is not brought home.", last.Left))
	}
	if len(left) == 0 {
		return nil
	}
	return notHome(strings.Join(left, " "), nil).With("pending", last.Pending).With("not_synced", last.Left)
}

// OnlyThere says how many files the workspace's sandbox alone holds, because they are too large or of a kind that is not brought home.
func (m *Manager) OnlyThere(ctx context.Context, workspaceID string) (int64, error) {
	s, err := m.cfg.Store.LastSync(ctx, workspaceID)
	return s.Left, err
}

func notHome(what string, cause error) *fault.Error {
	return fault.Wrap(cause, fault.Conflict, codeNotHome, "The sandbox was not ended: %s With the sandbox that would be lost. Look at what is not synced, or end it all the same with discard.", what)
}
