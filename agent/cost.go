package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/tasks"
)

// Cost is what a request to a model cost.
type Cost struct {
	Nano      *int64 // nano-USD; nil = nobody can say
	Estimated bool
}

// Where an answer ends before its record is complete, it is asked for a few times: soon at first, for the next step waits.
const (
	costSoon = 2 * time.Millisecond
	costWait = 256 * time.Millisecond // the last wait
)

// priced is the usage of a complete answer with what it cost. What cannot be known in a moment stays unknown: bills count it all the same.
func (r *running) priced(ctx context.Context, e providers.Event) providers.Usage {
	u := e.Usage
	if r.svc.cfg.Cost == nil || e.Request == "" {
		return u
	}
	for wait := costSoon; wait <= costWait; wait *= 2 {
		c, ok, err := r.svc.cfg.Cost(ctx, r.thread.SessionID, e.Request)
		if err != nil {
			r.svc.cfg.Log.Warn("the cost of an answer could not be read", "thread_id", r.thread.ID, "error", err)
			return u
		}
		if ok {
			u.CostNano, u.Estimated = c.Nano, u.Estimated || c.Estimated
			return u
		}
		if !tasks.Sleep(ctx, wait) {
			return u
		}
	}
	return u
}

// withinCost ends a turn whose answers cost as much as it may. What nobody can price counts nothing.
func (r *running) withinCost() error {
	most := r.limits.CostNano
	if own := optionsOf(r.host.Row().Argv).Cost; own > 0 && (most == 0 || own < most) {
		most = own
	}
	if most == 0 {
		return nil
	}
	var spent int64
	for _, m := range r.messages {
		if m.TurnID == r.turn.ID && m.Usage.CostNano != nil {
			spent += *m.Usage.CostNano
		}
	}
	if spent < most {
		return nil
	}
	return &stop{ending{TurnFailed, fmt.Sprintf("The turn cost $%.2f, and may cost $%.2f at most. Send a prompt to go on.", float64(spent)/1e9, float64(most)/1e9), "turn_cost"}}
}
