package executors

import (
	"time"

	"github.com/parawork/parawork/internal/schema"
)

// executionIdle is how long a sandbox that only ran single commands may be idle where idle sandboxes cost money.
const executionIdle = 10 * time.Minute

// IdleRules say how long a sandbox may be idle before the server ends it. Without a rule, a sandbox that costs only the server's memory may
// be idle forever.
type IdleRules struct {
	Kinds    Descriptors
	Said     *time.Duration           // what an operator says where idle sandboxes cost nothing; nil = each kind's Usual
	Settings func(Kind) schema.Values // what holds of a kind now
}

// After is how long a sandbox of a kind may be idle; 0 = for ever.
func (r IdleRules) After(k Kind, p Purpose) time.Duration {
	d, _ := r.Kinds.Find(k)
	switch rule := d.Idle; {
	case rule.Paid != nil && p == ForExecution:
		return min(rule.Paid(r.Settings(d.Kind)), executionIdle)
	case rule.Paid != nil:
		return rule.Paid(r.Settings(d.Kind))
	case rule.Owned:
		return 0
	case r.Said != nil:
		return *r.Said
	default:
		return rule.Usual
	}
}
