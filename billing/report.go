package billing

import (
	"context"
	"fmt"
	"maps"
	"slices"
)

// Reports reads the ledger for people. Amounts are up to each sandbox's last heartbeat.
type Reports interface {
	// Costs is what workspaces have cost so far, by id; those that cost nothing are left out.
	Costs(ctx context.Context, workspaceIDs []string) (map[string]int64, error)
	// ByWorkspace, ByUser and ByTeam are what the dearest cost in segments that began in [from, to).
	ByWorkspace(ctx context.Context, from, to int64, most int) ([]WorkspaceCost, error)
	ByUser(ctx context.Context, from, to int64, most int) ([]UserCost, error)
	ByTeam(ctx context.Context, from, to int64, most int) ([]TeamCost, error)
	// ByExecutor returns what each executor cost and ran, the pool's separately.
	ByExecutor(ctx context.Context, from, to int64) ([]ExecutorCost, error)
	// Living returns how many workspaces live in each executor.
	Living(ctx context.Context) (map[string]int64, error)
	// TeamsRunning are the teams with a paid sandbox that runs.
	TeamsRunning(ctx context.Context) ([]string, error)
	// WorkspacesRunning are the workspaces with a paid sandbox that runs.
	WorkspacesRunning(ctx context.Context) ([]string, error)
}

// WorkspaceCost is what a workspace cost. One that is gone has only its id.
type WorkspaceCost struct {
	WorkspaceID string
	Num         int64
	Name        string
	Team        string // slug
	CostNano    int64
	RunMs       int64
}

// UserCost is what the sandboxes cost that somebody asked for.
type UserCost struct {
	UserID   string // "" = the server
	Name     string
	CostNano int64
	RunMs    int64
}

// TeamCost is what a team cost.
type TeamCost struct {
	TeamID   string // "" = the instance
	Slug     string
	Name     string
	CostNano int64
	RunMs    int64
}

// ExecutorCost is the cost of an executor.
type ExecutorCost struct {
	Executor     string
	CostNano     int64 // all of it
	RunMs        int64
	PoolCostNano int64 // of that, sandboxes of nobody yet
}

// Report is the cost of the instance's executors this month.
type Report struct {
	Period     string
	Budget     Standing
	Workspaces []WorkspaceCost
	Users      []UserCost
	Teams      []TeamCost
	Executors  map[string]ExecutorCost
	Living     map[string]int64 // how many workspaces live in each executor, free ones included
}

// mostRows bounds a report's lists: the most expensive rows are listed.
const mostRows = 100

// Report returns the cost of the executors this month.
func (l *Ledger) Report(ctx context.Context) (Report, error) {
	now := l.clock.Now()
	period, from, to := Month(now)
	out := Report{Period: period, Executors: make(map[string]ExecutorCost)}
	var err error
	if out.Budget, err = l.standing(ctx, now); err != nil {
		return out, err
	}
	if out.Workspaces, err = l.cfg.Store.ByWorkspace(ctx, from, to, mostRows); err != nil {
		return out, fmt.Errorf("reading what workspaces cost: %w", err)
	}
	if out.Users, err = l.cfg.Store.ByUser(ctx, from, to, mostRows); err != nil {
		return out, fmt.Errorf("reading what users cost: %w", err)
	}
	if out.Teams, err = l.cfg.Store.ByTeam(ctx, from, to, mostRows); err != nil {
		return out, fmt.Errorf("reading what teams cost: %w", err)
	}
	if out.Living, err = l.cfg.Store.Living(ctx); err != nil {
		return out, fmt.Errorf("counting workspaces: %w", err)
	}
	all, err := l.cfg.Store.ByExecutor(ctx, from, to)
	if err != nil {
		return out, fmt.Errorf("reading what places cost: %w", err)
	}
	for _, e := range all {
		out.Executors[e.Executor] = e
	}
	return out, nil
}

// costsAtOnce is how many workspaces' costs are read by one statement.
const costsAtOnce = 500

// Costs tells what workspaces have cost so far, by id.
func (l *Ledger) Costs(ctx context.Context, workspaceIDs []string) (map[string]int64, error) {
	out := make(map[string]int64, len(workspaceIDs))
	for some := range slices.Chunk(workspaceIDs, costsAtOnce) {
		got, err := l.cfg.Store.Costs(ctx, some)
		if err != nil {
			return nil, fmt.Errorf("reading what workspaces cost: %w", err)
		}
		maps.Copy(out, got)
	}
	return out, nil
}
