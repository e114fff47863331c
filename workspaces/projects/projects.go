package projects

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/allowlist"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/page"
	"github.com/parawork/parawork/workspaces"
	"github.com/parawork/parawork/workspaces/git"
)

// CreateProject adds a repository to a team. A URL is cloned in the background: the project is returned in state cloning. Projects in
// folders and the sample are ready when it returns.
func (s *Service) CreateProject(ctx context.Context, actor accounts.Actor, teamID string, n workspaces.NewProject) (workspaces.Project, error) {
	p := workspaces.Project{ID: id.New("prj"), TeamID: teamID, Name: strings.TrimSpace(n.Name), SourceKind: n.Kind,
		DefaultBranch: n.DefaultBranch, State: workspaces.ProjectReady, CopyIgnored: slices.Clone(s.cfg.CopyIgnored),
		CreatedBy: actor.User.ID, CreatedAt: s.records.Millis()}
	if n.DefaultBranch != "" {
		if err := s.repo.CheckBranch(ctx, n.DefaultBranch); err != nil {
			return workspaces.Project{}, err
		}
	}
	switch n.Kind {
	case workspaces.SourceURL:
		return s.createFromURL(ctx, p, n.URL)
	case workspaces.SourcePath:
		return s.createFromPath(ctx, p, n.Path)
	case workspaces.SourceSample:
		return s.createSample(ctx, p)
	case workspaces.SourceRunner:
		return s.createFromMachine(ctx, actor, p, n)
	}
	return workspaces.Project{}, fault.New(fault.Invalid, "source_invalid", "A project comes from a url, a path, a folder of a machine or the sample.")
}

func (s *Service) createFromPath(ctx context.Context, p workspaces.Project, path string) (workspaces.Project, error) {
	repo, err := s.discover(ctx, path)
	if err != nil {
		return workspaces.Project{}, err
	}
	p.Source, p.GitDir = repo.path, repo.gitDir
	known, err := s.store.ProjectsAt(ctx, p.GitDir)
	if err != nil {
		return workspaces.Project{}, fmt.Errorf("looking for the folder's projects: %w", err)
	}
	for _, k := range known {
		if k.TeamID == p.TeamID {
			return workspaces.Project{}, fault.New(fault.Conflict, "project_exists", "This repository is already the project %q.", k.Name).With("project_id", k.ID)
		}
	}
	if p.DefaultBranch, err = s.repo.DefaultBranch(ctx, p.GitDir, p.DefaultBranch); err != nil {
		return workspaces.Project{}, err
	}
	return s.storeProject(ctx, p, git.RepoName(repo.path), func(p workspaces.Project) error {
		return s.claimFolder(ctx, p, func(known []string) error { return s.store.InsertFolderProject(ctx, p, known) })
	})
}

// insertProject stores p under its own name or the fallback and publishes it.
func (s *Service) insertProject(ctx context.Context, p workspaces.Project, fallback string) (workspaces.Project, error) {
	return s.storeProject(ctx, p, fallback, func(p workspaces.Project) error { return s.store.InsertProject(ctx, p) })
}

func (s *Service) storeProject(ctx context.Context, p workspaces.Project, fallback string, insert func(workspaces.Project) error) (workspaces.Project, error) {
	if p.Name == "" {
		p.Name = strings.ToValidUTF8(fallback, "_")
	}
	name, err := git.CheckName(p.Name, "project")
	if err != nil {
		return workspaces.Project{}, err
	}
	p.Name = name
	if err := insert(p); err != nil {
		if _, reported := errors.AsType[*fault.Error](err); reported {
			return workspaces.Project{}, err
		}
		return workspaces.Project{}, fmt.Errorf("storing project: %w", err)
	}
	failpoint.Reach(failpoint.ProjectStored)
	s.records.PublishProject(ctx, p)
	return p, nil
}

// Projects returns a page of the team's projects.
func (s *Service) Projects(ctx context.Context, teamID string, pg page.Page) ([]workspaces.Project, string, error) {
	items, next, err := s.store.Projects(ctx, teamID, pg)
	for i := range items {
		items[i] = s.records.WithProgress(items[i])
	}
	return items, next, err
}

