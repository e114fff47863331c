package fromconfig

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/sessions/history"
)

// OpenGroups opens the control groups of this instance: those of another one on the same machine are not its own.
func OpenGroups(dataDir string) (*cgroup.Tree, error) {
	sum := sha256.Sum256([]byte(dataDir))
	return cgroup.Open("parawork/" + hex.EncodeToString(sum[:6]))
}

// LimitsOn turns limits of the configuration into the executors'.
func LimitsOn(l config.SandboxLimits) executors.Limits {
	return executors.Limits{CPUs: float64(l.CPUs), MemoryMB: l.MemoryMB, Processes: l.Processes, DiskMB: l.DiskMB, WallMinutes: l.WallMinutes}
}

// Of an instance with more than one team, where config.json does not say otherwise.
var (
	SharedLimits  = executors.Limits{CPUs: 2, MemoryMB: 4096, Processes: 4096, DiskMB: 20 << 10}
	sharedHistory = int64(10 << 30) // bytes of a team's terminals' output
)

// LimitKeys are the keys of the limits a shared machine needs, in the order people read them.
var LimitKeys = []struct {
	Key, What string
	Of        func(*executors.Limits) (set func(), zero bool)
}{
	{"cpus", "CPU", func(l *executors.Limits) (func(), bool) { return func() { l.CPUs = 0 }, l.CPUs == 0 }},
	{"memoryMb", "memory", func(l *executors.Limits) (func(), bool) { return func() { l.MemoryMB = 0 }, l.MemoryMB == 0 }},
	{"processes", "number of processes", func(l *executors.Limits) (func(), bool) { return func() { l.Processes = 0 }, l.Processes == 0 }},
	{"diskMb", "disk", func(l *executors.Limits) (func(), bool) { return func() { l.DiskMB = 0 }, l.DiskMB == 0 }},
}

// Unsaid are the limits of a shared machine of which config.json says nothing: an explicit 0 is no limit.
func Unsaid(cfg *config.Config) executors.Limits {
	l := SharedLimits
	for _, k := range LimitKeys {
		if clear, _ := k.Of(&l); cfg.Given("sandboxing.limits.default." + k.Key) {
			clear()
		}
	}
	return l
}

// LimitsOfTeams are those of a kind of executor on this server that more than one team uses.
func LimitsOfTeams(cfg *config.Config, kinds executors.Descriptors, teams func(context.Context) (int, error)) func(context.Context, executors.Kind) (executors.Limits, error) {
	return func(ctx context.Context, k executors.Kind) (executors.Limits, error) {
		if d, _ := kinds.Find(k); !d.OnServer {
			return executors.Limits{}, nil
		}
		if n, err := teams(ctx); err != nil || n <= 1 {
			return executors.Limits{}, err
		}
		return Unsaid(cfg), nil
	}
}

// TeamHistory is how much of its terminals' output a team may keep.
func TeamHistory(cfg *config.Config, teams func(context.Context) (int, error)) func(context.Context) (int64, error) {
	return func(ctx context.Context) (int64, error) {
		if cfg.Given("history.maxTeam") {
			return cfg.History.MaxTeam << 20, nil
		}
		if n, err := teams(ctx); err != nil || n <= 1 {
			return cfg.History.MaxTeam << 20, err
		}
		return sharedHistory, nil
	}
}

// HistoryLimits are the caps of what sessions printed.
func HistoryLimits(c config.History) history.Limits {
	return history.Limits{Session: c.MaxSession << 20, Team: c.MaxTeam << 20, Keep: time.Duration(c.KeepDays) * 24 * time.Hour}
}

// LogCap is the cap of one session's log: so much that it is none where none was asked for.
func LogCap(c config.History) int64 {
	if c.MaxSession == 0 {
		return 1 << 60
	}
	return c.MaxSession << 20
}
