//go:build linux || darwin

package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/hostproc"
	"github.com/parawork/parawork/executors/serviceclock"
	"github.com/parawork/parawork/internal/atomicfile"
)

var _ executors.RunRecorder = (*Executor)(nil)

// runName is the file in a sandbox's folder that records its container's latest run.
const runName = "run.json"

// runRecord records what the engine does not report of a container's latest run, or not for long.
type runRecord struct {
	Paused  bool  `json:"paused,omitempty"`   // it was suspended once: the engine reports when the container began, not when it was resumed
	EndedAt int64 `json:"ended_at,omitempty"` // ms UTC, of a removed container
}

// Ran returns the sandbox's latest run as the engine records it, or as recorded before the container was removed.
func (e *Executor) Ran(ctx context.Context, h executors.Handle) (executors.Ran, error) {
	if err := hostproc.CheckID(h.ID); err != nil {
		return executors.Ran{}, err
	}
	kept := e.readRun(h.ID)
	c, err := e.inspect(ctx, h.ID)
	if err != nil && !errors.Is(err, executors.ErrGone) {
		return executors.Ran{}, err
	}
	if c.ContainerJSONBase == nil { // it was removed, or belongs to another instance
		if kept.EndedAt == 0 {
			return executors.Ran{}, executors.ErrGone
		}
		return executors.Ran{EndedAt: kept.EndedAt}, nil
	}
	clock := e.clock(ctx)
	out := executors.Ran{BeganAt: clock.Ours(engineTime(c.State.StartedAt)), EndedAt: clock.Ours(endOf(c.State))}
	if kept.Paused {
		out.BeganAt = 0
	}
	return out, nil
}

// clock is that of the engine's machine, which is another one's where the engine is elsewhere.
func (e *Executor) clock(ctx context.Context) *serviceclock.Clock {
	if e.remote == "" {
		return nil
	}
	c, sent := &serviceclock.Clock{}, e.cfg.Now()
	info, err := e.api.Info(ctx)
	if at := engineTime(info.SystemTime); err == nil && at != 0 {
		c.Told(time.UnixMilli(at), sent, e.cfg.Now())
	}
	return c
}

// unwitnessed is the exit code the engine gives a container whose end it did not see, as when the machine lost power: the end it reports
// then is when the engine was started again.
const unwitnessed = 255

// endOf returns when a container ended, 0 = it runs, never did, or the engine does not know.
func endOf(st *container.State) int64 {
	if st.Running || st.Paused || st.Restarting || st.ExitCode == unwitnessed {
		return 0
	}
	return engineTime(st.FinishedAt)
}

// engineTime parses a time in the engine's format, 0 = never.
func engineTime(s string) int64 {
	at, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || at.Year() < 1970 {
		return 0
	}
	return at.UnixMilli()
}

// keepEnd records when a container ended that is removed next. The caller holds the sandbox's turn.
func (e *Executor) keepEnd(ctx context.Context, id string) {
	c, err := e.inspect(ctx, id)
	if c.ContainerJSONBase == nil {
		if err != nil && !errors.Is(err, executors.ErrGone) {
			e.cfg.Log.WarnContext(ctx, "when a container ended could not be asked before it is removed", "sandbox_id", id, "error", err)
		}
		return
	}
	r := e.readRun(id)
	if r.EndedAt = e.clock(ctx).Ours(endOf(c.State)); r.EndedAt == 0 {
		return
	}
	if err := e.writeRun(id, r); err != nil {
		e.cfg.Log.WarnContext(ctx, "when a container ended could not be noted before it is removed", "sandbox_id", id, "error", err)
	}
}

func (e *Executor) readRun(id string) (r runRecord) {
	b, err := hostproc.ReadSmall(filepath.Join(e.dir(id), runName))
	if err != nil || json.Unmarshal(b, &r) != nil {
		return runRecord{}
	}
	return r
}

// writeRun stores the record of a run in the sandbox's folder, if that exists.
func (e *Executor) writeRun(id string, r runRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := atomicfile.Write(filepath.Join(e.dir(id), runName), b, 0o600); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("keeping when sandbox %s ran: %w", id, err)
	}
	return nil
}
