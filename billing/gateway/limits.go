package gateway

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Limit is a rule about models: of one team, or of every team. Where several fit a model, the one with the most exact name says whether it
// is allowed; each of them bounds a minute. An instance's rule applies to each team separately. Both levels must let a request through.
type Limit struct {
	TeamID         string // "" = every team
	Model          string // a name, the beginning of names followed by *, or * for all
	Allowed        bool
	RequestsMinute *int64 // nil = no bound
	TokensMinute   *int64 // what goes in and comes out; what is read from a cache does not count. nil = no bound
	UpdatedBy      string
	UpdatedAt      int64 // ms UTC
}

const (
	mostLimits = 100 // rules of one team
	mostMinute = 1_000_000_000

	rulesFor = 2 * time.Second // a reading of the rules is believed
	// holdMost is how long a request is held back for its minute's bound before it is refused. An agent that is refused ends its turn, or
	// tries again and again; one that is held back just takes longer.
	holdMost = time.Minute
)

// CheckLimits checks and cleans rules somebody sets. Errors: invalid_model_limit.
func CheckLimits(limits []Limit) error {
	if len(limits) > mostLimits {
		return badLimit(mostLimits, "invalid_model_limit", "There may be %d rules at most. Use * to take several models together.", mostLimits)
	}
	seen := map[string]bool{}
	for i, l := range limits {
		if l.Model != "*" && !tokens.ValidPattern(l.Model) {
			return badLimit(i, "invalid_model_limit", "Enter the name of a model, the beginning of names followed by *, or * for all.")
		}
		if seen[l.Model] {
			return badLimit(i, "invalid_model_limit", "There are two rules for %s.", l.Model)
		}
		seen[l.Model] = true
		for _, n := range []*int64{l.RequestsMinute, l.TokensMinute} {
			if n != nil && (*n < 1 || *n > mostMinute) {
				return badLimit(i, "invalid_model_limit", "A limit of a minute is from 1 to %d. Leave it empty for none; to forbid a model, do not allow it.", mostMinute)
			}
		}
	}
	return nil
}

func badLimit(i int, code, format string, args ...any) error {
	return fault.New(fault.Invalid, code, format, args...).With("field", fmt.Sprintf("items[%d]", i))
}

// SetLimits replaces the rules of a team, or of every team (""). It counts within seconds. Errors: invalid_model_limit.
func (s *Service) SetLimits(ctx context.Context, teamID, by string, limits []Limit) error {
	if err := CheckLimits(limits); err != nil {
		return err
	}
	limits = slices.Clone(limits)
	now := s.cfg.Now().UnixMilli()
	for i := range limits {
		limits[i].TeamID, limits[i].UpdatedBy, limits[i].UpdatedAt = teamID, by, now
	}
	if err := s.cfg.Store.SetLimits(ctx, teamID, limits); err != nil {
		return fmt.Errorf("storing which models may be asked: %w", err)
	}
	s.rules.forget()
	return nil
}

// Limits returns the rules of a team, or of every team (""), by model.
func (s *Service) Limits(ctx context.Context, teamID string) ([]Limit, error) {
	all, err := s.cfg.Store.Limits(ctx, teamID)
	if err != nil {
		return nil, fmt.Errorf("reading which models may be asked: %w", err)
	}
	return slices.DeleteFunc(all, func(l Limit) bool { return l.TeamID != teamID }), nil
}

// AllowedModels returns those of models that the rules of a team, and of every team, allow.
func (s *Service) AllowedModels(ctx context.Context, teamID string, models []string) ([]string, error) {
	all, err := s.rules.of(ctx, teamID)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(models), func(m string) bool {
		_, forbidden := fitting(all, m)
		return forbidden
	}), nil
}

// rules decides by limits, and counts the minutes. It counts in this process alone.
type rules struct {
	store Store
	now   func() time.Time

	mu      sync.Mutex
	teams   map[string]teamRules
	windows map[windowKey]*window
	swept   time.Time
}

type teamRules struct {
	all []Limit
	at  time.Time
}

// windowKey is whose minute is counted, by which rule.
type windowKey struct{ team, owner, model string }

func (r *rules) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	clear(r.teams)
}

