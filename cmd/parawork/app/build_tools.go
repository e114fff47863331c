package app

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/run"
)

// toolbox is what agents may call, with the services behind it.
type toolbox struct {
	tools *tools.Set
}

// newToolbox makes the services below tools, and of their tools one Set.
func newToolbox(b *base, p *people, on *work) (_ *toolbox, err error) {
	t := &toolbox{}
	t.tools, err = tools.New(tools.Config{
		Tools: slices.Concat(
			[]tools.Tool{run.New(on.commands, time.Now)},
		),
		Secrets: p.secrets, Recorder: toolLog{b.logOf("tools")}, Log: b.logOf("tools"),
	})
	return t, err
}

// toolLog writes calls of tools to the log.
type toolLog struct{ log *slog.Logger }

func (l toolLog) Record(ctx context.Context, r tools.Record) {
	l.log.DebugContext(ctx, "tool called", "tool", r.Tool, "client", r.Caller.Client, "agent", r.Caller.Agent, "team_id", r.Caller.TeamID, "workspace_id", r.Caller.WorkspaceID,
		"session_id", r.Caller.SessionID, "user_id", r.Caller.UserID, "arguments", r.Arguments, "outcome", r.Outcome, "code", r.Code, "duration_ms", r.Duration.Milliseconds(),
		"result_bytes", r.ResultBytes, "truncated", r.Truncated)
}
