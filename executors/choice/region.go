package choice

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Region is one of the regions of a place, as it stands for the person who asks.
type Region struct {
	executors.Capabilities
	Latency  int64 // the round trip in ms by which it is compared; 0 = not measured
	Measured bool  // by the person's browser; else by the server
}

// By returns the kind by which a person names the region: the place's own has no other name than HomeRegion.
func (r Region) By() executors.Kind {
	if r.Kind.Region() == "" {
		return r.Kind.In(executors.HomeRegion)
	}
	return r.Kind
}

func (r Region) latencyWords() string {
	switch {
	case r.Latency == 0:
		return "not measured"
	case r.Measured:
		return fmt.Sprintf("%d ms from your browser", r.Latency)
	}
	return fmt.Sprintf("%d ms from this server", r.Latency)
}

// Regions returns the regions of a place, the nearest first and those of which nothing is known last; none where it has only one.
func (ch *Chooser) Regions(ctx context.Context, k executors.Kind) []Region {
	measured := executors.LatenciesOf(ctx)
	var out []Region
	for _, kind := range ch.cfg.Executors.Regions(k) {
		e, ok := ch.cfg.Executors.OwnOf(kind)
		if !ok {
			continue
		}
		r := Region{Capabilities: ch.CapabilitiesOf(ctx, e)}
		if r.Latency, r.Measured = measured[r.By()], measured[r.By()] > 0; !r.Measured {
			r.Latency = r.LatencyMs
		}
		out = append(out, r)
	}
	slices.SortStableFunc(out, func(a, b Region) int {
		if a.Latency == 0 || b.Latency == 0 {
			return cmp.Compare(b.Latency, a.Latency) // what is known comes first
		}
		return cmp.Compare(a.Latency, b.Latency)
	})
	return out
}

// inRegion returns the region that a wish means: the one it names, else the nearest. It says how that was found, "" where the place has
// only one region. The nearest one that cannot serve now is an error that offers the next: another region costs something else and has the
// code elsewhere, so that only a person goes there.
func (ch *Chooser) inRegion(ctx context.Context, pol Policy, wish executors.Kind) (executors.Kind, string, error) {
	if wish.Region() == executors.HomeRegion {
		return wish.Provider(), "Named by hand.", nil
	}
	if wish.Region() != "" {
		return wish, "Named by hand.", nil
	}
	all := ch.Regions(ctx, wish)
	if len(all) == 0 {
		return wish, "", nil
	}
	first := all[0]
	if !first.Available {
		return "", "", ch.regionDown(ctx, pol, first.Capabilities, fmt.Sprintf("%s is the nearest region (%s) and cannot be used now: %s. %s", first.Name, first.latencyWords(),
			strings.TrimSuffix(first.Reason, "."), first.Cure))
	}
	var words []string
	for _, r := range all {
		words = append(words, fmt.Sprintf("%s: %s", r.Name, r.latencyWords()))
	}
	return first.Kind, "The nearest region. " + strings.Join(words, "; ") + ".", nil
}

// Next returns the nearest other region that serves and that the team allows; false without one.
func (ch *Chooser) Next(ctx context.Context, pol Policy, k executors.Kind) (Region, bool) {
	for _, r := range ch.Regions(ctx, k) {
		if r.Kind != k && r.Available && r.Boundary.AtLeast(pol.Weakest) {
			return r, true
		}
	}
	return Region{}, false
}

// regionDown says that a region cannot be used, and offers the next in words.
func (ch *Chooser) regionDown(ctx context.Context, pol Policy, c executors.Capabilities, words string) error {
	would, others := ch.wouldDo(ctx, pol, c.Kind)
	f := fault.New(fault.Unavailable, "executor_unavailable", "%s%s", words, others).With("field", "executor").With("places", would)
	if next, ok := ch.Next(ctx, pol, c.Kind); ok {
		f = fault.New(fault.Unavailable, "executor_unavailable", "%s The next region is %s (%s): choose it to go on there.", words, next.Name, next.latencyWords()).
			With("field", "executor").With("places", would).With("next_region", string(next.By())).With("next_region_name", next.Name)
	}
	return f
}

// OfferNext adds to an error of a region the next one, in words: nothing moves by itself.
func (ch *Chooser) OfferNext(ctx context.Context, teamID string, k executors.Kind, err error) error {
	f, ok := err.(*fault.Error)
	if !ok || f.Details["next_region"] != nil || len(ch.cfg.Executors.Regions(k)) == 0 {
		return err
	}
	pol, perr := ch.Policy(ctx, teamID)
	if perr != nil {
		return err
	}
	next, ok := ch.Next(ctx, pol, k)
	if !ok {
		return err
	}
	out := fault.Wrap(err, f.Kind, f.Code, "%s The next region is %s (%s): move the workspace there to go on.", f.Message, next.Name, next.latencyWords())
	for name, v := range f.Details {
		out = out.With(name, v)
	}
	return out.With("next_region", string(next.By())).With("next_region_name", next.Name)
}
