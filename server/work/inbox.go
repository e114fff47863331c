package work

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/automations/tending"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/server/api"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/rest"
	"github.com/parawork/parawork/server/running"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/reviews"
)

// ByInboxItem reads what an item of the inbox is about: a question, a session or a workspace. What follows the id after a dash
// is when it began.
func (h Inbox) ByInboxItem(ctx context.Context, call *rest.Call, id string) (accounts.Object, error) {
	about, _, _ := strings.Cut(id, "-")
	var err error
	switch kind, _, _ := strings.Cut(about, "_"); kind {
	case "qst":
		var q question.Question
		q, err = h.cfg.Sessions.Board.QuestionByID(ctx, about)
		call.Workspace.ID = q.WorkspaceID
	case "ses":
		call.Session, err = h.cfg.Sessions.Get(ctx, about)
		call.Workspace.ID = call.Session.WorkspaceID
	case "grc":
		g, ok := h.cfg.GraceViews.Grace(about)
		if !ok {
			return accounts.Object{}, rest.ErrNotFound
		}
		call.Workspace.ID = g.WorkspaceID
	case "rev":
		var r reviews.Review
		r, err = h.cfg.Reviews.Find(ctx, call.Actor, about)
		call.Workspace.ID = r.WorkspaceID
	case "ws":
		if call.Workspace, err = h.cfg.Workspaces.Records.Workspace(ctx, about); err != nil {
			return accounts.Object{}, err
		}
		return h.ObjectOf(ctx, call.Actor, call.Workspace)
	default:
		return accounts.Object{}, rest.ErrNotFound
	}
	if err != nil {
		return accounts.Object{}, err
	}
	return h.Within(ctx, call, call.Workspace.ID)
}

// inbox returns the inbox of the caller: what the sessions wait for and workspaces that could not be made, less what the caller
// called done.
func (h Inbox) inbox(ctx context.Context) ([]question.InboxItem, map[string]workspaces.Workspace, error) {
	call := rest.CallOf(ctx)
	items, err := h.cfg.Sessions.Inbox(ctx, call.Team.ID, call.Actor.User.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the inbox: %w", err)
	}
	if h.cfg.Graces != nil {
		items = append(items, money.GraceItems(h.cfg.Graces.Graces(call.Team.ID))...)
	}
	answered, err := h.cfg.Reviews.AnsweredIn(ctx, call.Team.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the inbox: %w", err)
	}
	items = append(items, ReviewItems(answered)...)
	// People are notified of these where that is found out, so that they are not among what notifies people of the inbox.
	needing, err := h.cfg.Tending.Needing(ctx, call.Team.ID)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the inbox: %w", err)
	}
	items = append(items, rest.List(needing, func(t tending.Tending) question.InboxItem {
		return question.InboxItem{ID: question.Episode(t.WorkspaceID, t.Since), Kind: question.InboxStuck, WorkspaceID: t.WorkspaceID, AgentName: tending.Called, StartedBy: t.CreatedBy, Reason: t.Because, Since: t.Since}
	})...)
	items, active, err := AskingWorkspaces(ctx, h.cfg.Workspaces, call.Team.ID, rest.ShownTo(call, workspaces.Filter{}), items)
	if err != nil {
		return nil, nil, fmt.Errorf("reading the inbox: %w", err)
	}
	// Of the thousands that somebody may have called done over time, those of what is shown.
	marks, err := h.cfg.Sessions.Board.Marks(ctx, call.Actor.User.ID, call.Team.ID, rest.List(items, func(it question.InboxItem) string { return it.ID }))
	if err != nil {
		return nil, nil, fmt.Errorf("reading the inbox: %w", err)
	}
	kept := items[:0]
	for _, it := range items {
		m := marks[it.ID]
		if _, there := active[it.WorkspaceID]; !there || m.DoneAt != 0 || it.OnlyFor != "" && it.OnlyFor != call.Actor.User.ID {
			continue
		}
		it.SnoozedUntil = m.SnoozedUntil
		kept = append(kept, it)
	}
	return kept, active, nil
}

