package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/tools"
)

// sent is what the model was sent in its request number n, a line for each message.
func (m *model) sent(n int) []string {
	var out []string
	for _, o := range m.asked()[n].Messages {
		var b strings.Builder
		for _, p := range o.Parts {
			b.WriteString(p.Text + p.Name)
			for _, c := range p.Content {
				b.WriteString("=" + c.Text)
			}
		}
		out = append(out, string(o.Role)+":"+b.String())
	}
	return out
}

// next waits for the end of the turn that a message began.
func (h *harness) next(threadID string, m agent.Message) *view {
	h.t.Helper()
	return h.until(threadID, func(v *view) bool { return v.turn.ID == m.TurnID && v.turn.State != agent.TurnRunning })
}

func (h *harness) replace(threadID, messageID, text string) (agent.Message, error) {
	return h.svc.Send(h.ctx, threadID, agent.Prompt{Text: text, UserID: h.user, Replaces: messageID})
}

func refused(t *testing.T, err error, code string) {
	t.Helper()
	if fault.CodeOf(err) != code {
		t.Errorf("%v, not %s", err, code)
	}
}

// What came after a prompt that was replaced is not sent to the model any more, also a summary of it; people can still read it.
func TestEditAndResend(t *testing.T) {
	h := newHarness(t)
	h.model.then(says("One."), wants("file_read", `{"path":"a"}`), says("Two."), says("All in short."), says("Three."))
	th := h.open(agent.Options{})
	h.next(th.ID, h.send(th.ID, "First."))
	second := h.send(th.ID, "Second.")
	h.next(th.ID, second)
	if err := h.svc.Compact(h.ctx, th); err != nil {
		t.Fatal(err)
	}
	h.until(th.ID, func(v *view) bool { return v.turn.Compactions == 1 && v.turn.State != agent.TurnRunning })
	if h.compacting != 1 {
		t.Errorf("%d checkpoints before the summary", h.compacting)
	}
	m, err := h.replace(th.ID, second.ID, "Second, in other words.")
	if err != nil {
		t.Fatal(err)
	}
	v := h.next(th.ID, m)
	equal(t, "messages", v.said(), []string{"user:First.", "assistant:One.", "user:Second. (undone)", "assistant: (undone)", "assistant:Two. (undone)", "summary:All in short. (undone)",
		"user:Second, in other words.", "assistant:Three."})
	equal(t, "sent", h.model.sent(4), []string{"user:First.", "assistant:One.", "user:Second, in other words."})
	h.host.mu.Lock()
	undone := map[string]bool{}
	for _, it := range h.host.items {
		undone[it.ID] = it.Undone
	}
	h.host.mu.Unlock()
	if !undone[second.ID] || undone[m.ID] || undone[v.messages[0].ID] || !undone[v.calls[0].ID] {
		t.Errorf("recorded as undone: %v", undone)
	}

	_, err = h.replace(th.ID, second.ID, "Again.")
	refused(t, err, "message_undone")
	_, err = h.replace(th.ID, v.messages[1].ID, "Again.")
	refused(t, err, "message_not_prompt")
	_, err = h.replace(th.ID, "msg_unknown", "Again.")
	refused(t, err, "message_not_found")
}

// While a turn runs, no prompt is replaced. A server that is killed with the change stored answers the new prompt, and that alone.
func TestEditAndResendWhileOthersWork(t *testing.T) {
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(blocks("", begun, on, says("One.")))
	th := h.open(agent.Options{})
	first := h.send(th.ID, "First.")
	wait(t, "the answer", begun)
	_, err := h.replace(th.ID, first.ID, "Again.")
	refused(t, err, "turn_running")
	close(on)
	h.next(th.ID, first)

	begun = make(chan struct{})
	h.model.then(blocks("", begun, nil, nil), says("Two."))
	m, err := h.replace(th.ID, first.ID, "In other words.")
	if err != nil {
		t.Fatal(err)
	}
	wait(t, "the answer", begun)
	h.kill()
	h.boot()
	if err := h.svc.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	v := h.next(th.ID, m)
	equal(t, "messages", slices.DeleteFunc(v.said(), func(s string) bool { return strings.Contains(s, "discarded") }), []string{"user:First. (undone)", "assistant:One. (undone)", "user:In other words.", "assistant:Two."})
}

