package checks

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

const (
	// maxRecomputes is how often the queue recomputes and rechecks a result because the base moved meanwhile.
	maxRecomputes = 5
	// retryDelay is how long a worker waits after a storage error.
	retryDelay = 5 * time.Second
)

// wake starts a worker on the project's queue unless one runs.
func (s *Service) wake(projectID string) {
	s.mu.Lock()
	if q := s.queues[projectID]; q != nil {
		q.again = true
		s.mu.Unlock()
		return
	}
	q := &queue{}
	s.queues[projectID] = q
	s.mu.Unlock()
	s.start(func() {
		for {
			s.work(projectID)
			s.mu.Lock()
			if !q.again || s.life.Err() != nil {
				delete(s.queues, projectID)
				s.mu.Unlock()
				return
			}
			q.again = false
			s.mu.Unlock()
		}
	})
}

// work processes the project's entries, one after the other, until none is left.
func (s *Service) work(projectID string) {
	for s.life.Err() == nil {
		open, err := s.cfg.Store.OpenEntries(s.life, projectID)
		if err == nil && len(open) == 0 {
			return
		}
		if err == nil {
			err = s.entry(open[0])
		}
		if err != nil && s.life.Err() == nil {
			s.cfg.Log.Warn("the merge queue could not go on", "project_id", projectID, "error", err)
			select {
			case <-s.cfg.After(retryDelay):
			case <-s.life.Done():
			}
		}
	}
}

// entry processes one entry to its end. Its error is the storage's.
func (s *Service) entry(e Entry) error {
	ctx, done := s.cancellable(s.life, e.ID)
	defer done()
	res, err := s.merge(ctx, e)
	if s.life.Err() != nil {
		return nil // the next server continues
	}
	keep := context.WithoutCancel(s.life)
	if errors.Is(context.Cause(ctx), errDequeued) { // the entry says so already
		return nil
	}
	e, serr := s.editEntry(keep, e.ID, func(e *Entry) error {
		if e.EndedAt != 0 {
			return nil
		}
		e.EndedAt = s.now()
		if err == nil {
			e.State, e.Reason, e.Commit = EntryMerged, "", res.Commit
		} else {
			e.State, e.Reason = EntryFailed, words(err)
		}
		return nil
	})
	if serr != nil {
		return serr
	}
	if err == nil {
		return nil
	}
	if f, ok := errors.AsType[*fault.Error](err); !ok || f.Kind == fault.Internal {
		s.cfg.Log.Error("an entry of the merge queue failed", "entry_id", e.ID, "error", err)
	}
	if w, werr := s.cfg.Records.Workspace(keep, e.WorkspaceID); werr == nil {
		s.note(keep, w, "", "queue.failed", "The merge queue did not merge it: "+e.Reason, e)
	}
	return nil
}

