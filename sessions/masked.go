package sessions

import (
	"github.com/parawork/parawork/sessions/masks"
)

func maskedRow(row Session) masks.Row {
	return masks.Row{ID: row.ID, TeamID: row.TeamID, WorkspaceID: row.WorkspaceID, SandboxID: row.SandboxID, Agent: row.Agent, CreatedBy: row.CreatedBy}
}

// masked adapts a session for package masks.
type masked struct{ l *live }

// Ended reports whether the session has ended.
func (m masked) Ended() bool {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	return m.l.row.State.Ended()
}

// Inside reports whether its agent uses the sandbox's own home.
func (m masked) Inside() bool {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	return m.l.inside != nil
}

// MaskOutput masks further values in its output.
func (m masked) MaskOutput(values []string) {
	m.l.out.mu.Lock()
	defer m.l.out.mu.Unlock()
	m.l.out.masker.Add(values...)
}

// Notify shows its viewers a notice.
func (m masked) Notify(notice string) {
	m.l.mu.Lock()
	defer m.l.mu.Unlock()
	if m.l.notice != notice {
		m.l.notice = notice
		m.l.bump()
	}
}
