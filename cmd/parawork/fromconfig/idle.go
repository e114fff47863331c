package fromconfig

import (
	"time"

	"github.com/parawork/parawork/config"
	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/executors/docker"
	"github.com/parawork/parawork/executors/e2b"
)

// dockerIdle is after how long an idle container is ended where config.json does not say.
const dockerIdle = 30 * time.Minute

// IdleRules say how long sandboxes may be idle. e2bIdle is how long one at E2B may be.
func IdleRules(cfg *config.Config, e2bIdle func() time.Duration) executors.IdleRules {
	r := executors.IdleRules{Paid: map[executors.Kind]func() time.Duration{e2b.Kind: e2bIdle}, Usual: map[executors.Kind]time.Duration{docker.Kind: dockerIdle}}
	if m := cfg.Sandboxing.IdleStopMinutes; m != nil {
		said := time.Duration(*m) * time.Minute
		r.Said = &said
	}
	return r
}