// merge computes the result, checks it and lands it; it starts over when the base moved meanwhile.
func (s *Service) merge(ctx context.Context, e Entry) (workspaces.MergeResult, error) {
	var none workspaces.MergeResult
	actor, err := s.cfg.Accounts.Actor(ctx, e.AddedBy)
	if err != nil {
		return none, fault.Wrap(err, fault.Forbidden, "queue_actor_gone", "The person who added it to the queue is no longer a member. Somebody else can add it again.")
	}
	ctx = executors.By(ctx, actor.User.ID)
	if e.State == EntryMerging { // the server was stopped while it landed
		res, err := s.cfg.Merges.LandMerged(ctx, actor, e.WorkspaceID, e.Commit, e.BaseCommit)
		if err == nil || !again(err) {
			return res, err
		}
	}
	for range maxRecomputes {
		w, p, err := s.of(ctx, e.WorkspaceID)
		if err != nil {
			return none, err
		}
		if err := mayMerge(actor, w); err != nil {
			return none, fault.Wrap(err, fault.Forbidden, "queue_actor_gone", "The person who added it to the queue is no longer allowed to merge it. Somebody else can add it again.")
		}
		if err := s.unmoved(ctx, p, w, e); err != nil {
			return none, err
		}
		commit, base, conflicts, err := s.cfg.Merges.MergedTree(ctx, actor, w.ID, e.Strategy, e.Message)
		switch {
		case err != nil:
			return none, err
		case len(conflicts) > 0:
			return none, conflicting(w, conflicts)
		}
		if err := s.unmoved(ctx, p, w, e); err != nil { // merge exactly what was requested
			return none, err
		}
		if e, err = s.step(ctx, e, func(e *Entry) { e.State, e.Commit, e.BaseCommit, e.Reason = EntryChecking, commit, base, "" }); err != nil {
			return none, err
		}
		if err := s.checkMerged(ctx, p, w, e); err != nil {
			return none, err
		}
		failpoint.Reach(failpoint.QueueChecked)
		if e, err = s.step(ctx, e, func(e *Entry) { e.State, e.Reason = EntryMerging, "" }); err != nil {
			return none, err
		}
		failpoint.Reach(failpoint.QueueLanding)
		res, err := s.cfg.Merges.LandMerged(ctx, actor, w.ID, commit, base)
		if err == nil {
			failpoint.Reach(failpoint.QueueLanded)
			return res, nil
		}
		if !again(err) {
			return none, err
		}
		if e, err = s.step(ctx, e, func(e *Entry) {
			e.State, e.Reason = EntryWaiting, e.Base+" moved meanwhile: the result is computed and checked anew."
		}); err != nil {
			return none, err
		}
	}
	return none, fault.New(fault.Conflict, "base_moved", "%s moved %d times while the result was checked. Nothing was merged: add it again when it is calmer.", e.Base, maxRecomputes)
}

// again reports whether a landing failed because the base is no longer the one the result was computed on.
func again(err error) bool {
	code := fault.CodeOf(err)
	return code == "base_moved" || code == "merged_unknown"
}

// step stores the progress of an entry; it returns errDequeued when somebody has removed it.
func (s *Service) step(ctx context.Context, e Entry, fn func(*Entry)) (Entry, error) {
	if err := context.Cause(ctx); err != nil {
		return e, err
	}
	return s.editEntry(ctx, e.ID, func(e *Entry) error {
		if e.EndedAt != 0 {
			return errDequeued
		}
		fn(e)
		return nil
	})
}

// unmoved rejects a branch that has moved since it was enqueued.
func (s *Service) unmoved(ctx context.Context, p workspaces.Project, w workspaces.Workspace, e Entry) error {
	head, tree, err := s.cfg.Sandboxes.BranchNow(ctx, w.ID)
	if err != nil {
		return err
	}
	if head != e.Head {
		return fault.New(fault.Conflict, "head_moved", "%s got other commits after it was added to the queue. Look at them, then add it again.", w.Branch)
	}
	return s.approved(ctx, p, w, tree)
}

func conflicting(w workspaces.Workspace, list []workspaces.Conflict) error {
	names := make([]string, 0, 5)
	for _, c := range list[:min(len(list), 5)] {
		names = append(names, guest.EncodePath(c.Path))
	}
	more := ""
	if n := len(list) - len(names); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fault.New(fault.Conflict, "merge_conflicts", "It conflicts with %s in %s%s. Update the workspace from %s, then add it again.", w.Base, strings.Join(names, ", "), more, w.Base)
}

