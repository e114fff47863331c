package work

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/parawork/parawork/accounts/audit"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/overlap"
)

func checkOf(c workspaces.Check) api.ProjectCheck {
	return api.ProjectCheck{Id: c.ID, Name: c.Name, Command: c.Command, TimeoutSeconds: c.TimeoutSeconds, Required: c.Required, AfterTurn: c.AfterTurn, Paths: append([]string{}, c.Paths...)}
}

func checksIn(list *[]api.ProjectCheckInput) *[]workspaces.Check {
	if list == nil {
		return nil
	}
	out := make([]workspaces.Check, 0, len(*list))
	for _, c := range *list {
		out = append(out, workspaces.Check{ID: rest.Val(c.Id), Name: c.Name, Command: c.Command, TimeoutSeconds: rest.Val(c.TimeoutSeconds), Required: rest.Val(c.Required), AfterTurn: rest.Val(c.AfterTurn), Paths: rest.Val(c.Paths)})
	}
	return &out
}

func mergingOf(m workspaces.Merging) api.Merging {
	return api.Merging{Strategy: api.MergingStrategy(m.HowToMerge()), Queue: m.Queue, RequireChecks: m.RequireChecks, RequireApproval: m.RequireApproval}
}

// mergingIn is what a patch makes of a project's rules of merging.
func mergingIn(p workspaces.Project, b *api.MergingPatch) *workspaces.Merging {
	if b == nil {
		return nil
	}
	m := p.Merging
	if b.Strategy != nil {
		m.Strategy = string(*b.Strategy)
	}
	for _, f := range [...]struct {
		to   *bool
		from *bool
	}{{&m.Queue, b.Queue}, {&m.RequireChecks, b.RequireChecks}, {&m.RequireApproval, b.RequireApproval}} {
		if f.from != nil {
			*f.to = *f.from
		}
	}
	return &m
}

func checkRunOf(r checks.Run, names map[string]string) api.CheckRun {
	return api.CheckRun{Id: r.ID, WorkspaceId: r.WorkspaceID, BatchId: r.BatchID, QueueId: rest.Text(r.QueueID), CheckId: r.CheckID, Name: r.Name, Command: r.Command,
		Required: r.Required, Tree: r.Tree, Commit: r.Commit, State: api.CheckRunState(r.State), Reason: r.Reason, ExitCode: r.ExitCode, Truncated: r.Truncated,
		StartedBy: r.StartedBy, StartedByName: nameIn(names, r.StartedBy), CreatedAt: r.CreatedAt, StartedAt: rest.Ptr(r.StartedAt), EndedAt: rest.Ptr(r.EndedAt)}
}

// nameIn is how people know a user who did something.
func nameIn(names map[string]string, userID string) string {
	switch {
	case userID == "":
		return "Parawork"
	case names[userID] == "":
		return "a former member"
	}
	return names[userID]
}

func (h Checks) overviewOf(ctx context.Context, workspaceID string) (api.Checks, error) {
	o, err := h.cfg.Checks.Overview(ctx, workspaceID)
	if err != nil {
		return api.Checks{}, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, rest.CallOf(ctx).Object.TeamID)
	if err != nil {
		return api.Checks{}, err
	}
	out := api.Checks{State: api.ChecksState(o.State), Items: []api.WorkspaceCheck{}, History: rest.List(o.History, func(r checks.Run) api.CheckRun { return checkRunOf(r, names) })}
	for _, i := range o.Items {
		one := api.WorkspaceCheck{Check: checkOf(i.Check), State: api.ChecksState(i.State)}
		if i.Run != nil {
			run := checkRunOf(*i.Run, names)
			one.Run = &run
		}
		out.Items = append(out.Items, one)
	}
	return out, nil
}

func (h Checks) GetChecks(ctx context.Context, req api.GetChecksRequestObject) (api.GetChecksResponseObject, error) {
	o, err := h.overviewOf(ctx, req.Id)
	return api.GetChecks200JSONResponse(o), err
}

func (h Checks) RunChecks(ctx context.Context, req api.RunChecksRequestObject) (api.RunChecksResponseObject, error) {
	if err := h.cfg.Checks.Start(ctx, rest.CallOf(ctx).Actor.User.ID, req.Id, rest.Val(req.Body.CheckIds)); err != nil {
		return nil, err
	}
	o, err := h.overviewOf(ctx, req.Id)
	return api.RunChecks200JSONResponse(o), err
}

func (h Checks) CancelCheckRun(ctx context.Context, req api.CancelCheckRunRequestObject) (api.CancelCheckRunResponseObject, error) {
	r, err := h.cfg.Checks.Cancel(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, r.TeamID)
	return api.CancelCheckRun200JSONResponse(checkRunOf(r, names)), err
}

