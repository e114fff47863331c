package lifecycle

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/workspaces"
)

// choose returns the executor of a new workspace of p.
func (s *Service) choose(ctx context.Context, p workspaces.Project, wish string, fallbackOK bool) (string, error) {
	if c := s.records.Chooser(); c != nil {
		kind, err := s.chooseOrFallBack(ctx, c, p.TeamID, executors.Kind(wish), executors.Kind(p.Executor), fallbackOK)
		return string(kind), err
	}
	if wish == "" {
		wish = s.cfg.DefaultExecutor
	}
	return wish, nil
}

// DefaultExecutor is the executor of new workspaces of a project that name none, at this time.
func (s *Service) DefaultExecutor(ctx context.Context, p workspaces.Project) (string, error) {
	return s.choose(ctx, p, "", false)
}

// executorWords name a workspace's executor in a timeline, "" when it is unknown.
func (s *Service) executorWords(ctx context.Context, kind string) string {
	c := s.records.Chooser()
	if c == nil {
		return ""
	}
	caps, ok := c.Place(ctx, executors.Kind(kind))
	if !ok {
		return ""
	}
	return fmt.Sprintf("; runs in %s: %s", caps.Name, strings.ToLower(caps.Boundary.Name()))
}

// CheckPlace returns why no executor could run a new workspace with those wishes.
func (s *Service) CheckPlace(ctx context.Context, teamID string, wish, project executors.Kind, fallbackOK bool) error {
	c := s.records.Chooser()
	if c == nil {
		return nil
	}
	_, err := s.chooseOrFallBack(ctx, c, teamID, wish, project, fallbackOK)
	return err
}

// chooseOrFallBack is Choose, but accepts an unavailable executor if a fallback is allowed.
func (s *Service) chooseOrFallBack(ctx context.Context, c workspaces.Chooser, teamID string, wish, project executors.Kind, fallbackOK bool) (executors.Kind, error) {
	kind, err := c.Choose(ctx, teamID, wish, project)
	asked := cmp.Or(wish, project)
	if asked.Region() == executors.HomeRegion {
		asked = asked.Provider()
	}
	if fault.CodeOf(err) != "executor_unavailable" || !fallbackOK || s.cfg.FallBackAllowed == nil || !s.cfg.FallBackAllowed(ctx, asked) {
		return kind, err
	}
	here, ok := c.(workspaces.LocalChooser)
	if !ok || workspaces.Personal(string(asked)) || !workspaces.OnRemoteDisk(ctx, c, string(asked)) {
		return kind, err
	}
	if _, herr := here.ChooseHere(ctx, teamID); herr != nil {
		return kind, err
	}
	return asked, nil // it falls back once its executor proves unavailable, and the timeline says so
}
