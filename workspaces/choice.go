package workspaces

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Chooser is an optional ability of Places: it knows which places there are. Without it every workspace gets Config.DefaultExecutor.
type Chooser interface {
	// Choose says where a new workspace lives: the first wish that is not "", else what team and instance say.
	Choose(ctx context.Context, teamID string, wishes ...executors.Kind) (executors.Kind, error)
	// CheckWish refuses a place that a project cannot name.
	CheckWish(ctx context.Context, teamID string, kind executors.Kind) error
	// Place says what a place can do now; false when there is no such place any more.
	Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool)
	// Lost reports whether the workspace's sandbox is in a place that cannot be reached.
	Lost(ctx context.Context, workspaceID string) bool
	// Leave ends the workspace's sandbox for good, and leaves it behind where its place cannot be reached.
	Leave(ctx context.Context, workspaceID string) error
}

// LocalChooser is an optional ability of a Chooser: the strongest place on this server.
type LocalChooser interface {
	ChooseHere(ctx context.Context, teamID string) (executors.Kind, error)
}

// Chooser returns the Chooser, nil without one.
func (s *Service) Chooser() Chooser {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, _ := s.places.(Chooser)
	return c
}

// choose says where a new workspace of p lives.
func (s *Service) choose(ctx context.Context, p Project, wish string, fallbackOK bool) (string, error) {
	if c := s.Chooser(); c != nil {
		kind, err := s.chooseOrFallBack(ctx, c, p.TeamID, executors.Kind(wish), executors.Kind(p.Executor), fallbackOK)
		return string(kind), err
	}
	if wish == "" {
		wish = s.cfg.DefaultExecutor
	}
	return wish, nil
}

// Home is where new workspaces of a project live that name no place, as it is now.
func (s *Service) Home(ctx context.Context, p Project) (string, error) {
	return s.choose(ctx, p, "", false)
}

// homeWords say in a timeline where a workspace lives, "" when nobody knows.
func (s *Service) homeWords(ctx context.Context, kind string) string {
	c := s.Chooser()
	if c == nil {
		return ""
	}
	caps, ok := c.Place(ctx, executors.Kind(kind))
	if !ok {
		return ""
	}
	return fmt.Sprintf("; lives in %s: %s", caps.Name, strings.ToLower(caps.Boundary.Name()))
}

// CheckPlace says why a new workspace could have no place to work, for those wishes.
func (s *Service) CheckPlace(ctx context.Context, teamID string, wish, project executors.Kind, fallbackOK bool) error {
	c := s.Chooser()
	if c == nil {
		return nil
	}
	_, err := s.chooseOrFallBack(ctx, c, teamID, wish, project, fallbackOK)
	return err
}

// chooseOrFallBack is Choose. What cannot be used now may be chosen where it is agreed what then happens.
func (s *Service) chooseOrFallBack(ctx context.Context, c Chooser, teamID string, wish, project executors.Kind, fallbackOK bool) (executors.Kind, error) {
	kind, err := c.Choose(ctx, teamID, wish, project)
	if fault.CodeOf(err) != "executor_unavailable" || !fallbackOK || s.cfg.FallBackAllowed == nil || !s.cfg.FallBackAllowed(ctx) {
		return kind, err
	}
	here, ok := c.(LocalChooser)
	asked := wish
	if asked == "" {
		asked = project
	}
	if !ok || Personal(string(asked)) || !OnRemoteDisk(ctx, c, string(asked)) {
		return kind, err
	}
	if _, herr := here.ChooseHere(ctx, teamID); herr != nil {
		return kind, err
	}
	return asked, nil // it is given another place once its own is seen not to serve, and told so
}

// OnRemoteDisk reports whether a place is another machine.
func OnRemoteDisk(ctx context.Context, c Chooser, kind string) bool {
	caps, ok := c.Place(ctx, executors.Kind(kind))
	return ok && caps.OwnDisk
}

// Personal reports whether a place is a member's own machine: work that is there for its files and its hardware goes nowhere else by itself.
func Personal(kind string) bool { return executors.Kind(kind).Base() == executors.Runner }

// SharesCaches reports whether the sandboxes of a workspace share the team's caches: its project may say no.
func (s *Service) SharesCaches(ctx context.Context, workspaceID string) (bool, error) {
	w, err := s.store.Workspace(ctx, workspaceID)
	if err != nil {
		return false, err
	}
	p, err := s.store.Project(ctx, w.ProjectID)
	return err == nil && !p.NoCaches, err
}
