package agent_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/plan"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/tools"
)

const proposal = `{"title":"Add a cache","steps":"1. Look\n2. **Write** it","tasks":[{"title":"Write"},{"title":"Test","blocked_by":[1]}]}`

// board creates the tasks of plans, as often as it is called.
type board struct {
	mu   sync.Mutex
	keys []string
}

func (b *board) create(_ context.Context, _ tools.Caller, key string, of []plan.Task) ([]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !slices.Contains(b.keys, key) {
		b.keys = append(b.keys, key)
	}
	return []string{"PW-T1", "PW-T2"}[:len(of)], nil
}

// A plan is changed in the person's words, then approved: its tasks are created, and the same turn goes on in build mode.
func TestAPlanIsApproved(t *testing.T) {
	h := newHarness(t)
	b := &board{}
	h.tasks = b.create
	h.host.row.Permissions = agents.AllPermissions
	h.model.then(wants(plan.Tool, `{"title":"x","steps":""}`), wants(plan.Tool, proposal), wants(plan.Tool, proposal), wants("file_write", `{"path":"a"}`), says("Built."))
	th := h.open(agent.Options{Mode: agent.Plan})
	h.send(th.ID, "Plan a cache.")
	q := h.question()
	if q.ask.Kind != agents.PlanReview || q.ask.Title != "Plan: Add a cache" || !strings.Contains(q.ask.Detail, "2. **Write** it") || !strings.Contains(q.ask.Detail, "2. Test (after 1)") {
		t.Errorf("asked %+v", q.ask)
	}
	equal(t, "options", ids(q.ask), []string{"start", "approve", "change", "reject"})
	if v := h.until(th.ID, func(v *view) bool { return v.State == agent.Waiting }); v.Reason != "Plan: Add a cache" {
		t.Errorf("waits for %q", v.Reason)
	}
	q.answer <- agents.Answer{Text: "smaller"} // a text alone asks for a change
	h.question().choose("start", "quickly")
	v := h.rest(th.ID)
	got := v.outcomes()
	if !strings.HasPrefix(got[0], "plan_propose=failed:invalid_plan: ") || !strings.Contains(got[1], "is to be changed") || !strings.Contains(got[1], "smaller") || !strings.Contains(got[2], "begin. They wrote: quickly Its tasks are created: PW-T1, PW-T2.") ||
		!strings.HasPrefix(got[3], "file_write=done:") || v.Mode != agent.Build || v.turn.State != agent.TurnCompleted || len(b.keys) != 1 {
		t.Errorf("%q, mode %s, turn %s, tasks %q", got, v.Mode, v.turn.State, b.keys)
	}
	requests := h.model.asked()
	offered := func(i int, name string) bool {
		for _, tool := range requests[i].Tools {
			if tool.Name == name {
				return true
			}
		}
		return false
	}
	if !offered(0, plan.Tool) || offered(0, "file_write") || offered(3, plan.Tool) || !offered(3, "file_write") || !strings.Contains(requests[3].System[0].Text, "Mode: build") {
		t.Error("tools and prompt are not those of the mode")
	}
}

// An approved plan waits for a prompt, and a rejected one leaves the mode as it is.
func TestPlansThatDoNotBegin(t *testing.T) {
	for option, want := range map[string]agent.Mode{"approve": agent.Build, "reject": agent.Plan} {
		h := newHarness(t)
		b := &board{}
		h.tasks = b.create
		h.model.then(wants(plan.Tool, proposal, "file_write", `{}`), says("As you like."))
		th := h.open(agent.Options{Mode: agent.Plan})
		h.send(th.ID, "Plan it.")
		h.question().choose(option, "")
		v := h.rest(th.ID)
		if v.Mode != want || v.State != agent.Idle || v.turn.State != agent.TurnCompleted || (len(b.keys) == 1) != (option == "approve") || slices.ContainsFunc(h.tools.calls(), func(s string) bool { return strings.HasPrefix(s, "file_write") }) {
			t.Errorf("%s: mode %s, state %s, %s %q, tasks %q", option, v.Mode, v.State, v.turn.Reason, v.outcomes(), b.keys)
		}
		h.kill()
	}
}

// A server that is killed between the approval and the change of the mode does both once.
func TestAPlanOutlivesTheServer(t *testing.T) {
	h := newHarness(t)
	b := &board{}
	begun := make(chan struct{})
	h.tasks = func(ctx context.Context, c tools.Caller, key string, of []plan.Task) ([]string, error) {
		_, _ = b.create(ctx, c, key, of)
		close(begun)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	h.model.then(wants(plan.Tool, proposal), says("Done."))
	th := h.open(agent.Options{Mode: agent.Plan})
	h.send(th.ID, "Plan it.")
	first := h.question()
	first.choose("start", "")
	wait(t, "the tasks", begun)
	h.kill()
	h.tasks = b.create
	h.boot()
	if err := h.svc.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	again := h.question() // the board returns the answer that it has
	if again.key != first.key {
		t.Errorf("asked %s, then %s", first.key, again.key)
	}
	again.choose("start", "")
	v := h.rest(th.ID)
	if v.Mode != agent.Build || v.turn.State != agent.TurnCompleted || len(b.keys) != 1 || !strings.Contains(v.outcomes()[0], "done:The plan is approved") {
		t.Errorf("mode %s, %s %q, tasks %q", v.Mode, v.turn.State, v.outcomes(), b.keys)
	}
}