func (h Checks) GetCheckOutput(ctx context.Context, req api.GetCheckOutputRequestObject) (api.GetCheckOutputResponseObject, error) {
	out, cut, err := h.cfg.Checks.Output(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	truncated := strconv.FormatBool(cut)
	return api.GetCheckOutput200TextResponse{Body: out, Headers: api.GetCheckOutput200ResponseHeaders{XTruncated: &truncated}}, nil
}

func entryOfQueue(e checks.Listed, key, name string, names map[string]string) api.QueueEntry {
	return api.QueueEntry{Id: e.ID, ProjectId: e.ProjectID, WorkspaceId: e.WorkspaceID, WorkspaceKey: key, WorkspaceName: name, Base: e.Base,
		Strategy: api.QueueEntryStrategy(e.Strategy), Message: e.Message, State: api.QueueEntryState(e.State), Reason: e.Reason, Head: e.Head, BaseCommit: e.BaseCommit,
		Commit: e.Commit, Position: e.Place, AddedBy: e.AddedBy, AddedByName: nameIn(names, e.AddedBy), CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt, EndedAt: rest.Ptr(e.EndedAt),
		Runs: rest.List(e.Runs, func(r checks.Run) api.CheckRun { return checkRunOf(r, names) })}
}

// seenQueue is a project's queue as the caller sees it: without others' private workspaces, which take no place in it either.
func (h Checks) seenQueue(ctx context.Context, projectID string) (open, ended []api.QueueEntry, err error) {
	o, e, err := h.cfg.Checks.Queue(ctx, projectID)
	if err != nil {
		return nil, nil, err
	}
	call := rest.CallOf(ctx)
	hidden, err := h.HiddenIn(ctx, call.Actor, call.Object.TeamID)
	if err != nil {
		return nil, nil, err
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, call.Object.TeamID)
	if err != nil {
		return nil, nil, err
	}
	show := func(list []checks.Listed) ([]api.QueueEntry, error) {
		out := []api.QueueEntry{}
		for _, l := range list {
			if hidden[l.WorkspaceID] {
				continue
			}
			w, err := h.cfg.Workspaces.Records.Workspace(ctx, l.WorkspaceID)
			if err != nil {
				return nil, err
			}
			if l.EndedAt == 0 {
				l.Place = len(out) + 1
			}
			out = append(out, entryOfQueue(l, w.Key(), w.Name, names))
		}
		return out, nil
	}
	if open, err = show(o); err != nil {
		return nil, nil, err
	}
	ended, err = show(e)
	return open, ended, err
}

func (h Checks) ListMergeQueue(ctx context.Context, req api.ListMergeQueueRequestObject) (api.ListMergeQueueResponseObject, error) {
	open, ended, err := h.seenQueue(ctx, req.Id)
	return api.ListMergeQueue200JSONResponse{Items: open, Ended: ended}, err
}

// queuedOf is the workspace's newest entry as the caller sees it.
func (h Checks) queuedOf(ctx context.Context, w workspaces.Workspace) (*api.QueueEntry, error) {
	l, err := h.cfg.Checks.Newest(ctx, w.ID)
	if err != nil || l == nil {
		return nil, err
	}
	if l.EndedAt == 0 {
		open, _, err := h.seenQueue(ctx, w.ProjectID)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(open, func(e api.QueueEntry) bool { return e.Id == l.ID }); i >= 0 {
			return &open[i], nil
		}
	}
	names, err := rest.MemberNames(ctx, h.cfg.Directory, w.TeamID)
	e := entryOfQueue(*l, w.Key(), w.Name, names)
	return &e, err
}

func (h Checks) GetQueued(ctx context.Context, _ api.GetQueuedRequestObject) (api.GetQueuedResponseObject, error) {
	e, err := h.queuedOf(ctx, rest.CallOf(ctx).Workspace)
	return api.GetQueued200JSONResponse{Entry: e}, err
}

func (h Checks) EnqueueMerge(ctx context.Context, req api.EnqueueMergeRequestObject) (api.EnqueueMergeResponseObject, error) {
	r := checks.EnqueueRequest{Message: rest.Val(req.Body.Message), ExpectedHead: rest.Val(req.Body.ExpectedHead)}
	if req.Body.Strategy != nil {
		r.Strategy = string(*req.Body.Strategy)
	}
	e, err := h.cfg.Checks.Enqueue(ctx, rest.CallOf(ctx).Actor, req.Id, r)
	if err != nil {
		return nil, err
	}
	audit.Note(ctx, "strategy", e.Strategy)
	audit.Note(ctx, "head", e.Head)
	shown, err := h.queuedOf(ctx, rest.CallOf(ctx).Workspace)
	if err != nil || shown == nil {
		return nil, err
	}
	return api.EnqueueMerge201JSONResponse(*shown), nil
}

func (h Checks) DequeueMerge(ctx context.Context, req api.DequeueMergeRequestObject) (api.DequeueMergeResponseObject, error) {
	if err := h.cfg.Checks.Dequeue(ctx, rest.CallOf(ctx).Actor, req.Id); err != nil {
		return nil, err
	}
	return api.DequeueMerge204Response{}, nil
}

func keyOfNum(n int64) string { return workspaces.Workspace{Num: n}.Key() }

func (h Checks) ListOverlaps(ctx context.Context, req api.ListOverlapsRequestObject) (api.ListOverlapsResponseObject, error) {
	all, err := h.cfg.Overlap.OfProject(ctx, req.Id)
	if err != nil {
		return nil, err
	}
	if all, err = h.seenOverlaps(ctx, rest.CallOf(ctx).Object.TeamID, all); err != nil {
		return nil, err
	}
	sides := map[string]overlap.Side{}
	out := api.ListOverlaps200JSONResponse{Items: []api.Overlap{}, Order: []api.OverlapOrder{}}
	for _, o := range all {
		sides[o.FirstID], sides[o.SecondID] = o.First, o.Second
		out.Items = append(out.Items, api.Overlap{First: overlapSide(o.FirstID, o.First), Second: overlapSide(o.SecondID, o.Second),
			Files: rest.List(o.Files, func(f overlap.File) api.OverlapFile { return api.OverlapFile{Path: f.Path, Kind: f.Kind} })})
	}
	for _, p := range overlap.Order(all, func(id string) int { return int(sides[id].Num) }) {
		out.Order = append(out.Order, api.OverlapOrder{Id: p.WorkspaceID, Key: keyOfNum(sides[p.WorkspaceID].Num), Name: sides[p.WorkspaceID].Name, Overlaps: p.Overlaps})
	}
	return out, nil
}

func overlapSide(id string, s overlap.Side) api.OverlapSide {
	return api.OverlapSide{Id: id, Key: keyOfNum(s.Num), Name: s.Name}
}

// seenOverlaps leaves out overlaps with workspaces the caller may not see.
func (h *group) seenOverlaps(ctx context.Context, teamID string, all []overlap.Overlap) ([]overlap.Overlap, error) {
	if len(all) == 0 {
		return all, nil
	}
	hidden, err := h.HiddenIn(ctx, rest.CallOf(ctx).Actor, teamID)
	return slices.DeleteFunc(all, func(o overlap.Overlap) bool { return hidden[o.FirstID] || hidden[o.SecondID] }), err
}

// merging is what is shown of checks, queue and overlaps beside each workspace of a team.
type merging struct {
	checks   map[string]checks.State
	queue    map[string]api.WorkspaceQueue
	overlaps map[string][]api.WorkspaceOverlap
}

func (h Composer) mergingOf(ctx context.Context, teamID string, projects map[string]workspaces.ProjectLine, ids []string) (m merging, err error) {
	if m.checks, err = h.cfg.Checks.States(ctx, teamID, func(projectID string) []workspaces.Check { return projects[projectID].Checks }, ids...); err != nil {
		return m, fmt.Errorf("reading the results of checks: %w", err)
	}
	open, err := h.cfg.Checks.InQueue(ctx, teamID)
	if err != nil {
		return m, fmt.Errorf("reading merge queues: %w", err)
	}
	if len(open) > 0 {
		hidden, err := h.HiddenIn(ctx, rest.CallOf(ctx).Actor, teamID)
		if err != nil {
			return m, err
		}
		m.queue = make(map[string]api.WorkspaceQueue, len(open))
		for id, l := range open {
			place := l.Place
			for other, o := range open {
				if hidden[other] && o.ProjectID == l.ProjectID && o.Place < l.Place {
					place--
				}
			}
			m.queue[id] = api.WorkspaceQueue{State: api.WorkspaceQueueState(l.State), Position: place}
		}
	}
	all, err := h.cfg.Overlap.OfTeam(ctx, teamID, ids...)
	if err != nil {
		return m, fmt.Errorf("reading overlaps: %w", err)
	}
	if all, err = h.seenOverlaps(ctx, teamID, all); err != nil {
		return m, err
	}
	m.overlaps = map[string][]api.WorkspaceOverlap{}
	for _, o := range all {
		m.overlaps[o.FirstID] = append(m.overlaps[o.FirstID], api.WorkspaceOverlap{Id: o.SecondID, Key: keyOfNum(o.Second.Num), Name: o.Second.Name, Files: len(o.Files)})
		m.overlaps[o.SecondID] = append(m.overlaps[o.SecondID], api.WorkspaceOverlap{Id: o.FirstID, Key: keyOfNum(o.First.Num), Name: o.First.Name, Files: len(o.Files)})
	}
	return m, nil
}

func (m merging) of(workspaceID string) (*[]api.WorkspaceOverlap, *api.WorkspaceChecks, *api.WorkspaceQueue) {
	overlaps := m.overlaps[workspaceID]
	if overlaps == nil {
		overlaps = []api.WorkspaceOverlap{}
	}
	state := cmp.Or(m.checks[workspaceID], checks.None)
	c := &api.WorkspaceChecks{State: api.ChecksState(state)}
	if q, ok := m.queue[workspaceID]; ok {
		return &overlaps, c, &q
	}
	return &overlaps, c, nil
}
