package subagents_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/sessions/usagelimit"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/subagents"
	"github.com/parawork/parawork/workspaces"
)

// An agent with a terminal has done its task when it is idle after it worked, and its last message is the result, without secrets.
func TestTheLastMessageIsTheResult(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{Model: "opus"})
	if a.Status != subagents.Spawned || a.Agent != "claude-code" || a.Depth != 1 || a.DeadlineAt-a.CreatedAt != subagents.DefTimeout {
		t.Errorf("spawned as %+v", a)
	}
	h.until(s, a.ID, is(subagents.Working))
	if req := h.starts[0]; req.ID != a.SessionID || req.Prompt != "do it" || strings.Join(req.Argv, " ") != "--model opus" || req.Permissions != "ask" {
		t.Errorf("started with %+v", req)
	}
	h.state(a.SessionID, state.Idle) // as it is for a moment before it begins
	h.pass(time.Second)
	h.asked(a.SessionID, "do it")
	h.state(a.SessionID, state.Working)
	h.until(s, a.ID, func(a subagents.Subagent) bool { return a.Worked })
	h.becomes(a.SessionID, func(one *sessions.Session) {
		one.State, one.StateReason, one.Question = state.Waiting, "asks", &question.Question{Ask: agents.Ask{Title: "Delete it?"}}
	})
	if a = h.until(s, a.ID, is(subagents.Waiting)); a.Question != "Delete it?" {
		t.Errorf("it asks %q", a.Question)
	}
	h.state(a.SessionID, state.Working)
	h.until(s, a.ID, is(subagents.Working))
	h.says(a.SessionID, "looking")
	h.says(a.SessionID, "The key is "+secret+".")
	h.state(a.SessionID, state.Idle)
	if a = h.until(s, a.ID, is(subagents.Completed)); !strings.HasPrefix(a.Result, "The key is ") || strings.Contains(a.Result, secret) || a.EndedAt == 0 || !a.Live {
		t.Errorf("completed as %+v", a)
	}

	// A message has it work again, and replaces the result by the next one.
	if a, err := s.Message(t.Context(), h.top(), a.ID, "and now?"); err != nil || a.Status != subagents.Working || a.Result != "" {
		t.Fatalf("%+v, %v", a, err)
	}
	h.pass(time.Second)
	queue{h}.sent()
	h.state(a.SessionID, state.Working)
	h.asked(a.SessionID, "and now?")
	h.pass(time.Second)
	h.says(a.SessionID, "Nothing.")
	h.state(a.SessionID, state.Idle)
	if a = h.until(s, a.ID, is(subagents.Completed)); a.Result != "Nothing." {
		t.Errorf("the second result is %q", a.Result)
	}

	// Its session is stopped when nobody needs it any more.
	h.pass(time.Hour)
	if a = h.until(s, a.ID, gone); a.Status != subagents.Completed || a.Result != "Nothing." {
		t.Errorf("stopped as %+v", a)
	}
	if _, err := s.Message(t.Context(), h.top(), a.ID, "still there?"); fault.CodeOf(err) != "subagent_ended" {
		t.Errorf("a message to one that has ended: %v", err)
	}
}

// An agent that waits for a limit of its provider has no result yet; one whose limit no time ends has failed.
func TestALimitIsNoResult(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{})
	h.until(s, a.ID, is(subagents.Working))
	h.asked(a.SessionID, "do it")
	for _, kind := range []string{usagelimit.Session, usagelimit.Spend} {
		h.says(a.SessionID, "You've hit a limit")
		h.becomes(a.SessionID, func(one *sessions.Session) {
			one.State, one.Basis.Failed, one.Basis.Limit = state.Idle, true, &usagelimit.Limit{Kind: kind}
		})
		h.pass(time.Minute)
	}
	if a = h.until(s, a.ID, func(a subagents.Subagent) bool { return !a.Status.Busy() }); a.Status != subagents.Failed || a.Code != "subagent_agent_failed" {
		t.Errorf("%+v", a)
	}
}

