package choice

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Policy is what a team decides about executors.
type Policy struct {
	Weakest executors.Boundary // the weakest boundary its work may have; "" = the instance's
	Default executors.Kind     // the executor of workspaces that name none; "" = the instance's

	NoChoice bool // members may not choose an executor for their workspaces: the project's holds, or the team's

	team string         // whose it is
	said executors.Kind // the team's own default; "" = none
}

// Rules are the instance's own decisions about executors.
type Rules struct {
	Default executors.Kind // the executor of a workspace when nobody names one; "" = Auto
	Fixed   bool           // every workspace gets Default: nobody may choose
}

// Policies reads the teams' policies.
type Policies interface {
	PlacePolicy(ctx context.Context, teamID string) (Policy, error)
}

// Policy returns the team's policy, completed by the instance's: the stronger boundary of the two holds.
func (ch *Chooser) Policy(ctx context.Context, teamID string) (Policy, error) {
	var p Policy
	if ch.cfg.Policies != nil && teamID != "" {
		var err error
		if p, err = ch.cfg.Policies.PlacePolicy(ctx, teamID); err != nil {
			return Policy{}, fmt.Errorf("reading which places the team may use: %w", err)
		}
	}
	p.team, p.said = teamID, p.Default
	p.Weakest = executors.Stronger(p.Weakest, ch.cfg.Weakest)
	rules := ch.cfg.Rules()
	if p.Default == "" || rules.Fixed {
		p.Default = rules.Default
	}
	p.Default = cmp.Or(p.Default, executors.Auto)
	return p, nil
}

// Choose returns where a team's new workspace lives, by the rules of Explain. An executor that cannot be used is an error that says why and
// names the alternatives: Choose never falls back to a weaker one. An executor that belongs to somebody is chosen only for those whom it
// admits: see As.
func (ch *Chooser) Choose(ctx context.Context, teamID string, wishes ...executors.Kind) (executors.Kind, error) {
	d, err := ch.Explain(ctx, teamID, wishes...)
	return d.Kind, err
}

// CheckWish refuses an executor that cannot be a project's or a team's: one this server does not have. One that merely cannot be used now is
// accepted.
func (ch *Chooser) CheckWish(ctx context.Context, teamID string, kind executors.Kind) error {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return err
	}
	return ch.checkWish(ctx, pol, kind)
}

func (ch *Chooser) checkWish(ctx context.Context, pol Policy, kind executors.Kind) error {
	if kind == "" {
		return nil
	}
	if r := ch.cfg.Rules(); r.Fixed && kind != r.Default {
		return errFixed(r.Default)
	}
	if kind == executors.Auto {
		return nil
	}
	if ch.cfg.Executors.OfFamily(kind) {
		return fault.New(fault.Invalid, "executor_personal", "A member's own machine cannot be the place of a whole project or team: choose it for a workspace.").With("field", "executor")
	}
	own := kind
	if kind.Region() == executors.HomeRegion {
		own = kind.Provider()
	}
	e, ok := ch.cfg.Executors.OwnOf(own)
	if !ok {
		return ch.unknown(ctx, pol, kind)
	}
	if c := ch.CapabilitiesOf(ctx, e); !c.Boundary.AtLeast(pol.Weakest) && c.Available {
		return ch.tooWeak(ctx, pol, c)
	}
	return nil
}

func errFixed(kind executors.Kind) error {
	return fault.New(fault.Forbidden, "executor_fixed",
		"Places are not chosen on this server: every workspace lives in %q. Leave out executor.", kind).With("field", "executor")
}

// Pick finds the executor of kind: the named one when it works and is allowed, or the strongest such for Auto.
func (ch *Chooser) Pick(ctx context.Context, pol Policy, kind executors.Kind) (executors.Executor, executors.Capabilities, error) {
	person, err := ch.person(ctx, pol.team, asker(ctx))
	if err != nil {
		return nil, executors.Capabilities{}, err
	}
	return ch.pick(ctx, pol, person, kind)
}

func (ch *Chooser) pick(ctx context.Context, pol Policy, person Person, kind executors.Kind) (executors.Executor, executors.Capabilities, error) {
	if kind == "" || kind == executors.Auto {
		return ch.strongest(ctx, pol, person)
	}
	e, ok := ch.cfg.Executors.Find(ctx, kind)
	switch {
	case ch.cfg.Executors.OfFamily(kind) && (!ok || executors.OwnerOf(e).TeamID != pol.team):
		return nil, executors.Capabilities{}, executors.ErrNoMember()
	case !ok:
		return nil, executors.Capabilities{}, ch.unknown(ctx, pol, kind)
	}
	c := ch.CapabilitiesOf(ctx, e)
	if err := ch.trusts(person, c); err != nil {
		return nil, c, err
	}
	if !c.Available && len(ch.cfg.Executors.Regions(kind)) > 0 {
		return nil, c, ch.regionDown(ctx, pol, c, fmt.Sprintf("%s cannot be used now: %s. %s", c.Name, strings.TrimSuffix(c.Reason, "."), c.Cure))
	}
	if !c.Available {
		would, words := ch.wouldDo(ctx, pol, kind)
		return nil, c, fault.New(fault.Unavailable, "executor_unavailable", "%s cannot be used now: %s. %s%s", c.Name,
			strings.TrimSuffix(c.Reason, "."), c.Cure, words).With("field", "executor").With("places", would)
	}
	if !c.Boundary.AtLeast(pol.Weakest) {
		return nil, c, ch.tooWeak(ctx, pol, c)
	}
	return e, c, nil
}

