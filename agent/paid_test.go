package agent_test

import (
	"context"
	"testing"
	"time"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/sessions/conversation"
)

// An answer that is cut costs what it cost: it is shown, and counts towards what the turn may cost.
func TestCutAnswersCount(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.limits.CostNano = 1e9
	h.cost = func(_, request string) (agent.Cost, bool) {
		return agent.Cost{Nano: new(map[string]int64{"req_1": 6e8, "req_2": 5e8}[request]), Estimated: true}, true
	}
	begun := func(request string) providers.Event { return providers.Event{Kind: providers.Begun, Request: request} }
	h.model.then(func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		say(begun("req_1"))
		say(providers.Event{Kind: providers.TextDelta, Text: "I beg"})
		say(providers.Event{Kind: providers.Retry, Wait: time.Millisecond, Error: &providers.Error{Kind: providers.ErrCut, Message: "cut"}})
		say(begun("req_2"))
		return &providers.Error{Kind: providers.ErrCut, Message: "cut again"}
	}, says("It goes on."))
	thread := h.open(agent.Options{})
	h.send(thread.ID, "go")
	v := h.rest(thread.ID)
	equal(t, "messages", v.said(), []string{"user:go", "assistant:I beg (discarded)", "assistant: (discarded)"})
	for i, want := range []int64{6e8, 5e8} {
		if u := v.messages[i+1].Usage; u.CostNano == nil || *u.CostNano != want || !u.Estimated {
			t.Errorf("attempt %d: %+v", i, u)
		}
	}
	var spent int64
	h.host.mu.Lock()
	for _, it := range h.host.items {
		if it.Kind == conversation.Spent {
			spent += *it.Usage.CostNano
		}
	}
	h.host.mu.Unlock()
	if spent != 11e8 {
		t.Errorf("the conversation shows %d", spent)
	}
	// In the turn it counts; in the next one it does not.
	h.model.then(func(_ context.Context, _ providers.Request, say func(providers.Event)) error {
		say(begun("req_1"))
		say(providers.Event{Kind: providers.Retry, Error: &providers.Error{Kind: providers.ErrCut, Message: "cut"}})
		say(begun("req_2"))
		call := providers.Part{Kind: providers.ToolCall, CallID: "call_1", Name: "file_read", Args: []byte(`{}`)}
		say(providers.Event{Kind: providers.PartDone, Part: call})
		say(providers.Event{Kind: providers.Done, Stop: providers.StopToolCalls, Request: "req_2", Usage: providers.Usage{Input: 1, Output: 1}})
		return nil
	})
	h.send(thread.ID, "go on")
	h.until(thread.ID, func(v *view) bool { return v.turn.Code == "" && v.turn.State == agent.TurnCompleted })
	h.send(thread.ID, "once more")
	if v = h.until(thread.ID, func(v *view) bool { return len(v.calls) == 1 && v.turn.State == agent.TurnFailed }); v.turn.Code != "turn_cost" {
		t.Errorf("the turn ended as %+v", v.turn)
	}
}