// A fork has what is complete: while a call runs, neither the call nor the answer that makes it.
func TestFork(t *testing.T) {
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	h.tools.does["file_read"] = func(_ context.Context, args json.RawMessage) (tools.Result, error) {
		if strings.Contains(string(args), "slow") {
			close(begun)
			<-on
		}
		return tools.Result{Content: tools.Text("content")}, nil
	}
	h.model.then(wants("file_read", `{"path":"a"}`), says("One."), wants("file_read", `{"path":"slow"}`), says("Two."))
	th := h.open(agent.Options{Model: "chosen", Mode: agent.Review})
	h.next(th.ID, h.send(th.ID, "First."))
	second := h.send(th.ID, "Second.")
	wait(t, "the call", begun)
	actor := accounts.Actor{User: accounts.User{ID: h.user}}
	h.mu.Lock()
	h.now = h.now.Add(time.Minute)
	h.mu.Unlock()

	fork, row, err := h.svc.Fork(h.ctx, actor, th.ID, agent.ForkRequest{})
	if err != nil || fork.ParentID != th.ID || fork.Model != "chosen" || fork.Mode != agent.Review || row.ID != fork.SessionID {
		t.Fatalf("%+v, %+v, %v", fork, row, err)
	}
	got, err := h.svc.View(h.ctx, fork.ID, agent.Window{})
	if err != nil {
		t.Fatal(err)
	}
	v := view{messages: got.Messages, calls: got.Calls}
	equal(t, "messages", v.said(), []string{"user:First.", "assistant:", "assistant:One.", "user:Second."})
	equal(t, "calls", v.outcomes(), []string{"file_read=done:content"})
	if got.Turn != nil || got.Calls[0].MessageID != got.Messages[1].ID {
		t.Errorf("%+v %+v", got.Turn, got.Calls)
	}
	original := h.until(th.ID, func(v *view) bool { return len(v.messages) == 5 })
	_, _, err = h.svc.Fork(h.ctx, actor, th.ID, agent.ForkRequest{MessageID: original.messages[4].ID})
	refused(t, err, "message_not_complete")
	_, _, err = h.svc.Fork(h.ctx, actor, th.ID, agent.ForkRequest{MessageID: "msg_unknown"})
	refused(t, err, "message_not_found")
	close(on)
	h.next(th.ID, second)

	// In place of a prompt: the fork's session begins with the new one, and its conversation shows what was said before.
	fork, row, err = h.svc.Fork(h.ctx, actor, th.ID, agent.ForkRequest{MessageID: second.ID, Prompt: "Third."})
	if err != nil {
		t.Fatal(err)
	}
	h.model.then(says("Three."))
	if _, err := h.svc.Open(h.ctx, row, agent.Options{}); err != nil {
		t.Fatal(err)
	}
	v = *h.rest(fork.ID)
	equal(t, "messages", v.said(), []string{"user:First.", "assistant:", "assistant:One.", "user:Third.", "assistant:Three."})
	equal(t, "sent", h.model.sent(4), []string{"user:First.", "assistant:file_read", "user:file_read=content", "assistant:One.", "user:Third."})
	equal(t, "recorded", slices.DeleteFunc(h.forked.recorded(), func(s string) bool { return s == string(conversation.Spent) }), []string{"prompt", "tool:ok", "text", "note", "prompt", "text"})
}

