package choice

import (
	"cmp"
	"context"

	"github.com/parawork/parawork/executors"
	"github.com/parawork/parawork/internal/fault"
)

// Admit refuses to run a user's work in an executor that belongs to somebody else. userID "" is the server, which continues what people
// began.
func (ch *Chooser) Admit(ctx context.Context, k executors.Kind, userID string) error {
	if k.Member() == "" || userID == "" {
		return nil
	}
	e, ok := ch.cfg.Executors.Find(ctx, k)
	if !ok {
		return nil // it is gone: whoever needs it gets that error
	}
	return ch.admit(ctx, e, userID)
}

func (ch *Chooser) admit(ctx context.Context, e executors.Executor, userID string) error {
	if o := executors.OwnerOf(e); o.TeamID != "" && !o.Admits(userID) {
		return fault.New(fault.Forbidden, "runner_not_yours", "%s is %s's own machine, and not shared with the team. Move the workspace to another place, or ask %s to share the machine.",
			ch.CapabilitiesOf(ctx, e).Name, cmp.Or(o.Name, "somebody else"), cmp.Or(o.Name, "its owner")).With("field", "executor")
	}
	return nil
}
