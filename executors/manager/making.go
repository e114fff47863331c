package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// arriveTimeout bounds copying a workspace to a sandbox with a disk of its own: a large repository over a slow line takes time, and people
// see the progress and can cancel.
const arriveTimeout = 30 * time.Minute

// createWaits are the delays between attempts to make a sandbox.
var createWaits = [...]time.Duration{time.Second, 2 * time.Second}

// notifyEvery is the shortest time between two progress reports of a step.
const notifyEvery = 250 * time.Millisecond

var errMakingCancelled = fault.New(fault.Conflict, "sandbox_cancelled", "The making of the sandbox was cancelled. Start a session to make a new one.")

// making is a sandbox that is being made: its row, and its steps as people see them. Safe for concurrent use.
type making struct {
	m *Manager

	mu         sync.Mutex
	rec        executors.Record // Steps are replaced, never changed in place
	reportedAt int64            // ms UTC of the last event
	over       bool             // the row belongs to somebody else from here on
}

// stepTitles are the titles, as people see them, of the steps that every making has.
var stepTitles = map[string]string{
	executors.StepCreate:   "Make the sandbox",
	executors.StepGuest:    "Start Parawork's helper in it",
	executors.StepSend:     "Send the repository",
	executors.StepCheckout: "Check out the worktree",
	executors.StepSetup:    "Run the set-up script",
}

// newMaking plans the steps of a making.
func (m *Manager) newMaking(rec executors.Record, caps executors.Capabilities) *making {
	names := []string{executors.StepCreate, executors.StepGuest}
	if caps.OwnDisk {
		names = append(names, executors.StepSend, executors.StepCheckout)
	}
	for _, n := range names {
		rec.Steps = append(rec.Steps, executors.Step{Name: n, Title: stepTitles[n], State: executors.StepPending})
	}
	k := &making{m: m, rec: rec}
	k.rec.Steps[0].State, k.rec.Steps[0].StartedAt = executors.StepRunning, rec.StartedAt
	return k
}

// record returns the current row.
func (k *making) record() executors.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec
}

// change calls fn to change the row.
func (k *making) change(fn func(r *executors.Record)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	fn(&k.rec)
}

// step reports the progress of the making: see Arrival.Say. detail "" leaves the step's detail unchanged.
func (k *making) step(ctx context.Context, name, title, detail string, done, all int64) {
	k.mu.Lock()
	if k.over {
		k.mu.Unlock()
		return
	}
	now := k.m.now()
	steps := slices.Clone(k.rec.Steps)
	at := slices.IndexFunc(steps, func(s executors.Step) bool { return s.Name == name })
	news := at < 0 || steps[at].State != executors.StepRunning
	if news {
		for i := range steps {
			if steps[i].State == executors.StepRunning {
				steps[i].State, steps[i].EndedAt = executors.StepDone, now
			}
		}
	}
	if at < 0 { // before the steps still to come
		at = slices.IndexFunc(steps, func(s executors.Step) bool { return s.State == executors.StepPending })
		if at < 0 {
			at = len(steps)
		}
		steps = slices.Insert(steps, at, executors.Step{Name: name, Title: stepTitles[name]})
	}
	s := &steps[at]
	if news {
		s.State, s.EndedAt = executors.StepRunning, 0
		s.StartedAt = cmp.Or(s.StartedAt, now)
	}
	if title != "" {
		s.Title = executors.CleanReason(title)
	}
	if detail != "" {
		s.Detail = executors.CleanReason(detail)
	}
	s.Done, s.All = max(done, 0), max(all, 0)
	k.rec.Steps = steps
	rec := k.rec
	notify := news || detail != "" || now-k.reportedAt >= notifyEvery.Milliseconds()
	if notify {
		k.reportedAt = now
	}
	if news { // under the lock, so that an older state is never published after a newer one
		if err := k.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil && ctx.Err() == nil {
			k.m.cfg.Log.Warn("a step of making a sandbox could not be stored", "sandbox_id", rec.Handle.ID, "error", err)
		}
	}
	k.mu.Unlock()
	if notify {
		k.m.publish(ctx, rec)
	}
}

// end closes the steps and returns the row, which belongs to the caller from here on.
func (k *making) end(err error) executors.Record {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.over = true
	k.rec.Steps = endSteps(k.rec.Steps, err, k.m.now())
	return k.rec
}

