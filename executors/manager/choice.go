package manager

import (
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

// policy is the team's policy with the instance's filled in: the stronger boundary of the two holds.
func (m *Manager) policy(ctx context.Context, teamID string) (Policy, error) {
	var p Policy
	if m.cfg.Policies != nil && teamID != "" {
		var err error
		if p, err = m.cfg.Policies.PlacePolicy(ctx, teamID); err != nil {
			return Policy{}, fmt.Errorf("reading what places the team may use: %w", err)
		}
	}
	p.team = teamID
	p.Weakest = executors.Stronger(p.Weakest, m.cfg.Weakest)
	rules := m.cfg.Rules()
	if p.Default == "" || rules.Fixed {
		p.Default = rules.Default
	}
	if p.Default == "" {
		p.Default = executors.Auto
	}
	return p, nil
}

// Choose says where a team's new workspace lives: the first of wishes that is not "", else the team's place, else the instance's. Auto
// becomes the strongest that works. What cannot be used is an error that says why and names what would do: nothing weaker is
// ever taken instead. A place of somebody's own is chosen only for those whom it admits: see As.
func (m *Manager) Choose(ctx context.Context, teamID string, wishes ...executors.Kind) (executors.Kind, error) {
	pol, err := m.policy(ctx, teamID)
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
		if e, _, err := m.pick(ctx, pol, given); err != nil || e.Kind() != wish {
			return "", fault.New(fault.Forbidden, "executor_fixed_by_team",
				"This team's members do not choose places: their workspaces live in %q. Leave out executor, or ask an admin of the team.", given).With("field", "executor")
		}
	}
	if m.Fixed() {
		fixed, _, err := m.pick(ctx, pol, pol.Default)
		if err != nil {
			return "", err
		}
		if wish != pol.Default && wish != fixed.Kind() {
			return "", errFixed(pol.Default)
		}
		return fixed.Kind(), nil
	}
	e, _, err := m.pick(ctx, pol, wish)
	if err != nil {
		return "", err
	}
	return e.Kind(), m.admit(ctx, e, executors.AsOf(ctx).UserID)
}

// CheckWish refuses a place that cannot be a project's or a team's: one this server does not have. One that merely cannot be used
// now may be named.
func (m *Manager) CheckWish(ctx context.Context, teamID string, kind executors.Kind) error {
	pol, err := m.policy(ctx, teamID)
	if err != nil {
		return err
	}
	return m.checkWish(ctx, pol, kind)
}

func (m *Manager) checkWish(ctx context.Context, pol Policy, kind executors.Kind) error {
	if kind == "" {
		return nil
	}
	if r := m.cfg.Rules(); r.Fixed && kind != r.Default {
		return errFixed(r.Default)
	}
	if kind == executors.Auto {
		return nil
	}
	if m.families[kind.Base()] != nil {
		return fault.New(fault.Invalid, "executor_personal", "A member's own machine is no place for everybody: choose it for a workspace.").With("field", "executor")
	}
	e, ok := m.byKind[kind]
	if !ok {
		return m.unknown(ctx, pol, kind)
	}
	if c := m.capabilities(ctx, e); !c.Boundary.AtLeast(pol.Weakest) && c.Available {
		return m.tooWeak(ctx, pol, c)
	}
	return nil
}

func errFixed(kind executors.Kind) error {
	return fault.New(fault.Forbidden, "executor_fixed",
		"Places are not chosen on this server: every workspace lives in %q. Leave out executor.", kind).With("field", "executor")
}

// pick finds the executor of kind: the named one when it works and is allowed, or the strongest such for Auto.
func (m *Manager) pick(ctx context.Context, pol Policy, kind executors.Kind) (executors.Executor, executors.Capabilities, error) {
	if kind == "" || kind == executors.Auto {
		return m.strongest(ctx, pol)
	}
	e, ok := m.executor(ctx, kind)
	switch {
	case m.families[kind.Base()] != nil && (!ok || ownerOf(e).TeamID != pol.team):
		return nil, executors.Capabilities{}, noSuchMember()
	case !ok:
		return nil, executors.Capabilities{}, m.unknown(ctx, pol, kind)
	}
	c := m.capabilities(ctx, e)
	if !c.Available {
		would, words := m.wouldDo(ctx, pol, kind)
		return nil, c, fault.New(fault.Unavailable, "executor_unavailable", "%s cannot be used now: %s. %s%s", c.Name,
			strings.TrimSuffix(c.Reason, "."), c.Cure, words).With("field", "executor").With("places", would)
	}
	if !c.Boundary.AtLeast(pol.Weakest) {
		return nil, c, m.tooWeak(ctx, pol, c)
	}
	return e, c, nil
}

