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

// Policy is what a team says about its places.
type Policy struct {
	Weakest executors.Boundary // the weakest boundary its work may have; "" = the instance's
	Default executors.Kind     // what its workspaces get that name no place; "" = the instance's

	NoChoice bool // members name no place for their workspaces: the project's holds, or the team's

	team string // whose it is
}

// Rules are the instance's own words about places.
type Rules struct {
	Default executors.Kind // what a workspace gets when nobody names a place; "" = Auto
	Fixed   bool           // Default is what every workspace gets: nobody may choose
}

// Policies keeps what teams say about their places.
type Policies interface {
	PlacePolicy(ctx context.Context, teamID string) (Policy, error)
}

// Policy is the team's policy with the instance's filled in: the stronger boundary of the two holds.
func (ch *Chooser) Policy(ctx context.Context, teamID string) (Policy, error) {
	var p Policy
	if ch.cfg.Policies != nil && teamID != "" {
		var err error
		if p, err = ch.cfg.Policies.PlacePolicy(ctx, teamID); err != nil {
			return Policy{}, fmt.Errorf("reading what places the team may use: %w", err)
		}
	}
	p.team = teamID
	p.Weakest = executors.Stronger(p.Weakest, ch.cfg.Weakest)
	rules := ch.cfg.Rules()
	if p.Default == "" || rules.Fixed {
		p.Default = rules.Default
	}
	p.Default = cmp.Or(p.Default, executors.Auto)
	return p, nil
}

// Choose says where a team's new workspace lives: the first of wishes that is not "", else the team's place, else the instance's. Auto
// becomes the strongest that works. What cannot be used is an error that says why and names what would do: nothing weaker is
// ever taken instead. A place of somebody's own is chosen only for those whom it admits: see As.
func (ch *Chooser) Choose(ctx context.Context, teamID string, wishes ...executors.Kind) (executors.Kind, error) {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return "", err
	}
	wish, given := pol.Default, pol.Default // given: what the member gets who names none
	for i := len(wishes) - 1; i >= 0; i-- {
		if wishes[i] == "" {
			continue
		}
		if wish = wishes[i]; i > 0 {
			given = wish
		}
	}
	if pol.NoChoice && wish != given {
		if e, _, err := ch.Pick(ctx, pol, given); err != nil || e.Kind() != wish {
			return "", fault.New(fault.Forbidden, "executor_fixed_by_team",
				"This team's members do not choose places: their workspaces live in %q. Leave out executor, or ask an admin of the team.", given).With("field", "executor")
		}
	}
	if ch.Fixed() {
		fixed, _, err := ch.Pick(ctx, pol, pol.Default)
		if err != nil {
			return "", err
		}
		if wish != pol.Default && wish != fixed.Kind() {
			return "", errFixed(pol.Default)
		}
		return fixed.Kind(), nil
	}
	e, _, err := ch.Pick(ctx, pol, wish)
	if err != nil {
		return "", err
	}
	return e.Kind(), ch.admit(ctx, e, executors.AsOf(ctx).UserID)
}

// CheckWish refuses a place that cannot be a project's or a team's: one this server does not have. One that merely cannot be used
// now may be named.
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
		return fault.New(fault.Invalid, "executor_personal", "A member's own machine is no place for everybody: choose it for a workspace.").With("field", "executor")
	}
	e, ok := ch.cfg.Executors.OwnOf(kind)
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
	if kind == "" || kind == executors.Auto {
		return ch.strongest(ctx, pol)
	}
	e, ok := ch.cfg.Executors.Find(ctx, kind)
	switch {
	case ch.cfg.Executors.OfFamily(kind) && (!ok || executors.OwnerOf(e).TeamID != pol.team):
		return nil, executors.Capabilities{}, executors.ErrNoMember()
	case !ok:
		return nil, executors.Capabilities{}, ch.unknown(ctx, pol, kind)
	}
	c := ch.CapabilitiesOf(ctx, e)
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
	return fault.New(fault.Forbidden, "place_too_weak", "%s (%s) is weaker than this team allows: at least %s is asked for.%s", c.Name,
		strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords(), words).With("field", "executor").With("places", would).
		With("boundary", string(c.Boundary)).With("weakest_boundary", string(pol.Weakest))
}

