package tokens

import (
	"context"
	"math"
	"slices"
)

// Ask is what is known of a question before it is answered: bounds of what it uses.
type Ask struct {
	Models  []string // the one that was asked for, and those it may lead to
	Prompt  int64    // tokens that go in, at most
	Output  int64    // tokens that come out, at most
	Hour    bool     // some of the prompt may be kept in a cache for an hour
	Special bool     // it asks to be served otherwise than usual: first, fast
	At      int64    // ms UTC
}

// Most is what a question may cost at most, nano-USD, as far as the table says: each model it may lead to, all of its prompt written to the
// cache that costs most, served in the dearest way it may be. A model without a price costs nothing here, as nobody knows what it does.
func (m *Meter) Most(ctx context.Context, a Ask) (nano int64, err error) {
	all, err := m.table(ctx)
	if err != nil {
		return 0, err
	}
	models := slices.Compact(slices.Sorted(slices.Values(a.Models)))
	for _, model := range models {
		most := a.dearest(all, model)
		if nano += most; nano < most {
			return math.MaxInt64, nil
		}
	}
	return nano, nil
}

// dearest is what a question to one model costs at most.
func (a Ask) dearest(all []Price, model string) (most int64) {
	ways := []string{"", "us"}
	if a.Special {
		for _, p := range all {
			if w, ok := parse(p.Model); ok && w.variant != "" && w.fits(model) > 0 {
				ways = append(ways, w.variant)
			}
		}
	}
	special := false
	for _, way := range ways {
		p, ok := Find(all, model, way, a.Prompt, a.At)
		if !ok {
			continue
		}
		special = special || way != "" && way != "us"
		in := max(p.InputNano, orElse(p.CacheWriteNano, 0))
		if a.Hour {
			in = max(in, orElse(p.CacheWriteHourNano, 0))
		}
		cost := total([][2]int64{{min(a.Prompt, MostTokens), in}, {min(a.Output, MostTokens), p.OutputNano}})
		if cost == nil {
			return math.MaxInt64
		}
		most = max(most, *cost)
	}
	if a.Special && !special && most <= math.MaxInt64/mostVariant {
		most *= mostVariant
	}
	return most
}
