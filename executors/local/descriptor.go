package local

import (
	"context"
	"runtime"
	"strconv"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/allowlist"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/schema"
)

// Descriptor is the kind for the registry.
func Descriptor() executors.Descriptor {
	return executors.Descriptor{
		Kind: executors.Local, Label: "This server", Rank: 2, Boundary: executors.NoBoundary, Auto: true, Free: true, Settings: settings, Docs: "docs/places.md",
		New: func(d executors.Deps) (executors.Executor, error) {
			c := Config{Enabled: true, Dir: d.Dir, GuestPath: d.GuestPath, Groups: d.Groups, TeamCount: d.Teams, Log: d.Log}
			// Unless config.json says yes, it ends with the second team: a team's agents would read the other's files.
			if d.Settings.Said("enabled") {
				c.Enabled, c.TeamCount = d.Settings.On("enabled"), nil
			}
			return New(c)
		},
		Limits: limitsOf, Support: support, Examine: examine,
	}
}

// settings are those of sandboxing.local.
var settings = schema.Schema{
	{Key: "enabled", Type: schema.Boolean, Optional: true}, // where nobody says: on while the instance has one team
	{Key: "resourceLimits.maxCpu", Type: schema.Cores, Check: func(v any) string {
		if v.(float64) < 0 {
			return "must not be negative; 0 means no limit"
		}
		return ""
	}},
	{Key: "resourceLimits.maxMemory", Type: schema.Number}, // MiB
	{Key: "allowedCommands", Type: schema.List, Check: func(v any) string { // empty: every program
		for _, e := range v.([]string) {
			if why := allowlist.Wrong(e); why != "" {
				return "has " + strconv.Quote(e) + ": " + why
			}
		}
		return ""
	}},
}

func limitsOf(v schema.Values) executors.Limits {
	return executors.Limits{CPUs: v.Cores("resourceLimits.maxCpu"), MemoryMB: v.Number("resourceLimits.maxMemory")}
}

// support refuses limits that this machine cannot keep.
func support(v schema.Values, s cgroup.Support) error {
	if v.Said("enabled") && !v.On("enabled") {
		return nil
	}
	l := limitsOf(v)
	if cores := runtime.NumCPU(); l.CPUs > float64(cores) {
		if l.CPUs <= 100 {
			return fault.New(fault.Invalid, "limit_above_host",
				"sandboxing.local.resourceLimits.maxCpu is %g: a number is a number of cores, and this machine has %d. If %[1]g percent of the machine are meant, write \"%[1]g%%\" with the quotes.", l.CPUs, cores)
		}
		return fault.New(fault.Invalid, "limit_above_host",
			"sandboxing.local.resourceLimits.maxCpu is %g cores, and this machine has %d. For a share of the machine write a percentage, such as \"80%%\".", l.CPUs, cores)
	}
	if missing := s.Missing(executors.GroupLimits(l)); len(missing) > 0 {
		return fault.New(fault.Unavailable, "limits_unsupported",
			"sandboxing.local.resourceLimits cannot be enforced here (%s): %s. %s Or set it to 0, which means no limit.", strings.Join(missing, ", "), s.Reason, s.Cure)
	}
	return nil
}

// examine says where limits are set and not enforced.
func examine(_ context.Context, v schema.Values, c executors.Capabilities) []executors.Finding {
	if limitsOf(v).None() || c.Limits {
		return nil
	}
	return []executors.Finding{{Found: "sandboxing.local.resourceLimits is set, but it is not enforced on this machine"}}
}
