package quota

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/parawork/parawork/billing"
)

// beat is one look.
type beat struct {
	e       *Enforcer
	now     int64
	teams   map[string]*TeamView
	running map[string]AtWork // by workspace
	next    time.Duration
}

// soon has the next look come no later than at.
func (b *beat) soon(at int64) {
	if at > 0 {
		b.next = min(b.next, time.Duration(max(at-b.now, 0))*time.Millisecond)
	}
}

func (b *beat) look(ctx context.Context) error {
	e := b.e
	all, err := e.cfg.Store.RunningSandboxes(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for _, r := range all {
		b.running[r.WorkspaceID] = r
	}
	if err := b.warnAll(ctx, all); err != nil {
		errs = append(errs, err)
	}
	e.mu.Lock()
	open := maps.Clone(e.graces)
	e.mu.Unlock()
	for _, r := range all {
		if _, has := open[r.WorkspaceID]; has {
			continue
		}
		why, err := b.why(ctx, r)
		if err == nil && why != nil {
			err = b.begin(ctx, r, *why)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	for _, ws := range slices.Sorted(maps.Keys(open)) {
		if err := b.follow(ctx, open[ws]); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// team is how a team's limits stand, read once a look.
func (b *beat) team(ctx context.Context, teamID string) (*TeamView, error) {
	if v := b.teams[teamID]; v != nil {
		return v, nil
	}
	v, err := b.e.cfg.Standings.TeamView(ctx, teamID)
	if err != nil {
		return nil, err
	}
	b.teams[teamID] = &v
	b.e.mu.Lock()
	b.e.notifies[teamID] = v.Notify
	b.e.mu.Unlock()
	for _, l := range v.Levels {
		if l.ExhaustedAt > b.now {
			b.soon(l.ExhaustedAt)
		}
	}
	return &v, nil
}

// user is how a user's limits stand: read again once they may have passed a threshold.
func (b *beat) user(ctx context.Context, teamID, userID string) (UserView, error) {
	e, k := b.e, userKey{teamID, userID}
	e.mu.Lock()
	known, ok := e.users[k]
	e.mu.Unlock()
	if ok && b.now >= known.at && b.now < known.next {
		b.soon(known.next)
		return known.view, nil
	}
	v, err := e.cfg.Standings.UserView(ctx, teamID, userID)
	if err != nil {
		return v, err
	}
	next := b.now + userEvery.Milliseconds()
	if h := v.Hours; h != nil {
		if h.ExhaustedAt > 0 {
			// A tenth of what is left passes no two thresholds unseen, and comes ever more often towards the end.
			next = min(next, b.now+max((h.ExhaustedAt-b.now)/10, e.cfg.Every.Milliseconds()), max(h.ExhaustedAt, b.now+1))
		}
		if h.reached() {
			next = b.now
		}
	}
	_, _, month := billing.Month(b.now)
	next = min(next, month)
	e.mu.Lock()
	e.users[k] = look{v, b.now, next}
	e.mu.Unlock()
	if next > b.now {
		b.soon(next)
	}
	return v, nil
}

// warnAll notifies people of thresholds that were passed.
func (b *beat) warnAll(ctx context.Context, all []AtWork) error {
	period, from, to := billing.Month(b.now)
	teams, err := b.e.cfg.Store.TeamsOver(ctx, period, from, to)
	if err != nil {
		return err
	}
	for _, r := range all {
		teams = append(teams, r.TeamID)
	}
	slices.Sort(teams)
	var errs []error
	for _, t := range slices.Compact(teams) {
		v, err := b.team(ctx, t)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		for _, l := range v.Levels {
			if err := b.e.warn(ctx, l, b.now); err != nil {
				errs = append(errs, err)
			}
		}
	}
	seen := make(map[userKey]bool)
	for _, r := range all {
		k := userKey{r.TeamID, r.UserID}
		if !r.Metered || r.UserID == "" || seen[k] {
			continue
		}
		seen[k] = true
		v, err := b.user(ctx, r.TeamID, r.UserID)
		if err == nil && v.Hours != nil {
			err = b.e.warn(ctx, *v.Hours, b.now)
		}
		if err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// why returns the reason to suspend a sandbox; nil = there is none.
func (b *beat) why(ctx context.Context, r AtWork) (*reason, error) {
	t, err := b.team(ctx, r.TeamID)
	if err != nil {
		return nil, err
	}
	if h := t.Halt; h != nil && (r.Metered || r.PriceNano > 0) && !own(b.e.cfg.OnServer, r.Executor, r.PriceNano) {
		return &reason{Scope: h.Scope, Words: h.Reason, EndsAt: b.now + h.Grace.Milliseconds()}, nil
	}
	if r.PriceNano > 0 {
		for _, l := range t.Levels {
			if l.reached() && !l.Goes {
				return levelReason(l, b.now), nil
			}
		}
	}
	if !r.Metered || r.UserID == "" {
		return nil, nil
	}
	u, err := b.user(ctx, r.TeamID, r.UserID)
	if err != nil {
		return nil, err
	}
	if u.Hours != nil && u.Hours.reached() {
		return levelReason(*u.Hours, b.now), nil
	}
	if u.SessionMinutes != nil && r.RunBegan > 0 && !own(b.e.cfg.OnServer, r.Executor, r.PriceNano) {
		// The grace is the last part of the run: it ends when the time is up.
		ends := r.RunBegan + *u.SessionMinutes*60_000
		warned := ends - min(u.Grace.Milliseconds(), *u.SessionMinutes*60_000/4)
		if b.now >= warned {
			return &reason{Scope: ScopeSessionMinutes, ScopeID: r.UserID, Words: minutesReason(*u.SessionMinutes), EndsAt: ends}, nil
		}
		b.soon(warned)
	}
	return nil, nil
}
