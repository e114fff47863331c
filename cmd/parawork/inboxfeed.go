package main

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/work"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/workspaces"
)

// inboxFeed shows the inbox of a team in the shape notify needs: items of sessions beside the workspaces they belong to.
type inboxFeed struct{ h *house }

// Items returns what waits for people in a team now. Work that was put away waits for nobody.
func (f inboxFeed) Items(ctx context.Context, teamID string) ([]notify.Item, error) {
	items, err := f.h.sessions.Inbox(ctx, teamID, "")
	if err != nil {
		return nil, fmt.Errorf("reading the inbox: %w", err)
	}
	items = append(items, money.GraceItems(f.h.enforcer.Graces(teamID))...)
	answered, err := f.h.reviews.AnsweredIn(ctx, teamID)
	if err != nil {
		return nil, err
	}
	items = append(items, work.ReviewItems(answered)...)
	news, err := f.h.enforcer.News(ctx, teamID)
	if err != nil {
		return nil, err
	}
	items, active, err := work.AskingWorkspaces(ctx, f.h.workspaces, teamID, workspaces.Filter{}, items)
	if err != nil {
		return nil, fmt.Errorf("reading workspaces: %w", err)
	}
	if len(items)+len(news) == 0 {
		return nil, nil
	}
	team, err := f.h.directory.TeamByID(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the team: %w", err)
	}
	projects, err := f.h.workspaces.ProjectLines(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading projects: %w", err)
	}
	out, err := f.news(ctx, team, news)
	if err != nil {
		return nil, err
	}
	tell := f.h.enforcer.Tells(teamID)
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
		if n.OnlyFor = it.OnlyFor; n.OnlyFor != "" {
			n.Owners = []string{it.OnlyFor}
		}
		if w.Private {
			if n.OnlyFor != "" && n.OnlyFor != w.CreatedBy {
				continue
			}
			n.OnlyFor = w.CreatedBy
		}
		if it.Kind == question.InboxBudget {
			n.NoHooks, n.NoPush = !tell.Webhooks, !tell.App
		}
		if q := it.Question; q != nil {
			n.QuestionID, n.QuestionTitle, n.QuestionDetail = q.ID, q.Title, q.Detail
		}
		out = append(out, n)
	}
	return out, nil
}

// news are the thresholds a team passed lately: they wait for no workspace. Of a user's hours only the user is told.
func (f inboxFeed) news(ctx context.Context, team accounts.Team, all []quota.Crossing) ([]notify.Item, error) {
	if len(all) == 0 {
		return nil, nil
	}
	members, err := f.h.directory.Members(ctx, team.ID)
	if err != nil {
		return nil, fmt.Errorf("reading members: %w", err)
	}
	var keepers []string
	for _, m := range members {
		if keepsMoney(m.Role) {
			keepers = append(keepers, m.User.ID)
		}
	}
	tell := f.h.enforcer.Tells(team.ID)
	out := make([]notify.Item, 0, len(all))
	for _, a := range all {
		n := notify.Item{ID: a.ID(), Kind: notify.Budget, TeamID: team.ID, TeamSlug: team.Slug, TeamName: team.Name, Reason: a.Words(), Since: a.At, Owners: keepers,
			NoHooks: !tell.Webhooks, NoPush: !tell.App}
		if a.Scope == quota.ScopeUserHours {
			n.OnlyFor, n.Owners = a.ScopeID, []string{a.ScopeID}
		}
		out = append(out, n)
	}
	return out, nil
}