// A message that arrives while the server records that the session has ended does not leave a subagent that works for ever.
func TestAMessageAsTheSessionEnds(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{})
	h.until(s, a.ID, is(subagents.Working))
	messaged := make(chan error, 1)
	h.mu.Lock()
	h.onRead = func() {
		_, err := s.Message(h.t.Context(), h.top(), a.ID, "and now?")
		messaged <- err
	}
	h.mu.Unlock()
	h.says(a.SessionID, "bye")
	h.becomes(a.SessionID, func(one *sessions.Session) { one.State, one.ExitCode = state.Exited, new(0) })
	if err := <-messaged; err != nil {
		t.Fatal(err)
	}
	if a = h.until(s, a.ID, gone); a.Status != subagents.Completed || a.Result != "bye" {
		t.Errorf("it ended as %+v", a)
	}
}

// An agent without a record is done when it has been idle for a while, and the end of its terminal is the result.
func TestTheScreenIsTheResultOfOthers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{Agent: "aider"})
	h.until(s, a.ID, is(subagents.Working))
	h.pass(time.Second)
	h.state(a.SessionID, state.Idle)
	h.pass(time.Minute)
	if a = h.until(s, a.ID, is(subagents.Completed)); a.Result != "the end of the screen" {
		t.Errorf("the result is %q", a.Result)
	}
}

// A subagent may report a result itself, which stays when it is idle afterwards. Nobody else can.
func TestReport(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{})
	h.until(s, a.ID, is(subagents.Working))
	if _, err := s.Report(t.Context(), h.top(), "mine"); fault.CodeOf(err) != "subagent_none" {
		t.Errorf("a session that is no subagent reported: %v", err)
	}
	if a, err := s.Report(t.Context(), h.agent(a.SessionID), "found it"); err != nil || a.Status != subagents.Completed {
		t.Fatalf("%+v, %v", a, err)
	}
	h.says(a.SessionID, "I am done.")
	h.state(a.SessionID, state.Idle)
	h.pass(time.Minute)
	if a = h.until(s, a.ID, func(subagents.Subagent) bool { return true }); a.Result != "found it" {
		t.Errorf("the result is %q", a.Result)
	}
	if _, err := s.Report(t.Context(), h.agent(a.SessionID), "no, that"); fault.CodeOf(err) != "subagent_ended" {
		t.Errorf("reported twice: %v", err)
	}
}

