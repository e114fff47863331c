package quota

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/billing"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/id"
	"github.com/parawork/parawork/internal/killpoint"
)

// AtWork is a sandbox of a workspace that runs where time or money counts.
type AtWork struct {
	TeamID, WorkspaceID, SandboxID, UserID string
	PriceNano                              int64 // an hour
	Metered                                bool  // its time counts in people's hours
	RunBegan                               int64 // since when it runs without a break, ms UTC
}

// Halt stops all paid work of a team whatever was used: an operator said so, or the team does not pay.
type Halt struct {
	Scope  string // ScopeKillSwitch, ScopePastDue
	Reason string // in words, a sentence
	Grace  time.Duration
}

// TeamView is how the limits of a team stand.
type TeamView struct {
	Levels []Level // of money
	Halt   *Halt   // nil = none
	Tell   Tell
}

// UserView is how the limits of one user of a team stand.
type UserView struct {
	Hours          *Level // nil = it does not bind
	SessionMinutes *int64 // nil = it does not bind
	Grace          time.Duration
}

// Standings say how limits stand.
type Standings interface {
	TeamView(ctx context.Context, teamID string) (TeamView, error)
	UserView(ctx context.Context, teamID, userID string) (UserView, error)
}

// EnforceStore is what an Enforcer needs of the storage.
type EnforceStore interface {
	Tx(ctx context.Context, fn func(ctx context.Context) error) error
	// RunningSandboxes are those of workspaces that run now where time or money counts.
	RunningSandboxes(ctx context.Context) ([]AtWork, error)
	// OpenGraces are those that were not lifted.
	OpenGraces(ctx context.Context) ([]WorkGrace, error)
	// InsertGrace stores a new one; false when the workspace has an open one.
	InsertGrace(ctx context.Context, g WorkGrace) (bool, error)
	// UpdateGrace writes scope, state, reason and times.
	UpdateGrace(ctx context.Context, g WorkGrace) error
	// NoteAlert stores that a threshold was passed; false when it was already.
	NoteAlert(ctx context.Context, a Crossing) (fresh bool, err error)
	// DropAlerts forgets the thresholds of a's period above a.Percent whose limit was lower than a.Limit.
	DropAlerts(ctx context.Context, a Crossing) error
	// Alerts returns the thresholds of a team and its users that were passed in a period, the newest first.
	Alerts(ctx context.Context, teamID, period string) ([]Crossing, error)
	// TeamsOver are the teams that have spent something in [from, to), or have passed a threshold in the period: whose limits are looked at
	// although nothing of theirs runs.
	TeamsOver(ctx context.Context, period string, from, to int64) ([]string, error)
}

// Places makes sandboxes stand still, and go on.
type Places interface {
	// Hold brings home what is in the workspace's sandbox and has it stand still until Wake; paused is false where its place cannot pause:
	// it was ended, with everything at home. ErrElsewhere when the workspace has another sandbox by now, or none, or a person had it stand
	// still. Idempotent.
	Hold(ctx context.Context, workspaceID, sandboxID, reason string) (paused bool, err error)
	// Paused says whether the workspace's sandbox stands still for a limit, and for nothing else.
	Paused(workspaceID string) (reason string, paused bool)
	// Wake has such a one go on.
	Wake(ctx context.Context, workspaceID string) error
}

// ErrElsewhere says that a workspace does not have the sandbox any more that was to stand still.
var ErrElsewhere = errors.New("the workspace has another sandbox, or none")

// Teller tells people.
type Teller interface {
	// Passed puts what people are told of a threshold into outboxes and timelines: part of the transaction it is called in.
	Passed(ctx context.Context, a Crossing, t Tell) error
	// Heard tells the web app that there is an alert.
	Heard(ctx context.Context, a Crossing)
	// Turned tells the web app and terminals that a grace changed.
	Turned(ctx context.Context, g WorkGrace)
	// Note writes down that a grace changed: in the audit and, where there are words, in the workspace's timeline. It is part of the
	// transaction it is called in.
	Note(ctx context.Context, g WorkGrace, words string) error
}

