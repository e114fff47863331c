package agent_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/subagents"
)

// A queued prompt is one message, in the name of who queued it, however often it is given; so are the commands that can be repeated.
func TestQueuedPromptsAreGivenOnce(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	thread := h.open(agent.Options{})
	give := func(id, text string, again bool) (bool, error) {
		return h.svc.Give(h.ctx, prompt.Prompt{ID: id, SessionID: "ses_1", Text: text, CreatedBy: "usr_bo"}, again)
	}
	h.model.then(says("Done."), says("Planned."))
	if working, err := give("prm_1", "do it", false); err != nil || !working {
		t.Fatal(working, err)
	}
	h.rest(thread.ID)
	h.kill()
	h.boot()
	if working, err := give("prm_1", "do it", true); err != nil || working {
		t.Errorf("given again: %v, %v", working, err)
	}
	v := h.rest(thread.ID)
	equal(t, "said", v.said(), []string{"user:do it", "assistant:Done."})
	if m := v.messages[0]; m.ID != "msg_1" || m.UserID != "usr_bo" {
		t.Errorf("%+v", m)
	}
	if working, err := give("prm_2", "/plan it", true); err != nil || !working {
		t.Fatal(working, err)
	}
	if v = h.until(thread.ID, func(v *view) bool { return len(v.messages) == 4 && v.turn.State == agent.TurnCompleted }); v.Mode != agent.Plan {
		t.Errorf("the mode is %s", v.Mode)
	}
	if _, err := give("prm_3", "/undo", true); fault.CodeOf(err) != "outcome_unknown" {
		t.Errorf("an undo that may have been made: %v", err)
	}
	if _, err := give("prm_4", "/nothing", false); !fault.Is(err, fault.Invalid) {
		t.Errorf("an unknown command: %v", err)
	}
	h.mu.Lock()
	h.gone = true
	h.mu.Unlock()
	if _, err := give("prm_5", "hello", false); fault.CodeOf(err) != "session_not_running" {
		t.Errorf("without its session: %v", err)
	}
}

// A session that goes on with a conversation gets what the one before had started, and results that came between.
func TestAResumedSessionTakesWhatWasLeft(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.boot()
	before := h.host.Row()
	before.ID = "ses_0"
	thread, err := h.svc.Open(h.ctx, before, agent.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.subs.has(subagents.Result{Key: "sub_1", Line: "sub_1 is completed.", Text: "Found while nobody was there."})
	h.model.then(says("Thanks."))
	if _, err := h.svc.Open(h.ctx, h.host.Row(), agent.Options{}); err != nil {
		t.Fatal(err)
	}
	equal(t, "said", h.rest(thread.ID).said(), []string{"user:Found while nobody was there.", "assistant:Thanks."})
	h.subs.mu.Lock()
	defer h.subs.mu.Unlock()
	equal(t, "passed on", h.subs.adopted, []string{"ses_0>ses_1"})
}

// A call that the end of its session cuts, as a move does, is unknown, and is not called an interruption by a person.
func TestTheEndOfTheSessionCutsACall(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	thread := h.open(agent.Options{})
	h.tools.does["task_create"] = func(ctx context.Context, _ json.RawMessage) (tools.Result, error) {
		close(h.host.done)
		<-ctx.Done()
		return tools.Result{}, ctx.Err()
	}
	h.model.then(wants("task_create", `{}`))
	h.send(thread.ID, "go")
	v := h.rest(thread.ID)
	if got := v.outcomes(); len(got) != 1 || !strings.HasPrefix(got[0], "task_create=unknown:The session ended during this call. It is unknown") || v.turn.Code != "session_ended" {
		t.Errorf("%q, the turn %+v", got, v.turn)
	}
}
