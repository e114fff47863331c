package places

import (
	"cmp"
	"context"
	"slices"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/executors/runner/wire"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
)

// ByRunner finds a machine's team. A machine that its owner keeps for themselves does not exist for other members but those who manage the team.
func (h Machines) ByRunner(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	m, err := h.cfg.Machines.Known(ctx, id)
	if err != nil {
		return accounts.Object{}, err
	}
	if !seesMachine(call.Actor, m) {
		return accounts.Object{}, rest.ErrNotFound
	}
	call.Machine = m
	return accounts.InTeam(m.TeamID), nil
}

func seesMachine(a accounts.Actor, m machines.Machine) bool {
	return m.UserID == a.User.ID || m.MayUse(a.User.ID) || accounts.Can(a, accounts.ManageTeam, accounts.InTeam(m.TeamID)) == nil
}

// crowd is what is shown beside machines: whose they are and what lives on them.
type crowd struct {
	slug   string
	names  map[string]string
	work   map[string][]machines.Work
	hidden map[string]bool // workspaces that who asks may not see
}

func (h Machines) crowdOf(ctx context.Context, teamID, slug string) (crowd, error) {
	c := crowd{slug: slug, names: map[string]string{}, work: map[string][]machines.Work{}}
	members, err := h.cfg.Directory.Members(ctx, teamID)
	if err != nil {
		return c, err
	}
	for _, m := range members {
		c.names[m.User.ID] = m.User.Name
	}
	if c.hidden, err = h.Hidden(ctx, rest.CallOf(ctx)); err != nil {
		return c, err
	}
	work, err := h.cfg.Machines.Work(ctx, teamID)
	for _, w := range work {
		if c.hidden[w.ID] {
			continue
		}
		c.work[w.RunnerID] = append(c.work[w.RunnerID], w)
	}
	return c, err
}

// runnerOf shows a machine to somebody.
func (h Machines) runnerOf(a accounts.Actor, c crowd, m machines.Machine) api.Runner {
	hello, mine := m.Hello, m.UserID == a.User.ID
	out := api.Runner{Id: m.ID, Team: c.slug, UserId: m.UserID, UserName: c.names[m.UserID], Name: m.Name, State: api.Offline, Mode: api.RunnerMode(hello.Mode),
		Dangerous: m.Dangerous(), Image: hello.Image, Os: hello.OS, Arch: hello.Arch, Release: hello.Release, Hostname: hello.Hostname, Version: m.Version,
		Latest: m.Version == h.cfg.Version, Access: api.RunnerAccess(hello.Access), Share: api.RunnerShare(hello.Share), Network: api.RunnerNetwork(hello.Network),
		Allow: append([]string{}, hello.Allow...), QuietHours: hello.QuietHours, Isolation: hello.Isolation, Boundary: hello.Boundary, SharedHome: hello.SharedHome,
		Limits: api.RunnerLimits{Sandboxes: hello.Limits.Sandboxes, Cpus: float32(hello.Limits.CPUs), MemoryMb: hello.Limits.MemoryMB, DiskMb: hello.Limits.DiskMB, Processes: hello.Limits.Processes},
		Cpus:   hello.CPUs, MemoryMb: hello.MemoryMB, Warning: hello.Warning,
		Load: api.RunnerLoad{Cpu: float32(hello.Load.CPU), MemoryUsedMb: hello.Load.MemoryUsedMB, DiskFreeMb: hello.Load.DiskFreeMB, Sandboxes: hello.Load.Sandboxes,
			WaitingAnswer: hello.Load.WaitingAnswer},
		ConnectedAt: rest.Ptr(m.ConnectedAt), SeenAt: rest.Ptr(m.SeenAt), OfflineAt: rest.Ptr(m.OfflineAt), OfflineReason: m.OfflineReason, Leaving: m.Leaving, CreatedAt: m.CreatedAt,
		RevokedAt: rest.Ptr(m.RevokedAt), Mine: mine, MayUse: m.MayUse(a.User.ID), Questions: []api.RunnerQuestion{}, Folders: []api.RunnerFolder{}}
	out.MayManage = !m.Revoked() && (mine || accounts.Can(a, accounts.ManageTeam, accounts.InTeam(m.TeamID)) == nil)
	out.Available, out.Reason, out.Hint = h.machineStanding(m)
	switch {
	case m.Revoked():
		out.State = api.Revoked
	case m.Online:
		out.State = api.Online
	}
	if !out.Latest {
		out.UpdateHint = "This server offers version " + h.cfg.Version + ". Update it there with: parawork runner update"
	}
	if out.MayUse {
		out.Folders = rest.List(hello.Folders, folderOf)
	}
	if mine || out.MayUse {
		// Its owner reads on the machine itself what is asked there; nobody else does what is asked for a private workspace.
		asked := slices.DeleteFunc(slices.Clone(m.Questions), func(q wire.Question) bool { return !mine && c.hidden[q.WorkspaceID] })
		out.Questions = rest.List(asked, func(q wire.Question) api.RunnerQuestion {
			return api.RunnerQuestion{Id: q.ID, WorkspaceId: q.WorkspaceID, Text: q.Text, AskedAt: q.AskedAt}
		})
	}
	out.Workspaces = rest.List(c.work[m.ID], func(w machines.Work) api.RunnerWorkspace {
		return api.RunnerWorkspace{Id: w.ID, Key: w.Key, Name: w.Name, State: w.State}
	})
	return out
}

