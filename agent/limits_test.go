package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/internal/fault"
)

// Of the limits of the server, the team and the project the smallest ends a turn, whichever it is; a limit that is removed counts no more.
func TestTheSmallestLimitEndsATurn(t *testing.T) {
	h := newHarness(t)
	h.limits.Steps = 9
	th := h.open(agent.Options{})
	set := func(project string, steps, minutes, cost *int64) {
		t.Helper()
		if _, err := h.svc.SetTurnLimits(h.ctx, agent.TurnLimits{TeamID: h.team, ProjectID: project, Steps: steps, Minutes: minutes, CostNano: cost, UpdatedBy: h.user}); err != nil {
			t.Fatal(err)
		}
	}
	turn := func(steps int64) agent.Turn {
		t.Helper()
		for i := range steps { // each time something else, which is no repetition
			h.model.then(wants("file_read", fmt.Sprintf(`{"path":"%d"}`, i)))
		}
		h.send(th.ID, "Go.")
		return h.rest(th.ID).turn
	}
	for _, c := range []struct{ team, project, want int64 }{{4, 2, 2}, {3, 5, 3}, {12, 11, 9}} {
		set("", &c.team, nil, nil)
		set("prj_1", &c.project, nil, nil)
		set("prj_2", new(int64(1)), nil, nil) // another one's
		if got := turn(c.want); got.Code != "turn_steps" || got.Steps != c.want {
			t.Errorf("%+v: %s after %d steps", c, got.Code, got.Steps)
		}
	}
	set("", nil, nil, nil)
	set("prj_1", nil, nil, nil)
	if got := turn(9); got.Steps != 9 {
		t.Errorf("without limits: %d steps", got.Steps)
	}

	h.cost = func(string, string) (agent.Cost, bool) { return agent.Cost{Nano: new(int64(4e8))}, true }
	h.kill()
	th = h.open(agent.Options{})
	set("", nil, nil, new(int64(2e9)))
	set("prj_1", nil, nil, new(int64(1e9)))
	if got := turn(3); got.Code != "turn_cost" || got.Steps != 3 || !strings.Contains(got.Reason, "$1.00 at most") {
		t.Errorf("%s after %d steps: %s", got.Code, got.Steps, got.Reason)
	}
	for _, l := range []agent.TurnLimits{{Steps: new(int64(0))}, {Minutes: new(int64(10081))}, {CostNano: new(int64(-1))}} {
		if _, err := h.svc.SetTurnLimits(h.ctx, l); fault.CodeOf(err) != "invalid_turn_limits" {
			t.Errorf("%+v: %v", l, err)
		}
	}

	set("prj_1", nil, new(int64(1)), nil)
	h.limits.Time = 50 * time.Millisecond // config.json's is the smallest
	h.kill()
	th = h.open(agent.Options{})
	h.model.then(func(ctx context.Context, _ providers.Request, _ func(providers.Event)) error {
		<-ctx.Done()
		return ctx.Err()
	})
	h.send(th.ID, "Go.")
	if v := h.rest(th.ID); v.turn.Code != "turn_time" || !strings.Contains(v.turn.Reason, "50ms") {
		t.Errorf("%s: %s", v.turn.Code, v.turn.Reason)
	}
}