// A fork whose session does not start leaves nothing, nor does one of a server that was killed before it started the session.
func TestForkThatDoesNotStart(t *testing.T) {
	h := newHarness(t)
	h.model.then(says("One."))
	th := h.open(agent.Options{})
	h.next(th.ID, h.send(th.ID, "First."))
	h.forkFails = errors.New("no sandbox")
	var forks []string
	h.store.on(func(c agent.Change) error {
		if len(c.Messages) > 0 {
			forks = append(forks, c.Messages[0].ThreadID)
		}
		return nil
	})
	if _, _, err := h.svc.Fork(h.ctx, accounts.Actor{}, th.ID, agent.ForkRequest{}); err == nil || len(forks) != 1 {
		t.Fatalf("%v, %v", forks, err)
	}
	_, err := h.store.Thread(h.ctx, forks[0])
	if !fault.Is(err, fault.NotFound) {
		t.Errorf("the fork is still there: %v", err)
	}
	left := th
	left.ID, left.ParentID, left.Conversation, left.SessionID = "thr_left", th.ID, "conv_left", "ses_never"
	if err := h.store.CreateThread(h.ctx, left); err != nil {
		t.Fatal(err)
	}
	h.kill()
	h.mu.Lock()
	h.now = h.now.Add(time.Hour)
	h.mu.Unlock()
	h.boot()
	if err := h.svc.Recover(h.ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := h.store.Thread(h.ctx, left.ID); !fault.Is(err, fault.NotFound) {
		t.Errorf("a fork without a session is still there: %v", err)
	}
	if _, err := h.store.Thread(h.ctx, th.ID); err != nil {
		t.Errorf("the origin is gone: %v", err)
	}
}

// The model and the mode change between turns only.
func TestSet(t *testing.T) {
	h := newHarness(t)
	begun, on := make(chan struct{}), make(chan struct{})
	h.model.then(blocks("", begun, on, says("One.")))
	th := h.open(agent.Options{})
	m := h.send(th.ID, "First.")
	wait(t, "the answer", begun)
	refused(t, h.svc.Set(h.ctx, th, "other", agent.Plan), "turn_running")
	close(on)
	h.next(th.ID, m)
	refused(t, h.svc.Set(h.ctx, th, "two\nlines", ""), "invalid_model")
	if err := h.svc.Set(h.ctx, th, "other", agent.Plan); err != nil {
		t.Fatal(err)
	}
	if got, err := h.svc.Thread(h.ctx, th.ID); err != nil || got.Model != "other" || got.Mode != agent.Plan {
		t.Errorf("%+v, %v", got, err)
	}
}

// A fork into a new workspace has the files as they were at its last message: before the next thing that the agent changed, with what
// people changed before the next prompt. What did not start is removed.
func TestForkIntoANewWorkspace(t *testing.T) {
	h := newHarness(t)
	h.tools.does["file_write"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.now = h.now.Add(time.Minute)
		return tools.Result{Content: tools.Text("done")}, nil
	}
	th, prompts := h.writing()
	v := h.rest(th.ID)
	for _, f := range []agent.ForkRequest{
		{MessageID: prompts[0].ID, Prompt: "Again."}, // before its turn's first change
		{MessageID: prompts[0].ID},                   // it stays: before the first call of the answer
		{MessageID: prompts[1].ID, Prompt: "Again."}, // its turn changes nothing
		{MessageID: v.messages[4].ID},                // nothing is changed until the third prompt
		{},                                           // now
	} {
		f.Workspace, f.Name = true, "Other"
		fork, row, err := h.svc.Fork(h.ctx, accounts.Actor{}, th.ID, f)
		if err != nil || !strings.HasPrefix(fork.WorkspaceID, "ws_sibling_") || row.Conversation != fork.Conversation {
			t.Fatalf("%+v, %+v, %v", fork, row, err)
		}
	}
	equal(t, "workspaces", h.siblings, []string{"Other{snp_1 0}", fmt.Sprintf("Other{ %d}", v.calls[0].StartedAt+1), fmt.Sprintf("Other{ %d}", prompts[1].CreatedAt+1), "Other{snp_3 0}", "Other{ 0}"})

	h.forkFails = errors.New("no sandbox")
	if _, _, err := h.svc.Fork(h.ctx, accounts.Actor{}, th.ID, agent.ForkRequest{Workspace: true}); err == nil {
		t.Error("a fork without a session")
	}
	equal(t, "removed", h.siblings[6:], []string{"removed ws_sibling_6"})
}
