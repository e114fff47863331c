package gateway

import (
	"bytes"
	"context"
	"time"

	"github.com/parawork/parawork/billing/tokens"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/tenant"
)

// Budget holds back what questions may cost until it is known what they did; quota.Service is one.
type Budget interface {
	// HoldModel lets a question of a team through and holds back the most it may cost, nano-USD; held is false where no budget counts it, and
	// then most is not asked. The faults budget_exceeded and budget_reserved say that there is no money for it, and none for the moment.
	HoldModel(ctx context.Context, teamID, requestID string, most func(ctx context.Context) (nano int64, err error)) (held bool, err error)
	// RenewModel says that the question is still under way: what is held back for one of which nobody says so is given back.
	RenewModel(ctx context.Context, teamID, requestID string) error
	// SettleModel says what it cost in the end.
	SettleModel(ctx context.Context, teamID, requestID string, costNano int64) error
}

// renewEvery is how often the hold of a request under way is renewed: well within its lifetime (quota.Config.Pending).
const renewEvery = 30 * time.Second

// hold holds back what the question may cost. While others that are under way hold what is left, it waits, as at a minute's bound.
func (c *call) hold(ctx context.Context) error {
	if c.s.cfg.Budget == nil {
		return nil
	}
	wait := 250 * time.Millisecond
	for waited := time.Duration(0); ; {
		held, err := c.s.cfg.Budget.HoldModel(ctx, c.grant.TeamID, c.record.ExternalID, c.most)
		if err == nil {
			c.onHold = held
			return nil
		}
		if fault.CodeOf(err) != "budget_reserved" || waited >= c.s.cfg.HoldMost {
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		}
		waited += wait
		wait = min(2*wait, 2*time.Second)
	}
}

// most is what the question may cost at most.
func (c *call) most(ctx context.Context) (int64, error) {
	if c.record.Subscription {
		return 0, nil
	}
	a := tokens.Ask{Models: append([]string{c.asked.model}, c.asked.additional...), Prompt: boundPrompt(c.body), Output: c.asked.most(c.route.api, c.s.cfg.MaxOutput),
		Hour: bytes.Contains(c.body, []byte(`"1h"`)), Special: c.asked.special, At: c.record.At}
	if c.asked.outside {
		a.Prompt += outsideTokens
	}
	return c.s.cfg.Meter.Most(ctx, a)
}

// renews says every now and then that the question is under way, until stop.
func (c *call) renews() (stop func()) {
	if !c.onHold {
		return func() {}
	}
	ctx, cancel := context.WithCancel(tenant.In(context.WithoutCancel(c.r.Context()), c.grant.TeamID))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(renewEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			if err := c.s.cfg.Budget.RenewModel(ctx, c.grant.TeamID, c.record.ExternalID); err != nil && ctx.Err() == nil {
				c.s.cfg.Log.Warn("reserved cost of a request not extended", "session_id", c.grant.SessionID, "error", err)
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// settle ends what is held back for the question. What it cost could not always be stored: then the hold counts until it expires.
func (c *call) settle() {
	if !c.onHold || c.lost {
		return
	}
	c.onHold = false
	ctx, cancel := context.WithTimeout(tenant.In(context.WithoutCancel(c.r.Context()), c.grant.TeamID), keepingTakes)
	defer cancel()
	if err := c.s.cfg.Budget.SettleModel(ctx, c.grant.TeamID, c.record.ExternalID, c.counted); err != nil {
		c.s.cfg.Log.Warn("reserved cost of a request not released", "session_id", c.grant.SessionID, "error", err)
	}
}
