package sessions

import (
	"context"
	"github.com/parawork/parawork/workspaces/secretfiles"

	"github.com/parawork/parawork/sessions/history"
)

// openRecordings adapts the sessions for package history.
type openRecordings struct{ s *Service }

// Open holds the recording of a session open.
func (o openRecordings) Open(ctx context.Context, id string) (*history.Recording, func(), error) {
	l, err := o.s.acquire(ctx, id)
	if err != nil {
		return nil, nil, err
	}
	return l.rec, func() { o.s.release(l) }, nil
}

// InMemory returns the recording of a currently open session.
func (o openRecordings) InMemory(id string) *history.Recording {
	if l := o.s.running(id); l != nil {
		return l.rec
	}
	return nil
}

// WhileUnused calls fn while nobody can open the session.
func (o openRecordings) WhileUnused(id string, fn func()) {
	o.s.mu.Lock()
	defer o.s.mu.Unlock()
	if o.s.lives[id] == nil && !o.s.closed {
		fn()
	}
}

// Rows returns the sessions of a workspace.
func (o openRecordings) Rows(ctx context.Context, workspaceID string) ([]history.Row, error) {
	all, err := o.s.List(ctx, workspaceID)
	out := make([]history.Row, 0, len(all))
	for _, row := range all {
		out = append(out, recordedRow(row))
	}
	return out, err
}

// Kept returns the sessions of a team.
func (o openRecordings) Kept(ctx context.Context, teamID string) ([]history.Kept, error) {
	return o.s.cfg.Store.KeptSessions(ctx, teamID)
}

func recordedRow(row Session) history.Row {
	return history.Row{ID: row.ID, WorkspaceID: row.WorkspaceID, Agent: row.Agent, AgentName: row.AgentName, Cols: row.Cols, Rows: row.Rows, Bytes: row.Bytes,
		StartedAt: row.StartedAt, EndedAt: row.EndedAt, Ended: row.State.Ended()}
}

// recorded adapts a session for package history.
type recorded struct{ l *live }

// Row returns the session as it is now.
func (r recorded) Row() history.Row { return recordedRow(r.l.svc.hydrate(r.l.snapshot())) }

// Hide returns a function that masks any secrets in a text.
func (r recorded) Hide(ctx context.Context) (func(string) string, error) {
	known, err := r.l.svc.Masks.SecretFiles(ctx, r.l.workspaceID)
	if err != nil {
		return nil, err
	}
	return func(t string) string { return secretfiles.Masked(known, r.l.masks.Text(t)) }, nil
}

// Answer types the terminal's answer to the program.
func (r recorded) Answer(ctx context.Context, p []byte) error { return r.l.prompts.Answer(ctx, p) }

// Release drops a reference to the session.
func (r recorded) Release() { r.l.svc.release(r.l) }
