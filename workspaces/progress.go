package workspaces

import (
	"context"
	"sync"
	"time"
)

// WithProgress fills in how far a project's clone is.
func (s *Records) WithProgress(p Project) Project {
	if p.State == Cloning {
		p.Progress = s.progress.line(p.ID)
	}
	return p
}

// progress holds the progress of running clones.
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

// set stores the line and reports whether it is time to publish one. An empty line removes the project.
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

// progressEvery is how often a clone's progress is published.
const progressEvery = 250 * time.Millisecond

// SetProgress stores git's last line and publishes it from time to time. An empty line removes the project.
func (s *Records) SetProgress(ctx context.Context, p Project, line string) {
	if s.progress.set(p.ID, line, s.cfg.Now()) {
		s.PublishProject(ctx, p)
	}
}

// Project returns a project, with its progress while it is being cloned.
func (s *Records) Project(ctx context.Context, id string) (Project, error) {
	p, err := s.store.Project(ctx, id)
	if err != nil {
		return Project{}, err
	}
	return s.WithProgress(p), nil
}
