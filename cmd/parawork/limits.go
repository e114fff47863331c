package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/events"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
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
		return fault.New(fault.Invalid, "limit_above_machine",
			"sandboxing.local.resourceLimits.maxCpu is %g cores, and this machine has %d. For a share of the machine write a percentage, such as \"80%%\".", l.CPUs, cores)
	}
	if missing := s.Missing(executors.GroupLimits(l)); len(missing) > 0 {
		return fault.New(fault.Unavailable, "limits_unsupported",
			"sandboxing.local.resourceLimits cannot be enforced here (%s): %s. %s Or set it to 0, which means no limit.", strings.Join(missing, ", "), s.Reason, s.Cure)
	}
	return nil
}

// buildMeters has sandboxes held to their limits.
func (h *house) buildMeters(publisher events.Publisher, bus *events.Bus) error {
	var err error
	h.meters, err = h.places.UseMeters(executors.MetersConfig{Limits: h.workspaces, Default: limitsOn(h.cfg.Sandboxing.Limits.Default),
		Maximum: limitsOn(h.cfg.Sandboxing.Limits.Maximum), ByKind: map[executors.Kind]executors.Limits{executors.Local: localLimits(h.cfg)},
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
