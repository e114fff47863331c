package workspaces

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/killpoint"
	"github.com/parawork/parawork/internal/page"
)

// CreateProject adds a repository to a team. A URL is cloned in the background: the project is returned in state cloning. A
// folder and the sample are ready when it returns.
func (s *Service) CreateProject(ctx context.Context, actor accounts.Actor, teamID string, n NewProject) (Project, error) {
	p := Project{ID: id.New("prj"), TeamID: teamID, Name: strings.TrimSpace(n.Name), SourceKind: n.Kind,
		DefaultBranch: n.DefaultBranch, State: ProjectReady, CopyIgnored: slices.Clone(s.cfg.CopyIgnored),
		CreatedBy: actor.User.ID, CreatedAt: s.Millis()}
	if n.DefaultBranch != "" {
		if err := s.CheckBranch(ctx, n.DefaultBranch); err != nil {
			return Project{}, err
		}
	}
	switch n.Kind {
	case SourceURL:
		return s.createFromURL(ctx, p, n.URL)
	case SourcePath:
		return s.createFromPath(ctx, p, n.Path)
	case SourceSample:
		return s.createSample(ctx, p)
	case SourceRunner:
		return s.createFromMachine(ctx, actor, p, n)
	}
	return Project{}, fault.New(fault.Invalid, "source_invalid", "A project comes from a url, a path, a folder of a machine or the sample.")
}

func (s *Service) createFromPath(ctx context.Context, p Project, path string) (Project, error) {
	repo, err := s.discover(ctx, path)
	if err != nil {
		return Project{}, err
	}
	p.Source, p.GitDir = repo.path, repo.gitDir
	known, err := s.store.ProjectsAt(ctx, p.GitDir)
	if err != nil {
		return Project{}, fmt.Errorf("looking for the folder's projects: %w", err)
	}
	for _, k := range known {
		if k.TeamID == p.TeamID {
			return Project{}, fault.New(fault.Conflict, "project_exists", "This repository is already the project %q.", k.Name).With("project_id", k.ID)
		}
	}
	if p.DefaultBranch, err = s.defaultBranch(ctx, p.GitDir, p.DefaultBranch); err != nil {
		return Project{}, err
	}
	return s.storeProject(ctx, p, repoName(repo.path), func(p Project) error {
		return s.claimFolder(ctx, p, func(known []string) error { return s.store.InsertFolderProject(ctx, p, known) })
	})
}

// insertProject stores p under its own name or the fallback and tells the team.
func (s *Service) insertProject(ctx context.Context, p Project, fallback string) (Project, error) {
	return s.storeProject(ctx, p, fallback, func(p Project) error { return s.store.InsertProject(ctx, p) })
}

func (s *Service) storeProject(ctx context.Context, p Project, fallback string, insert func(Project) error) (Project, error) {
	if p.Name == "" {
		p.Name = strings.ToValidUTF8(fallback, "_")
	}
	name, err := checkName(p.Name, "project")
	if err != nil {
		return Project{}, err
	}
	p.Name = name
	if err := insert(p); err != nil {
		if _, told := errors.AsType[*fault.Error](err); told {
			return Project{}, err
		}
		return Project{}, fmt.Errorf("storing project: %w", err)
	}
	killpoint.Reach(killpoint.ProjectStored)
	s.PublishProject(ctx, p)
	return p, nil
}

// Projects returns a page of the team's projects.
func (s *Service) Projects(ctx context.Context, teamID string, pg page.Page) ([]Project, string, error) {
	items, next, err := s.store.Projects(ctx, teamID, pg)
	for i := range items {
		items[i] = s.withProgress(items[i])
	}
	return items, next, err
}

func (s *Service) withProgress(p Project) Project {
	if p.State == Cloning {
		p.Progress = s.progress.line(p.ID)
	}
	return p
}

// progress is how far the clones under way are.
type progress struct {
	mu        sync.Mutex
	lines     map[string]string    // by project id: git's last line
	published map[string]time.Time // by project id: when the line was last published
}

func newProgress() *progress {
	return &progress{lines: make(map[string]string), published: make(map[string]time.Time)}
}

func (p *progress) line(projectID string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lines[projectID]
}

// set keeps the line, and reports whether it is time to publish one. An empty line forgets the project.
func (p *progress) set(projectID, line string, now time.Time) (publish bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if line == "" {
		delete(p.lines, projectID)
		delete(p.published, projectID)
		return false
	}
	p.lines[projectID] = line
	if publish = now.Sub(p.published[projectID]) >= progressEvery; publish {
		p.published[projectID] = now
	}
	return publish
}