// checkMerged runs the project's setup script and checks on the merged result, in a separate folder. The error is about the first required
// one that does not pass.
func (s *Service) checkMerged(ctx context.Context, p workspaces.Project, w workspaces.Workspace, e Entry) error {
	if len(p.Checks) == 0 {
		return nil
	}
	unlock, err := s.turns.LockContext(ctx, w.ID) // wait until the workspace's own checks release its sandbox
	if err != nil {
		return err
	}
	defer unlock()
	runs := queueRuns(p, w, e, s.now())
	if err := s.cfg.Store.InsertCheckRuns(ctx, runs); err != nil {
		return err
	}
	s.publish(ctx, "checks.updated", w.ID, w.ID, w.TeamID)
	err = s.runMerged(ctx, w, e, runs)
	for _, r := range runs { // those that never ran
		_, eerr := s.edit(context.WithoutCancel(s.life), r.ID, func(r *Run) error {
			if !r.State.Ended() && s.life.Err() == nil {
				r.State, r.EndedAt, r.Reason = RunCancelled, s.now(), "It did not run."
			}
			return nil
		})
		if eerr != nil {
			s.cfg.Log.Warn("a run of a check could not be closed", "run_id", r.ID, "error", eerr)
		}
	}
	return err
}

// queueRuns returns the runs an entry needs: the setup script, the required checks, the others.
func queueRuns(p workspaces.Project, w workspaces.Workspace, e Entry, now int64) []Run {
	batch := id.New("bat")
	one := func(c workspaces.Check) Run {
		return Run{ID: id.New("cru"), TeamID: w.TeamID, WorkspaceID: w.ID, ProjectID: p.ID, BatchID: batch, QueueID: e.ID, CheckID: c.ID, Name: c.Name, Command: c.Command,
			Required: c.Required, Commit: e.Commit, State: RunWaiting, StartedBy: e.AddedBy}
	}
	var runs []Run
	if strings.TrimSpace(p.SetupScript) != "" {
		runs = append(runs, one(workspaces.Check{ID: setupID, Name: "Setup script", Command: p.SetupScript, Required: true}))
	}
	for _, required := range [...]bool{true, false} {
		for _, c := range p.Checks {
			if c.Required == required {
				runs = append(runs, one(c))
			}
		}
	}
	for i := range runs {
		runs[i].CreatedAt = now + int64(i) // preserves their order
	}
	return runs
}

func (s *Service) runMerged(ctx context.Context, w workspaces.Workspace, e Entry, runs []Run) error {
	dir, err := s.cfg.Sandboxes.CheckOut(ctx, w.ID, e.Commit, e.Base)
	if err != nil {
		return err
	}
	defer func() {
		dctx, cancel := context.WithTimeout(context.WithoutCancel(s.life), time.Minute)
		defer cancel()
		if s.life.Err() != nil { // the next server starts with it
			return
		}
		if err := s.cfg.Sandboxes.DropCheckOut(dctx, w.ID); err != nil {
			s.cfg.Log.Info("the folder of a merged result could not be removed", "workspace_id", w.ID, "error", err)
		}
	}()
	for _, r := range runs {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		rctx, done := s.cancellable(ctx, r.ID)
		r, err := s.edit(ctx, r.ID, func(r *Run) error {
			if r.State == RunWaiting {
				r.State, r.StartedAt = RunRunning, s.now()
			}
			return nil
		})
		if err == nil && !r.State.Ended() {
			var cmd command.Command
			if cmd, err = s.run(rctx, r, dir); err == nil {
				err = s.conclude(r.ID, cmd, "")
			} else if s.life.Err() == nil {
				s.fail(r.ID, err)
				err = nil
			}
		}
		done()
		if err == nil {
			r, err = s.cfg.Store.CheckRun(context.WithoutCancel(ctx), r.ID)
		}
		if err != nil {
			return err
		}
		if r.Required && r.State != RunPassed && context.Cause(ctx) == nil {
			return mergedFailed(r)
		}
	}
	return context.Cause(ctx)
}

func mergedFailed(r Run) error {
	how := map[RunState]string{RunFailed: "failed", RunTimedOut: "took too long", RunCancelled: "was cancelled", RunLost: "was lost"}[r.State]
	if r.CheckID == setupID {
		return fault.New(fault.Conflict, "merged_check_failed", "The setup script %s on the merged result. Its output says why.", how)
	}
	return fault.New(fault.Conflict, "merged_check_failed", "The check %q %s on the merged result. Its output says why.", r.Name, how)
}