// Trees are bounded in depth, in how many work at once and in total, however a hostile agent goes about it.
func TestTreesAreBounded(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	first := h.spawn(s, h.top(), subagents.Request{TimeoutMs: 60_000, Tools: []string{"tasks", "subagents"}})
	h.until(s, first.ID, is(subagents.Working))
	second := h.spawn(s, h.agent(first.SessionID), subagents.Request{TimeoutMs: 3_600_000, Tools: []string{"tasks", "memory"}, Kept: true})
	if second.Depth != 2 || second.Root != "ses_top" || second.DeadlineAt > first.DeadlineAt || strings.Join(second.Tools, " ") != "tasks" || second.Kept {
		t.Errorf("the second may do more than the first: %+v", second)
	}
	h.until(s, second.ID, is(subagents.Working))
	if _, _, err := s.Spawn(t.Context(), h.agent(second.SessionID), subagents.Request{Name: "n", Task: "t"}); fault.CodeOf(err) != "subagent_depth" {
		t.Errorf("a third level: %v", err)
	}
	only, err := s.ToolsFor(t.Context(), second.SessionID)
	if sel := (tools.Selection{Only: only}); err != nil || sel.Has("memory") || !sel.Has("tasks") || sel.Has("subagents") {
		t.Errorf("its tools are %q, %v", only, err)
	}
	if only, err := s.ToolsFor(t.Context(), "ses_top"); only != nil || err != nil {
		t.Error("a session that is no subagent is narrowed down")
	}
	codes := make(chan string, 20)
	for i := range cap(codes) {
		c := h.top()
		if i%2 == 0 {
			c = h.agent(first.SessionID)
		}
		go func() {
			_, _, err := s.Spawn(t.Context(), c, subagents.Request{Name: "n", Task: "t"})
			codes <- fault.CodeOf(err)
		}()
	}
	started := 0
	for range cap(codes) {
		switch code := <-codes; code {
		case "":
			started++
		case "subagents_at_once":
		default:
			t.Errorf("refused with %s", code)
		}
	}
	if started != subagents.MaxAtOnce-2 {
		t.Errorf("%d of a tree work at once, want %d", started+2, subagents.MaxAtOnce)
	}
	for n := started + 2; ; n++ {
		tree, err := s.Tree(t.Context(), "ses_top")
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range tree {
			if a.Status.Busy() && a.ID != first.ID {
				if _, err := s.Interrupt(t.Context(), h.top(), a.ID, true); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, _, err = s.Spawn(t.Context(), h.top(), subagents.Request{Name: "n", Task: "t"})
		if n == subagents.MaxTotal {
			if fault.CodeOf(err) != "subagents_total" {
				t.Errorf("number %d: %v", n+1, err)
			}
			break
		}
		if err != nil {
			t.Fatalf("number %d: %v", n+1, err)
		}
	}
}

// A subagent ends when its time or its money has been used up, or with its caller unless it is kept, and so do its own.
func TestSubagentsEndWithWhatTheyWereGiven(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	dear := h.spawn(s, h.top(), subagents.Request{MaxCostNano: 100})
	orphan, kept := h.spawn(s, h.top(), subagents.Request{}), h.spawn(s, h.top(), subagents.Request{Kept: true})
	for _, a := range []subagents.Subagent{dear, orphan, kept} {
		h.until(s, a.ID, is(subagents.Working))
	}
	brief := h.spawn(s, h.top(), subagents.Request{TimeoutMs: 600_000})
	h.until(s, brief.ID, is(subagents.Working))
	idle := h.spawn(s, h.agent(brief.SessionID), subagents.Request{TimeoutMs: 300_000})
	h.until(s, idle.ID, is(subagents.Working))
	if _, err := s.Report(t.Context(), h.agent(idle.SessionID), "found"); err != nil {
		t.Fatal(err)
	}
	h.pass(8 * time.Minute)
	if _, err := s.Message(t.Context(), h.agent(brief.SessionID), idle.ID, "more"); err != nil {
		t.Fatal(err)
	}
	if again, _ := s.Get(t.Context(), idle.ID); again.DeadlineAt > brief.DeadlineAt {
		t.Errorf("with a further message it may work for %d ms longer than its caller", again.DeadlineAt-brief.DeadlineAt)
	}
	late := h.spawn(s, h.top(), subagents.Request{TimeoutMs: 60_000})
	h.until(s, late.ID, is(subagents.Working))
	below := h.spawn(s, h.agent(orphan.SessionID), subagents.Request{})
	cheap := h.spawn(s, h.agent(dear.SessionID), subagents.Request{})
	h.until(s, below.ID, is(subagents.Working))
	h.until(s, cheap.ID, is(subagents.Working))
	h.mu.Lock()
	h.spent[dear.SessionID], h.spent[cheap.SessionID] = 60, 50
	h.mu.Unlock()
	if dear = h.until(s, dear.ID, gone); dear.Status != subagents.Failed || dear.Code != "subagent_cost" || *dear.CostNano != 60 {
		t.Errorf("the dear one: %+v", dear)
	}
	h.pass(30 * time.Second)
	if _, err := s.Interrupt(t.Context(), h.top(), late.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Message(t.Context(), h.top(), late.ID, "go on"); err != nil { // it has as long for it as for its task
		t.Fatal(err)
	}
	h.pass(2 * time.Minute)
	if late = h.until(s, late.ID, gone); late.Status != subagents.Failed || late.Code != "subagent_timed_out" || !strings.Contains(late.Error, "1m0s") || late.Result == "" {
		t.Errorf("the late one: %+v", late)
	}
	h.state("ses_top", state.Exited)
	for _, a := range []subagents.Subagent{orphan, below, cheap} {
		if a = h.until(s, a.ID, gone); a.Status != subagents.Cancelled || a.Code != "subagent_caller_ended" {
			t.Errorf("without its caller: %+v", a)
		}
		if one, _ := h.Get(t.Context(), a.SessionID); !one.State.Ended() {
			t.Errorf("its session is %s", one.State)
		}
	}
	if kept = h.until(s, kept.ID, is(subagents.Working)); !kept.Live {
		t.Errorf("the kept one: %+v", kept)
	}
}

// What an agent cannot see, it cannot direct: another team's, another tree's, or those of its caller.
func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	h.session("ses_other", "claude-code", state.Working)
	a, b := h.spawn(s, h.top(), subagents.Request{}), h.spawn(s, h.top(), subagents.Request{})
	h.until(s, a.ID, is(subagents.Working))
	h.until(s, b.ID, is(subagents.Working))
	if _, err := s.Find(t.Context(), h.agent(a.SessionID), b.ID); err != nil {
		t.Errorf("it cannot see the other: %v", err)
	}
	for what, c := range map[string]subagents.Caller{"another tree": h.agent("ses_other"), "another team": {TeamID: "team_other", WorkspaceID: "ws_other", UserID: "usr_other"},
		"another team in this workspace": {TeamID: "team_other", WorkspaceID: "ws_1", UserID: "usr_other"}} {
		_, found := s.Find(t.Context(), c, a.ID)
		_, messaged := s.Message(t.Context(), c, a.ID, "x")
		_, interrupted := s.Interrupt(t.Context(), c, a.ID, true)
		_, waited := s.Wait(t.Context(), c, []string{a.ID}, false, time.Minute)
		for _, err := range []error{found, messaged, interrupted, waited} {
			if !fault.Is(err, fault.NotFound) {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	_, messaged := s.Message(t.Context(), h.agent(a.SessionID), b.ID, "x")
	_, interrupted := s.Interrupt(t.Context(), h.agent(a.SessionID), b.ID, true)
	if fault.CodeOf(messaged) != "subagent_not_yours" || fault.CodeOf(interrupted) != "subagent_not_yours" {
		t.Errorf("it directs its caller's other one: %v, %v", messaged, interrupted)
	}
	c := h.agent("ses_top")
	c.WorkspaceID = "ws_other"
	if _, _, err := s.Spawn(t.Context(), c, subagents.Request{Name: "n", Task: "t"}); !fault.Is(err, fault.NotFound) {
		t.Errorf("spawned in another team's workspace: %v", err)
	}
}

// Who may have agents work where a subagent was asked for directs it only if they may in its own workspace too, and the other way around.
func TestAPrivateSiblingIsDirectedByItsOwnerAlone(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{Where: subagents.Sibling})
	a = h.until(s, a.ID, is(subagents.Working))
	for private, from := range map[string]string{a.WorkspaceID: "ws_1", "ws_1": a.WorkspaceID} {
		h.mu.Lock()
		w := h.ws[private]
		w.Private, w.CreatedBy = true, "usr_owner"
		h.ws[private] = w
		h.mu.Unlock()
		c := subagents.Caller{TeamID: h.team, WorkspaceID: from, UserID: h.actor.User.ID}
		_, messaged := s.Message(t.Context(), c, a.ID, "x")
		_, interrupted := s.Interrupt(t.Context(), c, a.ID, false)
		_, ended := s.Interrupt(t.Context(), c, a.ID, true)
		for _, err := range []error{messaged, interrupted, ended} {
			if err == nil {
				t.Errorf("a teammate directs it from %s although %s is private", from, private)
			}
		}
		h.mu.Lock()
		w.Private, w.CreatedBy = false, ""
		h.ws[private] = w
		h.mu.Unlock()
	}
	if a = h.until(s, a.ID, is(subagents.Working)); a.PromptID != "" || a.Stop {
		t.Errorf("it was directed: %+v", a)
	}
	c := subagents.Caller{TeamID: h.team, WorkspaceID: "ws_1", UserID: h.actor.User.ID}
	if _, err := s.Interrupt(t.Context(), c, a.ID, true); err != nil {
		t.Errorf("nothing is private any more: %v", err)
	}
}

func TestWrongRequestsAreRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	h.session("ses_shell", "shell", state.Working)
	h.session("ses_ended", "claude-code", state.Exited)
	for i, c := range []struct {
		session string
		r       subagents.Request
		code    string
	}{
		{"ses_top", subagents.Request{Task: "t"}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "a\nb", Task: "t"}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: strings.Repeat("x", subagents.MaxTask+1)}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: "t", Agent: "shell"}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: "t", Agent: "command", Model: "x"}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: "t", Model: "--dangerously-skip-permissions"}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: "t", Tools: []string{"everything"}}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: "t", TimeoutMs: subagents.MaxTimeout + 1}, "invalid_subagent"},
		{"ses_top", subagents.Request{Name: "n", Task: "t", Agent: "missing"}, "agent_not_installed"},
		{"ses_shell", subagents.Request{Name: "n", Task: "t"}, "invalid_subagent"},
		{"ses_ended", subagents.Request{Name: "n", Task: "t"}, "subagent_caller_ended"},
	} {
		if _, _, err := s.Spawn(t.Context(), h.agent(c.session), c.r); fault.CodeOf(err) != c.code {
			t.Errorf("%d: %v, want %s", i, err, c.code)
		}
	}
	// What the start of the session refuses, such as a limit of the team, is the subagent's error.
	h.refuse = fault.New(fault.Quota, "budget_used_up", "The team's budget is used up.")
	a := h.spawn(s, h.top(), subagents.Request{})
	if a = h.until(s, a.ID, gone); a.Status != subagents.Failed || a.Code != "budget_used_up" || a.Error != "The team's budget is used up." {
		t.Errorf("failed as %+v", a)
	}
}

