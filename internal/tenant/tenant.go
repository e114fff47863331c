// Package tenant says which teams' rows a piece of work may touch. The store asks it at every query of a team's row: work without a scope
// may touch none.
package tenant

import (
	"context"
	"slices"
)

// Scope is the set of teams whose rows may be touched.
type Scope struct {
	all   bool
	teams []string
}

type key struct{}

// In returns a context for work that touches rows of these teams and no others.
func In(ctx context.Context, teams ...string) context.Context {
	return context.WithValue(ctx, key{}, Scope{teams: slices.Clone(teams)})
}

// All returns a context for work of the instance itself, which touches rows of every team: background loops, start and recovery, the command
// line, operators. why says in a few words what for.
func All(ctx context.Context, why string) context.Context {
	_ = why // documents the caller
	return context.WithValue(ctx, key{}, Scope{all: true})
}

// Of returns the scope of ctx; false when it has none.
func Of(ctx context.Context) (Scope, bool) {
	s, ok := ctx.Value(key{}).(Scope)
	return s, ok
}

// All reports whether every team's rows may be touched.
func (s Scope) All() bool { return s.all }

// Teams returns the teams whose rows may be touched, where All does not hold.
func (s Scope) Teams() []string { return s.teams }
