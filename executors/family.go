package executors

import (
	"context"
	"strings"
)

// Runner is the base of kinds that are members' own machines: each machine is a kind of its own, "runner:<machine's id>".
const Runner Kind = "runner"

// Family is many places of one sort, each a Kind of its own whose Base is the family's. Members come and go while the server runs.
// Safe for concurrent use.
type Family interface {
	Base() Kind
	// Members are the places of a team, reachable or not, in the order people see them; teamID "" = of all teams.
	Members(ctx context.Context, teamID string) []Executor
	// Member finds one by its kind; false when there never was one, or it was revoked.
	Member(ctx context.Context, k Kind) (Executor, bool)
}

// Of is the kind of a member of the family k.
func (k Kind) Of(name string) Kind { return k + ":" + Kind(name) }

// Base is the family's kind of a member of one; every other kind is its own.
func (k Kind) Base() Kind {
	base, _, _ := strings.Cut(string(k), ":")
	return Kind(base)
}

// Member is the name of a member of a family, "" for every other kind.
func (k Kind) Member() string {
	_, name, _ := strings.Cut(string(k), ":")
	return name
}
