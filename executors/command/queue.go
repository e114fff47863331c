package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// begin starts the command's process and stores that it runs. A command whose executor is unreachable waits. When a start got no answer,
// begin repeats it under the same id, which the guest starts once: so the command runs once, or not at all.
func (c *Commands) begin(ctx context.Context, r *running, spec guest.ProcessSpec) (*executors.Place, error) {
	sctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() { // ends with sctx
		select {
		case <-r.cancelled:
			cancel(errCancelled)
		case <-sctx.Done():
		}
	}()
	var sent *executors.Place // where its start was requested, and it may run
	for attempt := 0; ; attempt++ {
		place, proc, err := c.try(sctx, r, spec, &sent)
		if err == nil {
			return place, c.began(ctx, r, place, proc)
		}
		if sctx.Err() == nil && c.waits(sctx, r, err, sent != nil || place != nil) {
			if c.now()-r.snapshot().CreatedAt > c.cfg.Queue.Milliseconds() {
				err = errQueue
			} else if perr := c.pause(sctx, nil, attempt); perr == nil {
				continue
			} else {
				err = perr
			}
		}
		if sent != nil && c.life.Err() == nil {
			// When the pipe was cut, nobody knows for sure whether it was started: end it in any case.
			if c.away(ctx, sent.Kind) {
				c.endLater(r.id, sent)
			} else {
				c.discard(sent, r.id)
			}
		}
		return nil, err
	}
}

// try asks for the command's sandbox, and starts its process there. sent is set as soon as the process may run. It returns the sandbox, once
// it had one, also with an error.
func (c *Commands) try(ctx context.Context, r *running, spec guest.ProcessSpec, sent **executors.Place) (*executors.Place, guest.Process, error) {
	asked := r.snapshot()
	as := executors.As(ctx, executors.ForExecution, asked.ActorID)
	if err := c.cfg.Places.Permit(as, asked.WorkspaceID); err != nil {
		return nil, guest.Process{}, err
	}
	place, err := c.cfg.Places.Ensure(as, asked.WorkspaceID)
	if err != nil {
		return nil, guest.Process{}, err
	}
	if *sent != nil && *sent != place && (*sent).SandboxID != place.SandboxID {
		return nil, guest.Process{}, fmt.Errorf("%w: it may have begun in the previous sandbox", errLost)
	}
	ready := c.now()
	if spec.Cwd, err = place.Folder(ctx, spec.Cwd); err != nil {
		return place, guest.Process{}, err
	}
	if *sent == nil {
		// Stored before the start is requested: whoever finds an open record knows where its process may be.
		r.mu.Lock()
		r.cmd.SandboxID = place.SandboxID
		cmd := r.cmd
		r.mu.Unlock()
		if err := c.cfg.Store.UpdateCommand(ctx, cmd); err != nil {
			return nil, guest.Process{}, fmt.Errorf("storing where the command runs: %w", err)
		}
	}
	*sent = place
	if !asked.Background {
		spec.SettleMs = settle.Milliseconds()
	}
	proc, err := place.Guest.Start(executors.As(ctx, executors.ForExecution, asked.ActorID), spec)
	if err != nil {
		return place, proc, fmt.Errorf("starting the command: %w", err)
	}
	if strings.HasPrefix(proc.Reason, "start_failed") {
		return nil, proc, errors.New(proc.Reason)
	}
	c.cfg.Places.Counters().Commanded(place.Kind, c.now()-ready)
	return place, proc, nil
}

// began stores that the command runs.
func (c *Commands) began(ctx context.Context, r *running, place *executors.Place, proc guest.Process) error {
	r.mu.Lock()
	r.cmd.State, r.cmd.Reason, r.cmd.StartedAt = Executing, "", c.now()
	cmd := r.cmd
	r.mu.Unlock()
	if err := c.cfg.Store.UpdateCommand(ctx, cmd); err != nil {
		c.discard(place, r.id)
		return fmt.Errorf("storing that the command runs: %w", err)
	}
	if proc.State == guest.Exited && proc.Early != nil {
		r.early = &proc
	}
	close(r.started)
	r.notify(Event{Type: EventStarted, Command: &cmd})
	return nil
}

// unreachableCodes are the codes of errors that only say that there was no answer.
var unreachableCodes = []string{"guest_unreachable", "sandbox_unreachable", "runner_offline", "runner_connection_lost", "runner_unresponsive"}

// waits reports whether to retry a command that could not be started: its executor is unreachable, or was reached but did not say whether it
// started the command. Its record says what it waits for.
func (c *Commands) waits(ctx context.Context, r *running, err error, had bool) bool {
	cmd := r.snapshot()
	kind := c.cfg.Places.KindOf(ctx, cmd.WorkspaceID)
	away := c.away(ctx, kind)
	// A member of a family may have come back between the error and this check.
	unreachable := slices.Contains(unreachableCodes, fault.CodeOf(err)) && (had || kind.Base() == executors.Runner)
	asleep := had && fault.CodeOf(err) == "workspace_paused" && c.cfg.Places.WakesItself(cmd.WorkspaceID) // it fell asleep in between
	if !away && !unreachable && !asleep {
		return false
	}
	if !away || cmd.Reason != "" {
		return true
	}
	name := "Its place"
	if caps, ok := c.cfg.Places.Place(ctx, kind); ok && caps.Name != "" {
		name = caps.Name
	}
	r.mu.Lock()
	r.cmd.Reason = executors.CleanReason(name + " cannot be reached now. The command waits for it.")
	cmd = r.cmd
	r.mu.Unlock()
	if err := c.cfg.Store.UpdateCommand(ctx, cmd); err != nil {
		c.cfg.Log.Warn("the waiting state of a command could not be stored", "command_id", r.id, "error", err)
	}
	close(r.queued)
	r.notify(Event{Type: EventQueued, Command: &cmd})
	return true
}

// endLater ends a process in an unreachable sandbox as soon as that is back, or has ended.
func (c *Commands) endLater(processID string, place *executors.Place) {
	c.work.Go(func() {
		ctx, cancel := context.WithTimeout(c.life, executors.MaxTimeout)
		defer cancel()
		if _, err := c.halt(ctx, processID, place); err == nil {
			c.remove(place, processID)
		}
	})
}

// away reports whether a kind of executor is unreachable now but comes back without help.
func (c *Commands) away(ctx context.Context, k executors.Kind) bool {
	caps, ok := c.cfg.Places.Place(ctx, k)
	return ok && caps.Away
}
