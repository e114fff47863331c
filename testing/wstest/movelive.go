package wstest

import (
	"context"
	"sync"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
)

// Movers are sessions that can move: one busy agent, and a shell.
type Movers struct {
	*Setups
	Mu    sync.Mutex
	Runs  map[string]bool // by session id
	HaltE error
	goE   error
	onTry func(ctx context.Context) error
	Went  []string
	Needs string // the program that the agent's executor must have
}

func (m *Movers) MovePlan(context.Context, string, executors.Capabilities, executors.Capabilities) ([]workspaces.MovedSession, error) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	var out []workspaces.MovedSession
	if m.Runs["agent"] {
		out = append(out, workspaces.MovedSession{ID: "agent", Agent: "claude-code", How: workspaces.MoveResumes, Busy: true, Program: m.Needs, Lacking: "No program there."})
	}
	if m.Runs["shell"] {
		out = append(out, workspaces.MovedSession{ID: "shell", Agent: "shell", How: workspaces.MoveEnds})
	}
	return out, nil
}

func (m *Movers) Halt(_ context.Context, id, _ string) error {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if m.HaltE != nil && id == "agent" {
		return m.HaltE
	}
	m.Runs[id] = false
	return nil
}

func (m *Movers) Halted(context.Context, string) error { return nil }

func (m *Movers) GoOn(_ context.Context, one workspaces.MovedSession, words string) (string, error) {
	m.Mu.Lock()
	defer m.Mu.Unlock()
	if m.goE != nil {
		return "", m.goE
	}
	m.Runs[one.ID] = true
	m.Went = append(m.Went, one.ID+": "+words)
	return "next", nil
}

// MoveEnds waits until the newest move of a workspace has ended.
func (h *Env) MoveEnds(id string) workspaces.Moving {
	h.T.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if _, ok := h.S.MoveOf(id); ok {
			continue
		}
		all, err := h.S.moves.Moves(h.T.Context(), id)
		Must(h.T, err)
		if len(all) > 0 && all[0].EndedAt != 0 {
			return all[0]
		}
	}
	h.T.Fatal("the move does not end")
	return workspaces.Moving{}
}
