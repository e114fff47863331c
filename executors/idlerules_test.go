package executors_test

import (
	"testing"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/schema"
)

// Sandboxes that cost money end soon, the operator's rule holds for the rest, and no rule ends what runs on a member's machine.
func TestIdleRules(t *testing.T) {
	t.Parallel()
	hour := time.Hour
	usual := executors.IdleRules{Settings: func(executors.Kind) schema.Values { return schema.Values{} }, Kinds: executors.Descriptors{
		{Kind: "cloud", Idle: executors.IdleRule{Paid: func(schema.Values) time.Duration { return 20 * time.Minute }}},
		{Kind: "container", Idle: executors.IdleRule{Usual: 30 * time.Minute}},
		{Kind: executors.Runner, Family: true, Idle: executors.IdleRule{Owned: true}},
	}}
	said := usual
	said.Said = &hour
	for _, c := range []struct {
		kind    executors.Kind
		purpose executors.Purpose
		usual   time.Duration
		said    time.Duration
	}{
		{"cloud", executors.ForAgent, 20 * time.Minute, 20 * time.Minute},
		{"cloud", executors.ForExecution, 10 * time.Minute, 10 * time.Minute},
		{"container", executors.ForExecution, 30 * time.Minute, hour},
		{executors.Local, executors.ForAgent, 0, hour},
		{executors.Runner, executors.ForAgent, 0, 0},
		{executors.Runner.Of("mac_1"), executors.ForAgent, 0, 0},
	} {
		if a, b := usual.After(c.kind, c.purpose), said.After(c.kind, c.purpose); a != c.usual || b != c.said {
			t.Errorf("%s, %v: %v and %v", c.kind, c.purpose, a, b)
		}
	}
}
