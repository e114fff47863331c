// Package inbox shows what waits for people of a team to whoever notifies them: the same that the API's inbox is composed of, without what one
// person called done. It has no goroutine and no lock.
package inbox

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/accounts/directory"
	"github.com/parawork/parawork/billing/alerts"
	"github.com/parawork/parawork/billing/quota"
	"github.com/parawork/parawork/executors/runner/machines"
	"github.com/parawork/parawork/notify"
	"github.com/parawork/parawork/server/money"
	"github.com/parawork/parawork/server/work"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/assembly"
	"github.com/parawork/parawork/workspaces/checks"
	"github.com/parawork/parawork/workspaces/reviews"
)

// Config is what a Feed is made of. All is required.
type Config struct {
	Sessions   *sessions.Service
	Limits     Limits
	Reviews    *reviews.Service
	Workspaces *assembly.Workspaces
	Directory  *directory.Service
	Happened   Happened
	Machines   func(ctx context.Context, teamID string) []machines.Machine // the team's, connected or not
	Now        func() int64                                                // ms UTC
}

// Limits of time and money.
type Limits interface {
	Graces(teamID string) []quota.WorkGrace
	News(ctx context.Context, teamID string) ([]quota.Crossing, error)
	Notifies(teamID string) quota.Notify
}

// Happened knows what people are notified of although it waits for nobody.
type Happened interface {
	// FailedChecks returns the required checks of a team that failed after a time, oldest first.
	FailedChecks(ctx context.Context, teamID string, after int64) ([]checks.Run, error)
	// SentReviews returns what people reviewed of others' work after a time, oldest first and without comments.
	SentReviews(ctx context.Context, teamID string, after int64) ([]reviews.Review, error)
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
	happened, err := f.happened(ctx, teamID)
	if err != nil {
		return nil, err
	}
	items = append(items, happened...)
	news, err := f.cfg.Limits.News(ctx, teamID)
	if err != nil {
		return nil, err
	}
	lost := f.lost(ctx, teamID)
	items, active, err := work.AskingWorkspaces(ctx, f.cfg.Workspaces, teamID, workspaces.Filter{}, items)
	if err != nil {
		return nil, fmt.Errorf("reading workspaces: %w", err)
	}
	if len(items)+len(news)+len(lost) == 0 {
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
	for _, m := range lost {
		// One for each hour: a connection may come and go.
		out = append(out, notify.Item{ID: question.Episode(m.ID, m.OfflineAt/time.Hour.Milliseconds()), Kind: notify.Machine, TeamID: teamID, TeamSlug: team.Slug, TeamName: team.Name,
			Reason: m.Name + " is offline. " + m.OfflineReason, Since: m.OfflineAt, Owners: []string{m.UserID}, OnlyFor: m.UserID})
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
		if it.Kind == question.InboxLimited { // people choose how they hear of it together with other sessions in which nothing moves
			n.Kind = notify.Stuck
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

// happened are items of what happened lately: required checks that failed, those that began together once, and reviews of people.
func (f Feed) happened(ctx context.Context, teamID string) ([]question.InboxItem, error) {
	failed, err := f.cfg.Happened.FailedChecks(ctx, teamID, f.lately())
	if err != nil {
		return nil, err
	}
	reviewed, err := f.cfg.Happened.SentReviews(ctx, teamID, f.lately())
	if err != nil {
		return nil, err
	}
	var out []question.InboxItem
	for _, r := range failed {
		out = append(out, question.InboxItem{ID: r.BatchID, Kind: notify.Checks, WorkspaceID: r.WorkspaceID, StartedBy: r.StartedBy, Reason: fmt.Sprintf("The check %q failed.", r.Name), Since: r.EndedAt})
	}
	if len(reviewed) == 0 {
		return out, nil
	}
	members, err := f.cfg.Directory.Members(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading members: %w", err)
	}
	names := make(map[string]string, len(members))
	for _, m := range members {
		names[m.User.ID] = m.User.Name
	}
	words := map[reviews.Verdict]string{reviews.Approve: " approved your changes.", reviews.Changes: " asks for changes.", reviews.Comments: " commented on your changes."}
	for _, r := range reviewed {
		out = append(out, question.InboxItem{ID: question.Episode(r.ID, r.SentAt), Kind: notify.Comment, WorkspaceID: r.WorkspaceID, Reason: cmp.Or(names[r.AuthorID], "A former member") + words[r.Verdict], Since: r.SentAt})
	}
	return out, nil
}

// lost are the machines of a team that went offline lately.
func (f Feed) lost(ctx context.Context, teamID string) []machines.Machine {
	return slices.DeleteFunc(f.cfg.Machines(ctx, teamID), func(m machines.Machine) bool { return !m.Lost() || m.OfflineAt < f.lately() })
}

func (f Feed) lately() int64 { return f.cfg.Now() - notify.TooOld.Milliseconds() }

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