func (ch *Chooser) unknown(ctx context.Context, pol Policy, kind executors.Kind) error {
	would, words := ch.wouldDo(ctx, pol, kind)
	return fault.New(fault.Unsupported, "executor_unknown", "This server has no place %q.%s", kind, words).
		With("field", "executor").With("places", would)
}

func (ch *Chooser) tooWeak(ctx context.Context, pol Policy, c executors.Capabilities) error {
	would, words := ch.wouldDo(ctx, pol, c.Kind)
	return fault.New(fault.Forbidden, "place_too_weak", "%s (%s) is weaker than this team allows: it requires at least %s.%s", c.Name,
		strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords(), words).With("field", "executor").With("places", would).
		With("boundary", string(c.Boundary)).With("weakest_boundary", string(pol.Weakest))
}

// wouldDo lists in a sentence the executors that work and are allowed, except the one that was asked for.
func (ch *Chooser) wouldDo(ctx context.Context, pol Policy, not executors.Kind) ([]string, string) {
	kinds, names := []string{}, []string{}
	for _, c := range ch.Capabilities(ctx) {
		if c.Kind != not && c.Available && c.Boundary.AtLeast(pol.Weakest) {
			kinds, names = append(kinds, string(c.Kind)), append(names, fmt.Sprintf("%s (%s)", c.Kind, strings.ToLower(c.Boundary.Name())))
		}
	}
	if len(kinds) == 0 {
		return kinds, " No other place of this server is available now."
	}
	return kinds, " Available now: " + strings.Join(names, ", ") + "."
}

// strongest finds what Auto means now.
func (ch *Chooser) strongest(ctx context.Context, pol Policy, person Person) (executors.Executor, executors.Capabilities, error) {
	var why []string
	tried := make(map[executors.Kind]bool)
	for _, k := range ch.cfg.Order {
		e, ok := ch.cfg.Executors.OwnOf(k)
		if !ok {
			continue
		}
		tried[k] = true
		c := ch.CapabilitiesOf(ctx, e)
		switch {
		case !c.Available:
			why = append(why, fmt.Sprintf("%s: %s. %s", c.Name, strings.TrimSuffix(c.Reason, "."), c.Cure))
		case !c.Boundary.AtLeast(pol.Weakest):
			why = append(why, fmt.Sprintf("%s: %s, and the team requires at least %s.", c.Name, strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords()))
		case ch.trusts(person, c) != nil:
			why = append(why, fmt.Sprintf("%s: it isolates nothing, and you may not use this server without isolation.", c.Name))
		case c.Boundary == executors.NoBoundary && ch.crowded(ctx):
			why = append(why, fmt.Sprintf("%s: it isolates nothing, so with more than one team it is used only when it is named.", c.Name))
		default:
			return e, c, nil
		}
	}
	if len(why) == 0 {
		why = []string{"None is configured."}
	}
	would := []string{}
	for _, c := range ch.Capabilities(ctx) {
		if c.Available && c.Boundary.AtLeast(pol.Weakest) {
			would = append(would, string(c.Kind))
		}
	}
	words := strings.Join(why, " ")
	if len(would) > 0 {
		words += " You can choose by name: " + strings.Join(would, ", ") + "."
	}
	return nil, executors.Capabilities{}, fault.New(fault.Unavailable, "no_executor", "No place to work is available now. %s", words).With("places", would)
}

// crowded reports whether the instance has more than one team. An unknown number counts as yes.
func (ch *Chooser) crowded(ctx context.Context) bool {
	if ch.cfg.Teams == nil {
		return false
	}
	n, err := ch.cfg.Teams(ctx)
	if err != nil {
		ch.cfg.Log.Warn("teams could not be counted", "error", err)
	}
	return err != nil || n > 1
}

// Option is an executor, and whether a team may choose it.
type Option struct {
	executors.Capabilities
	Allowed   bool   // the weakest boundary of the team and of the instance allow it
	Forbidden string // why not, in words
	Default   bool   // what a workspace of the team gets that names none

	IdleAfter time.Duration   // after how long an idle sandbox of any purpose is paused or ended; 0 = never
	Fallback  bool            // an executor of this server may stand in for it
	Owner     executors.Owner // whom it belongs to; only these may choose it
}

