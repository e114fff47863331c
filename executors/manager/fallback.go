package manager

import (
	"context"
	"errors"
	"slices"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// CannotServe is the code of the error that says why an executor makes no sandbox now. Its details hold the reason, for programs, and the
// alternatives.
const CannotServe = "place_cannot_serve"

// refusals are the codes of errors by which the Ledger refuses a sandbox for reasons that do not apply to executors without a price.
var refusals = map[string]bool{"budget_exceeded": true, "quota_exceeded": true, "concurrency_limit": true, "creation_rate_limit": true, "size_not_in_plan": true,
	"kill_switch": true, "payment_past_due": true}

// UseFallback sets fn, which the Manager calls when a workspace's executor cannot serve: fn moves the workspace to another executor if its
// people agreed to that beforehand, and says whether it did. Call it before Recover.
func (m *Manager) UseFallback(fn func(ctx context.Context, workspaceID string, cause error) (bool, error)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fallBack = fn
}

// leadsHere reports whether a refusal offers an executor of this server as an alternative: where the ledger counts that one like any other,
// it is refused too.
func leadsHere(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return true
	}
	ways, ok := f.Details["ways"].([]string)
	return !ok || slices.Contains(ways, executors.FreePlace)
}

// leaveMachine moves a workspace away from a machine that cannot be reached, where its owner agreed to that, and abandons its sandbox there:
// the server fetches what only that holds once the machine is back.
func (s *slot) leaveMachine(ctx context.Context, away error) bool {
	s.m.mu.Lock()
	fallBack := s.m.fallBack
	s.m.mu.Unlock()
	if fallBack == nil || fault.CodeOf(away) != codeMachineAway {
		return false
	}
	moved, err := fallBack(ctx, s.workspaceID, away)
	if moved {
		err = s.m.Leave(ctx, s.workspaceID)
	}
	if err != nil {
		s.m.cfg.Log.WarnContext(ctx, "a workspace could not leave a machine that is away", "workspace_id", s.workspaceID, "error", err)
	}
	return moved && err == nil
}

// codeMachineAway is the code of the error that a member's machine cannot be reached now.
const codeMachineAway = "runner_offline"

// makeOrFallBack is make, and a second attempt if the workspace was moved to another executor meanwhile.
func (s *slot) makeOrFallBack(ctx context.Context) (*place, error) {
	p, err := s.make(ctx)
	s.m.mu.Lock()
	fallBack := s.m.fallBack
	s.m.mu.Unlock()
	if code := fault.CodeOf(err); err == nil || fallBack == nil || code != CannotServe && code != "executor_unavailable" && !(refusals[code] && leadsHere(err)) {
		return p, err
	}
	_, from, serr := s.m.cfg.Workspaces.Spec(ctx, s.workspaceID)
	if serr != nil {
		s.m.cfg.Log.WarnContext(ctx, "a workspace's fallback executor could not be read", "workspace_id", s.workspaceID, "error", serr)
	}
	moved, ferr := fallBack(ctx, s.workspaceID, err)
	if ferr != nil {
		s.m.cfg.Log.WarnContext(ctx, "a workspace could not be moved to another executor", "workspace_id", s.workspaceID, "error", ferr)
	}
	if !moved {
		if spec, kind, serr := s.m.cfg.Workspaces.Spec(ctx, s.workspaceID); serr == nil {
			err = s.m.cfg.Choice.OfferNext(ctx, spec.TeamID, kind, err)
		}
		return nil, err
	}
	s.m.cfg.Counters.FellBack(from)
	return s.make(ctx)
}
