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

// Rule names one step of the choice of a place.
type Rule string

// The rules, in their order; see docs/places.md.
const (
	RuleNamed    Rule = "named"    // for this workspace
	RuleMachine  Rule = "machine"  // the person's own machine, while it is connected and the person wants that
	RulePerson   Rule = "person"   // the person's default in the team
	RuleProject  Rule = "project"  // the project's
	RuleTeam     Rule = "team"     // the team's
	RuleInstance Rule = "instance" // the instance's
	RuleAuto     Rule = "auto"     // what "auto" means now
	RuleRegion   Rule = "region"   // which region of a place that has several
)

// Step is what one rule said.
type Step struct {
	Rule    Rule           `json:"rule"`
	Kind    executors.Kind `json:"kind,omitempty"` // what it names; "" = nothing
	Words   string         `json:"words"`
	Decided bool           `json:"decided,omitempty"` // the place is this one's
}

// Decision is where a workspace lives, and why.
type Decision struct {
	Kind      executors.Kind
	Steps     []Step
	LatencyMs int64 // the round trip to the region; 0 = there is one only, or nobody measured
}

// Person is what a person may and wants in a team.
type Person struct {
	Trusted      bool           // may use places of this server without isolation
	MachineFirst bool           // new workspaces that name no place go to the person's own machine while it is connected
	Default      executors.Kind // of new workspaces that name no place; "" = none
	// Fallback is where work on the person's own machine goes when that goes away; "" = it waits for the machine. FallbackNano is what an
	// hour cost when the person agreed.
	Fallback     executors.Kind
	FallbackNano int64
}

// person reads what a user wants. Nobody in particular, and a Chooser that cannot read it, wants nothing and may everything.
func (ch *Chooser) person(ctx context.Context, teamID, userID string) (Person, error) {
	if ch.cfg.People == nil || teamID == "" || userID == "" {
		return Person{Trusted: true}, nil
	}
	p, err := ch.cfg.People(ctx, teamID, userID)
	if err != nil {
		return p, fmt.Errorf("reading where a person may work: %w", err)
	}
	return p, nil
}

// asker is who asks; "" = the server.
func asker(ctx context.Context) string {
	_, user := executors.AskerOf(ctx)
	return user
}

// trusts refuses a place of this server without isolation to a person who may not use it.
func (ch *Chooser) trusts(p Person, c executors.Capabilities) error {
	if p.Trusted || c.Boundary != executors.NoBoundary || c.Kind.Member() != "" {
		return nil
	}
	return fault.New(fault.Forbidden, "unisolated_not_allowed",
		"%s isolates nothing, and you may not use this server without isolation. Choose another place, or ask an admin of the team for that right.", c.Name).With("field", "executor")
}

// Explain decides where a team's new workspace lives and says what each rule said. wishes are the place named for the workspace and that of
// its project, each "" for none. On an error the steps say how far it came.
func (ch *Chooser) Explain(ctx context.Context, teamID string, wishes ...executors.Kind) (Decision, error) {
	var d Decision
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return d, err
	}
	user := asker(ctx)
	person, err := ch.person(ctx, teamID, user)
	if err != nil {
		return d, err
	}
	wishes = append(wishes, "", "")
	named, project := wishes[0], wishes[1]
	say := func(rule Rule, k executors.Kind, words string, args ...any) {
		d.Steps = append(d.Steps, Step{Rule: rule, Kind: k, Words: fmt.Sprintf(words, args...)})
	}

	fixed, forbidden := ch.Fixed(), pol.NoChoice
	given := cmp.Or(project, pol.said) // what a member gets who names none and may name none
	var taken executors.Kind
	take := func(rule Rule, k executors.Kind, none, some string) {
		switch {
		case k == "":
			say(rule, "", "%s", none)
		case taken != "":
			say(rule, k, "%s Not reached.", some)
		default:
			taken = k
			say(rule, k, "%s", some)
		}
	}
	mayNot := fixed || forbidden
	if named != "" {
		take(RuleNamed, named, "", "Named for this workspace.")
	} else {
		say(RuleNamed, "", "Nobody named a place for this workspace.")
	}
	switch k, words := ch.ownMachine(ctx, teamID, user, person, pol, cmp.Or(person.Default, given, ch.cfg.Rules().Default)); {
	case mayNot:
		say(RuleMachine, "", "Places are not chosen here, so machines of one's own are not asked.")
	default:
		take(RuleMachine, k, words, words)
	}
	if mayNot {
		say(RulePerson, "", "Places are not chosen here, so a person's default does not count.")
	} else {
		take(RulePerson, person.Default, "You have no default of your own.", "Your own default.")
	}
	if fixed {
		say(RuleProject, project, "An operator fixed the place for the whole instance.")
		say(RuleTeam, pol.said, "An operator fixed the place for the whole instance.")
	} else {
		take(RuleProject, project, "The project names none.", "The project's place.")
		take(RuleTeam, pol.said, "The team names none.", "The team's default.")
	}
	instance, words := cmp.Or(ch.cfg.Rules().Default, executors.Auto), "The instance's default."
	if byHand, _ := ctx.Value(byHandKey{}).(bool); byHand {
		k, err := ch.alone(ctx, pol, person)
		if err != nil {
			return d, err
		}
		if k != "" {
			instance, words = k, "You are alone on this server, and nobody said another default: without isolation, as your own terminal."
		}
	}
	take(RuleInstance, instance, "", words)
	given = cmp.Or(given, instance)
	if fixed {
		given = instance
	}
	return ch.settle(ctx, d, pol, person, taken, given)
}