// progressEvery is how often a clone's progress is told.
const progressEvery = 250 * time.Millisecond

// setProgress keeps git's last line and tells the team now and then. An empty line forgets the project.
func (s *Service) setProgress(ctx context.Context, p Project, line string) {
	if s.progress.set(p.ID, line, s.cfg.Now()) {
		s.PublishProject(ctx, p)
	}
}

// UpdateProject changes a project's settings.
func (s *Service) UpdateProject(ctx context.Context, projectID string, patch ProjectPatch) (Project, error) {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return Project{}, err
	}
	if patch.Name != nil {
		name, err := checkName(*patch.Name, "project")
		if err != nil {
			return Project{}, err
		}
		patch.Name = &name
	}
	if patch.DefaultBranch != nil {
		if p.State != ProjectReady {
			return Project{}, notReady(p)
		}
		if err := s.CheckBranch(ctx, *patch.DefaultBranch); err != nil {
			return Project{}, err
		}
		if _, err := s.defaultBranch(ctx, p.GitDir, *patch.DefaultBranch); err != nil {
			return Project{}, err
		}
	}
	if patch.SetupScript != nil && (len(*patch.SetupScript) > 64<<10 || !utf8.ValidString(*patch.SetupScript) || strings.ContainsRune(*patch.SetupScript, 0)) {
		return Project{}, fault.New(fault.Invalid, "setup_script_invalid", "A setup script is text of at most 64 KiB.")
	}
	if patch.CopyIgnored != nil {
		if err := checkPatterns(*patch.CopyIgnored); err != nil {
			return Project{}, err
		}
	}
	if patch.KeepIgnored != nil {
		if err := checkPatterns(*patch.KeepIgnored); err != nil {
			return Project{}, err
		}
	}
	if patch.Checks != nil {
		list, err := checkChecks(*patch.Checks)
		if err != nil {
			return Project{}, err
		}
		patch.Checks = &list
	}
	if patch.Merging != nil {
		if err := checkMerging(*patch.Merging); err != nil {
			return Project{}, err
		}
	}
	if patch.Executor != nil && *patch.Executor != p.Executor {
		if c := s.Chooser(); c != nil {
			if err := c.CheckWish(ctx, p.TeamID, executors.Kind(*patch.Executor)); err != nil {
				return Project{}, err
			}
		}
	}
	if patch.Limits != nil {
		if err := patch.Limits.Check(s.cfg.MaxLimits); err != nil {
			return Project{}, err
		}
	}
	p, err = s.store.EditProject(ctx, projectID, func(p *Project) error {
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
		return Project{}, err
	}
	s.PublishProject(ctx, p)
	return s.withProgress(p), nil
}

// DeleteProject puts a project without workspaces into the trash, from where RestoreProject brings it back. A clone under way is cancelled,
// and nothing of one that is not whole is kept; a folder of the server's is left as it is.
func (s *Service) DeleteProject(ctx context.Context, actor accounts.Actor, projectID string) error {
	p, err := s.store.Project(ctx, projectID)
	if err != nil {
		return err
	}
	left, err := s.store.WorkspacesOf(ctx, projectID)
	if err != nil {
		return fmt.Errorf("listing the project's workspaces: %w", err)
	}
	if len(left) > 0 {
		var keys []string
		for _, w := range left {
			if w.Private { // its name is its owner's, who alone can delete it
				keys = append(keys, w.Key()+" (private)")
				continue
			}
			keys = append(keys, w.Key()+" "+w.Name)
		}
		return fault.New(fault.Conflict, "project_has_workspaces", "The project still has %d workspaces: %s. Delete them first.",
			len(left), strings.Join(keys[:min(len(keys), 10)], ", ")).With("workspaces", keys)
	}
	if done := s.jobs.Cancel(projectID, ErrCancelled); done != nil {
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	if err := s.store.DeleteProject(ctx, projectID, actor.User.ID, s.Millis()); err != nil {
		return err
	}
	s.setProgress(ctx, p, "")
	if p.SourceKind != SourcePath && (s.cfg.Trash == nil || p.State != ProjectReady) && !s.holdsTrash(ctx, p) {
		if err := s.RemoveFolder(s.projectDir(p.ID)); err != nil {
			s.cfg.Log.WarnContext(ctx, "project folder could not be removed", "project_id", p.ID, "error", err)
		}
	}
	s.PublishProject(ctx, p)
	return nil
}
