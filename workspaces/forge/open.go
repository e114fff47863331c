package forge

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/workspaces"
)

// Open opens a pull request for the workspace's branch, or adopts the open one that its forge already has. Errors: forge_*, those of a
// push.
func (s *Service) Open(ctx context.Context, actor accounts.Actor, workspaceID string, a Ask) (PullRequest, error) {
	release, err := s.lock(ctx, workspaceID)
	if err != nil {
		return PullRequest{}, err
	}
	defer release()
	w, err := s.cfg.Workspaces.Workspace(ctx, workspaceID)
	if err != nil {
		return PullRequest{}, err
	}
	if w.DeletedAt != 0 || w.State != workspaces.Ready && w.State != workspaces.Paused {
		return PullRequest{}, fault.New(fault.Conflict, "workspace_not_ready", "%s is not ready to be worked in.", w.Key())
	}
	p, err := s.cfg.Workspaces.Project(ctx, w.ProjectID)
	if err != nil {
		return PullRequest{}, err
	}
	at, _, why, err := s.place(ctx, p)
	if err != nil {
		return PullRequest{}, err
	}
	if why != "" {
		return PullRequest{}, fault.New(fault.Conflict, "forge_unknown", "%s", why)
	}
	c, err := s.client(ctx, at, actor.User.ID, p.TeamID, p.ID)
	if err != nil {
		return PullRequest{}, err
	}
	n, err := s.newRequest(ctx, actor, w, a)
	if err != nil {
		return PullRequest{}, err
	}
	if a.Push {
		pushed, err := s.cfg.Push(ctx, actor, w.ID)
		if err != nil {
			return PullRequest{}, err
		}
		n.Head = pushed.Branch
	}
	// Store the request first, so that a server that is killed in between finds what the forge created.
	asking := PullRequest{ID: id.New("pr"), TeamID: w.TeamID, WorkspaceID: w.ID, ProjectID: p.ID, Forge: at.Kind, Host: at.Host, Repository: at.Repository,
		Seen: Seen{Title: clean(n.Title, maxTitle), State: asked, Head: n.Head, Base: n.Base}, OpenedBy: actor.User.ID, OpenedAt: s.now()}
	if err := s.noteAsked(ctx, asking); err != nil {
		return PullRequest{}, err
	}
	waits, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	number, err := c.Open(waits, n)
	if err != nil {
		// Without an answer the forge may have created it: look for it.
		if waits.Err() == nil && !fault.Is(err, fault.Unavailable) && !fault.Is(err, fault.Timeout) {
			s.forget(ctx, asking)
		}
		return PullRequest{}, err
	}
	failpoint.Reach(failpoint.PullOpened)
	// From here on it exists: it is stored even if the caller has left.
	ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	pr, err := s.keep(ctx, w, asking, number, n.Draft)
	if err != nil {
		return pr, err
	}
	if len(a.Artifacts) > 0 { // the forge may have had it already, with another description
		if err := c.Describe(ctx, number, func(body string) string { return withArtifacts(body, a.Artifacts) }); err != nil {
			return pr, err
		}
	}
	seen, err := s.read(ctx, pr, c)
	if err != nil {
		s.cfg.Log.InfoContext(ctx, "pull request not read after it was opened", "pull_request_id", pr.ID, "error", err)
		return pr, nil // it is open; the next poll reads the rest
	}
	return seen, nil
}

// asked is the state of a row whose pull request was requested from a forge and has no number yet. It is never shown.
const asked State = "asked"

// noteAsked stores that a pull request was requested, replacing what an earlier try of the workspace left.
func (s *Service) noteAsked(ctx context.Context, asking PullRequest) error {
	before, err := s.cfg.Store.PullRequestAt(ctx, asking.WorkspaceID, asking.Host, asking.Repository, 0)
	switch {
	case err == nil:
		if err := s.cfg.Store.DropAskedPullRequest(ctx, before.ID); err != nil && !fault.Is(err, fault.NotFound) {
			return fmt.Errorf("storing the request for a pull request: %w", err)
		}
	case !fault.Is(err, fault.NotFound):
		return err
	}
	if err := s.cfg.Store.InsertPullRequest(ctx, asking); err != nil {
		return fmt.Errorf("storing the request for a pull request: %w", err)
	}
	return nil
}

// forget deletes the row of a requested pull request.
func (s *Service) forget(ctx context.Context, asking PullRequest) {
	ctx = context.WithoutCancel(ctx)
	if err := s.cfg.Store.DropAskedPullRequest(ctx, asking.ID); err != nil && !fault.Is(err, fault.NotFound) {
		s.cfg.Log.WarnContext(ctx, "the request for a pull request could not be deleted: its Git host will be searched for it", "pull_request_id", asking.ID, "error", err)
	}
}

// keep stores the pull request that a forge created, unless it is known, and publishes it.
func (s *Service) keep(ctx context.Context, w workspaces.Workspace, asking PullRequest, number int64, draft bool) (PullRequest, error) {
	pr, err := s.cfg.Store.PullRequestAt(ctx, w.ID, asking.Host, asking.Repository, number)
	if fault.Is(err, fault.NotFound) {
		at := Place{Kind: asking.Forge, Host: asking.Host, Repository: asking.Repository}
		pr = asking
		pr.ID, pr.Number, pr.URL, pr.State, pr.Error = id.New("pr"), number, at.page(number), Open, ""
		if draft {
			pr.State = Draft
		}
		switch err = s.cfg.Store.InsertPullRequest(ctx, pr); {
		case err == nil:
			failpoint.Reach(failpoint.PullKept)
			s.note(ctx, w, pr.OpenedBy, "pull_request.opened", fmt.Sprintf("Opened %s %s", pr.Forge.Request(), pr.called()), pr)
		case fault.Is(err, fault.Conflict): // another process found it first
			pr, err = s.cfg.Store.PullRequestAt(ctx, w.ID, asking.Host, asking.Repository, number)
		default:
			err = fmt.Errorf("storing the pull request: %w", err)
		}
	}
	if err == nil {
		s.forget(ctx, asking)
	}
	return pr, err
}

// adopt searches the forge for a pull request that was requested by a server that did not receive the answer. Somebody may have merged it
// since. If it is missing and no caller can still be waiting for it, it was never created.
func (s *Service) adopt(ctx context.Context, asking PullRequest, c Client) error {
	number, err := c.Find(ctx, asking.Head, asking.Base)
	if err != nil {
		return err
	}
	if number == 0 {
		if s.now()-asking.OpenedAt > int64(2*patience/time.Millisecond) {
			s.forget(ctx, asking)
		} else {
			s.again(asking.ID, s.cfg.Every)
		}
		return nil
	}
	w, err := s.cfg.Workspaces.Workspace(ctx, asking.WorkspaceID)
	if err != nil {
		return err
	}
	pr, err := s.keep(ctx, w, asking, number, false)
	if err != nil {
		return err
	}
	_, err = s.read(ctx, pr, c)
	return err
}
