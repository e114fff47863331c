package subagents_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/tools/subagents"
)

// works has a subagent's agent do its task.
func (h *harness) works(s *subagents.Service, a subagents.Subagent, result string, edits ...string) subagents.Subagent {
	h.t.Helper()
	h.until(s, a.ID, is(subagents.Working))
	h.asked(a.SessionID, a.Task)
	h.state(a.SessionID, state.Working)
	h.until(s, a.ID, func(a subagents.Subagent) bool { return a.Worked })
	h.mu.Lock()
	for _, path := range edits {
		h.said[a.SessionID] = append(h.said[a.SessionID], conversation.Placed{Item: conversation.Item{Kind: conversation.Edit, Path: path, Status: conversation.OK}})
	}
	h.mu.Unlock()
	h.says(a.SessionID, result)
	h.state(a.SessionID, state.Idle)
	return h.until(s, a.ID, func(a subagents.Subagent) bool { return !a.Status.Busy() })
}

func returned(a subagents.Subagent) bool { return !a.ToReturn }

// Parawork's own agent is given each result once, as a message that names the files, also when the server died before.
func TestResultsGoBackToParaworksOwnAgent(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, kill := h.serve()
	c := h.own("build")
	a := h.spawn(s, c, subagents.Request{Name: "tests"})
	if a.Agent != agents.Parawork || a.Model != "local-model" || a.Mode != "build" || !a.ToReturn {
		t.Errorf("spawned as %+v", a)
	}
	a = h.works(s, a, "All tests pass.", "b.go", "a.go", "b.go")
	if req := h.starts[0]; strings.Join(req.Argv, " ") != "--model local-model --mode build --api chat" || req.AccountID != "acc_1" {
		t.Errorf("started with %+v", req)
	}
	if a.Status != subagents.Completed || a.Result != "All tests pass." || !slices.Equal(a.Files, []string{"a.go", "b.go"}) {
		t.Errorf("%+v", a)
	}
	h.until(s, a.ID, returned)
	if got := h.given(); len(got) != 1 || !strings.HasPrefix(got[0], "The subagent tests ("+a.ID+") has finished: it is completed.\nFiles it changed: a.go, b.go.") || !strings.HasSuffix(got[0], "All tests pass.") {
		t.Errorf("given: %q", got)
	}
	// While it rests, it is not woken; what waits for it survives the server.
	h.rests("ses_own", true)
	b := h.works(s, h.spawn(s, c, subagents.Request{Name: "later"}), "Done, too.")
	if all, err := s.Wait(t.Context(), c, nil, false, 0); err != nil || len(all) != 1 || all[0].ID != b.ID {
		t.Errorf("waiting finds %+v, %v", all, err)
	}
	kill()
	s, _ = h.serve()
	h.rests("ses_own", false)
	h.until(s, b.ID, returned)
	if got := h.given(); len(got) != 2 || !strings.Contains(got[1], "Done, too.") {
		t.Errorf("given: %q", got)
	}
	if all, err := s.Wait(t.Context(), c, nil, false, 0); err != nil || len(all) != 0 {
		t.Errorf("waiting finds %+v, %v", all, err)
	}
	// Of a caller that has ended, the result of one that is kept waits for the session that goes on with its conversation; others' does not.
	h.rests("ses_own", true)
	d := h.works(s, h.spawn(s, c, subagents.Request{Name: "last", Kept: true}), "For who resumes.")
	e := h.works(s, h.spawn(s, c, subagents.Request{Name: "lost"}), "For nobody.")
	h.state("ses_own", state.Exited)
	h.until(s, e.ID, returned)
	if err := s.Adopt(t.Context(), "ses_own", "ses_next"); err != nil {
		t.Fatal(err)
	}
	if all, err := s.Results(t.Context(), "ses_next"); err != nil || len(all) != 1 || !strings.Contains(all[0].Text, "For who resumes.") {
		t.Errorf("left: %+v, %v", all, err)
	}
	next := c
	next.SessionID = "ses_next"
	if a, err := s.Find(t.Context(), next, d.ID); err != nil || a.Result != "For who resumes." || a.Root != "ses_next" {
		t.Errorf("read by the next session: %+v, %v", a, err)
	}
	if len(h.given()) != 2 {
		t.Errorf("given: %q", h.given())
	}
}

// Whoever interrupts the caller interrupts what works for it, at every depth, except for what is kept.
func TestInterruptingTheCallerInterruptsItsSubagents(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	c := h.own("build")
	first := h.spawn(s, c, subagents.Request{Name: "first"})
	kept := h.spawn(s, c, subagents.Request{Name: "kept", Kept: true})
	for _, a := range []subagents.Subagent{first, kept} {
		h.until(s, a.ID, is(subagents.Working))
		h.state(a.SessionID, state.Working)
	}
	second := h.spawn(s, h.agent(first.SessionID), subagents.Request{Name: "second", Agent: "claude-code"})
	h.until(s, second.ID, is(subagents.Working))
	h.state(second.SessionID, state.Working)
	if err := s.InterruptFor(t.Context(), "ses_own"); err != nil {
		t.Fatal(err)
	}
	for _, a := range []subagents.Subagent{first, second} {
		if a = h.until(s, a.ID, is(subagents.Cancelled)); a.Code != "subagent_interrupted" || a.ToReturn || !a.Live {
			t.Errorf("%+v", a)
		}
	}
	if a := h.until(s, kept.ID, func(a subagents.Subagent) bool { return a.Worked }); a.Status != subagents.Working {
		t.Errorf("kept: %+v", a)
	}
}

