package places

import (
	"context"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/choice"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
)

// PlaceKind is the place that executor and runner_id of a request name together; "" = none.
func PlaceKind(executor, runnerID *string) (executors.Kind, error) {
	kind, id := rest.Val(executor), rest.Val(runnerID)
	switch {
	case strings.Contains(kind, ":"):
		return "", fault.New(fault.Invalid, "executor_unknown", "This server has no place %q. A machine is named by runner_id, with executor %q.", kind, executors.Runner).With("field", "executor")
	case id == "" && kind == string(executors.Runner):
		return "", fault.New(fault.Invalid, "runner_id_needed", "Set runner_id to the machine.").With("field", "runner_id")
	case id == "":
		return executors.Kind(kind), nil
	case kind != "" && kind != string(executors.Runner):
		return "", fault.New(fault.Invalid, "runner_id_unexpected", "runner_id goes with executor %q only.", executors.Runner).With("field", "runner_id")
	case !rest.PlainID(id):
		return "", fault.New(fault.NotFound, "runner_not_found", "This team has no such machine: it was never connected, or it was revoked. Choose another place.").With("field", "runner_id")
	}
	return executors.Runner.Of(id), nil
}

// PlaceOf is a kind as the API names it.
func PlaceOf(kind executors.Kind) (executor string, runnerID *string) {
	return string(kind.Base()), rest.Text(kind.Member())
}

// MachineOf finds the machine that a kind is, also one that was revoked.
func (h Machines) MachineOf(ctx context.Context, kind executors.Kind) (machines.Machine, bool) {
	if kind.Base() != executors.Runner || kind.Member() == "" {
		return machines.Machine{}, false
	}
	m, err := h.cfg.Machines.Known(ctx, kind.Member())
	return m, err == nil
}

// sandboxMachine describes the machine a sandbox is on.
func (h Machines) sandboxMachine(ctx context.Context, kind executors.Kind) *api.SandboxMachine {
	m, ok := h.MachineOf(ctx, kind)
	if !ok {
		return nil
	}
	owner, _ := h.cfg.Executors.OwnerOf(ctx, kind)
	out := &api.SandboxMachine{Name: m.Name, Os: m.Hello.OS, Arch: m.Hello.Arch, Mode: string(m.Hello.Mode), Online: m.Online && !m.Revoked(), Dangerous: new(m.Dangerous()), Owner: &owner.Name}
	if !out.Online {
		out.OfflineSince, out.Reason = rest.Ptr(m.OfflineAt), m.OfflineReason
		if m.Revoked() {
			out.Reason = "It was revoked."
		}
	}
	return out
}

// choosable are the places a user may choose: without others' own machines.
func choosable(all []choice.Option, userID string) []choice.Option {
	return slices.DeleteFunc(slices.Clone(all), func(s choice.Option) bool { return s.Kind.Member() != "" && !s.Owner.Admits(userID) })
}

// suggest says which place to preselect for a new workspace. remembered is what the user chose last in the project, "" = nothing.
func suggest(all []choice.Option, remembered executors.Kind, fixed bool) (out api.SuggestedPlace) {
	var def *choice.Option
	var online []choice.Option
	var last *choice.Option
	for i, s := range all {
		if s.Default {
			def = &all[i]
		}
		if s.Kind == remembered && remembered != "" {
			last = &all[i]
		}
		if s.Kind.Member() != "" && s.Available && s.Allowed {
			online = append(online, s)
		}
	}
	why := ""
	defer func() { out.Reason = rest.Text(why) }()
	take := func(s *choice.Option) {
		if s != nil {
			out.Executor, out.RunnerId = string(s.Kind.Base()), s.Kind.Member()
		}
	}
	take(def)
	switch {
	case fixed:
		return out
	case last != nil && last.Available && last.Allowed:
		take(last)
		out.Ask = len(online) > 1
	case last != nil:
		// Its place is never changed silently: who wants to go on elsewhere says so.
		out.Ask, why = true, "Last time it was "+last.Name+", which cannot be used now: "+rest.First(strings.TrimSuffix(last.Reason, "."), last.Forbidden)+"."
	case len(online) > 0:
		take(&online[0])
		out.Ask = len(online) > 1
	}
	if out.Ask && why == "" {
		why = "Several of your machines are connected."
	}
	return out
}

// Remember keeps which place a user has chosen in a project. What fails is no reason to refuse the workspace.
func (h Machines) Remember(ctx context.Context, projectID string, kind executors.Kind) {
	if kind == "" || kind == executors.Auto {
		return
	}
	call := rest.CallOf(ctx)
	if err := h.cfg.Policies.RememberPlace(ctx, call.Team.ID, projectID, call.Actor.User.ID, kind); err != nil {
		h.Log.WarnContext(ctx, "the chosen place could not be saved", "project_id", projectID, "error", err)
	}
}

// RunnerOn names the machine of a workspace.
func RunnerOn(w workspaces.Workspace, machine func(executors.Kind) (machines.Machine, bool)) (executor string, runnerID, name *string) {
	kind := executors.Kind(w.Executor)
	executor, runnerID = PlaceOf(kind)
	if m, ok := machine(kind); ok {
		name = &m.Name
	}
	return executor, runnerID, name
}
