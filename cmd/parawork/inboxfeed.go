package main

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/workspaces"
)

// inboxFeed shows the inbox of a team in the shape notify needs: items of sessions beside the workspaces they belong to.
type inboxFeed struct{ h *house }

// Items returns what waits for people in a team now. Work that was put away waits for nobody.
func (f inboxFeed) Items(ctx context.Context, teamID string) ([]notify.Item, error) {
	items, err := f.h.sessions.Inbox(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the inbox: %w", err)
	}
	active := map[string]workspaces.Workspace{}
	for pg := (page.Page{Limit: page.MaxLimit}); ; {
		some, next, err := f.h.workspaces.List(ctx, teamID, workspaces.Filter{Show: workspaces.ShowActive}, pg)
		if err != nil {
			return nil, fmt.Errorf("reading workspaces: %w", err)
		}
		for _, w := range some {
			active[w.ID] = w
			if w.State == workspaces.Failed {
				items = append(items, sessions.InboxItem{ID: sessions.Episode(w.ID, w.UpdatedAt), Kind: sessions.InboxFailed, WorkspaceID: w.ID, Reason: w.StateReason, Since: w.UpdatedAt})
			}
		}
		if pg.Cursor = next; next == "" {
			break
		}
	}
	if len(items) == 0 {
		return nil, nil
	}
	team, err := f.h.accounts.TeamByID(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the team: %w", err)
	}
	projects, err := f.h.workspaces.ProjectLines(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading projects: %w", err)
	}
	out := make([]notify.Item, 0, len(items))
	for _, it := range items {
		w, there := active[it.WorkspaceID]
		if !there {
			continue
		}
		n := notify.Item{ID: it.ID, Kind: it.Kind, TeamID: teamID, TeamSlug: team.Slug, TeamName: team.Name, WorkspaceID: w.ID, WorkspaceKey: w.Key(), WorkspaceName: w.Name,
			ProjectName: projects[w.ProjectID].Name, SessionID: it.SessionID, Agent: it.Agent, AgentName: it.AgentName, Reason: it.Reason, Since: it.Since,
			Owners: []string{w.CreatedBy}}
		if it.StartedBy != "" {
			n.Owners = append(n.Owners, it.StartedBy)
		}
		if w.Private {
			n.OnlyFor = w.CreatedBy
		}
		if q := it.Question; q != nil {
			n.QuestionID, n.QuestionTitle, n.QuestionDetail = q.ID, q.Title, q.Detail
		}
		out = append(out, n)
	}
	return out, nil
}