// An agent between is done when what works for it is, and it has been given the results.
func TestASubagentWaitsForItsOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	first := h.spawn(s, h.own("build"), subagents.Request{Name: "first"})
	h.until(s, first.ID, is(subagents.Working))
	h.mu.Lock()
	h.threads[first.SessionID] = subagents.Thread{Mode: "build"}
	h.mu.Unlock()
	h.asked(first.SessionID, "do it")
	h.state(first.SessionID, state.Working)
	h.until(s, first.ID, func(a subagents.Subagent) bool { return a.Worked })
	second := h.spawn(s, h.agent(first.SessionID), subagents.Request{Name: "second"})
	h.says(first.SessionID, "I wait for the second.")
	h.state(first.SessionID, state.Idle)
	second = h.works(s, second, "Found it.")
	if a, err := s.Get(t.Context(), first.ID); err != nil || !a.Status.Busy() && a.Result == "I wait for the second." && !slices.ContainsFunc(h.given(), func(text string) bool { return strings.Contains(text, "Found it.") }) {
		t.Errorf("it is done before its own subagent: %+v, %v", a, err)
	}
	h.until(s, second.ID, returned)
	h.becomes(first.SessionID, func(one *sessions.Session) { one.State = state.Working })
	h.says(first.SessionID, "The second found it.")
	h.state(first.SessionID, state.Idle)
	if a := h.until(s, first.ID, is(subagents.Completed)); a.Result == "" {
		t.Errorf("%+v", a)
	}
}

// Modes and tools only narrow: nobody gets by a subagent what they may not do themselves.
func TestSubagentsMayDoNoMoreThanTheirCaller(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	top := h.top()
	for _, c := range []struct {
		caller, agent, mode string
		code                string
	}{
		{"build", agents.Parawork, "ask", ""},
		{"build", "claude-code", "", ""},
		{"plan", agents.Parawork, "", ""},
		{"plan", agents.Parawork, "ask", ""},
		{"plan", agents.Parawork, "build", "subagent_mode"},
		{"plan", agents.Parawork, "review", "subagent_mode"},
		{"ask", agents.Parawork, "plan", "subagent_mode"},
		{"ask", "claude-code", "", "subagent_mode"},
		{"ask", agents.Command, "", "subagent_mode"},
		{"review", agents.Parawork, "ask", ""},
		{"build", "claude-code", "ask", "invalid_subagent"},
		{"build", agents.Parawork, "everything", "invalid_subagent"},
		{"", agents.Parawork, "plan", ""}, // another agent is the caller
	} {
		caller := top
		if c.caller != "" {
			caller = h.own(c.caller)
		}
		a, _, err := s.Spawn(t.Context(), caller, subagents.Request{Name: "n", Task: "t", Agent: c.agent, Mode: c.mode, TimeoutMs: 60_000})
		if fault.CodeOf(err) != c.code {
			t.Errorf("%+v: %v", c, err)
		}
		if err == nil {
			if c.mode == "" && c.agent == agents.Parawork && a.Mode != c.caller {
				t.Errorf("%+v: mode %q", c, a.Mode)
			}
			if _, err := s.Interrupt(t.Context(), caller, a.ID, true); err != nil {
				t.Error(err)
			}
		}
	}
	// A caller that may do less than before cannot have others do more.
	caller := h.own("build")
	a := h.spawn(s, caller, subagents.Request{Agent: agents.Parawork})
	h.until(s, a.ID, is(subagents.Working))
	if _, err := s.Message(t.Context(), h.own("ask"), a.ID, "write it"); fault.CodeOf(err) != "subagent_mode" {
		t.Errorf("a message in ask mode: %v", err)
	}
	// Of groups and tools, those that both have.
	h.own("build")
	b := h.spawn(s, caller, subagents.Request{Tools: []string{"tasks", "file_read"}})
	h.until(s, b.ID, is(subagents.Working))
	for wanted, want := range map[string]string{"task_list": "task_list", "files": "file_read", "memory": "", "tasks files memory": "file_read tasks"} {
		a := h.spawn(s, h.agent(b.SessionID), subagents.Request{Tools: strings.Fields(wanted)})
		if got, err := s.ToolsFor(t.Context(), a.SessionID); err != nil || got == nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v", wanted, got, err)
		}
	}
	if c := h.spawn(s, h.agent(b.SessionID), subagents.Request{}); strings.Join(c.Tools, " ") != "tasks file_read" {
		t.Errorf("by default it has %q", c.Tools)
	}
}
