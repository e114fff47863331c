package app

import (
	"context"
	"os"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
)

// worktrees are projects and workspaces: their repositories, their files, and where they are.
type worktrees struct {
	rows       *store.Workspaces
	workspaces *workspaces.Service
	origin     *origin.Service
	moves      *move.Service
}

func newWorktrees(b *base, p *people) (*worktrees, error) {
	cfg := b.cfg
	connector, err := fromconfig.LinkConnector(cfg.DataDir)
	if err != nil {
		return nil, err
	}
	w := &worktrees{rows: store.NewWorkspaces(b.db)}
	locks, jobs := workspaces.NewLocks(), workspaces.NewJobs() // one for all: two would not exclude each other, nor bound what runs
	root, log, protocols := os.Geteuid() == 0, b.logOf("workspaces"), fromconfig.ProtocolsOf(cfg.Projects)
	w.workspaces = workspaces.New(workspaces.Config{Store: w.rows, Locks: locks, Jobs: jobs, Trash: store.NewTrash(b.db), TrashKeep: fromconfig.Days(cfg.Trash.KeepDays),
		Retention: fromconfig.SnapshotsKept(cfg.Snapshots), Machines: p.machines, Credentials: p.secrets, Events: b.events, DataDir: cfg.DataDir,
		AllowedRoots: cfg.Projects.AllowedRoots, BranchPrefix: cfg.Projects.BranchPrefix, CopyIgnored: cfg.Projects.CopyIgnored, Protocols: protocols,
		Outgoing: &egress.Guard{Allow: fromconfig.Exceptions(cfg.Outgoing)}, Connector: connector, MaxLimits: fromconfig.LimitsOn(cfg.Sandboxing.Limits.Maximum),
		FallBackAllowed: b.fallback, Chown: root, Env: b.env, Log: log})
	w.origin = origin.New(origin.Config{Store: w.rows, Workspaces: w.workspaces, Locks: locks, Credentials: p.secrets, Protocols: protocols, Log: log})
	w.moves = move.New(move.Config{Store: w.rows, Workspaces: w.workspaces, Locks: locks, Jobs: jobs, FallBackAllowed: b.fallback, Chown: root, Log: log})
	return w, nil
}

// recover takes up creations, then moves.
func (w *worktrees) recover(ctx context.Context) error {
	if err := w.workspaces.Recover(ctx); err != nil {
		return err
	}
	return w.moves.Recover(ctx)
}
