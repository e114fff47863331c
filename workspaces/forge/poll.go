package forge

import (
	"context"
	"errors"
	"reflect"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
)

// The server polls pull requests: often while they are active, increasingly rarely when nothing happens or the forge fails.
const (
	atOnce       = 4                // forges polled at once
	quietEvery   = 5 * time.Minute  // inactive pull requests
	oldEvery     = 30 * time.Minute // unchanged for a day
	longestPause = time.Hour        // after failures
	reread       = time.Minute      // of the list itself: another process may have opened one
)

// plan says when a pull request is polled next.
type plan struct {
	at     time.Time
	fails  int
	change time.Time // when it last changed, or somebody looked at it
	under  bool      // a poll is in progress
}

// Run polls open pull requests until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	room := make(chan struct{}, atOnce)
	for {
		due, next, err := s.due(ctx)
		if err != nil && ctx.Err() == nil {
			s.cfg.Log.WarnContext(ctx, "pull requests not read", "error", err)
		}
		for _, pr := range due {
			select {
			case room <- struct{}{}:
			case <-ctx.Done():
				return nil
			}
			wg.Go(func() {
				defer func() { <-room }()
				s.visit(ctx, pr)
			})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-s.cfg.After(next):
		}
	}
}

// due returns the pull requests to poll now, marked as in progress, and the time until the next one.
func (s *Service) due(ctx context.Context) ([]PullRequest, time.Duration, error) {
	open, err := s.cfg.Store.OpenPullRequests(ctx)
	if err != nil {
		return nil, reread, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	plans, next := make(map[string]plan, len(open)), reread
	var due []PullRequest
	for _, pr := range open {
		p, known := s.plan[pr.ID]
		if !known { // known since before the start: soon, but spread out
			p = plan{at: now.Add(time.Duration(len(plans)) * 200 * time.Millisecond), change: now}
		}
		if !p.under && !now.Before(p.at) {
			p.under = true
			due = append(due, pr)
		} else if !p.under {
			next = min(next, p.at.Sub(now))
		}
		plans[pr.ID] = p
	}
	s.plan = plans
	return due, max(next, 100*time.Millisecond), nil
}

// visit polls one pull request as the user who opened it, or as nobody if they have left.
func (s *Service) visit(ctx context.Context, pr PullRequest) {
	err := s.ask(ctx, pr)
	s.mu.Lock()
	p := s.plan[pr.ID]
	p.under = false
	if err == nil {
		p.fails = 0
	} else {
		p.fails++
		now := s.cfg.Now()
		pause := min(s.cfg.Every<<min(p.fails, 10), longestPause)
		if f, ok := errors.AsType[*fault.Error](err); ok { // a forge that asked to wait says how long
			if until, ok := f.Details["until"].(int64); ok {
				pause = max(time.UnixMilli(until).Sub(now), s.cfg.Every)
			}
		}
		p.at = now.Add(pause)
	}
	s.plan[pr.ID] = p
	s.mu.Unlock()
	s.wakePoll()
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.InfoContext(ctx, "pull request could not be read", "pull_request_id", pr.ID, "host", pr.Host, "error", err)
	}
}

func (s *Service) ask(ctx context.Context, pr PullRequest) error {
	release, free := s.turns.TryLock(pr.WorkspaceID)
	if !free {
		s.again(pr.ID, s.cfg.Every)
		return nil // another operation on it is running, which reads it too
	}
	defer release()
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	pr, err := s.cfg.Store.PullRequestAt(ctx, pr.WorkspaceID, pr.Host, pr.Repository, pr.Number) // it may have changed since the list
	if err != nil {
		return err
	}
	at, err := s.placeOf(ctx, pr)
	if err != nil {
		return err
	}
	c, err := s.client(ctx, at, s.opener(ctx, pr), pr.TeamID, pr.ProjectID)
	if err != nil {
		return s.failed(ctx, pr, err)
	}
	if pr.State == asked {
		return s.adopt(ctx, pr, c)
	}
	_, err = s.read(ctx, pr, c)
	return err
}

// opener is the user whose token is used to poll: who opened it, while they are allowed to; "" for the project's and the team's tokens
// alone.
func (s *Service) opener(ctx context.Context, pr PullRequest) string {
	a, err := s.cfg.People.Actor(ctx, pr.OpenedBy)
	if err != nil || accounts.Can(a, accounts.EditWorkspace, accounts.Object{TeamID: pr.TeamID}) != nil {
		return ""
	}
	return pr.OpenedBy
}

// replan schedules the next poll of a pull request that was just stored.
func (s *Service) replan(pr, before PullRequest) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.cfg.Now()
	p, known := s.plan[pr.ID]
	if !known || !same(pr, before) {
		p.change = now
	}
	every := quietEvery
	switch quiet := now.Sub(p.change); {
	case pr.ChecksState == Pending || quiet < 10*time.Minute || pr.State != Merged && pr.Mergeable == "":
		every = s.cfg.Every
	case quiet > 24*time.Hour:
		every = oldEvery
	}
	p.at = now.Add(every)
	s.plan[pr.ID] = p
}

// look brings the next poll forward because somebody is reading it.
func (s *Service) look(prID string) {
	s.mu.Lock()
	p, known := s.plan[prID]
	if known {
		now := s.cfg.Now()
		p.change = now
		if soon := now.Add(s.cfg.Every); p.fails == 0 && p.at.After(soon) {
			p.at = soon
		}
		s.plan[prID] = p
	}
	s.mu.Unlock()
	if known {
		s.wakePoll()
	}
}

func (s *Service) again(prID string, in time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.plan[prID]
	p.at = s.cfg.Now().Add(in)
	s.plan[prID] = p
}

// wakePoll has Run look at its plan.
func (s *Service) wakePoll() {
	tasks.Wake(s.wake)
}

// same reports whether people would see no difference.
func same(a, b PullRequest) bool {
	a.SyncedAt, b.SyncedAt, a.nodeID, b.nodeID = 0, 0, "", ""
	a.Hidden, b.Hidden = "", ""
	a.Standing, b.Standing = Standing{}, Standing{}
	if len(a.Checks) == 0 && len(b.Checks) == 0 {
		a.Checks, b.Checks = nil, nil
	}
	if len(a.Reviews) == 0 && len(b.Reviews) == 0 {
		a.Reviews, b.Reviews = nil, nil
	}
	return reflect.DeepEqual(a, b)
}
