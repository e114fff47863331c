package app

import (
	"context"

	"github.com/parawork/parawork/agent/briefing"
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/store/toolstore"
	filesync "github.com/parawork/parawork/sync"
	"github.com/parawork/parawork/tools/skills"
	"github.com/parawork/parawork/tools/skills/repository"
)

// newSkills makes what keeps skills and instructions.
func newSkills(a *App) *skills.Service {
	rows := toolstore.NewSkills(a.db)
	return skills.New(skills.Config{Store: rows, Texts: rows, Workspaces: a.worktrees.workspaces.Records, Repository: newRepositoryReader(a), Secrets: a.people.secrets, Events: a.events})
}

// newGuide makes what the agent reads beside people's prompts.
func newGuide(a *App, kept *skills.Service) *briefing.Guide {
	w := a.worktrees.workspaces
	return briefing.New(briefing.Config{Instructions: kept, Skills: kept, Repository: newRepositoryReader(a), Workspaces: w.Records, Sandboxes: a.sandboxes.chosen(), Changed: keptPaths(a.work.files)})
}

// newRepositoryReader makes what reads instructions, skills and commands in worktrees.
func newRepositoryReader(a *App) *repository.Reader {
	return repository.New(repository.Config{Sandboxes: a.sandboxes.chosen(), Secrets: a.worktrees.workspaces.SecretFiles.SecretFiles})
}

// keptPaths returns the paths of a workspace's changes as they were last seen.
func keptPaths(files *filesync.Service) func(ctx context.Context, workspaceID string) ([]string, error) {
	return func(ctx context.Context, workspaceID string) ([]string, error) {
		set, err := files.Changes(ctx, workspaceID)
		paths := make([]string, 0, len(set.Items))
		for _, c := range set.Items {
			paths = append(paths, guest.DecodePath(c.Path))
		}
		return paths, err
	}
}