// endSteps closes steps: the running one is done, failed or cancelled. When all went well, it drops steps that never began.
func endSteps(steps []executors.Step, err error, now int64) []executors.Step {
	steps = slices.Clone(steps)
	if err == nil {
		steps = slices.DeleteFunc(steps, func(s executors.Step) bool { return s.State == executors.StepPending })
	}
	for i := range steps {
		s := &steps[i]
		switch {
		case s.State == executors.StepRunning && err == nil:
			s.State = executors.StepDone
		case s.State == executors.StepRunning && errors.Is(err, errMakingCancelled), s.State == executors.StepPending:
			s.State = executors.StepCancelled
		case s.State == executors.StepRunning:
			s.State, s.Detail = executors.StepFailed, executors.CleanReason(executors.ReasonOf(err))
		default:
			continue
		}
		if s.StartedAt != 0 {
			s.EndedAt = now
		}
	}
	return steps
}

// create makes the sandbox of k, whose row is already stored, and puts it into the slot.
func (s *slot) create(ctx context.Context, e executors.Executor, caps executors.Capabilities, spec executors.Spec, k *making) (*place, error) {
	failpoint.Reach(failpoint.SandboxStored)
	began := s.m.now()
	p, err := k.raise(ctx, e, caps, spec)
	if err != nil {
		return nil, err
	}
	p.record = k.end(nil)
	p.record.State, p.record.HealthAt = executors.Running, s.m.now()
	if err := s.m.cfg.Store.UpdateSandbox(ctx, p.record); err != nil {
		err = fmt.Errorf("storing sandbox %s as running: %w", p.SandboxID, err)
		p.Guest.Close()
		k.dismantle(ctx, p.box(), p.record, err)
		return nil, fault.Wrap(err, fault.Unavailable, "sandbox_failed", "The sandbox of this workspace was made but could not be stored. Try again.")
	}
	s.m.cfg.Choice.NoteMaking(e.Kind(), s.m.now()-began)
	s.m.cfg.Counters.Created(e.Kind(), p.record.Purpose, s.m.now()-began)
	s.settle(ctx, p)
	s.keep(ctx, p)
	return p, nil
}

// raise makes a sandbox, greets its guest and copies the workspace there. On error it leaves nothing behind and closes the row.
func (k *making) raise(ctx context.Context, e executors.Executor, caps executors.Capabilities, spec executors.Spec) (*place, error) {
	mctx, cancel := context.WithTimeout(ctx, max(makeTimeout, time.Duration(caps.MakeMs)*time.Millisecond))
	defer cancel()
	sb, err := k.construct(mctx, e, caps, spec)
	if err != nil {
		k.m.cfg.Metering.Release(ctx, spec.ID)
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			err = cause
		}
		rec := k.end(err)
		if errors.Is(err, errMakingCancelled) {
			k.m.finish(ctx, rec, executors.Gone, "Its making was cancelled.")
			return nil, err
		}
		k.m.cfg.Log.Warn("a sandbox could not be made", "sandbox_id", rec.Handle.ID, "executor", e.Kind(), "error", err)
		k.m.finish(ctx, rec, executors.Failed, "It could not be made: "+executors.ReasonOf(err))
		if fault.KindOf(err) != fault.Internal {
			return nil, err
		}
		return nil, fault.Wrap(err, fault.Unavailable, "sandbox_failed",
			"The sandbox of this workspace could not be made (%s). See the server's log, then try again.", e.Kind())
	}
	k.change(func(r *executors.Record) { r.Handle = sb.Handle() })
	if err := k.m.cfg.Metering.Began(ctx, k.m.cfg.Metering.UsageInterval(k.record()), true); err != nil {
		k.m.cfg.Metering.Release(ctx, spec.ID)
		k.dismantle(ctx, sb, k.end(err), err)
		return nil, err
	}
	failpoint.Reach(failpoint.SandboxMade)
	k.step(mctx, executors.StepGuest, "", "", 0, 0)
	p, err := k.first(mctx, sb)
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			err = cause
		}
		k.dismantle(ctx, sb, k.end(err), err)
		if errors.Is(err, errMakingCancelled) {
			return nil, err
		}
		return nil, fault.Wrap(err, fault.Unavailable, "sandbox_failed",
			"The sandbox of this workspace was made but did not answer. Try again.")
	}
	if !p.OwnDisk {
		return p, nil
	}
	actx, stop := context.WithTimeout(ctx, arriveTimeout)
	defer stop()
	err = p.arrive(actx, spec, func(step, title string, done, all int64) { k.step(actx, step, title, "", done, all) })
	if err == nil {
		return p, nil
	}
	if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
		err = cause
	}
	p.Guest.Close()
	k.dismantle(ctx, sb, k.end(err), err)
	if fault.KindOf(err) != fault.Internal {
		return nil, err
	}
	return nil, fault.Wrap(err, fault.Unavailable, "sandbox_failed", "The workspace could not be copied to its sandbox. See the server's log, then try again.")
}

