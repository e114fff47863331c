package doctor

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parawork/parawork/cmd/parawork/fromconfig"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/cgroup"
	"github.com/parawork/parawork/store"
)

// unlimited names each limit that is missing where more than one team shares the machine.
func (r *report) unlimited(cfg *config.Config, teams int) {
	if teams <= 1 {
		return
	}
	l := fromconfig.Unsaid(cfg).With(fromconfig.LimitsOn(cfg.Sandboxing.Limits.Default)).AtMost(fromconfig.LimitsOn(cfg.Sandboxing.Limits.Maximum))
	for _, k := range fromconfig.LimitKeys {
		if _, zero := k.Of(&l); zero {
			r.say(minor, "limits", fmt.Sprintf("The %s of a sandbox has no limit, and %d teams share this machine", k.What, teams),
				"Set sandboxing.limits.default."+k.Key+", or take the key out of config.json for the default of a shared machine.")
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

// limits says which limits of sandboxes this machine can enforce.
func (r *report) limits(cfg *config.Config, kinds executors.Descriptors) {
	s := cgroup.Check()
	if err := fromconfig.CheckSupport(cfg, kinds, s); err != nil {
		r.say(bad, "limits", err.Error(), "")
		return
	}
	if !s.All() || !s.Freeze {
		r.say(minor, "limits", "CPU, memory, processes or pause cannot be enforced for sandboxes of this machine: "+s.Reason, s.Cure)
		return
	}
	r.say(good, "limits", fmt.Sprintf("CPU, memory, processes and pause by control groups (version %d)", s.Version), "")
}
