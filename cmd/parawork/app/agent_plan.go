package app

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/tasks"
)

// planTasks creates the tasks of approved plans.
type planTasks struct{ *App }

// create imports them: all or none, and those that were imported before with the same key are only found again.
func (p planTasks) create(ctx context.Context, c tools.Caller, key string, of []plan.Task) ([]string, error) {
	project, err := p.projectOf(ctx, c.WorkspaceID)
	if err != nil {
		return nil, err
	}
	name := func(n int) string { return fmt.Sprintf("%s-%d", key, n) }
	var lines bytes.Buffer
	for i, t := range of {
		issue := tasks.Issue{ID: name(i + 1), Title: t.Title, Description: t.Description, Status: string(tasks.Open), Priority: tasks.DefaultPriority, Type: tasks.Types[0], CreatedAt: time.Now()}
		for _, on := range t.BlockedBy {
			issue.Dependencies = append(issue.Dependencies, tasks.IssueDependency{IssueID: issue.ID, DependsOnID: name(on), Type: string(tasks.Blocks), CreatedAt: issue.CreatedAt})
		}
		if err := json.NewEncoder(&lines).Encode(issue); err != nil {
			return nil, err
		}
	}
	_, ids, err := p.tasks.ImportNamed(ctx, tasks.Who{TeamID: c.TeamID, UserID: c.UserID, SessionID: c.SessionID, WorkspaceID: c.WorkspaceID, ProjectID: project}, project, lines.Bytes())
	return ids, err
}
