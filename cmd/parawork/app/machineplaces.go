package app

import (
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/runner"
	"github.com/parawork/parawork/executors/runner/fleet"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
)

// families are the places that come and go.
func (h *App) families() []executors.Family {
	return []executors.Family{runner.New(runner.Config{Machines: fleet.New(h.machines, h.directory)})}
}

// watchMachines has the sandboxes on machines be looked at whenever one of them comes, goes, or says that something changed there.
func (h *App) watchMachines() {
	kind := func(m machines.Machine) executors.Kind { return executors.Runner.Of(m.ID) }
	h.machines.OnChange(func(m machines.Machine) { h.places.Look(kind(m)) })
	h.machines.OnEvent(func(m machines.Machine, e wire.Event) {
		if e.Type == wire.EventLeaving && e.Remove {
			h.places.EvictSoon(kind(m))
			return
		}
		h.places.Look(kind(m))
	})
}
