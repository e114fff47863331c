package executors

import (
	"context"
	"regexp"
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

// HomeRegion names the region that a place's own settings are of, where it has others: "e2b@main" is "e2b" itself, named by hand.
const HomeRegion = "main"

var regionName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$`)

// In returns the kind of a region of k, such as "e2b@eu".
func (k Kind) In(region string) Kind { return k + "@" + Kind(region) }

// Provider returns the kind without its region, and k itself for every other kind.
func (k Kind) Provider() Kind {
	provider, _, _ := strings.Cut(string(k), "@")
	return Kind(provider)
}

// Region returns the name of a region, "" for every other kind.
func (k Kind) Region() string {
	_, region, _ := strings.Cut(string(k), "@")
	return region
}

// SplitRegion splits the name of a region's kind such as "e2b@eu"; false when it is none.
func SplitRegion(name string) (provider, region string, ok bool) {
	provider, region, ok = strings.Cut(name, "@")
	return provider, region, ok && provider != "" && region != HomeRegion && regionName.MatchString(region)
}

type latencyKey struct{}

// WithLatencies adds to ctx the round trips to regions in milliseconds, by kind, as the person's browser measured them. They count before
// the server's own.
func WithLatencies(ctx context.Context, ms map[Kind]int64) context.Context {
	return context.WithValue(ctx, latencyKey{}, ms)
}

// LatenciesOf returns what WithLatencies added to ctx.
func LatenciesOf(ctx context.Context) map[Kind]int64 {
	ms, _ := ctx.Value(latencyKey{}).(map[Kind]int64)
	return ms
}