// AskingWorkspaces returns the active workspaces that items are about, by id and in brief, and items with those of workspaces that could not be made. f says who
// looks. What is read grows with what asks for somebody, not with the team's workspaces.
func AskingWorkspaces(ctx context.Context, from *assembly.Workspaces, teamID string, f workspaces.Filter, items []question.InboxItem) ([]question.InboxItem, map[string]workspaces.Workspace, error) {
	f.Show, f.State, f.Brief, f.Work = workspaces.ShowActive, workspaces.Failed, true, true
	all, err := from.Lifecycle.All(ctx, teamID, f)
	if err != nil {
		return nil, nil, err
	}
	about := make(map[string]bool, len(items))
	for _, it := range items {
		about[it.WorkspaceID] = true
	}
	for _, w := range all {
		items = append(items, question.InboxItem{ID: question.Episode(w.ID, w.UpdatedAt), Kind: question.InboxFailed, WorkspaceID: w.ID, Reason: w.StateReason, Since: w.UpdatedAt})
	}
	if len(about) > 0 {
		f.State, f.IDs = "", slices.Collect(maps.Keys(about))
		some, err := from.Lifecycle.All(ctx, teamID, f)
		if err != nil {
			return nil, nil, err
		}
		all = append(all, some...)
	}
	active := make(map[string]workspaces.Workspace, len(all))
	for _, w := range all {
		active[w.ID] = w
	}
	return slices.DeleteFunc(items, func(it question.InboxItem) bool { return settled(it, active[it.WorkspaceID]) }), active, nil
}

// settled reports whether a merge has answered an item: what an agent had finished by then needs nobody's look any more.
func settled(it question.InboxItem, w workspaces.Workspace) bool {
	return (it.Kind == question.InboxFinished || it.Kind == question.InboxReview) && w.MergedAt >= it.Since && w.MergedAt != 0
}

func (h Inbox) GetInbox(ctx context.Context, _ api.GetInboxRequestObject) (api.GetInboxResponseObject, error) {
	items, about, err := h.inbox(ctx)
	if err != nil {
		return nil, err
	}
	projects, err := h.cfg.Workspaces.Records.ProjectLines(ctx, rest.CallOf(ctx).Team.ID)
	if err != nil {
		return nil, fmt.Errorf("reading projects: %w", err)
	}
	now := h.now()
	question.SortInbox(items, now)
	out := api.GetInbox200JSONResponse{Items: make([]api.InboxItem, 0, len(items))}
	for _, it := range items {
		w := about[it.WorkspaceID]
		item := api.InboxItem{Id: it.ID, Kind: api.InboxItemKind(it.Kind), WorkspaceId: w.ID, WorkspaceKey: w.Key(), WorkspaceName: w.Name,
			ProjectName: projects[w.ProjectID].Name, SessionId: it.SessionID, Agent: it.Agent, AgentName: it.AgentName, Reason: it.Reason, Since: it.Since,
			Question: running.AskedOf(it.Question), Until: rest.Ptr(it.Until)}
		if it.SnoozedUntil > now {
			item.SnoozedUntil = &it.SnoozedUntil
		} else {
			out.Count++
		}
		out.Items = append(out.Items, item)
	}
	if rest.CallOf(ctx).Actor.User.Operator {
		passed, err := h.cfg.Ledger.Passed(ctx)
		if err != nil {
			return nil, err
		}
		if passed != nil {
			out.InstanceBudget = &api.InstanceBudgetNotice{Id: fmt.Sprintf("%s-%d", passed.Period, passed.Percent), Percent: passed.Percent, Text: passed.Words()}
		}
	}
	return out, nil
}

func (h Inbox) now() int64 { return h.cfg.Now().UnixMilli() }

// mark is what the caller does with the item the path names.
func mark(ctx context.Context, itemID string) question.Mark {
	call := rest.CallOf(ctx)
	return question.Mark{UserID: call.Actor.User.ID, ItemID: itemID, TeamID: call.Team.ID, WorkspaceID: call.Workspace.ID}
}

// maxSnooze is how long an item may be hidden.
const maxSnooze = 366 * 24 * 3600 * 1000

func (h Inbox) SnoozeInboxItem(ctx context.Context, req api.SnoozeInboxItemRequestObject) (api.SnoozeInboxItemResponseObject, error) {
	m := mark(ctx, req.Id)
	if until := req.Body.Until; until > h.now()+maxSnooze || until < 0 {
		return nil, fault.New(fault.Invalid, "invalid_snooze", "until must be a time in milliseconds since 1970, within a year from now.").With("field", "until")
	} else if until > h.now() {
		m.SnoozedUntil = until
	}
	return api.SnoozeInboxItem204Response{}, h.cfg.Sessions.Board.Mark(ctx, m)
}

func (h Inbox) FinishInboxItem(ctx context.Context, req api.FinishInboxItemRequestObject) (api.FinishInboxItemResponseObject, error) {
	m := mark(ctx, req.Id)
	m.DoneAt = h.now()
	return api.FinishInboxItem204Response{}, h.cfg.Sessions.Board.Mark(ctx, m)
}

func (h Inbox) ReopenInboxItem(ctx context.Context, req api.ReopenInboxItemRequestObject) (api.ReopenInboxItemResponseObject, error) {
	return api.ReopenInboxItem204Response{}, h.cfg.Sessions.Board.Mark(ctx, mark(ctx, req.Id))
}
