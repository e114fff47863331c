package checks

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/command"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// inFolder runs the script $2 in the folder $1, with standard error redirected to standard output.
const inFolder = `cd -- "$1" || exit 126
exec 2>&1
exec /bin/sh -c "$2"`

// batch runs the checks that were started together, one after the other.
func (s *Service) batch(runs []Run) {
	ctx := s.life
	unlock, err := s.turns.LockContext(ctx, runs[0].WorkspaceID)
	if err != nil {
		return
	}
	defer unlock()
	for _, r := range runs {
		if ctx.Err() != nil {
			return
		}
		if err := s.one(ctx, r); err != nil && s.life.Err() == nil {
			s.fail(r.ID, err)
		}
	}
}

// one runs one check on the workspace's own files to its end.
func (s *Service) one(ctx context.Context, r Run) error {
	ctx, done := s.cancellable(ctx, r.ID)
	defer done()
	r, err := s.cfg.Store.CheckRun(ctx, r.ID)
	if err != nil || r.State.Ended() {
		return err
	}
	if r.State == RunWaiting {
		at, err := s.cfg.Sandboxes.FilesNow(s.by(ctx, r.StartedBy), r.WorkspaceID)
		if err != nil {
			return err
		}
		r, err = s.edit(ctx, r.ID, func(r *Run) error {
			if r.State == RunWaiting {
				r.State, r.StartedAt, r.Tree = RunRunning, s.now(), at.Tree
				if at.Clean {
					r.Commit = at.Head
				}
			}
			return nil
		})
		if err != nil || r.State.Ended() {
			return err
		}
	}
	cmd, err := s.run(ctx, r, ".")
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return s.conclude(r.ID, cmd, "")
	}
	after, err := s.cfg.Sandboxes.FilesNow(s.by(ctx, r.StartedBy), r.WorkspaceID)
	changed := ""
	switch {
	case err != nil:
		changed = "The server could not see whether files changed while it ran, so the result is not certain for the current ones: " + words(err)
	case after.Tree == "" || r.Tree == "":
		changed = "The server could not read the state of the files, so the result is not certain for the current ones. Run it again."
	case after.Tree != r.Tree:
		changed = "Files changed while it ran, so the result is not certain for the current ones. Run it again."
	}
	return s.conclude(r.ID, cmd, changed)
}

// run starts the run's command in a folder of the sandbox, or finds it running, and waits for its end. Cancelling the run ends its command;
// a stopping server leaves the command running.
func (s *Service) run(ctx context.Context, r Run, dir string) (command.Command, error) {
	if r.CommandID == "" {
		env, err := s.cfg.Sandboxes.CheckEnv(ctx, r.WorkspaceID)
		if err != nil {
			return command.Command{}, err
		}
		env = maps.Clone(env)
		env["PARAWORK_CHECK"] = r.Name
		cmd, err := s.cfg.Commands.Exec(s.by(ctx, r.StartedBy), command.Request{WorkspaceID: r.WorkspaceID, ActorID: r.StartedBy, Background: true, Env: env,
			Argv: []string{"/bin/sh", "-c", inFolder, "check", dir, r.Command}, TimeoutMs: s.timeout(ctx, r) * 1000})
		if err != nil {
			return cmd, err
		}
		failpoint.Reach(failpoint.CheckStarted)
		r.CommandID = cmd.ID
		if _, err := s.edit(context.WithoutCancel(ctx), r.ID, func(r *Run) error { r.CommandID = cmd.ID; return nil }); err != nil {
			_, cerr := s.cfg.Commands.Cancel(s.life, cmd.ID) // nobody would track it
			return cmd, errors.Join(err, cerr)
		}
	}
	cmd, err := s.cfg.Commands.Wait(ctx, r.CommandID)
	if err != nil && s.life.Err() != nil {
		return cmd, errStopping
	}
	if err != nil && ctx.Err() != nil {
		cmd, err = s.cfg.Commands.Cancel(s.life, r.CommandID)
		if err == nil && !cmd.State.Ended() { // its executor is unreachable: end it once that is back
			cmd.State = command.Cancelled
		}
		return cmd, err
	}
	if fault.Is(err, fault.NotFound) {
		err = errLost
	}
	return cmd, err
}

