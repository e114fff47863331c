package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/run"
)

// newTools makes what agents may call: one line for each tool.
func newTools(b *base, p *people, on *work) (*tools.Set, error) {
	return tools.New(tools.Config{
		Tools: []tools.Tool{
			run.New(on.commands, time.Now),
		},
		Secrets: p.secrets, Recorder: toolLog{b.logOf("tools")}, Log: b.logOf("tools"),
	})
}

// toolLog writes calls of tools to the log.
type toolLog struct{ log *slog.Logger }

func (l toolLog) Record(ctx context.Context, r tools.Record) {
	l.log.DebugContext(ctx, "tool called", "tool", r.Tool, "client", r.Caller.Client, "agent", r.Caller.Agent, "team_id", r.Caller.TeamID, "workspace_id", r.Caller.WorkspaceID,
		"session_id", r.Caller.SessionID, "user_id", r.Caller.UserID, "arguments", r.Arguments, "outcome", r.Outcome, "code", r.Code, "duration_ms", r.Duration.Milliseconds(),
		"result_bytes", r.ResultBytes, "truncated", r.Truncated)
}
