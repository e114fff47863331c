package fromconfig

import (
	"github.com/parawork/parawork/billing/price"
	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors/e2b"
)

// DefaultPrices are those that come with the program and its config.json. Of places without one nothing is metered.
func DefaultPrices(cfg *config.Config) []price.Row {
	c, err := e2b.Settings{PriceVCPU: cfg.Sandboxing.E2B.PriceVCPU, PriceGiB: cfg.Sandboxing.E2B.PriceGiB}.Normal() // 0 = E2B's own
	if err != nil {
		panic(err) // nothing else is set
	}
	return []price.Row{{Executor: string(e2b.Kind), VCPUSecondNano: c.PriceVCPU, GiBSecondNano: c.PriceGiB, Metered: true}}
}
