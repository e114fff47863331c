package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
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
	"github.com/parawork/parawork/store"
)

// openGroups opens the control groups of this instance: those of another one on the same machine are not its own.
func openGroups(dataDir string) (*cgroup.Tree, error) {
	sum := sha256.Sum256([]byte(dataDir))
	return cgroup.Open("parawork/" + hex.EncodeToString(sum[:6]))
}

// limitsOn turns limits of the configuration into the rooms'.
func limitsOn(l config.SandboxLimits) executors.Limits {
	return executors.Limits{CPUs: float64(l.CPUs), MemoryMB: l.MemoryMB, Processes: l.Processes, DiskMB: l.DiskMB, WallMinutes: l.WallMinutes}
}

// localLimits are sandboxing.local.resourceLimits.
func localLimits(cfg *config.Config) executors.Limits {
	r := cfg.Sandboxing.Local.ResourceLimits
	return executors.Limits{CPUs: float64(r.MaxCPU), MemoryMB: r.MaxMemory}
}

// checkLimits refuses a configuration that promises what this machine cannot keep.
func checkLimits(cfg *config.Config, s cgroup.Support) error {
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
	sharedLimits  = executors.Limits{CPUs: 2, MemoryMB: 4096, Processes: 4096, DiskMB: 20 << 10}
	sharedHistory = int64(10 << 30) // bytes of a team's terminals' output
)

// limitKeys are the keys of the limits a shared machine needs, in the order people read them.
var limitKeys = []struct {
	key, what string
	of        func(*executors.Limits) (set func(), zero bool)
}{
	{"cpus", "CPU", func(l *executors.Limits) (func(), bool) { return func() { l.CPUs = 0 }, l.CPUs == 0 }},
	{"memoryMb", "memory", func(l *executors.Limits) (func(), bool) { return func() { l.MemoryMB = 0 }, l.MemoryMB == 0 }},
	{"processes", "number of processes", func(l *executors.Limits) (func(), bool) { return func() { l.Processes = 0 }, l.Processes == 0 }},
	{"diskMb", "disk", func(l *executors.Limits) (func(), bool) { return func() { l.DiskMB = 0 }, l.DiskMB == 0 }},
}

// unsaid are the limits of a shared machine of which config.json says nothing: an explicit 0 is no limit.
func unsaid(cfg *config.Config) executors.Limits {
	l := sharedLimits
	for _, k := range limitKeys {
		if clear, _ := k.of(&l); cfg.Given("sandboxing.limits.default." + k.key) {
			clear()
		}
	}
	return l
}

// sharedLimits are those of a kind of place on this server that more than one team uses.
func (h *house) sharedLimits(ctx context.Context, k executors.Kind) (executors.Limits, error) {
	if k != bubblewrap.Kind && k != docker.Kind {
		return executors.Limits{}, nil
	}
	if n, err := h.directory.CountTeams(ctx); err != nil || n <= 1 {
		return executors.Limits{}, err
	}
	return unsaid(h.cfg), nil
}

// teamHistory is how much of its terminals' output a team may keep.
func (h *house) teamHistory(ctx context.Context) (int64, error) {
	if h.cfg.Given("history.maxTeam") {
		return h.cfg.History.MaxTeam << 20, nil
	}
	if n, err := h.directory.CountTeams(ctx); err != nil || n <= 1 {
		return h.cfg.History.MaxTeam << 20, err
	}
	return sharedHistory, nil
}

// unlimited names each limit that is missing where more than one team shares the machine.
func (r *report) unlimited(cfg *config.Config, teams int) {
	if teams <= 1 {
		return
	}
	l := unsaid(cfg).With(limitsOn(cfg.Sandboxing.Limits.Default)).AtMost(limitsOn(cfg.Sandboxing.Limits.Maximum))
	for _, k := range limitKeys {
		if _, zero := k.of(&l); zero {
			r.say(minor, "limits", fmt.Sprintf("The %s of a sandbox has no limit, and %d teams share this machine", k.what, teams),
				"Set sandboxing.limits.default."+k.key+", or take the key out of config.json for the default of a shared machine.")
		}
	}
	if cfg.Given("history.maxTeam") && cfg.History.MaxTeam == 0 {
		r.say(minor, "history", fmt.Sprintf("The output of terminals that a team keeps has no limit, and %d teams share this machine", teams),
			"Set history.maxTeam, in MiB.")
	}
}

// quotas says when no plan bounds anybody's hours or sandboxes although several teams share the server.
func (r *report) quotas(cfg *config.Config, st store.State) {
	def := cfg.Billing.Plan()
	var said struct {
		DefaultPlan string `json:"default_plan"`
	}
	if st.Settings != "" && json.Unmarshal([]byte(st.Settings), &said) == nil && said.DefaultPlan != "" {
		def = said.DefaultPlan
	}
	if st.Teams <= 1 || st.BoundTeams > 0 || !slices.Contains(st.Unbound, def) {
		return
	}
	r.say(minor, "quotas", fmt.Sprintf("The plan %s of %d teams bounds neither hours nor sandboxes: quotas bind nobody", def, st.Teams),
		"Choose a default plan in Settings, Plans, or set billing.defaultPlan: free has 10 hours a month for each user, pro 100, enterprise has no bound.")
}

// buildMeters has sandboxes held to their limits.
func (h *house) buildMeters(publisher events.Publisher, bus *events.Bus) error {
	var err error
	h.meters, err = h.places.UseMeters(meter.Config{Limits: h.workspaces, Default: limitsOn(h.cfg.Sandboxing.Limits.Default),
		Maximum: limitsOn(h.cfg.Sandboxing.Limits.Maximum), ByKind: map[executors.Kind]executors.Limits{executors.Local: localLimits(h.cfg)}, Shared: h.sharedLimits,
		DiskEvery: time.Duration(h.cfg.Sandboxing.Limits.DiskEverySeconds) * time.Second, Folders: h.diskOf, Tell: h.tellLimit, Groups: h.groups, Events: publisher, Heard: bus.Heard, Log: h.log.With("room", "limits")})
	return err
}

// diskOf are the folders of the server that count as a sandbox's disk. The team's caches do not: nobody fills them alone.
func (h *house) diskOf(r executors.Record) []string {
	return []string{h.workspaces.Folder(r.WorkspaceID), filepath.Join(h.cfg.DataDir, "boxes", r.WorkspaceID), filepath.Join(h.cfg.DataDir, "sandboxes", r.Handle.ID)}
}

// tellLimit writes into a workspace's timeline what its limits did.
func (h *house) tellLimit(ctx context.Context, n executors.Note) {
	if err := h.workspaces.Tell(ctx, n.WorkspaceID, n.Kind, n.Text); err != nil {
		h.log.Warn("a workspace was not told of its limits", "workspace_id", n.WorkspaceID, "error", err)
	}
}

// limits says which limits of sandboxes this machine can enforce.
func (r *report) limits(cfg *config.Config) {
	s := cgroup.Check()
	if err := checkLimits(cfg, s); err != nil {
		r.say(bad, "limits", err.Error(), "")
		return
	}
	if !s.All() || !s.Freeze {
		r.say(minor, "limits", "CPU, memory, processes or pause cannot be enforced for sandboxes of this machine: "+s.Reason, s.Cure)
		return
	}
	r.say(good, "limits", fmt.Sprintf("CPU, memory, processes and pause by control groups (version %d)", s.Version), "")
}
