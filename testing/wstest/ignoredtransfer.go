package wstest

import (
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/workspaces"
)

// KeepsOnEnd takes a snapshot before a sandbox ends, as the server does.
func (a *away) KeepsOnEnd() {
	a.Attach(executors.Participant{Ending: func(ctx context.Context, p *executors.Place) { a.h.S.Snapshots.TakeBefore(ctx, p.WorkspaceID, "stop") }})
}

// Lose makes a sandbox vanish without warning.
func (a *away) Lose(w workspaces.Workspace) {
	a.t.Helper()
	p, _ := a.Manager.Live(w.ID)
	a.World.Vanish(p.SandboxID)
	if err := a.Check(context.Background(), w.ID); err == nil {
		a.t.Fatal("nobody noticed that it is gone")
	}
	a.Led(w)
}
