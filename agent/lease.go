package agent

import (
	"context"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tasks"
	"github.com/parawork/parawork/internal/tenant"
)

// Run keeps the leases of running turns until ctx ends, then stops the turns where they are, for the next server to go on with.
func (s *Service) Run(ctx context.Context) error {
	t := time.NewTicker(leaseFor / 3)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			s.renew(ctx)
			if err := s.takeOver(ctx); err != nil && ctx.Err() == nil {
				s.cfg.Log.Warn("the turns of dead servers could not be read", "error", err)
			}
			continue
		case <-ctx.Done():
		}
		break
	}
	s.end(errClosing)
	s.work.Close()
	return nil
}

// leaseFor is how long a turn stays with a server that says nothing.
const leaseFor = time.Minute

// renew extends the leases of the turns that run here, and stops those that another server has taken.
func (s *Service) renew(ctx context.Context) {
	s.mu.Lock()
	all := make([]*running, 0, len(s.turns))
	for _, r := range s.turns {
		all = append(all, r)
	}
	s.mu.Unlock()
	now := s.cfg.Now()
	for _, r := range all {
		ctx, cancel := context.WithTimeout(tenant.In(ctx, r.turn.TeamID), 10*time.Second)
		mine, err := s.cfg.Store.Claim(ctx, r.turn.ID, s.cfg.Owner, now.UnixMilli(), now.Add(leaseFor).UnixMilli())
		cancel()
		switch {
		case err != nil:
			s.cfg.Log.Warn("the lease of a turn could not be extended", "thread_id", r.turn.ThreadID, "error", err)
		case !mine:
			r.cancel(errLost)
		}
	}
}

// Recover goes on with the turns that this server left when it ended, goes on with undos, and removes forks that were
// not started.
func (s *Service) Recover(ctx context.Context) error {
	if err := s.cfg.Store.DropFork(tenant.All(ctx, "forks of all teams that were not started"), "", s.cfg.Now().Add(-startsIn).UnixMilli()); err != nil {
		return err
	}
	if err := s.recoverUndos(ctx); err != nil {
		return err
	}
	return s.takeOver(ctx)
}

// takeOver goes on with turns that run nowhere: those of this server that it does not run, and those of others whose leases ran out.
func (s *Service) takeOver(ctx context.Context) error {
	turns, err := s.cfg.Store.Running(tenant.All(ctx, "turns of all teams go on"))
	if err != nil {
		return err
	}
	for _, t := range turns {
		if !s.elsewhere(t) && !s.runs(t) {
			s.work.Go(func() { s.resume(t) })
		}
	}
	return nil
}

// elsewhere reports whether another server runs a turn, as far as its lease says.
func (s *Service) elsewhere(t Turn) bool { return t.Owner != s.cfg.Owner && t.LeaseUntil >= s.now() }

// resume goes on with a turn once its session is there, or ends it when its session has ended.
func (s *Service) resume(t Turn) {
	ctx := tenant.In(s.life, t.TeamID)
	s.mu.Lock()
	_, known := s.orphans[t.ThreadID]
	if !known {
		s.orphans[t.ThreadID] = false
	}
	s.mu.Unlock()
	if known { // it is being continued already
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.orphans, t.ThreadID)
	}()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		over, err := s.resumed(ctx, t)
		if err != nil {
			s.cfg.Log.Warn("a turn could not be continued yet", "thread_id", t.ThreadID, "error", err)
		}
		if over || !tasks.Sleep(ctx, wait) {
			return
		}
	}
}

// resumed reports whether nothing is left to do for resume.
func (s *Service) resumed(ctx context.Context, t Turn) (over bool, err error) {
	v, err := s.cfg.Store.View(ctx, t.ThreadID, Window{Limit: 1})
	switch {
	case fault.Is(err, fault.NotFound):
		return true, nil
	case err != nil:
		return false, err
	case v.Turn == nil || v.Turn.ID != t.ID || v.Turn.State != TurnRunning || s.runs(t) || s.elsewhere(*v.Turn):
		return true, nil
	}
	host, ok := s.cfg.Sessions.Hosted(v.Thread.SessionID)
	if !ok {
		host = nil
	}
	s.mu.Lock()
	unwanted := s.orphans[t.ThreadID]
	s.mu.Unlock()
	if !ok && !unwanted {
		row, err := s.cfg.Sessions.Session(ctx, v.Thread.SessionID)
		if !fault.Is(err, fault.NotFound) && (err != nil || !row.State.Ended()) {
			return false, err // it is being reconnected
		}
	}
	now := s.cfg.Now()
	mine, err := s.cfg.Store.Claim(ctx, t.ID, s.cfg.Owner, now.UnixMilli(), now.Add(leaseFor).UnixMilli())
	if err != nil || !mine {
		return false, err
	}
	if ok && !unwanted {
		s.begin(v.Thread, *v.Turn, host)
		return true, nil
	}
	r := s.newRunning(v.Thread, *v.Turn, host)
	defer r.cancel(nil)
	if err := r.refresh(ctx); err != nil {
		return false, err
	}
	e := ending{TurnInterrupted, "its session has ended", "session_ended"}
	if unwanted {
		e = ending{TurnInterrupted, "interrupted", ""}
	}
	err = r.finish(ctx, e)
	return err == nil, err
}