// machineStanding says whether work can be started on a machine now, and if not why and what helps.
func (h Machines) machineStanding(m machines.Machine) (available bool, reason, cure string) {
	switch {
	case m.Revoked():
		return false, "It was revoked.", "Connect the machine anew."
	case !h.cfg.Machines.Enabled():
		return false, "Members' own machines are switched off on this server.", "An operator switches them on with sandboxing.runner.enabled in config.json."
	case m.Key == nil:
		return false, "It was asked to take a new key and has not done so yet.", "Run the line with its new token on the machine, or ask for another one."
	case !m.Online && m.SeenAt == 0:
		return false, "It has not connected yet.", "Start it there with: parawork runner"
	case !m.Online:
		return false, "It is offline. " + m.OfflineReason, "Start it there with: parawork runner"
	case m.Leaving:
		return false, "It brings its work home and goes.", ""
	}
	return m.Hello.Available, m.Hello.Reason, m.Hello.Cure
}

func (h Machines) ListRunners(ctx context.Context, _ api.ListRunnersRequestObject) (api.ListRunnersResponseObject, error) {
	call := rest.CallOf(ctx)
	c, err := h.crowdOf(ctx, call.Team.ID, call.Team.Slug)
	if err != nil {
		return nil, err
	}
	out := api.ListRunners200JSONResponse{Enabled: h.cfg.Machines.Enabled(), Items: []api.Runner{}}
	for _, m := range h.cfg.Machines.Machines(ctx, call.Team.ID) {
		if seesMachine(call.Actor, m) {
			out.Items = append(out.Items, h.runnerOf(call.Actor, c, m))
		}
	}
	return out, nil
}

// runner shows the machine a call is about, as it is now.
func (h Machines) runner(ctx context.Context, id string) (api.Runner, error) {
	call := rest.CallOf(ctx)
	m, err := h.cfg.Machines.Known(ctx, id)
	if err != nil {
		return api.Runner{}, err
	}
	c, err := h.crowdOf(ctx, m.TeamID, call.Team.Slug)
	return h.runnerOf(call.Actor, c, m), err
}

