package app

import (
	"os"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/internal/egress"
	"github.com/parawork/parawork/store"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/move"
	"github.com/parawork/parawork/workspaces/origin"
)

// worktrees are projects and workspaces: their repositories, their files, and where they are.
type worktrees struct {
	rows       *store.Workspaces
	workspaces *assembly.Workspaces
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
	w.workspaces = assembly.New(assembly.Config{Store: w.rows, Trash: store.NewTrash(b.db), TrashKeep: fromconfig.Days(cfg.Trash.KeepDays),
		Retention: fromconfig.SnapshotsKept(cfg.Snapshots), Machines: p.machines, Credentials: p.secrets, Events: b.events, DataDir: cfg.DataDir,
		AllowedRoots: cfg.Projects.AllowedRoots, BranchPrefix: cfg.Projects.BranchPrefix, CopyIgnored: cfg.Projects.CopyIgnored, Protocols: fromconfig.ProtocolsOf(cfg.Projects),
		Outgoing: &egress.Guard{Allow: fromconfig.Exceptions(cfg.Outgoing)}, Connector: connector, MaxLimits: fromconfig.LimitsOn(cfg.Sandboxing.Limits.Maximum),
		FallBackAllowed: b.fallback, Chown: os.Geteuid() == 0, Env: b.env, Log: b.logOf("workspaces")})
	w.origin, w.moves = w.workspaces.Origin, w.workspaces.Moves
	return w, nil
}
