package app

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/bubblewrap"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/meter"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/events"
	"github.com/parawork/parawork/internal/fault"
)

// OpenGroups opens the control groups of this instance: those of another one on the same machine are not its own.
func OpenGroups(dataDir string) (*cgroup.Tree, error) {
	sum := sha256.Sum256([]byte(dataDir))
	return cgroup.Open("parawork/" + hex.EncodeToString(sum[:6]))
}

// LimitsOn turns limits of the configuration into the rooms'.
func LimitsOn(l config.SandboxLimits) executors.Limits {
	return executors.Limits{CPUs: float64(l.CPUs), MemoryMB: l.MemoryMB, Processes: l.Processes, DiskMB: l.DiskMB, WallMinutes: l.WallMinutes}
}

// localLimits are sandboxing.local.resourceLimits.
func localLimits(cfg *config.Config) executors.Limits {
	r := cfg.Sandboxing.Local.ResourceLimits
	return executors.Limits{CPUs: float64(r.MaxCPU), MemoryMB: r.MaxMemory}
}

// CheckLimits refuses a configuration that promises what this machine cannot keep.
func CheckLimits(cfg *config.Config, s cgroup.Support) error {
	if on := cfg.Sandboxing.Local.Enabled; on != nil && !*on {
		return nil
	}
	l := localLimits(cfg)
	if cores := runtime.NumCPU(); l.CPUs > float64(cores) {
		if l.CPUs <= 100 {
			return fault.New(fault.Invalid, "limit_above_machine",
				"sandboxing.local.resourceLimits.maxCpu is %g: a number is a number of cores, and this machine has %d. If %[1]g percent of the machine are meant, write \"%[1]g%%\" with the quotes.", l.CPUs, cores)
		}
		return fault.New(fault.Invalid, "limit_above_machine",
			"sandboxing.local.resourceLimits.maxCpu is %g cores, and this machine has %d. For a share of the machine write a percentage, such as \"80%%\".", l.CPUs, cores)
	}
	if missing := s.Missing(executors.GroupLimits(l)); len(missing) > 0 {
		return fault.New(fault.Unavailable, "limits_unsupported",
			"sandboxing.local.resourceLimits cannot be enforced here (%s): %s. %s Or set it to 0, which means no limit.", strings.Join(missing, ", "), s.Reason, s.Cure)
	}
	return nil
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

// sharedLimits are those of a kind of place on this server that more than one team uses.
func (h *App) sharedLimits(ctx context.Context, k executors.Kind) (executors.Limits, error) {
	if k != bubblewrap.Kind && k != docker.Kind {
		return executors.Limits{}, nil
	}
	if n, err := h.directory.CountTeams(ctx); err != nil || n <= 1 {
		return executors.Limits{}, err
	}
	return Unsaid(h.cfg), nil
}

// teamHistory is how much of its terminals' output a team may keep.
func (h *App) teamHistory(ctx context.Context) (int64, error) {
	if h.cfg.Given("history.maxTeam") {
		return h.cfg.History.MaxTeam << 20, nil
	}
	if n, err := h.directory.CountTeams(ctx); err != nil || n <= 1 {
		return h.cfg.History.MaxTeam << 20, err
	}
	return sharedHistory, nil
}

// buildMeters has sandboxes held to their limits.
func (h *App) buildMeters(publisher events.Publisher, bus *events.Bus) error {
	var err error
	h.meters, err = h.places.UseMeters(meter.Config{Limits: h.workspaces, Default: LimitsOn(h.cfg.Sandboxing.Limits.Default),
		Maximum: LimitsOn(h.cfg.Sandboxing.Limits.Maximum), ByKind: map[executors.Kind]executors.Limits{executors.Local: localLimits(h.cfg)}, Shared: h.sharedLimits,
		DiskEvery: time.Duration(h.cfg.Sandboxing.Limits.DiskEverySeconds) * time.Second, Folders: h.diskOf, Tell: h.tellLimit, Groups: h.groups, Events: publisher, Heard: bus.Heard, Log: h.log.With("room", "limits")})
	return err
}

// diskOf are the folders of the server that count as a sandbox's disk. The team's caches do not: nobody fills them alone.
func (h *App) diskOf(r executors.Record) []string {
	return []string{h.workspaces.Folder(r.WorkspaceID), filepath.Join(h.cfg.DataDir, "boxes", r.WorkspaceID), filepath.Join(h.cfg.DataDir, "sandboxes", r.Handle.ID)}
}

// tellLimit writes into a workspace's timeline what its limits did.
func (h *App) tellLimit(ctx context.Context, n executors.Note) {
	if err := h.workspaces.Tell(ctx, n.WorkspaceID, n.Kind, n.Text); err != nil {
		h.log.Warn("a workspace was not told of its limits", "workspace_id", n.WorkspaceID, "error", err)
	}
}