// Options returns for every executor whether a team may choose it, in order of preference, followed by its members' machines, and the team's
// effective policy.
func (ch *Chooser) Options(ctx context.Context, teamID string) ([]Option, Policy, error) {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return nil, pol, err
	}
	person, err := ch.person(ctx, teamID, asker(ctx))
	if err != nil {
		return nil, pol, err
	}
	def := pol.Default
	if def == executors.Auto {
		if def, err = ch.alone(ctx, pol, person); err != nil {
			return nil, pol, err
		}
		if e, _, err := ch.strongest(ctx, pol, person); err == nil && def == "" {
			def = e.Kind()
		}
	}
	var out []Option
	owners := make(map[executors.Kind]executors.Owner)
	all := ch.Capabilities(ctx)
	for _, e := range ch.cfg.Executors.Members(ctx, teamID) {
		owners[e.Kind()] = executors.OwnerOf(e)
		all = append(all, ch.CapabilitiesOf(ctx, e))
	}
	for _, c := range all {
		if c, err = ch.ForWhom(ctx, teamID, executors.AsOf(ctx).UserID, c); err != nil {
			return nil, pol, err
		}
		s := Option{Capabilities: c, Allowed: c.Boundary.AtLeast(pol.Weakest), Default: c.Kind == def, Owner: owners[c.Kind]}
		if ch.cfg.IdleAfter != nil {
			s.IdleAfter = max(ch.cfg.IdleAfter(c.Kind.Base(), executors.ForAgent), 0)
		}
		if ch.cfg.Fallback != nil {
			s.Fallback = ch.cfg.Fallback(ctx, c.Kind.Base())
		}
		if !s.Allowed {
			s.Forbidden = fmt.Sprintf("weaker than allowed: at least %s is required", pol.Weakest.LeastWords())
		} else if ch.trusts(person, c) != nil {
			s.Allowed, s.Forbidden = false, "you may not use this server without isolation"
		}
		out = append(out, s)
	}
	return out, pol, nil
}

// PermitIn says why nothing new may start in a team's sandbox of a kind: its isolation is now weaker than the team allows. Running programs
// are left alone.
func (ch *Chooser) PermitIn(ctx context.Context, teamID string, k executors.Kind) error {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return err
	}
	e, ok := ch.cfg.Executors.Find(ctx, k)
	if !ok {
		return executors.ErrNoMember()
	}
	if err := ch.Admit(ctx, k, executors.AsOf(ctx).UserID); err != nil {
		return err
	}
	c := ch.CapabilitiesOf(ctx, e)
	person, err := ch.person(ctx, teamID, asker(ctx))
	if err != nil {
		return err
	}
	if err := ch.trusts(person, c); err != nil {
		return err
	}
	if c.Boundary.AtLeast(pol.Weakest) {
		return nil
	}
	would, words := ch.wouldDo(ctx, pol, c.Kind)
	return fault.New(fault.Forbidden, "place_too_weak", "The workspace lives in %s (%s), which is weaker than this team allows: it requires at least %s. Move it to another place first; what runs may go on.%s",
		c.Name, strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords(), words).With("places", would).
		With("boundary", string(c.Boundary)).With("weakest_boundary", string(pol.Weakest))
}

// Place returns what an executor can do now; false when this server has no such executor.
func (ch *Chooser) Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	e, ok := ch.cfg.Executors.Find(ctx, kind)
	if !ok {
		return executors.Capabilities{}, false
	}
	return ch.CapabilitiesOf(ctx, e), true
}

// Weakest returns the weakest boundary of the instance, "" = any.
func (ch *Chooser) Weakest() executors.Boundary { return ch.cfg.Weakest }

// Fixed reports whether nobody may choose an executor.
func (ch *Chooser) Fixed() bool { return ch.cfg.Rules().Fixed }

// ChooseHere returns the strongest working executor of this server that the team allows, for work whose own executor cannot serve.
func (ch *Chooser) ChooseHere(ctx context.Context, teamID string) (executors.Kind, error) {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return "", err
	}
	person, err := ch.person(ctx, teamID, asker(ctx))
	if err != nil {
		return "", err
	}
	e, _, err := ch.strongest(ctx, pol, person)
	if err != nil {
		return "", err
	}
	return e.Kind(), nil
}

// CheckPolicy refuses an invalid team policy: a default that this server does not have, or that the team's own weakest boundary forbids.
func (ch *Chooser) CheckPolicy(ctx context.Context, p Policy) error {
	p.Weakest = executors.Stronger(p.Weakest, ch.cfg.Weakest)
	return ch.checkWish(ctx, p, p.Default)
}

// KindFor returns the kind that k resolves to, k itself if none does.
func (ch *Chooser) KindFor(ctx context.Context, k executors.Kind) executors.Kind {
	if e, _, err := ch.Pick(ctx, Policy{Default: executors.Auto}, k); err == nil {
		return e.Kind()
	}
	return k
}