// A sibling begins with the caller's files in a workspace of its own.
func TestSiblings(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	a, warnings, err := s.Spawn(t.Context(), h.top(), subagents.Request{Name: "apart", Task: "t", Where: subagents.Sibling})
	if err != nil || len(warnings) != 0 {
		t.Fatalf("%v, %v", warnings, err)
	}
	a = h.until(s, a.ID, is(subagents.Working))
	if a.WorkspaceID == "ws_1" || a.Branch != "parawork/apart" || a.SnapshotID != "snp_1" || h.ws[a.WorkspaceID].Name != "apart" {
		t.Errorf("%+v", a)
	}
	if one, _ := h.Get(t.Context(), a.SessionID); one.WorkspaceID != a.WorkspaceID {
		t.Errorf("its session is in %s", one.WorkspaceID)
	}
	if _, warnings, _ = s.Spawn(t.Context(), h.top(), subagents.Request{Name: "beside", Task: "t"}); len(warnings) != 1 || !strings.Contains(warnings[0], "Claude Code (the caller)") {
		t.Errorf("warnings %q", warnings)
	}
	items, _, err := s.OfWorkspace(t.Context(), a.WorkspaceID, all)
	if err != nil || len(items) != 1 || items[0].ID != a.ID {
		t.Errorf("in the sibling: %+v, %v", items, err)
	}
}