func (m *Manager) unknown(ctx context.Context, pol Policy, kind executors.Kind) error {
	would, words := m.wouldDo(ctx, pol, kind)
	return fault.New(fault.Unsupported, "executor_unknown", "This server has no place %q.%s", kind, words).
		With("field", "executor").With("places", would)
}

func (m *Manager) tooWeak(ctx context.Context, pol Policy, c executors.Capabilities) error {
	would, words := m.wouldDo(ctx, pol, c.Kind)
	return fault.New(fault.Forbidden, "place_too_weak", "%s (%s) is weaker than this team allows: at least %s is asked for.%s", c.Name,
		strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords(), words).With("field", "executor").With("places", would).
		With("boundary", string(c.Boundary)).With("weakest_boundary", string(pol.Weakest))
}

// wouldDo lists the places that work and are allowed, but the one that was asked for, and puts them into a sentence.
func (m *Manager) wouldDo(ctx context.Context, pol Policy, not executors.Kind) ([]string, string) {
	kinds, names := []string{}, []string{}
	for _, c := range m.Capabilities(ctx) {
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
func (m *Manager) strongest(ctx context.Context, pol Policy) (executors.Executor, executors.Capabilities, error) {
	var why []string
	tried := make(map[executors.Kind]bool)
	for _, k := range m.cfg.Order {
		e, ok := m.byKind[k]
		if !ok {
			continue
		}
		tried[k] = true
		c := m.capabilities(ctx, e)
		switch {
		case !c.Available:
			why = append(why, fmt.Sprintf("%s: %s. %s", c.Name, strings.TrimSuffix(c.Reason, "."), c.Cure))
		case !c.Boundary.AtLeast(pol.Weakest):
			why = append(why, fmt.Sprintf("%s: %s, and at least %s is asked for.", c.Name, strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords()))
		case c.Boundary == executors.NoBoundary && m.crowded(ctx):
			why = append(why, fmt.Sprintf("%s: it isolates nothing, and with more than one team it is used only where it is named.", c.Name))
		default:
			return e, c, nil
		}
	}
	if len(why) == 0 {
		why = []string{"None is configured."}
	}
	would := []string{}
	for _, c := range m.Capabilities(ctx) {
		if c.Available && c.Boundary.AtLeast(pol.Weakest) {
			would = append(would, string(c.Kind))
		}
	}
	words := joinWords(why)
	if len(would) > 0 {
		words += " What can be chosen by name: " + strings.Join(would, ", ") + "."
	}
	return nil, executors.Capabilities{}, fault.New(fault.Unavailable, "no_executor", "No place to work is available now. %s", words).With("places", would)
}

// crowded reports whether the instance has more than one team. Not knowing counts as yes.
func (m *Manager) crowded(ctx context.Context) bool {
	if m.cfg.Teams == nil {
		return false
	}
	n, err := m.cfg.Teams(ctx)
	if err != nil {
		m.cfg.Log.Warn("teams could not be counted", "error", err)
	}
	return err != nil || n > 1
}

// Standing is how a place stands to a team.
type Standing struct {
	executors.Capabilities
	Allowed   bool   // the team's weakest boundary, and the instance's, allow it
	Forbidden string // why not, in words
	Default   bool   // what a workspace of the team gets that names none

	IdleAfter time.Duration   // after how long an idle sandbox is paused or ended, whatever it is for; 0 = never
	Fallback  bool            // a place of this server may stand in for it
	Owner     executors.Owner // whose it is; only these may choose it
}

// Standings says of every place how it stands to a team, in the order of choice, then of its members' machines, and what the team's policy
// comes to.
func (m *Manager) Standings(ctx context.Context, teamID string) ([]Standing, Policy, error) {
	pol, err := m.policy(ctx, teamID)
	if err != nil {
		return nil, pol, err
	}
	def := pol.Default
	if def == executors.Auto {
		if e, _, err := m.strongest(ctx, pol); err == nil {
			def = e.Kind()
		}
	}
	var out []Standing
	owners := make(map[executors.Kind]executors.Owner)
	all := m.Capabilities(ctx)
	for _, e := range m.members(ctx, teamID) {
		owners[e.Kind()] = ownerOf(e)
		all = append(all, m.capabilities(ctx, e))
	}
	for _, c := range all {
		if c, err = m.forWhom(ctx, teamID, executors.AsOf(ctx).UserID, c); err != nil {
			return nil, pol, err
		}
		s := Standing{Capabilities: c, Allowed: c.Boundary.AtLeast(pol.Weakest), Default: c.Kind == def, Owner: owners[c.Kind]}
		if m.cfg.IdleAfter != nil {
			s.IdleAfter = max(m.cfg.IdleAfter(c.Kind.Base(), executors.ForAgent), 0)
		}
		if m.cfg.Fallback != nil {
			s.Fallback = m.cfg.Fallback(ctx, c.Kind.Base())
		}
		if !s.Allowed {
			s.Forbidden = fmt.Sprintf("weaker than allowed: at least %s is asked for", pol.Weakest.LeastWords())
		}
		out = append(out, s)
	}
	return out, pol, nil
}

// Permit says why nothing new may start in the workspace's sandbox as it is: its place has become weaker than the team allows. What runs
// there is left alone. Without a sandbox there is nothing to say: Ensure decides.
func (m *Manager) Permit(ctx context.Context, workspaceID string) error {
	p, ok := m.live(workspaceID)
	if !ok {
		return nil
	}
	pol, err := m.policy(ctx, p.TeamID)
	if err != nil {
		return err
	}
	e, ok := m.executor(ctx, p.Kind)
	if !ok {
		return noSuchMember()
	}
	if err := m.Admit(ctx, p.Kind, executors.AsOf(ctx).UserID); err != nil {
		return err
	}
	c := m.capabilities(ctx, e)
	if c.Boundary.AtLeast(pol.Weakest) {
		return nil
	}
	would, words := m.wouldDo(ctx, pol, c.Kind)
	return fault.New(fault.Forbidden, "place_too_weak", "The workspace lives in %s (%s), which is weaker than this team allows by now: at least %s is asked for. Move it to another place first; what runs may go on.%s",
		c.Name, strings.ToLower(c.Boundary.Name()), pol.Weakest.LeastWords(), words).With("places", would).
		With("boundary", string(c.Boundary)).With("weakest_boundary", string(pol.Weakest))
}

// Place says what a place can do now; false when this server has no such place.
func (m *Manager) Place(ctx context.Context, kind executors.Kind) (executors.Capabilities, bool) {
	e, ok := m.executor(ctx, kind)
	if !ok {
		return executors.Capabilities{}, false
	}
	return m.capabilities(ctx, e), true
}

// Weakest is the weakest boundary of the instance, "" = any.
func (m *Manager) Weakest() executors.Boundary { return m.cfg.Weakest }

// Fixed reports whether nobody may choose a place.
func (m *Manager) Fixed() bool { return m.cfg.Rules().Fixed }

// ChooseHere says which is the strongest place on this server that works and that the team allows, for work whose own place cannot serve.
func (m *Manager) ChooseHere(ctx context.Context, teamID string) (executors.Kind, error) {
	pol, err := m.policy(ctx, teamID)
	if err != nil {
		return "", err
	}
	e, _, err := m.strongest(ctx, pol)
	if err != nil {
		return "", err
	}
	return e.Kind(), nil
}

// CheckPolicy refuses what a team cannot say about its places: a default that this server does not have, or that its own weakest
// boundary forbids.
func (m *Manager) CheckPolicy(ctx context.Context, p Policy) error {
	p.Weakest = executors.Stronger(p.Weakest, m.cfg.Weakest)
	return m.checkWish(ctx, p, p.Default)
}