// construct fills in the spec and makes the sandbox. It retries failures that may be temporary.
func (k *making) construct(ctx context.Context, e executors.Executor, caps executors.Capabilities, spec executors.Spec) (executors.Sandbox, error) {
	if err := k.m.attached().outfit(ctx, caps, &spec); err != nil {
		return nil, err
	}
	caps, err := k.m.cfg.Choice.ForWhom(ctx, spec.TeamID, k.record().UserID, caps)
	if err != nil {
		return nil, err
	}
	size, err := choice.Fit(caps, spec.Limits)
	if err != nil {
		return nil, err
	}
	spec.Size = size
	k.change(func(r *executors.Record) {
		r.CPUs, r.MemoryMB, r.PriceNano = k.m.cfg.Choice.Charged(caps, size, spec.Limits)
	})
	if err := k.m.cfg.Metering.Afford(ctx, k.m.cfg.Metering.UsageInterval(k.record())); err != nil {
		return nil, err
	}
	if sb, pooled := k.m.cfg.Pool.Take(executors.WithProgress(ctx, k.step), e, spec); sb != nil {
		if pooled {
			k.change(func(r *executors.Record) { r.Pooled = true })
		}
		if err := context.Cause(ctx); err != nil { // it was cancelled meanwhile
			k.remove(ctx, sb)
			return nil, err
		}
		return sb, nil
	}
	for try := 0; ; try++ {
		sb, err := e.Create(executors.WithProgress(ctx, k.step), spec)
		if err == nil {
			if err = context.Cause(ctx); err == nil {
				return sb, nil
			}
			k.remove(ctx, sb) // it was cancelled while it was made
			return nil, err
		}
		k.m.cfg.Choice.Recheck(e)
		if try == len(createWaits) || !passing(err) || ctx.Err() != nil {
			return nil, err
		}
		k.m.cfg.Log.Warn("a sandbox could not be made; the server tries again", "sandbox_id", spec.ID, "executor", e.Kind(), "try", try+1, "error", err)
		k.step(ctx, executors.StepCreate, "", fmt.Sprintf("Try %d of %d: the previous one failed (%s)", try+2, len(createWaits)+1, executors.ReasonOf(err)), 0, 0)
		select {
		case <-k.m.cfg.After(createWaits[try]):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// remove destroys a sandbox that nobody needs any more. The reaper removes what remains.
func (k *making) remove(ctx context.Context, sb executors.Sandbox) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), executors.SettleTimeout)
	defer cancel()
	if err := sb.Destroy(ctx); err != nil {
		k.m.cfg.Log.Error("a half-made sandbox could not be destroyed", "sandbox_id", sb.Handle().ID, "error", err)
	}
}

// passing reports whether the failure to make a sandbox may be temporary. A refusal, which says what to do, is not.
func passing(err error) bool {
	f, ok := errors.AsType[*fault.Error](err)
	if !ok {
		return true
	}
	switch f.Details["reason"] {
	case "capacity", "outage", "timeout", "rate_limited":
		return true
	}
	return f.Kind == fault.Timeout
}

// first stores a new sandbox's handle, before first use, and greets its guest.
func (k *making) first(ctx context.Context, sb executors.Sandbox) (*place, error) {
	rec := k.record()
	if err := k.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil {
		return nil, fmt.Errorf("storing the handle of sandbox %s: %w", rec.Handle.ID, err)
	}
	return k.m.connect(ctx, sb, rec)
}
