package sessions

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/internal/safetext"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/workspaces"
)

// recorder writes a workspace's timeline; Config.Workspaces may implement it.
type recorder interface {
	Record(ctx context.Context, a workspaces.Activity) error
}

// record adds the start or the end of a session to its workspace's timeline. A failure to store the entry stops nothing.
func (s *Service) record(ctx context.Context, row Session) {
	r, ok := s.cfg.Workspaces.(recorder)
	if !ok || row.Agent == agents.Setup { // the creation's own steps already report the setup script
		return
	}
	name := s.cfg.Agents.Name(row.Agent)
	a := workspaces.Activity{TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, At: row.StartedAt, ActorID: row.CreatedBy, Kind: "session.started",
		Text: "started " + name, Data: map[string]any{"session_id": row.ID, "agent": row.Agent}}
	if row.AccountID != "" {
		a.Data["account_id"] = row.AccountID
	}
	if row.Prompt != "" {
		a.Data["prompt"] = safetext.Cut(strings.ToValidUTF8(row.Prompt, ""), 500)
	}
	if row.State.Ended() {
		a.At, a.ActorID, a.Kind, a.Text = row.EndedAt, "", "session.ended", name+": "+row.StateReason
		a.Data = map[string]any{"session_id": row.ID, "agent": row.Agent, "state": string(row.State), "bytes": row.Bytes}
		if row.ExitCode != nil {
			a.Data["exit_code"] = *row.ExitCode
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.Record(ctx, a); err != nil {
		s.cfg.Log.Warn("timeline not written", "session_id", row.ID, "error", err)
	}
}
