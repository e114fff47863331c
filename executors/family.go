package executors

import (
	"context"
	"strings"
)

// Runner is the base kind of members' own machines: each machine is a kind of its own, "runner:<machine's id>".
const Runner Kind = "runner"

// Family is a set of executors of one sort, each with a Kind of its own whose Base is the family's. Members come and go while the server
// runs. Safe for concurrent use.
type Family interface {
	Base() Kind
	// Members returns the executors of a team, reachable or not, in display order; teamID "" = of all teams.
	Members(ctx context.Context, teamID string) []Executor
	// Member returns the executor of a kind; false when there never was one, or it was revoked.
	Member(ctx context.Context, k Kind) (Executor, bool)
}

// Of returns the kind of the member of the family k with this name.
func (k Kind) Of(name string) Kind { return k + ":" + Kind(name) }

// Base returns the family's kind for a member of a family, and k itself for every other kind.
func (k Kind) Base() Kind {
	base, _, _ := strings.Cut(string(k), ":")
	return Kind(base)
}

// Member returns the name of a member of a family, "" for every other kind.
func (k Kind) Member() string {
	_, name, _ := strings.Cut(string(k), ":")
	return name
}