// wouldDo lists the places that work and are allowed, but the one that was asked for, and puts them into a sentence.
func (ch *Chooser) wouldDo(ctx context.Context, pol Policy, not executors.Kind) ([]string, string) {
	kinds, names := []string{}, []string{}
	for _, c := range ch.Capabilities(ctx) {
		if c.Kind != not && c.Available && c.Boundary.AtLeast(pol.Weakest) {
			kinds, names = append(kinds, string(c.Kind)), append(names, fmt.Sprintf("%s (%s)", c.Kind, strings.ToLower(c.Boundary.Name())))
		}
	}
	if len(kinds) == 0 {
		return kinds, " No other place of this server would do now."
	}
	return kinds, " What would do now: " + strings.Join(names, ", ") + "."
}

// strongest finds what Auto means now.
func (ch *Chooser) strongest(ctx context.Context, pol Policy) (executors.Executor, executors.Capabilities, error) {
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
			why = append(why, fmt.Sprintf("%s: %s, and at least %s is asked for.", c.Name, strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords()))
		case c.Boundary == executors.NoBoundary && ch.crowded(ctx):
			why = append(why, fmt.Sprintf("%s: it isolates nothing, and with more than one team it is used only where it is named.", c.Name))
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
		words += " What can be chosen by name: " + strings.Join(would, ", ") + "."
	}
	return nil, executors.Capabilities{}, fault.New(fault.Unavailable, "no_executor", "No place to work is available now. %s", words).With("places", would)
}

// crowded reports whether the instance has more than one team. Not knowing counts as yes.
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

// Option is a place as a team may, or may not, choose it.
type Option struct {
	executors.Capabilities
	Allowed   bool   // the team's weakest boundary, and the instance's, allow it
	Forbidden string // why not, in words
	Default   bool   // what a workspace of the team gets that names none

	IdleAfter time.Duration   // after how long an idle sandbox is paused or ended, whatever it is for; 0 = never
	Fallback  bool            // a place of this server may stand in for it
	Owner     executors.Owner // whose it is; only these may choose it
}

// Options says of every place whether a team may choose it, in the order of choice, then of its members' machines, and what the team's policy
// comes to.
func (ch *Chooser) Options(ctx context.Context, teamID string) ([]Option, Policy, error) {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return nil, pol, err
	}
	def := pol.Default
	if def == executors.Auto {
		if e, _, err := ch.strongest(ctx, pol); err == nil {
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
			s.Forbidden = fmt.Sprintf("weaker than allowed: at least %s is asked for", pol.Weakest.LeastWords())
		}
		out = append(out, s)
	}
	return out, pol, nil
}

// PermitIn says why nothing new may start in a team's sandbox of a kind: its place has become weaker than the team allows. What runs there is
// left alone.
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
	if c.Boundary.AtLeast(pol.Weakest) {
		return nil
	}
	would, words := ch.wouldDo(ctx, pol, c.Kind)
	return fault.New(fault.Forbidden, "place_too_weak", "The workspace lives in %s (%s), which is weaker than this team allows by now: at least %s is asked for. Move it to another place first; what runs may go on.%s",
		c.Name, strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords(), words).With("places", would).
		With("boundary", string(c.Boundary)).With("weakest_boundary", string(pol.Weakest))
}

// Place says what a place can do now; false when this server has no such place.
func (ch *Chooser) Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	e, ok := ch.cfg.Executors.Find(ctx, kind)
	if !ok {
		return executors.Capabilities{}, false
	}
	return ch.CapabilitiesOf(ctx, e), true
}

// Weakest is the weakest boundary of the instance, "" = any.
func (ch *Chooser) Weakest() executors.Boundary { return ch.cfg.Weakest }

// Fixed reports whether nobody may choose a place.
func (ch *Chooser) Fixed() bool { return ch.cfg.Rules().Fixed }

// ChooseHere says which is the strongest place on this server that works and that the team allows, for work whose own place cannot serve.
func (ch *Chooser) ChooseHere(ctx context.Context, teamID string) (executors.Kind, error) {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return "", err
	}
	e, _, err := ch.strongest(ctx, pol)
	if err != nil {
		return "", err
	}
	return e.Kind(), nil
}

// CheckPolicy refuses what a team cannot say about its places: a default that this server does not have, or that its own weakest
// boundary forbids.
func (ch *Chooser) CheckPolicy(ctx context.Context, p Policy) error {
	p.Weakest = executors.Stronger(p.Weakest, ch.cfg.Weakest)
	return ch.checkWish(ctx, p, p.Default)
}

// KindFor is the kind of place k would become, k where none does.
func (ch *Chooser) KindFor(ctx context.Context, k executors.Kind) executors.Kind {
	if e, _, err := ch.Pick(ctx, Policy{Default: executors.Auto}, k); err == nil {
		return e.Kind()
	}
	return k
}