// settle finds the executor that a wish means and checks that it may be had.
func (ch *Chooser) settle(ctx context.Context, d Decision, pol Policy, person Person, wish, given executors.Kind) (Decision, error) {
	fixed := ch.Fixed()
	var e executors.Executor
	var c executors.Capabilities
	resolve := func(k executors.Kind) (words string, err error) {
		if k, words, err = ch.inRegion(ctx, pol, k); err != nil {
			return "", err
		}
		e, c, err = ch.pick(ctx, pol, person, k)
		return words, err
	}
	if wish.Provider() != given.Provider() && (pol.NoChoice || fixed) { // it may be what the given one means now
		if _, err := resolve(given); err != nil || e.Kind() != wish {
			if fixed {
				return d, errFixed(given)
			}
			return d, fault.New(fault.Forbidden, "executor_fixed_by_team",
				"This team's members do not choose places: their workspaces live in %q. Leave out executor, or ask an admin of the team.", given).With("field", "executor")
		}
	}
	where, err := resolve(wish)
	if err != nil {
		return d, err
	}
	for i := range d.Steps {
		if d.Steps[i].Kind == wish && wish != executors.Auto {
			d.Steps[i].Decided = true
			break
		}
	}
	if wish == executors.Auto {
		d.Steps = append(d.Steps, Step{Rule: RuleAuto, Kind: e.Kind(), Decided: true, Words: fmt.Sprintf("The strongest place of this server that works: %s (%s).", c.Name, strings.ToLower(c.Boundary.Name()))})
	}
	if where != "" {
		d.Steps = append(d.Steps, Step{Rule: RuleRegion, Kind: e.Kind(), Decided: true, Words: where})
	}
	d.Kind = e.Kind()
	for _, r := range ch.Regions(ctx, d.Kind) {
		if r.Kind == d.Kind {
			d.LatencyMs = r.Latency
		}
	}
	return d, ch.admit(ctx, e, executors.AsOf(ctx).UserID)
}

// ownMachine returns the person's own machine that new workspaces go to, and says why, or why there is none. One that isolates less than
// the place they would get otherwise is not taken: who wants that names it.
func (ch *Chooser) ownMachine(ctx context.Context, teamID, user string, p Person, pol Policy, otherwise executors.Kind) (executors.Kind, string) {
	if user == "" {
		return "", "The server asks, which has no machine."
	}
	why := "You have connected no machine of your own."
	for _, e := range ch.cfg.Executors.Members(ctx, teamID) {
		if o := executors.OwnerOf(e); o.UserID != user {
			continue
		}
		if !p.MachineFirst {
			return "", "You have not said that your machine is used first."
		}
		c := ch.CapabilitiesOf(ctx, e)
		switch {
		case !c.Available:
			why = fmt.Sprintf("%s is %s.", c.Name, strings.TrimSuffix(cmp.Or(c.Reason, "not connected"), "."))
		case !c.Boundary.AtLeast(pol.Weakest):
			why = fmt.Sprintf("%s is weaker (%s) than the team allows.", c.Name, strings.ToLower(c.Boundary.Name()))
		case !c.Boundary.AtLeast(ch.boundaryOf(ctx, pol, otherwise)):
			why = fmt.Sprintf("%s isolates less (%s) than the place it would replace: name it to use it.", c.Name, strings.ToLower(c.Boundary.Name()))
		default:
			return c.Kind, fmt.Sprintf("%s is connected, and you use your machine first.", c.Name)
		}
	}
	return "", why
}

// boundaryOf is how strongly a wish isolates, as far as that is known now.
func (ch *Chooser) boundaryOf(ctx context.Context, pol Policy, wish executors.Kind) executors.Boundary {
	if wish == "" || wish == executors.Auto {
		if _, c, err := ch.strongest(ctx, pol, Person{Trusted: true}); err == nil {
			return c.Boundary
		}
		return ""
	}
	c, _ := ch.Place(ctx, wish.Provider())
	return c.Boundary
}

// awayFor is how long a machine must be away before work leaves it: a cut line or a laptop that wakes up is no reason.
const awayFor = time.Minute

// ChooseAway returns where work of a person goes that lives on their own machine, while that is away: the place they agreed to, if it
// serves, isolates no less and costs no more than when they agreed. "" = it waits for the machine.
func (ch *Chooser) ChooseAway(ctx context.Context, teamID, userID string, from executors.Kind) (executors.Kind, error) {
	e, ok := ch.cfg.Executors.Find(ctx, from)
	if !ok || executors.OwnerOf(e).UserID != userID || userID == "" {
		return "", nil
	}
	machine := ch.CapabilitiesOf(ctx, e)
	if !machine.Away || machine.AwaySince != 0 && ch.now()-machine.AwaySince < awayFor.Milliseconds() {
		return "", nil
	}
	person, err := ch.person(ctx, teamID, userID)
	if err != nil || person.Fallback == "" {
		return "", err
	}
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return "", err
	}
	to, _, err := ch.inRegion(ctx, pol, person.Fallback)
	if err != nil {
		return "", err
	}
	_, c, err := ch.pick(ctx, pol, person, to)
	switch {
	case err != nil:
		return "", err
	case !c.Boundary.AtLeast(machine.Boundary):
		return "", fault.New(fault.Forbidden, "fallback_too_weak", "%s isolates less than %s: work does not go there by itself.", c.Name, machine.Name)
	case c.PriceNano > person.FallbackNano:
		return "", fault.New(fault.Conflict, "fallback_costs_more", "%s costs more an hour than when you agreed to it: agree again.", c.Name)
	}
	return to, nil
}