// Wherever a server dies, the next one continues, and starts nothing twice.
func TestTheNextServerContinues(t *testing.T) {
	t.Parallel()
	t.Run("before anything happened", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		a := h.spawn(subagents.New(subagents.Config{Store: h.store, Sessions: h, Prompts: queue{h}, Screens: h, Workspaces: h, Snapshots: h, Siblings: h, Commits: h, Merging: h, Accounts: h, Bus: h.bus}), h.top(), subagents.Request{})
		s, _ := h.serve()
		h.until(s, a.ID, is(subagents.Working))
	})
	t.Run("while a sibling is made", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.refuse = errors.New("not yet")
		s, kill := h.serve(func(c *subagents.Config) { c.Siblings = stuck{h} })
		a := h.spawn(s, h.top(), subagents.Request{Where: subagents.Sibling})
		h.until(s, a.ID, func(a subagents.Subagent) bool { return a.SnapshotID != "" })
		kill()
		h.refuse = nil
		s, _ = h.serve()
		if a = h.until(s, a.ID, is(subagents.Working)); h.snaps != 1 || h.ws[a.WorkspaceID].State != workspaces.Ready {
			t.Errorf("%d snapshots, workspace %+v", h.snaps, h.ws[a.WorkspaceID])
		}
	})
	t.Run("after the session was started", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.onStart = func(*sessions.Session) bool { return false }
		started := h.dies(t)
		h.onStart = nil
		s, _ := h.serve()
		if a := h.until(s, started.ID, is(subagents.Working)); a.SessionID != started.SessionID || len(h.starts) != 1 {
			t.Errorf("%d starts, session %s", len(h.starts), a.SessionID)
		}
	})
	t.Run("before the session's program ran", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		h.onStart = func(one *sessions.Session) bool {
			one.State, one.StateReason = state.Failed, "the server stopped before it had started; start it again"
			return false
		}
		started := h.dies(t)
		h.onStart = nil
		s, _ := h.serve()
		if a := h.until(s, started.ID, is(subagents.Working)); a.SessionID == started.SessionID || len(h.starts) != 2 {
			t.Errorf("%d starts, session %s", len(h.starts), a.SessionID)
		}
	})
	t.Run("results stay", func(t *testing.T) {
		t.Parallel()
		h := newHarness(t)
		s, kill := h.serve()
		a, b := h.spawn(s, h.top(), subagents.Request{}), h.spawn(s, h.top(), subagents.Request{})
		h.until(s, a.ID, is(subagents.Working))
		h.until(s, b.ID, is(subagents.Working))
		if _, err := s.Report(t.Context(), h.agent(a.SessionID), "done"); err != nil {
			t.Fatal(err)
		}
		kill()
		h.becomes(b.SessionID, func(one *sessions.Session) { one.State, one.ExitCode = state.Exited, new(0) })
		h.says(b.SessionID, "bye")
		s, _ = h.serve()
		if b = h.until(s, b.ID, gone); b.Status != subagents.Completed || b.Result != "bye" {
			t.Errorf("ended while no server ran: %+v", b)
		}
		if a = h.until(s, a.ID, is(subagents.Completed)); a.Result != "done" {
			t.Errorf("%+v", a)
		}
	})
}

