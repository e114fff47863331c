package manager

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/parawork/parawork/executors"
)

// Margins before the end of a run: from the first on the server looks for a quiet moment, from the last on it no longer waits for one.
const (
	renewMost  = 10 * time.Minute
	renewLast  = 2 * time.Minute
	renewShare = 10 // of a run, where that is less
)

// keep extends the lease of a sandbox once half of it is over, with some jitter so that not all leases are extended at once.
func (s *slot) keep(ctx context.Context, p *place) {
	l, ok := p.box().(executors.Leased)
	if !ok || p.Asleep() {
		return
	}
	lease := s.m.cfg.Choice.LeaseOf(ctx, p.Kind)
	s.mu.Lock()
	until := p.record.LeaseUntil
	if until == 0 && p.extendedAt != 0 { // so far it never ends on its own
		until = p.extendedAt + lease.Milliseconds()
	}
	s.mu.Unlock()
	left := time.Duration(until-s.m.now()) * time.Millisecond
	if left > lease/2+jitter(p.SandboxID, lease/10) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*s.m.cfg.DialTimeout)
	defer cancel()
	got, err := l.Extend(ctx, lease)
	if err != nil {
		if ctx.Err() == nil || left < lease/5 {
			s.m.cfg.Log.Warn("lease of a sandbox could not be extended", "sandbox_id", p.SandboxID, "left_ms", left.Milliseconds(), "error", err)
		}
		return
	}
	s.mu.Lock()
	if s.place != p || p.record.State != executors.Running {
		s.mu.Unlock()
		return
	}
	p.extendedAt = s.m.now()
	p.record.LeaseUntil, p.record.RunEndsAt = got.EndsAt, got.RunEndsAt
	rec := p.record
	s.mu.Unlock()
	if err := s.m.cfg.Store.UpdateSandbox(ctx, rec); err != nil && ctx.Err() == nil {
		s.m.cfg.Log.Warn("lease of a sandbox could not be stored", "sandbox_id", p.SandboxID, "error", err)
	}
}

// jitter is a part of d that depends on the sandbox.
func jitter(sandboxID string, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(sandboxID))
	return time.Duration(h.Sum64() % uint64(d))
}

// margins returns how long before the end of a run of this length the server starts to look for a quiet moment, and when it stops waiting
// for one.
func margins(run time.Duration) (first, last time.Duration) {
	first = renewMost
	if run > 0 {
		first = min(first, max(run/renewShare, 2*renewLast))
		first = min(first, run/2)
	}
	return first, min(renewLast, first/2)
}

// renew ends a run that the executor is about to end: the server copies changes from the sandbox, pauses it and, where a session runs, wakes
// it into the next run. An agent at work gets until the last moment to finish.
func (s *slot) renew(ctx context.Context, p *place) {
	s.mu.Lock()
	runEndsAt := p.record.RunEndsAt
	s.mu.Unlock()
	if runEndsAt == 0 || p.Asleep() {
		return
	}
	e, ok := s.m.cfg.Executors.Find(ctx, p.Kind)
	if !ok {
		return
	}
	run := time.Duration(s.m.cfg.Choice.CapabilitiesOf(ctx, e).RunMs) * time.Millisecond
	first, last := margins(run)
	left := time.Duration(runEndsAt-s.m.now()) * time.Millisecond
	if left > first {
		return
	}
	use := s.m.attached().useOf(p.WorkspaceID)
	_, busy := p.Used()
	if (use.Working || busy) && left > last {
		return
	}
	if _, ok := p.pauser(ctx); !ok {
		return
	}
	release, ok := s.turn.TryLock()
	if !ok { // another call makes, moves or destroys it now
		return
	}
	defer release()
	if s.current() != p || p.paused.Load() != nil {
		return
	}
	reason := "Asleep: its run reached the longest time its place allows. It wakes when you type."
	if err := s.suspend(ctx, p, executors.ByCeiling, reason, nil); err != nil {
		s.m.cfg.Log.Error("a sandbox whose run ends could not be paused", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	if use.Sessions == 0 && !busy {
		p.notify(ctx, "sandbox.asleep", "The sandbox fell asleep: its run reached the longest time its place allows. It wakes when it is needed.")
		return
	}
	switch woken, err := s.wakeForUse(context.WithoutCancel(ctx), p); {
	case err != nil:
		s.m.cfg.Log.Warn("a sandbox could not be woken into its next run", "sandbox_id", p.SandboxID, "error", err)
	case woken != nil:
		p.notify(ctx, "sandbox.renewed", "The sandbox's run reached the longest time its place allows: its files are on the server, and it goes on in a new run.")
	}
}

// useOf asks every participant what goes on in a workspace.
func (ps participants) useOf(workspaceID string) executors.Use {
	var all executors.Use
	for _, a := range ps {
		if a.Use == nil {
			continue
		}
		u := a.Use(workspaceID)
		all.Sessions += u.Sessions
		all.Viewers += u.Viewers
		all.Working = all.Working || u.Working
		all.LastAt = max(all.LastAt, u.LastAt)
	}
	return all
}

// behindWords says what could not be copied to the server before a sandbox is suspended; "" when the server has everything.
func (m *Manager) behindWords(ctx context.Context, workspaceID string) string {
	s, err := m.cfg.Store.LastSync(ctx, workspaceID)
	switch {
	case err != nil:
		m.cfg.Log.Warn("the sync state of a workspace could not be read", "workspace_id", workspaceID, "error", err)
		return ""
	case s.Pending == 1:
		return "1 file is not on the server yet: the sandbox keeps it."
	case s.Pending > 1:
		return strconv.FormatInt(s.Pending, 10) + " files are not on the server yet: the sandbox keeps them."
	case s.Behind:
		return "Its newest changes are not on the server yet: the sandbox keeps them."
	}
	return ""
}

// goneWords says why a sandbox is gone, and since when files in it may be lost.
func (m *Manager) goneWords(ctx context.Context, rec executors.Record, cause error) string {
	words := executors.WhyGone(cause, "It no longer exists: its guest or the machine was stopped.")
	if !m.cfg.Choice.OwnDisk(ctx, rec.Handle.Kind) {
		return words
	}
	s, err := m.cfg.Store.LastSync(context.WithoutCancel(ctx), rec.WorkspaceID)
	if err != nil || s.At == 0 {
		return words
	}
	at := time.UnixMilli(s.At).UTC().Format("2006-01-02 15:04:05 UTC")
	if s.Pending > 0 || s.Behind {
		return sentence(words) + " Its files were last synced to the server at " + at + "; what was written after that is lost."
	}
	return sentence(words) + " Its files were on the server as of " + at + "."
}

// lose ends a live sandbox that turned out to be gone. The caller holds the slot's turn.
func (s *slot) lose(ctx context.Context, p *place, cause error) {
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	words := s.m.goneWords(ctx, rec, cause)
	s.m.reaper.noteGone(p.SandboxID)
	p.notify(ctx, "sandbox.lost", "The sandbox is gone. "+words)
	s.endPlace(ctx, p, executors.Gone, words)
}

// notify adds a note about the sandbox to the workspace's timeline.
func (p *place) notify(ctx context.Context, kind, text string) {
	if p.m.cfg.Notify != nil {
		p.m.cfg.Notify(context.WithoutCancel(ctx), executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: kind, Text: text})
	}
}