func (r *rules) of(ctx context.Context, team string) ([]Limit, error) {
	r.mu.Lock()
	have, ok := r.teams[team]
	r.mu.Unlock()
	now := r.now()
	if age := now.Sub(have.at); ok && age >= 0 && age < rulesFor {
		return have.all, nil
	}
	all, err := r.store.Limits(tenant.In(ctx, team), team)
	if err != nil {
		return nil, fmt.Errorf("reading which models may be asked: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.teams[team] = teamRules{all, now}
	return all, nil
}

// fitting are the rules that fit a model. Forbidden: the most exact one of a level does not allow it.
func fitting(all []Limit, model string) (fit []Limit, forbidden bool) {
	best := map[bool]int{}
	allowed := map[bool]bool{}
	for _, l := range all {
		how := tokens.Matches(l.Model, model)
		if how == 0 {
			continue
		}
		fit = append(fit, l)
		if own := l.TeamID != ""; how > best[own] {
			best[own], allowed[own] = how, l.Allowed
		}
	}
	for level, yes := range allowed {
		if best[level] > 0 && !yes {
			return fit, true
		}
	}
	return fit, false
}

func notAllowed(model string) error {
	return fault.New(fault.Forbidden, "model_not_allowed", "Your team does not allow the model %.200s. Choose another one, or ask an admin of the team (Settings, Models).", model).With("model", model)
}

// admit lets a request for a model, which may lead to others beside it, through, holds it back for its minute, or refuses it. Errors: model_not_allowed, model_rate_limited.
func (r *rules) admit(ctx context.Context, team, model string, additional ...string) error {
	all, err := r.of(ctx, team)
	if err != nil || len(all) == 0 {
		return err
	}
	for _, other := range additional {
		if _, forbidden := fitting(all, other); forbidden {
			return notAllowed(other)
		}
	}
	fit, forbidden := fitting(all, model)
	if forbidden {
		return notAllowed(model)
	}
	for held := time.Duration(0); ; {
		wait, rule := r.take(team, fit)
		if wait == 0 {
			return nil
		}
		if held += wait; held > holdMost {
			what := "requests"
			if rule.RequestsMinute == nil {
				what = "tokens"
			}
			return fault.New(fault.RateLimited, "model_rate_limited", "Your team has used up its %s a minute for %s. It goes on in %d s.", what, rule.Model, int(wait.Seconds())+1).
				With("retry_after_ms", wait.Milliseconds()).With("model", rule.Model)
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
	}
}

// take counts a request in every rule's minute where all have room; else it says how long until the fullest may have.
func (r *rules) take(team string, fit []Limit) (wait time.Duration, by Limit) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	r.sweep(now)
	for _, l := range fit {
		if w := r.window(team, l, now).wait(now, l); w > wait {
			wait, by = w, l
		}
	}
	if wait > 0 {
		return wait, by
	}
	for _, l := range fit {
		r.window(team, l, now).add(now, 1, 0)
	}
	return 0, by
}

// used counts what a request used, once it is known.
func (r *rules) used(team, model string, n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fit, _ := fitting(r.teams[team].all, model)
	now := r.now()
	for _, l := range fit {
		r.window(team, l, now).add(now, 0, n)
	}
}

// window is that of a rule, nil where it bounds nothing. With mu.
func (r *rules) window(team string, l Limit, now time.Time) *window {
	if l.RequestsMinute == nil && l.TokensMinute == nil {
		return nil
	}
	key := windowKey{team, l.TeamID, l.Model}
	w := r.windows[key]
	if w == nil {
		w = &window{}
		r.windows[key] = w
	}
	w.touched = now
	return w
}

// sweep drops minutes nobody uses. With mu.
func (r *rules) sweep(now time.Time) {
	if now.Sub(r.swept) < 5*time.Minute {
		return
	}
	r.swept = now
	for key, w := range r.windows {
		if now.Sub(w.touched) > 2*time.Minute {
			delete(r.windows, key)
		}
	}
}

// window counts the last minute by seconds. A nil one bounds nothing.
type window struct {
	seconds [60]struct{ second, requests, tokens int64 }
	touched time.Time
}

func (w *window) add(now time.Time, requests, used int64) {
	if w == nil {
		return
	}
	s := &w.seconds[now.Unix()%60]
	if s.second != now.Unix() {
		s.second, s.requests, s.tokens = now.Unix(), 0, 0
	}
	s.requests += requests
	s.tokens += used
}

// wait is how long until the minute has room for a request; 0 = it has.
func (w *window) wait(now time.Time, l Limit) time.Duration {
	if w == nil {
		return 0
	}
	second := now.Unix()
	var requests, used int64
	for _, s := range w.seconds {
		if s.second > second-60 && s.second <= second {
			requests += s.requests
			used += s.tokens
		}
	}
	full := func() bool {
		return l.RequestsMinute != nil && requests >= *l.RequestsMinute || l.TokensMinute != nil && used >= *l.TokensMinute
	}
	if !full() {
		return 0
	}
	for at := second - 59; at <= second; at++ {
		if s := w.seconds[(at%60+60)%60]; s.second == at {
			requests -= s.requests
			used -= s.tokens
		}
		if !full() {
			return time.Unix(at+60, 0).Sub(now)
		}
	}
	return time.Minute
}

// Words say rules in short, for the audit.
func Words(limits []Limit) string {
	var b strings.Builder
	for i, l := range limits {
		if i > 0 {
			b.WriteString("; ")
		}
		b.WriteString(l.Model)
		if !l.Allowed {
			b.WriteString(" forbidden")
		}
		if l.RequestsMinute != nil {
			fmt.Fprintf(&b, " %d requests/min", *l.RequestsMinute)
		}
		if l.TokensMinute != nil {
			fmt.Fprintf(&b, " %d tokens/min", *l.TokensMinute)
		}
	}
	return b.String()
}
