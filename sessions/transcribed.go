package sessions

import (
	"context"
	"path/filepath"

	"github.com/parawork/parawork/internal/homedir"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/transcript"
)

// followRecord starts following the record of a live session, until the session ends or the service closes.
func (s *Service) followRecord(ctx context.Context, l *live) {
	if !s.cfg.Agents.Records(l.row.Agent) { // Agent never changes
		return
	}
	if l.worktree == "" {
		w, err := s.cfg.Workspaces.Workspace(ctx, l.row.WorkspaceID)
		if err != nil {
			s.cfg.Log.Warn("an agent's record cannot be followed", "session_id", l.id, "error", err)
			return
		}
		l.mu.Lock()
		l.worktree = w.Path
		l.mu.Unlock()
	}
	s.hold(l)
	l.transcript.Follow(func() { s.release(l) })
}

// ranInside reports whether a session's agent used its sandbox's own home. Without a key this is unknown.
func (s *Service) ranInside(id string) (inside, known bool, err error) {
	kept, err := s.launches.Recall(id)
	return kept.Inside, s.launches.Sealed(), err
}

// transcribed adapts a session for package transcript.
type transcribed struct{ l *live }

// Row returns the session as it is now.
func (t transcribed) Row() transcript.Row {
	t.l.mu.Lock()
	defer t.l.mu.Unlock()
	row := transcriptRow(t.l.row)
	row.Worktree, row.ByKey, row.Metered = t.l.worktree, t.l.byKey, t.l.token != ""
	return row
}

func transcriptRow(row Session) transcript.Row {
	return transcript.Row{ID: row.ID, TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, Agent: row.Agent, AccountID: row.AccountID, CreatedBy: row.CreatedBy,
		Conversation: row.Conversation, StartedAt: row.StartedAt}
}

// Observe takes the record's report of the session's state.
func (t transcribed) Observe(h agents.Hint) { t.l.evidence(h) }

// Source opens the home in which the session's agent stores its record; nil when it cannot be reached now. The returned function
// closes it.
func (t transcribed) Source(ctx context.Context) (conversation.Source, func(), error) {
	l := t.l
	l.mu.Lock()
	in, g, user := l.inside, l.guest, l.row.CreatedBy
	l.mu.Unlock()
	if in != nil {
		if g == nil {
			return nil, nil, nil
		}
		return g.Home(ctx), func() {}, nil
	}
	dir, ok := l.svc.cfg.Agents.HomeHere(user)
	if !ok {
		return nil, nil, nil
	}
	src, err := homedir.Open(filepath.Clean(dir))
	if err != nil {
		return nil, nil, err
	}
	return src, func() { src.Close() }, nil
}