var errLost = errors.New("the sandbox is gone, so how it ended is unknown")

// timeout is how many seconds the run may take.
func (s *Service) timeout(ctx context.Context, r Run) int64 {
	if p, err := s.cfg.Records.Project(ctx, r.ProjectID); err == nil {
		for _, c := range p.Checks {
			if c.ID == r.CheckID && c.TimeoutSeconds > 0 {
				return c.TimeoutSeconds
			}
		}
	}
	if r.CheckID == setupID {
		return workspaces.MaxCheckSeconds
	}
	return workspaces.DefaultCheckSeconds
}

// by returns a context that acts as the user who started the run.
func (s *Service) by(ctx context.Context, userID string) context.Context {
	if userID == "" {
		return ctx
	}
	return executors.By(ctx, userID)
}

// conclude stores how a run's command ended. changed says why the result does not apply to the files it started on, "" = it does.
func (s *Service) conclude(runID string, cmd command.Command, changed string) error {
	ctx := context.WithoutCancel(s.life)
	_, err := s.edit(ctx, runID, func(r *Run) error {
		r.Output, r.Truncated = ending(cmd.Stdout)
		r.Truncated = r.Truncated || cmd.Truncated
		if cmd.ExitCode != nil {
			code := int64(*cmd.ExitCode)
			r.ExitCode = &code
		}
		if r.State.Ended() { // cancelled: only add its output
			return nil
		}
		r.EndedAt, r.Reason = s.now(), cmd.Reason
		switch {
		case cmd.State == command.Completed && cmd.ExitCode != nil && *cmd.ExitCode == 0:
			r.State = RunPassed
		case cmd.State == command.Completed && cmd.ExitCode != nil:
			r.State, r.Reason = RunFailed, fmt.Sprintf("It ended with exit code %d.", *cmd.ExitCode)
		case cmd.State == command.TimedOut:
			r.State = RunTimedOut
		case cmd.State == command.Cancelled:
			r.State = RunCancelled
		default:
			r.State = RunLost
		}
		if changed != "" {
			r.Tree, r.Commit = "", ""
			r.Reason = strings.TrimSpace(r.Reason + " " + changed)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("storing how a check ended: %w", err)
	}
	return nil
}

// fail ends a run that could not be completed.
func (s *Service) fail(runID string, err error) {
	ctx := context.WithoutCancel(s.life)
	_, serr := s.edit(ctx, runID, func(r *Run) error {
		if r.State.Ended() {
			return nil
		}
		r.EndedAt, r.Reason, r.State = s.now(), words(err), RunFailed
		if errors.Is(err, errLost) {
			r.State = RunLost
		}
		if errors.Is(err, errCancelled) || errors.Is(err, errDequeued) {
			r.State, r.Reason = RunCancelled, ""
		}
		return nil
	})
	if serr != nil {
		s.cfg.Log.Warn("how a check ended could not be stored", "run_id", runID, "error", serr)
	}
}

// words is the message people see for an error.
func words(err error) string {
	if f, ok := errors.AsType[*fault.Error](err); ok {
		return f.Message
	}
	if errors.Is(err, errLost) {
		return "The sandbox is gone, so how it ended is unknown."
	}
	return "Something went wrong on the server. Its log says more."
}

// ending returns the end of an output as text.
func ending(b []byte) (text string, cut bool) {
	if len(b) > MaxOutput {
		b, cut = b[len(b)-MaxOutput:], true
		for len(b) > 0 && !utf8.RuneStart(b[0]) {
			b = b[1:]
		}
	}
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), "\uFFFD"), "\x00", ""), cut
}
