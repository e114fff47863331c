package fromconfig

import (
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
)

// Prices is how the price book is made: with the prices that come with the program and its config.json. Of places without one nothing is metered.
func Prices(cfg *config.Config, kinds executors.Descriptors) price.Config {
	c := price.Config{}
	for _, d := range kinds {
		if d.Free {
			c.Free = append(c.Free, string(d.Kind))
		}
		if d.Price != nil {
			p := d.Price(cfg.Sandboxing.Of(string(d.Kind)))
			c.Defaults = append(c.Defaults, price.Row{Executor: string(d.Kind), VCPUSecondNano: p.VCPUSecondNano, GiBSecondNano: p.GiBSecondNano, Metered: p.Metered})
			for _, region := range cfg.Sandboxing.Regions(string(d.Kind)) { // one that says no price costs what the place does
				if r := d.Price(PlaceValues(cfg, kinds, executors.Kind(region))); r != p {
					c.Defaults = append(c.Defaults, price.Row{Executor: region, VCPUSecondNano: r.VCPUSecondNano, GiBSecondNano: r.GiBSecondNano, Metered: r.Metered})
				}
			}
		}
	}
	return c
}

// ServerKinds are the kinds of places of this server that isolate.
func ServerKinds(kinds executors.Descriptors) []string {
	var out []string
	for _, k := range kinds.Kinds(func(d executors.Descriptor) bool { return d.OnServer }) {
		out = append(out, string(k))
	}
	return out
}