// dies spawns a subagent in a server that dies while it starts its session.
func (h *harness) dies(t *testing.T) subagents.Subagent {
	t.Helper()
	s, kill := h.serve()
	a := h.spawn(s, h.top(), subagents.Request{})
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := h.Get(t.Context(), a.SessionID); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("the session was not started")
		}
	}
	kill()
	return a
}

// A wait ends with the first, with all, or with its time, which is no error.
func TestWait(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	s, _ := h.serve()
	var ids []string
	for i := range 3 {
		a := h.spawn(s, h.top(), subagents.Request{Name: fmt.Sprint(i)})
		h.until(s, a.ID, is(subagents.Working))
		ids = append(ids, a.ID)
	}
	if got, err := s.Wait(t.Context(), h.top(), nil, false, time.Millisecond); err != nil || len(got) != 3 || !got[0].Status.Busy() {
		t.Errorf("out of time: %+v, %v", got, err)
	}
	type answer struct {
		got []subagents.Subagent
		err error
	}
	first, every := make(chan answer, 1), make(chan answer, 1)
	go func() {
		got, err := s.Wait(t.Context(), h.top(), ids, true, time.Minute)
		first <- answer{got, err}
	}()
	go func() {
		got, err := s.Wait(t.Context(), h.top(), ids, false, time.Minute) // named: by the time it looks, some may have ended
		every <- answer{got, err}
	}()
	for i, one := range ids {
		if _, err := s.Interrupt(t.Context(), h.top(), one, true); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			if r := <-first; r.err != nil || len(r.got) != 3 || r.got[0].Status != subagents.Cancelled || !r.got[1].Status.Busy() {
				t.Errorf("the first: %+v", r)
			}
		}
	}
	if r := <-every; r.err != nil || len(r.got) != 3 || r.got[2].Status != subagents.Cancelled {
		t.Errorf("all: %+v", r)
	}
	if got, err := s.Wait(t.Context(), h.top(), nil, false, time.Minute); err != nil || len(got) != 0 {
		t.Errorf("for nobody: %+v, %v", got, err)
	}
}
