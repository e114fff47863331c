package choice

import (
	"context"

	"github.com/parawork/parawork/executors"
)

type byHandKey struct{}

// ByHand says in ctx that a person makes a workspace, not an automation or a program: only then may it live without isolation because the
// person is alone on the server.
func ByHand(ctx context.Context) context.Context { return context.WithValue(ctx, byHandKey{}, true) }

// Alone returns the place of this server without isolation, which is the default of new workspaces that a person makes while the instance
// has one person and nobody said another default. It works as that person's own terminal does. "" = the default is as the instance says.
func (ch *Chooser) Alone(ctx context.Context, teamID string) (executors.Kind, error) {
	pol, err := ch.Policy(ctx, teamID)
	if err != nil {
		return "", err
	}
	person, err := ch.person(ctx, teamID, asker(ctx))
	if err != nil || pol.said != "" {
		return "", err
	}
	return ch.alone(ctx, pol, person)
}

func (ch *Chooser) alone(ctx context.Context, pol Policy, person Person) (executors.Kind, error) {
	if ch.cfg.Alone == nil || ch.Fixed() {
		return "", nil
	}
	if d := ch.cfg.Rules().Default; d != "" && d != executors.Auto {
		return "", nil
	}
	if yes, err := ch.cfg.Alone(ctx); err != nil || !yes {
		return "", err
	}
	for _, k := range ch.cfg.Order {
		e, ok := ch.cfg.Executors.OwnOf(k)
		if !ok {
			continue
		}
		c := ch.CapabilitiesOf(ctx, e)
		if c.Boundary == executors.NoBoundary && c.Available && c.Boundary.AtLeast(pol.Weakest) && ch.trusts(person, c) == nil && !ch.crowded(ctx) {
			return k, nil
		}
	}
	return "", nil
}
