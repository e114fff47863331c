package agent

import (
	"context"
	"fmt"
	"strings"

	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/failpoint"
	"github.com/parawork/parawork/internal/fault"
)

// propose shows a plan to people, and does what they decide. Each part can be done again after the server was killed: the question is the
// same one, also when it was answered, and tasks are created once.
func (r *running) propose(ctx context.Context, c *Call) error {
	p, err := plan.Parse(c.Args)
	if err != nil {
		return r.ended(ctx, c, CallFailed, textParts(refusal(err)), false)
	}
	c.State, c.StartedAt = CallAsked, r.svc.now()
	if err := r.apply(ctx, Change{Calls: []*Call{c}, Thread: &ThreadChange{State: Waiting, Reason: "Plan: " + p.Title}}); err != nil {
		return err
	}
	r.host.Record([]item{callItem(c)})
	answer, err := r.host.Ask(ctx, "plan/"+c.ID, p.Ask(), nil)
	gone := fault.CodeOf(err) == "question_gone"
	if err != nil && !gone {
		return err
	}
	if err := r.apply(ctx, Change{Thread: &ThreadChange{State: Working}}); err != nil {
		return err
	}
	if gone {
		return r.ended(ctx, c, CallDenied, textParts("The question about the plan was withdrawn: nobody decided."), false)
	}
	d := plan.Decide(answer)
	if !d.Approved {
		return r.ended(ctx, c, CallDenied, textParts(d.Words), false)
	}
	failpoint.Reach(failpoint.PlanDecided)
	if len(p.Tasks) > 0 && r.svc.cfg.Tasks != nil {
		ids, err := r.svc.cfg.Tasks(ctx, r.caller, "plan-"+strings.TrimPrefix(c.ID, "cll_"), p.Tasks)
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case err != nil:
			d.Words += " Its tasks could not be created: " + fault.Words(err, "the server's log has the details.")
			r.svc.cfg.Log.Warn("the tasks of a plan could not be created", "thread_id", r.thread.ID, "error", err)
		default:
			d.Words += fmt.Sprintf(" Its tasks are created: %s.", strings.Join(ids, ", "))
		}
	}
	failpoint.Reach(failpoint.PlanTasked)
	done := *c
	done.State, done.Content, done.EndedAt = CallDone, textParts(r.mask(d.Words)), r.svc.now()
	if err := r.apply(context.WithoutCancel(ctx), Change{Calls: []*Call{&done}, Thread: &ThreadChange{Mode: Build}}); err != nil {
		return err
	}
	*c = done
	r.host.Record([]item{callItem(c)})
	if !d.Start {
		return &stop{ending{state: TurnCompleted}}
	}
	return context.Cause(ctx)
}

// offerPlan offers the tool that proposes a plan, in plan mode.
func (r *running) offerPlan() {
	if r.thread.Mode != Plan {
		return
	}
	s := plan.Spec()
	r.specs[s.Name] = s
	r.offered = append(r.offered, providers.Tool{Name: s.Name, Description: s.Description, Schema: s.Arguments})
}
