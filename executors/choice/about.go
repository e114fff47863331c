package choice

import (
	"context"
	"strings"
	"time"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// codeAway is the code of the error that an executor cannot be reached now.
const codeAway = "runner_offline"

// defaultLease is how long a sandbox is asked to live where its executor states no lease.
const defaultLease = 10 * time.Minute

// OwnDisk reports whether sandboxes of a kind have a disk of their own.
func (ch *Chooser) OwnDisk(ctx context.Context, k executors.Kind) bool {
	e, ok := ch.cfg.Executors.Find(ctx, k)
	return ok && ch.CapabilitiesOf(ctx, e).OwnDisk
}

// Unreachable returns why a member of a family cannot be reached now; nil = it can, or the kind is no such member.
func (ch *Chooser) Unreachable(ctx context.Context, k executors.Kind) error {
	if k.Member() == "" {
		return nil
	}
	e, ok := ch.cfg.Executors.Find(ctx, k)
	if !ok {
		return nil
	}
	c := ch.CapabilitiesOf(context.WithoutCancel(ctx), e)
	if !c.Away {
		return nil
	}
	return fault.New(fault.Unavailable, codeAway, "%s is %s. What runs there goes on, and you can continue once it is back.", c.Name, strings.TrimSuffix(c.Reason, ".")).
		With("executor", string(k.Base())).With("runner_id", k.Member()).With("offline_since", c.AwaySince)
}

// LeaseOf returns how long sandboxes of a kind live without an extension.
func (ch *Chooser) LeaseOf(ctx context.Context, k executors.Kind) time.Duration {
	if e, ok := ch.cfg.Executors.Find(ctx, k); ok {
		if ms := ch.CapabilitiesOf(ctx, e).LeaseMs; ms > 0 {
			return time.Duration(ms) * time.Millisecond
		}
	}
	return defaultLease
}

// NameOf returns a kind's name for people.
func (ch *Chooser) NameOf(ctx context.Context, k executors.Kind) string {
	if e, ok := ch.cfg.Executors.Find(ctx, k); ok {
		return ch.CapabilitiesOf(ctx, e).Name
	}
	return "This place"
}