func (h Machines) GetRunner(ctx context.Context, req api.GetRunnerRequestObject) (api.GetRunnerResponseObject, error) {
	out, err := h.runner(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.GetRunner200JSONResponse(out), nil
}

func (h Machines) UpdateRunner(ctx context.Context, req api.UpdateRunnerRequestObject) (api.UpdateRunnerResponseObject, error) {
	if err := rest.CallOf(ctx).Manages(); err != nil {
		return nil, err
	}
	if req.Body.Name != nil {
		if _, err := h.cfg.Machines.Rename(ctx, req.Id, *req.Body.Name); err != nil {
			return nil, err
		}
	}
	out, err := h.runner(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	return api.UpdateRunner200JSONResponse(out), nil
}

func (h Machines) RevokeRunner(ctx context.Context, req api.RevokeRunnerRequestObject) (api.RevokeRunnerResponseObject, error) {
	if err := rest.CallOf(ctx).Manages(); err != nil {
		return nil, err
	}
	if err := h.cfg.Machines.Revoke(ctx, req.Id); err != nil {
		return nil, err
	}
	return api.RevokeRunner204Response{}, nil
}

func (h Machines) ListRunnerHistory(ctx context.Context, req api.ListRunnerHistoryRequestObject) (api.ListRunnerHistoryResponseObject, error) {
	call := rest.CallOf(ctx)
	all, next, err := h.cfg.Machines.History(ctx, req.Id, rest.PageOf(req.Params.Limit, req.Params.Cursor))
	if err != nil {
		return nil, err
	}
	whole := call.Manages() == nil // where a machine calls from is not everybody's business
	return api.ListRunnerHistory200JSONResponse{NextCursor: rest.Text(next), Items: rest.List(all, func(c machines.Connection) api.RunnerConnection {
		out := api.RunnerConnection{Id: c.ID, BeganAt: c.BeganAt, EndedAt: rest.Ptr(c.EndedAt), Reason: c.Reason, Version: c.Version}
		if whole {
			out.Address = c.Address
		}
		return out
	})}, nil
}

func (h Machines) ListInstanceRunners(ctx context.Context, req api.ListInstanceRunnersRequestObject) (api.ListInstanceRunnersResponseObject, error) {
	pg := rest.PageOf(req.Params.Limit, req.Params.Cursor)
	after, ok, err := pg.Key()
	if err != nil {
		return nil, err
	}
	all := h.cfg.Machines.Machines(ctx, "")
	slices.SortFunc(all, func(a, b machines.Machine) int {
		return cmp.Or(cmp.Compare(b.CreatedAt, a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	if ok {
		all = slices.DeleteFunc(all, func(m machines.Machine) bool {
			return m.CreatedAt > after.At || m.CreatedAt == after.At && m.ID >= after.ID
		})
	}
	items, next := page.Cut(pg, all, func(m machines.Machine) page.Key { return page.Key{At: m.CreatedAt, ID: m.ID} })
	out, teams := api.ListInstanceRunners200JSONResponse{Enabled: h.cfg.Machines.Enabled(), NextCursor: rest.Text(next), Items: []api.Runner{}}, map[string]crowd{}
	for _, m := range items {
		c, known := teams[m.TeamID]
		if !known {
			t, err := h.cfg.Directory.TeamByID(ctx, m.TeamID)
			if err != nil {
				return nil, err
			}
			if c, err = h.crowdOf(ctx, t.ID, t.Slug); err != nil {
				return nil, err
			}
			c.work = nil // what a team works on is the team's
			teams[m.TeamID] = c
		}
		one := h.runnerOf(rest.CallOf(ctx).Actor, c, m)
		one.MayManage = true
		out.Items = append(out.Items, one)
	}
	return out, nil
}

func (h Machines) RevokeInstanceRunner(ctx context.Context, req api.RevokeInstanceRunnerRequestObject) (api.RevokeInstanceRunnerResponseObject, error) {
	if err := h.cfg.Machines.Revoke(ctx, req.Id); err != nil {
		if fault.Is(err, fault.NotFound) {
			err = rest.ErrNotFound
		}
		return nil, err
	}
	return api.RevokeInstanceRunner204Response{}, nil
}
