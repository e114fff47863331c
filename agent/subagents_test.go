package agent_test

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"testing"

	"github.com/parawork/parawork/agent"
	"github.com/parawork/parawork/agent/providers"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/subagents"
)

// subs are the subagents of the session. They outlive a server.
type subs struct {
	mu          sync.Mutex
	results     []subagents.Result
	returned    []string
	stay        bool // a result stays although it was taken: the server died before that was stored
	interrupted chan string
	adopted     []string
}

func (s *subs) has(results ...subagents.Result) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results = append(s.results, results...)
}

func (s *subs) taken() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.returned)
}

// Results implements agent.Subagents.
func (s *subs) Results(context.Context, string) ([]subagents.Result, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.results), nil
}

// Returned implements agent.Subagents.
func (s *subs) Returned(_ context.Context, _, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.returned = append(s.returned, key)
	if !s.stay {
		s.results = slices.DeleteFunc(s.results, func(r subagents.Result) bool { return r.Key == key })
	}
	return nil
}

// Adopt implements agent.Subagents.
func (s *subs) Adopt(_ context.Context, from, to string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopted = append(s.adopted, from+">"+to)
	return nil
}

// InterruptFor implements agent.Subagents.
func (s *subs) InterruptFor(_ context.Context, sessionID string) error {
	if s.interrupted != nil {
		s.interrupted <- sessionID
	}
	return nil
}

// A result comes into the conversation at the next step, or in a new turn when the agent has ended its own; once, whatever dies between.
func TestResultsOfSubagentsAreMessages(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	thread := h.open(agent.Options{})
	h.tools.does["file_read"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		h.subs.has(subagents.Result{Key: "sub_1", Line: "sub_1 is completed.", Text: "The first has finished."})
		return tools.Result{Content: tools.Text("read")}, nil
	}
	h.subs.stay = true
	h.model.then(wants("file_read", `{}`), says("Thanks."))
	h.send(thread.ID, "go")
	h.rest(thread.ID)
	if got := last(h.model.asked()[1]); got != "The first has finished." {
		t.Errorf("the model was sent %q", got)
	}
	h.kill()
	h.boot()
	h.model.then(says("And thanks."))
	h.subs.has(subagents.Result{Key: "prm_2", Line: "sub_2 is failed.", Text: "The second has failed."})
	if err := h.svc.Wake(h.ctx, "ses_1"); err != nil {
		t.Fatal(err)
	}
	v := h.until(thread.ID, func(v *view) bool { return v.turn.State == agent.TurnCompleted && len(v.messages) == 6 })
	equal(t, "the conversation", v.said(), []string{"user:go", "assistant:", "user:The first has finished.", "assistant:Thanks.", "user:The second has failed.", "assistant:And thanks."})
	if err := h.svc.Wake(h.ctx, "ses_1"); err != nil {
		t.Fatal(err)
	}
	if n := len(h.model.asked()); n != 3 {
		t.Errorf("the model was asked %d times", n)
	}
}

// What a tool has answered with is not repeated as a message.
func TestResultsThatWereReadAreNotRepeated(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	thread := h.open(agent.Options{})
	h.tools.does["subagent_wait"] = func(context.Context, json.RawMessage) (tools.Result, error) {
		h.subs.has(subagents.Result{Key: "sub_1", Line: "sub_1 (one, parawork) is completed.", Text: "One has finished."},
			subagents.Result{Key: "sub_2", Line: "sub_2 (two, parawork) is completed.", Text: "Two has finished."})
		return tools.Result{Content: tools.Text("sub_1 (one, parawork) is completed.\nIt is 42.\n\nsub_2 (two, parawork) is working.")}, nil
	}
	h.model.then(wants("subagent_wait", `{}`), says("42, then."))
	h.send(thread.ID, "go")
	v := h.rest(thread.ID)
	equal(t, "the conversation", v.said(), []string{"user:go", "assistant:", "user:Two has finished.", "assistant:42, then."})
	equal(t, "taken", h.subs.taken(), []string{"sub_1", "sub_2"})
}

// A person who interrupts the agent interrupts what works for it, and nothing wakes it until somebody writes again.
func TestInterruptingReachesSubagents(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	h.subs.interrupted = make(chan string, 1)
	thread := h.open(agent.Options{})
	begun := make(chan struct{})
	h.model.then(blocks("hm", begun, nil, nil))
	h.send(thread.ID, "go")
	wait(t, "the answer", begun)
	h.svc.Interrupt(thread.ID)
	h.rest(thread.ID)
	if got := <-h.subs.interrupted; got != "ses_1" {
		t.Errorf("interrupted for %s", got)
	}
	h.subs.has(subagents.Result{Key: "sub_1", Line: "l", Text: "One has finished."})
	if err := h.svc.Wake(h.ctx, "ses_1"); err != nil || len(h.subs.taken()) != 0 {
		t.Errorf("woken: %v, %q", err, h.subs.taken())
	}
	if one, ok, err := h.svc.SessionThread(h.ctx, "ses_1"); err != nil || !ok || !one.Rests || one.Mode != "build" {
		t.Errorf("%+v %v %v", one, ok, err)
	}
	h.model.then(says("Good."))
	h.send(thread.ID, "go on")
	h.until(thread.ID, func(v *view) bool { return v.turn.State == agent.TurnCompleted })
	if got := last(h.model.asked()[1]); got != "One has finished." {
		t.Errorf("the model was sent %q", got)
	}
}

// Modes that change nothing may have others work, who are held to the same; they may not merge.
func TestSubagentsInModesThatChangeNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	thread := h.open(agent.Options{Mode: agent.Ask})
	h.model.then(says("Hello."))
	h.send(thread.ID, "hi")
	h.rest(thread.ID)
	offers := func(name string) bool {
		return slices.ContainsFunc(h.model.asked()[0].Tools, func(t providers.Tool) bool { return t.Name == name })
	}
	if !offers("subagent_spawn") || !offers("subagent_wait") || offers("subagent_merge") || offers("file_write") {
		t.Errorf("offered: %+v", h.model.asked()[0].Tools)
	}
}
