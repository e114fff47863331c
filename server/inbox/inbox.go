// Package inbox shows what waits for people of a team to whoever notifies them: the same that the API's inbox is composed of, without what one
// person called done. It has no goroutine and no lock.
package inbox

import (
	"context"
	"fmt"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/work"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Config is what a Feed is made of. All is required.
type Config struct {
	Sessions   *sessions.Service
	Limits     *quota.Enforcer
	Reviews    *reviews.Service
	Workspaces *assembly.Workspaces
	Directory  *directory.Service
}

// Feed shows the inbox of a team in the shape notify needs: items of sessions beside the workspaces they belong to.
type Feed struct{ cfg Config }

var _ notify.Inbox = Feed{}

// New makes a Feed.
func New(cfg Config) Feed { return Feed{cfg} }

// Items returns what waits for people in a team now. Work that was put away waits for nobody.
func (f Feed) Items(ctx context.Context, teamID string) ([]notify.Item, error) {
	items, err := f.cfg.Sessions.Inbox(ctx, teamID, "")
	if err != nil {
		return nil, fmt.Errorf("reading the inbox: %w", err)
	}
	items = append(items, money.GraceItems(f.cfg.Limits.Graces(teamID))...)
	answered, err := f.cfg.Reviews.AnsweredIn(ctx, teamID)
	if err != nil {
		return nil, err
	}
	items = append(items, work.ReviewItems(answered)...)
	news, err := f.cfg.Limits.News(ctx, teamID)
	if err != nil {
		return nil, err
	}
	items, active, err := work.AskingWorkspaces(ctx, f.cfg.Workspaces, teamID, workspaces.Filter{}, items)
	if err != nil {
		return nil, fmt.Errorf("reading workspaces: %w", err)
	}
	if len(items)+len(news) == 0 {
		return nil, nil
	}
	team, err := f.cfg.Directory.TeamByID(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading the team: %w", err)
	}
	projects, err := f.cfg.Workspaces.Records.ProjectLines(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading projects: %w", err)
	}
	out, err := f.news(ctx, team, news)
	if err != nil {
		return nil, err
	}
	ways := f.cfg.Limits.Notifies(teamID)
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
			n.NoHooks, n.NoPush = !ways.Webhooks, !ways.App
		}
		if q := it.Question; q != nil {
			n.QuestionID, n.QuestionTitle, n.QuestionDetail = q.ID, q.Title, q.Detail
		}
		out = append(out, n)
	}
	return out, nil
}

// news are the thresholds a team passed recently; they belong to no workspace. Only the user learns of their own hours.
func (f Feed) news(ctx context.Context, team accounts.Team, all []quota.Crossing) ([]notify.Item, error) {
	if len(all) == 0 {
		return nil, nil
	}
	members, err := f.cfg.Directory.Members(ctx, team.ID)
	if err != nil {
		return nil, fmt.Errorf("reading members: %w", err)
	}
	var keepers []string
	for _, m := range members {
		if alerts.KeepsMoney(m.Role) {
			keepers = append(keepers, m.User.ID)
		}
	}
	ways := f.cfg.Limits.Notifies(team.ID)
	out := make([]notify.Item, 0, len(all))
	for _, a := range all {
		n := notify.Item{ID: a.ID(), Kind: notify.Budget, TeamID: team.ID, TeamSlug: team.Slug, TeamName: team.Name, Reason: a.Words(), Since: a.At, Owners: keepers,
			NoHooks: !ways.Webhooks, NoPush: !ways.App}
		if a.Scope == quota.ScopeUserHours {
			n.OnlyFor, n.Owners = a.ScopeID, []string{a.ScopeID}
		}
		out = append(out, n)
	}
	return out, nil
}
