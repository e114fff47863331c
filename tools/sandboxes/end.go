package sandboxes

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
	"golang.org/x/sync/errgroup"
)

// End ends a sandbox and removes everything in it. It is idempotent. An error says that something is left, which the loop removes.
func (s *Service) End(ctx context.Context, sandboxID string) error {
	sb, err := s.markEnded(ctx, sandboxID, func(Sandbox) bool { return true })
	if err != nil || sb.Cleaned {
		return err
	}
	return s.clean(ctx, sb)
}

// markEnded stores that a sandbox has ended if it is due: what was read of it before may be old.
func (s *Service) markEnded(ctx context.Context, sandboxID string, due func(Sandbox) bool) (Sandbox, error) {
	sb, err := s.cfg.Store.EditSandbox(ctx, sandboxID, func(sb *Sandbox) error {
		if sb.EndedAt == 0 && due(*sb) {
			sb.EndedAt = s.now()
		}
		return nil
	})
	if err == nil && sb.EndedAt != 0 {
		failpoint.Reach(failpoint.SandboxRowEnded)
	}
	return sb, err
}

// clean removes what is left of a sandbox that has ended.
func (s *Service) clean(ctx context.Context, sb Sandbox) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	unlock, err := s.making.LockContext(ctx, sb.ID)
	if err != nil {
		return err
	}
	defer unlock()
	w, err := s.cfg.Workspaces.Workspace(ctx, sb.WorkspaceID)
	if err == nil && w.DeletedAt == 0 {
		actor := accounts.Actor{User: accounts.User{ID: sb.UserID}}
		_, err = s.cfg.Workspaces.Delete(executors.Discard(ctx), actor, w.ID)
	}
	if err == nil {
		err = s.cfg.Workspaces.Purge(ctx, sb.WorkspaceID)
	}
	if err != nil && !fault.Is(err, fault.NotFound) {
		return fmt.Errorf("removing the sandbox %s: %w", sb.ID, err)
	}
	_, err = s.cfg.Store.EditSandbox(ctx, sb.ID, func(sb *Sandbox) error { sb.Cleaned = true; return nil })
	return err
}

const (
	cleanTime = 5 * time.Minute
	lookEvery = 15 * time.Second
	keepRows  = time.Hour // of sandboxes that have ended
	looks     = 8         // at once
	removals  = 8         // of a team at once
)

// Run ends expired sandboxes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	ctx = tenant.All(ctx, "sandboxes of all teams expire")
	var cleaning sync.WaitGroup
	defer cleaning.Wait()
	for {
		s.expire(ctx, &cleaning)
		select {
		case <-ctx.Done():
			return nil
		case <-s.cfg.After(lookEvery):
		}
	}
}

// Expire ends what is due now, and removes what is left of what has ended.
func (s *Service) Expire(ctx context.Context) {
	var cleaning sync.WaitGroup
	defer cleaning.Wait()
	s.expire(ctx, &cleaning)
}

// expire is Expire that does not wait until what has ended is removed.
func (s *Service) expire(ctx context.Context, cleaning *sync.WaitGroup) {
	open, err := s.cfg.Store.OpenSandboxes(ctx)
	if err == nil {
		err = s.cfg.Store.ForgetSandboxes(ctx, s.now()-keepRows.Milliseconds())
	}
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "sandboxes could not be looked at", "error", err)
	}
	s.forget(open)
	var mu sync.Mutex
	ended := map[string][]Sandbox{} // by team
	var all errgroup.Group
	all.SetLimit(looks)
	for _, sb := range open {
		all.Go(func() error {
			if ctx.Err() != nil {
				return nil
			}
			over, err := s.look(ctx, sb)
			s.warn(ctx, sb, err)
			if over {
				mu.Lock()
				ended[sb.TeamID] = append(ended[sb.TeamID], sb)
				mu.Unlock()
			}
			return nil
		})
	}
	_ = all.Wait()
	for team, those := range ended {
		if s.startCleaning(team) { // else the next look finds them
			cleaning.Go(func() { s.cleanTeam(ctx, team, those) })
		}
	}
}

// startCleaning reports whether no sandboxes of a team are being removed: a place that does not answer delays its own team alone.
func (s *Service) startCleaning(teamID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.cleaning[teamID]
	s.cleaning[teamID] = true
	return !was
}

func (s *Service) cleanTeam(ctx context.Context, teamID string, ended []Sandbox) {
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.cleaning, teamID)
	}()
	var all errgroup.Group
	all.SetLimit(removals)
	for _, sb := range ended {
		all.Go(func() error {
			if ctx.Err() == nil {
				s.warn(ctx, sb, s.clean(ctx, sb))
			}
			return nil
		})
	}
	_ = all.Wait()
}

func (s *Service) warn(ctx context.Context, sb Sandbox, err error) {
	if err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "a sandbox could not be looked at or ended", "id", sb.ID, "error", err)
	}
}

// forget drops what was seen of sandboxes that are no longer open.
func (s *Service) forget(open []Sandbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.seen
	s.seen = make(map[string]uint64, len(open))
	for _, sb := range open {
		if n, ok := before[sb.ID]; ok {
			s.seen[sb.ID] = n
		}
	}
}

// look ends a sandbox that is due, and reports whether one that has ended is to be removed.
func (s *Service) look(ctx context.Context, sb Sandbox) (ended bool, err error) {
	if sb.EndedAt != 0 {
		return true, nil
	}
	over := sb.EndsBy != 0 && sb.EndsBy <= s.now()
	if !over && sb.SessionID != "" {
		if over, err = s.cfg.Sessions.Ended(ctx, sb.TeamID, sb.SessionID); err != nil {
			return false, err
		}
	}
	if !over {
		used, err := s.used(ctx, sb)
		if err != nil {
			return false, err
		}
		if used {
			if _, err = s.touch(ctx, sb.ID, func(*Sandbox) {}); hasEnded(err) {
				err = nil // meanwhile
			}
			return false, err
		}
	}
	sb, err = s.markEnded(ctx, sb.ID, func(sb Sandbox) bool { return over || sb.EndsAt <= s.now() && !s.isHeld(sb.ID) })
	return err == nil && sb.EndedAt != 0 && !sb.Cleaned, err
}

// used reports whether a sandbox was used since it was last looked at: by its user's commands, files, code and ports, or by a session.
func (s *Service) used(ctx context.Context, sb Sandbox) (bool, error) {
	if s.isHeld(sb.ID) {
		return true, nil
	}
	if n, err := s.cfg.Sessions.Running(ctx, sb.WorkspaceID); err != nil || n > 0 {
		return n > 0, err
	}
	p, ok := s.cfg.Places.Live(sb.WorkspaceID)
	if !ok {
		return false, nil
	}
	uses, busy := p.Used()
	s.mu.Lock()
	defer s.mu.Unlock()
	before, known := s.seen[sb.ID]
	s.seen[sb.ID] = uses
	return busy || known && before != uses, nil
}

// hold keeps a sandbox from expiring until the returned func is called.
func (s *Service) hold(sandboxID string) (release func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[sandboxID]++
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.held[sandboxID]--; s.held[sandboxID] == 0 {
			delete(s.held, sandboxID)
		}
	}
}

func (s *Service) isHeld(sandboxID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held[sandboxID] > 0
}