// UpdateProject changes a project's settings.
func (s *Service) UpdateProject(ctx context.Context, projectID string, patch workspaces.ProjectPatch) (workspaces.Project, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return workspaces.Project{}, err
	}
	if p.SourceKind == workspaces.SourceSandboxes {
		return workspaces.Project{}, ofSandboxes()
	}
	if patch.Name != nil {
		name, err := git.CheckName(*patch.Name, "project")
		if err != nil {
			return workspaces.Project{}, err
		}
		patch.Name = &name
	}
	if patch.DefaultBranch != nil {
		if p.State != workspaces.ProjectReady {
			return workspaces.Project{}, git.NotReady(p)
		}
		if err := s.repo.CheckBranch(ctx, *patch.DefaultBranch); err != nil {
			return workspaces.Project{}, err
		}
		if _, err := s.repo.DefaultBranch(ctx, p.GitDir, *patch.DefaultBranch); err != nil {
			return workspaces.Project{}, err
		}
	}
	if patch.SetupScript != nil && (len(*patch.SetupScript) > 64<<10 || !utf8.ValidString(*patch.SetupScript) || strings.ContainsRune(*patch.SetupScript, 0)) {
		return workspaces.Project{}, fault.New(fault.Invalid, "setup_script_invalid", "A setup script is text of at most 64 KiB.")
	}
	if patch.CopyIgnored != nil {
		if err := git.CheckPatterns(*patch.CopyIgnored); err != nil {
			return workspaces.Project{}, err
		}
	}
	if patch.KeepIgnored != nil {
		if err := git.CheckPatterns(*patch.KeepIgnored); err != nil {
			return workspaces.Project{}, err
		}
	}
	if patch.AllowedCommands != nil {
		if err := allowlist.CheckEntries(*patch.AllowedCommands); err != nil {
			return workspaces.Project{}, err
		}
	}
	if patch.Checks != nil {
		list, err := workspaces.CheckChecks(*patch.Checks)
		if err != nil {
			return workspaces.Project{}, err
		}
		patch.Checks = &list
	}
	if patch.Merging != nil {
		if err := workspaces.CheckMerging(*patch.Merging); err != nil {
			return workspaces.Project{}, err
		}
	}
	if patch.Executor != nil && *patch.Executor != p.Executor {
		if c := s.records.Chooser(); c != nil {
			if err := c.CheckWish(ctx, p.TeamID, executors.Kind(*patch.Executor)); err != nil {
				return workspaces.Project{}, err
			}
		}
	}
	if patch.Limits != nil {
		if err := patch.Limits.Check(s.cfg.MaxLimits); err != nil {
			return workspaces.Project{}, err
		}
	}
	p, err = s.store.EditProject(ctx, projectID, func(p *workspaces.Project) error {
		if patch.Limits != nil {
			p.Limits = *patch.Limits
		}
		if patch.Checks != nil {
			p.Checks = *patch.Checks
		}
		if patch.Merging != nil {
			p.Merging = *patch.Merging
		}
		if patch.KeepIgnored != nil {
			p.KeepIgnored = *patch.KeepIgnored
		}
		if patch.AllowedCommands != nil {
			p.AllowedCommands = slices.Clone(*patch.AllowedCommands)
		}
		if patch.Name != nil {
			p.Name = *patch.Name
		}
		if patch.DefaultBranch != nil {
			p.DefaultBranch = *patch.DefaultBranch
		}
		if patch.SetupScript != nil {
			p.SetupScript = *patch.SetupScript
		}
		if patch.CopyIgnored != nil {
			p.CopyIgnored = slices.Clone(*patch.CopyIgnored)
		}
		if patch.Executor != nil {
			p.Executor = *patch.Executor
		}
		if patch.NoCaches != nil {
			p.NoCaches = *patch.NoCaches
		}
		return nil
	})
	if err != nil {
		return workspaces.Project{}, err
	}
	s.records.PublishProject(ctx, p)
	return s.records.WithProgress(p), nil
}

// ofSandboxes refuses to change the hidden project in which a team's sandboxes without a repository are.
func ofSandboxes() error {
	return fault.New(fault.Conflict, "project_of_sandboxes", "The team's sandboxes are in this project, which has no settings. End the sandboxes instead of deleting it.")
}

// DeleteProject puts a project without workspaces into the trash, from where RestoreProject brings it back. It cancels a running clone and
// removes an incomplete one; it leaves a folder of the server as it is.
func (s *Service) DeleteProject(ctx context.Context, actor accounts.Actor, projectID string) error {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return err
	}
	if p.SourceKind == workspaces.SourceSandboxes {
		return ofSandboxes()
	}
	left, err := s.store.WorkspacesOf(ctx, projectID)
	if err != nil {
		return fmt.Errorf("listing the project's workspaces: %w", err)
	}
	if len(left) > 0 {
		var keys []string
		for _, w := range left {
			if w.Private { // only its owner may know its name, and delete it
				keys = append(keys, w.Key()+" (private)")
				continue
			}
			keys = append(keys, w.Key()+" "+w.Name)
		}
		return fault.New(fault.Conflict, "project_has_workspaces", "The project still has %d workspaces: %s. Delete them first.",
			len(left), strings.Join(keys[:min(len(keys), 10)], ", ")).With("workspaces", keys)
	}
	if done := s.jobs.Cancel(projectID, workspaces.ErrCancelled); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := s.store.DeleteProject(ctx, projectID, actor.User.ID, s.records.Millis()); err != nil {
		return err
	}
	s.records.SetProgress(ctx, p, "")
	if p.SourceKind != workspaces.SourcePath && (!s.cfg.Trash || p.State != workspaces.ProjectReady) && !s.repo.HoldsTrash(ctx, p) {
		if err := s.repo.RemoveFolder(s.transfer.ProjectDir(p.ID)); err != nil {
			s.cfg.Log.WarnContext(ctx, "project folder could not be removed", "project_id", p.ID, "error", err)
		}
	}
	s.records.PublishProject(ctx, p)
	return nil
}