// EnforcerConfig is what an Enforcer is made of.
type EnforcerConfig struct {
	Store     EnforceStore
	Standings Standings
	Places    Places
	Teller    Teller
	Now       func() int64 // the ledger's time, ms UTC
	After     func(time.Duration) <-chan time.Time
	Every     time.Duration // between two looks; default 15 s
	Log       *slog.Logger
}

// Validate checks the configuration and fills in the defaults.
func (c *EnforcerConfig) Validate() error {
	if c.Store == nil || c.Standings == nil || c.Places == nil || c.Teller == nil || c.Now == nil {
		return errors.New("quota: an Enforcer needs Store, Standings, Places, Teller and Now")
	}
	if c.After == nil {
		c.After = time.After
	}
	if c.Every <= 0 {
		c.Every = 15 * time.Second
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return nil
}

// Bounds of what an Enforcer does.
const (
	stopsAtOnce = 8                      // sandboxes that are being made to stand still
	soonest     = 200 * time.Millisecond // between two looks, whatever is due
	retryStop   = 20 * time.Second       // after one that failed
	retryWake   = time.Minute
	userEvery   = 2 * time.Minute // a user far from their limit is looked at so often
	forgetEnded = 24 * time.Hour  // after which nobody is told any more that a run was ended for its length
)

// Enforcer looks at what runs and at the limits it counts in: it warns, gives a grace, makes work stand still when that is over, and has it go
// on when the limit allows it again. What it began is stored, and the next server goes on with it. Safe for concurrent use; Run has one
// goroutine and one for each sandbox that is being made to stand still or is woken.
type Enforcer struct {
	cfg  EnforcerConfig
	poke chan struct{}

	mu     sync.Mutex
	graces map[string]WorkGrace // by workspace: the open ones
	stops  map[string]stop      // by workspace
	told   map[string]told      // by level
	tells  map[string]Tell      // by team
	users  map[userKey]look
	work   sync.WaitGroup
	slots  chan struct{}
}

// stop is what is being done, or was tried, with a workspace's sandbox.
type stop struct {
	busy    bool
	retryAt int64
}

type userKey struct{ team, user string }

// look is what was found out of a user's limits, and when they are looked at again.
type look struct {
	view UserView
	at   int64
	next int64
}

// NewEnforcer makes an Enforcer. It starts nothing and panics on a configuration that Validate refuses.
func NewEnforcer(cfg EnforcerConfig) *Enforcer {
	if err := cfg.Validate(); err != nil {
		panic(err)
	}
	return &Enforcer{cfg: cfg, poke: make(chan struct{}, 1), graces: make(map[string]WorkGrace), stops: make(map[string]stop), told: make(map[string]told), tells: make(map[string]Tell),
		users: make(map[userKey]look), slots: make(chan struct{}, stopsAtOnce)}
}

// Recover takes up the graces of an earlier server. It is called once, before people are let in.
func (e *Enforcer) Recover(ctx context.Context) error {
	open, err := e.cfg.Store.OpenGraces(ctx)
	if err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, g := range open {
		e.graces[g.WorkspaceID] = g
	}
	return nil
}

// Changed has the limits of a team looked at now: somebody changed them, or "" = those of all.
func (e *Enforcer) Changed(teamID string) {
	e.mu.Lock()
	for k := range e.users {
		if teamID == "" || k.team == teamID {
			delete(e.users, k)
		}
	}
	for ws, s := range e.stops {
		if s.retryAt > 0 && (teamID == "" || e.graces[ws].TeamID == teamID) {
			s.retryAt = 0
			e.stops[ws] = s
		}
	}
	e.mu.Unlock()
	select {
	case e.poke <- struct{}{}:
	default:
	}
}

// Run looks again and again until ctx ends. It returns when what it began has ended.
func (e *Enforcer) Run(ctx context.Context) error {
	defer e.work.Wait()
	for {
		wait := e.Beat(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-e.poke:
		case <-e.cfg.After(wait):
		}
	}
}

// Beat looks once, and says when to look again at the latest.
func (e *Enforcer) Beat(ctx context.Context) time.Duration {
	b := &beat{e: e, now: e.cfg.Now(), teams: make(map[string]*TeamView), next: e.cfg.Every, running: make(map[string]AtWork)}
	if err := b.look(ctx); err != nil && ctx.Err() == nil {
		e.cfg.Log.Warn("what runs could not be held to its limits; it is tried again", "error", err)
	}
	return max(b.next, soonest)
}

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
	b.e.tells[teamID] = v.Tell
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

// warnAll tells people of thresholds that were passed.
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

// why says what has a sandbox stand still; nil = nothing does.
func (b *beat) why(ctx context.Context, r AtWork) (*reason, error) {
	t, err := b.team(ctx, r.TeamID)
	if err != nil {
		return nil, err
	}
	if h := t.Halt; h != nil && (r.Metered || r.PriceNano > 0) {
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
	if u.SessionMinutes != nil && r.RunBegan > 0 {
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

// begin gives a sandbox its grace.
func (b *beat) begin(ctx context.Context, r AtWork, why reason) error {
	period, _, _ := billing.Month(b.now)
	g := WorkGrace{ID: id.New("grc"), TeamID: r.TeamID, WorkspaceID: r.WorkspaceID, UserID: r.UserID, Scope: why.Scope, ScopeID: why.ScopeID, Period: period,
		State: GraceCounting, Reason: why.Words, BeganAt: b.now, EndsAt: max(why.EndsAt, b.now)}
	fresh := false
	err := b.e.cfg.Store.Tx(ctx, func(ctx context.Context) (err error) {
		if fresh, err = b.e.cfg.Store.InsertGrace(ctx, g); err != nil || !fresh {
			return err
		}
		return b.e.cfg.Teller.Note(ctx, g, g.Reason+" In "+graceWords(g.due(b.now))+" the sandbox stands still with everything in it; nothing is lost.")
	})
	if err != nil || !fresh {
		return err
	}
	killpoint.Reach(killpoint.GraceBegun)
	b.soon(g.EndsAt)
	b.e.keep(ctx, g)
	b.e.cfg.Log.Info("work reached a limit and has a grace", "workspace_id", g.WorkspaceID, "scope", g.Scope, "ms", g.EndsAt-g.BeganAt)
	return nil
}

// follow goes on with a grace.
func (b *beat) follow(ctx context.Context, g WorkGrace) error {
	e := b.e
	r, runs := b.running[g.WorkspaceID]
	e.mu.Lock()
	st := e.stops[g.WorkspaceID]
	e.mu.Unlock()
	if st.busy {
		return nil
	}
	switch g.State {
	case GraceCounting, GraceStopping:
		if !runs {
			if _, paused := e.cfg.Places.Paused(g.WorkspaceID); g.State == GraceStopping && paused { // an earlier server died before it could say so
				g.State = GraceStopped
				return e.put(ctx, g, g.Words())
			}
			return e.lift(ctx, g, b.now, "") // it ended, or somebody made it stand still
		}
		why, err := b.why(ctx, r)
		switch {
		case err != nil:
			return err
		case why == nil:
			return e.lift(ctx, g, b.now, againWords)
		case why.Scope != g.Scope || why.ScopeID != g.ScopeID || why.Words != g.Reason: // another limit was reached meanwhile, or this one was changed
			g.Scope, g.ScopeID, g.Reason = why.Scope, why.ScopeID, why.Words
			if err := e.put(ctx, g, ""); err != nil {
				return err
			}
		}
		if g.State == GraceCounting && b.now < g.EndsAt {
			b.soon(g.EndsAt)
			return nil
		}
		if b.now < st.retryAt {
			b.soon(st.retryAt)
			return nil
		}
		return b.stop(ctx, g, r)
	case GraceStopped, GraceEnded:
		return b.resume(ctx, g, st)
	}
	return nil
}

// stop has a sandbox stand still, in a goroutine of its own.
func (b *beat) stop(ctx context.Context, g WorkGrace, r AtWork) error {
	e := b.e
	if g.State != GraceStopping {
		g.State = GraceStopping
		if err := e.put(ctx, g, ""); err != nil {
			return err
		}
	}
	killpoint.Reach(killpoint.GraceStopping)
	e.busy(ctx, g.WorkspaceID, retryStop, func(ctx context.Context) error {
		held := g
		held.State = GraceStopped
		paused, err := e.cfg.Places.Hold(ctx, g.WorkspaceID, r.SandboxID, held.Words())
		switch {
		case errors.Is(err, ErrElsewhere):
			return e.lift(ctx, g, e.cfg.Now(), "")
		case err != nil:
			return err
		}
		if !paused {
			held.State = GraceEnded
		}
		held.EndedAt = e.cfg.Now()
		killpoint.Reach(killpoint.GraceStopped)
		return e.put(ctx, held, held.Words())
	})
	return nil
}

// againWords tell that work goes on.
const againWords = "The limit allows it again: the sandbox goes on."

// busy does fn for a workspace, one at a time; what fails is tried again later.
func (e *Enforcer) busy(ctx context.Context, workspaceID string, retry time.Duration, fn func(context.Context) error) {
	e.mu.Lock()
	e.stops[workspaceID] = stop{busy: true}
	e.mu.Unlock()
	e.work.Go(func() {
		var err error
		select {
		case e.slots <- struct{}{}:
			err = fn(ctx)
			<-e.slots
		case <-ctx.Done():
			err = ctx.Err()
		}
		st := stop{}
		if err != nil {
			st.retryAt = e.cfg.Now() + retry.Milliseconds()
			if ctx.Err() == nil {
				e.cfg.Log.Warn("a sandbox could not be held to its limit, or let go on; it is tried again", "workspace_id", workspaceID, "error", err)
			}
		}
		e.mu.Lock()
		if _, open := e.graces[workspaceID]; open {
			e.stops[workspaceID] = st
		} else {
			delete(e.stops, workspaceID)
		}
		e.mu.Unlock()
		select {
		case e.poke <- struct{}{}: // whether there is more to do
		default:
		}
	})
}

// resume has work go on that stands still for a limit, once that allows it.
func (b *beat) resume(ctx context.Context, g WorkGrace, st stop) error {
	e := b.e
	_, paused := e.cfg.Places.Paused(g.WorkspaceID)
	// Somebody woke it, or an earlier server that could not say so; or it has another sandbox. One that was woken just to be found after a
	// restart stands still again in a moment.
	if r, runs := b.running[g.WorkspaceID]; runs && !paused {
		words := ""
		if why, err := b.why(ctx, r); err != nil {
			return err
		} else if why == nil && g.Scope != ScopeSessionMinutes && g.State == GraceStopped {
			words = againWords
		}
		return e.lift(ctx, g, b.now, words)
	}
	if g.State == GraceStopped && !paused {
		return e.lift(ctx, g, b.now, "") // its sandbox was ended, or it lives elsewhere now
	}
	if g.Scope == ScopeSessionMinutes { // a new run is begun by a person
		if g.State == GraceEnded && b.now-g.EndedAt >= forgetEnded.Milliseconds() {
			return e.lift(ctx, g, b.now, "") // they begin it elsewhere, or never: the workspace may be gone
		}
		return nil
	}
	as := AtWork{TeamID: g.TeamID, WorkspaceID: g.WorkspaceID, UserID: g.UserID, Metered: true}
	if g.Scope == ScopeTeamBudget || g.Scope == ScopeTeamOverage {
		as.PriceNano = 1 // it cost something; how much matters no more
	}
	why, err := b.why(ctx, as)
	if err != nil {
		return err
	}
	if why != nil {
		if why.Scope != g.Scope || why.ScopeID != g.ScopeID || why.Words != g.Reason {
			g.Scope, g.ScopeID, g.Reason = why.Scope, why.ScopeID, why.Words
			return e.put(ctx, g, "")
		}
		return nil
	}
	if b.now < st.retryAt {
		b.soon(st.retryAt)
		return nil
	}
	if g.State == GraceEnded { // agents act on the world: one that ended is begun again by a person
		return e.lift(ctx, g, b.now, "The limit allows it again: resume the session to go on.")
	}
	e.busy(ctx, g.WorkspaceID, retryWake, func(ctx context.Context) error {
		err := e.cfg.Places.Wake(ctx, g.WorkspaceID)
		if err != nil && fault.KindOf(err) != fault.NotFound { // a workspace that is gone goes on nowhere
			return err
		}
		killpoint.Reach(killpoint.GraceLifted)
		return e.lift(ctx, g, e.cfg.Now(), againWords)
	})
	return nil
}
