package manager

import (
	"context"
	"hash/fnv"
	"strconv"
	"time"

	"github.com/parawork/parawork/executors"
)

// Margins before the end of a run: from the first on a quiet moment is looked for, at the last none is waited for any more.
const (
	renewMost  = 10 * time.Minute
	renewLast  = 2 * time.Minute
	renewShare = 10 // of a run, where that is less
)

// keep extends the lease of a place once half of it is over: not of all places at the same moment.
func (s *slot) keep(ctx context.Context, p *place) {
	l, ok := p.box().(executors.Leased)
	if !ok || p.Asleep() {
		return
	}
	lease := s.m.cfg.Choice.LeaseOf(ctx, p.Kind)
	s.mu.Lock()
	until := p.record.LeaseUntil
	if until == 0 && p.extendedAt != 0 { // it ends by itself never, so far
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

// jitter is a part of d that is the sandbox's own.
func jitter(sandboxID string, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(sandboxID))
	return time.Duration(h.Sum64() % uint64(d))
}

// margins are how long before the end of a run of this length a quiet moment is looked for, and how long before it none is waited for.
func margins(run time.Duration) (first, last time.Duration) {
	first = renewMost
	if run > 0 {
		first = min(first, max(run/renewShare, 2*renewLast))
		first = min(first, run/2)
	}
	return first, min(renewLast, first/2)
}

// renew ends a run that its place is about to end: everything is brought home, the sandbox is paused and, where a session runs, woken into
// the next run. An agent at work is given until the last moment to come to an end.
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
	if !ok { // who makes, moves or destroys it now has other plans
		return
	}
	defer release()
	if s.current() != p || p.paused.Load() != nil {
		return
	}
	reason := "Asleep: its run has lasted as long as its place allows. It wakes when you type."
	if err := s.lull(ctx, p, executors.ByCeiling, reason, nil); err != nil {
		s.m.cfg.Log.Error("sandbox whose run ends could not be paused", "sandbox_id", p.SandboxID, "error", err)
		return
	}
	if use.Sessions == 0 && !busy {
		p.notify(ctx, "sandbox.asleep", "The sandbox fell asleep: its run has lasted as long as its place allows. It wakes when it is needed.")
		return
	}
	switch woken, err := s.wakeForUse(context.WithoutCancel(ctx), p); {
	case err != nil:
		s.m.cfg.Log.Warn("sandbox could not be woken into its next run", "sandbox_id", p.SandboxID, "error", err)
	case woken != nil:
		p.notify(ctx, "sandbox.renewed", "The sandbox's run had lasted as long as its place allows: everything was brought home, and it goes on in a new run.")
	}
}

// useOf asks everybody what goes on in a workspace.
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

// behindWords say what could not be brought home before a sandbox stands still; "" when everything is.
func (m *Manager) behindWords(ctx context.Context, workspaceID string) string {
	s, err := m.cfg.Store.LastSync(ctx, workspaceID)
	switch {
	case err != nil:
		m.cfg.Log.Warn("how far a workspace is home could not be read", "workspace_id", workspaceID, "error", err)
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

// goneWords say in words why a sandbox is gone, and since when what was in it may be lost.
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
		return sentence(words) + " Its files were last brought home at " + at + "; what was written after that is lost."
	}
	return sentence(words) + " Its files were on the server as of " + at + "."
}

// lose ends a live place that turned out to be gone. The caller holds the slot's turn.
func (s *slot) lose(ctx context.Context, p *place, cause error) {
	s.mu.Lock()
	rec := p.record
	s.mu.Unlock()
	words := s.m.goneWords(ctx, rec, cause)
	s.m.reaper.noteGone(p.SandboxID)
	p.notify(ctx, "sandbox.lost", "The sandbox is gone. "+words)
	s.endPlace(ctx, p, executors.Gone, words)
}

// tell writes into the workspace's timeline what happened to its sandbox.
func (p *place) notify(ctx context.Context, kind, text string) {
	if p.m.cfg.Notify != nil {
		p.m.cfg.Notify(context.WithoutCancel(ctx), executors.Note{WorkspaceID: p.WorkspaceID, TeamID: p.TeamID, Kind: kind, Text: text})
	}
}
