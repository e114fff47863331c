package sessions_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/prompt"
	"github.com/parawork/parawork/sessions/state"
)

// runs is a prompt of two lines that makes the model run a command with the agent's own tool.
func runs(tool string, input map[string]any) string {
	script, err := json.Marshal([]any{map[string]any{"tools": []any{map[string]any{"name": tool, "input": input}}},
		map[string]string{"text": "Ran it."}})
	if err != nil {
		panic(err)
	}
	return "Run this, please:\n#script " + string(script)
}

func TestSteerRealClaudeCode(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "claude")
	h := newHarness(t)
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path, DefaultArgs: []string{"--allowedTools", "Bash"}}
	h.accounts[agents.ClaudeCode] = accounts.AgentAccount{Agent: agents.ClaudeCode, Kind: accounts.APIKey, BaseURL: model(t)}
	h.secrets[agents.ClaudeCode] = "sk-ant-api03-" + strings.Repeat("abcdefghij", 5)
	steerReal(t, h, agents.ClaudeCode, func(command string) string { return runs("Bash", map[string]any{"command": command}) })
}

func TestSteerRealCodex(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "codex")
	h := newHarness(t)
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: path, DefaultArgs: []string{"-m", "gpt-5.5", "-s", "danger-full-access", "-a", "never"}}
	h.accounts[agents.Codex] = accounts.AgentAccount{Agent: agents.Codex, Kind: accounts.APIKey, BaseURL: model(t) + "/v1"}
	h.secrets[agents.Codex] = "sk-proj-" + strings.Repeat("abcdefghij", 5)
	steerReal(t, h, agents.Codex, func(command string) string {
		// Else it goes on without waiting for a command of some seconds.
		return runs("exec_command", map[string]any{"cmd": command, "yield_time_ms": 30000})
	})
}

// steerReal steers a real agent through a day: a queue while it works, an interrupt, a server that dies, resume and send.
func steerReal(t *testing.T, h *harness, agent string, run func(command string) string) {
	s := h.start()
	log := func() string { return strings.Join(strings.Fields(h.file("log.txt")), " ") }
	has := func(want string) {
		t.Helper()
		for deadline := time.Now().Add(patience); log() != want; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("log is %q, want %q", log(), want)
			}
		}
	}
	row := s.begin(t, sessions.StartRequest{Agent: agent})
	s.logOnFailure(t, row.ID)
	a := s.queue(t, row.ID, run("until [ -e one ]; do sleep 0.1; done; echo A >> log.txt"))
	s.sent(t, a) // an agent may call itself working for a moment while it starts
	b := s.queue(t, row.ID, run("echo B >> log.txt"))
	c := s.queue(t, row.ID, run("echo C >> log.txt"))
	if log() != "" {
		t.Fatalf("the first was over at once: %q", log())
	}
	text, first := run("echo B2 >> log.txt"), 0
	if _, err := s.EditPrompt(t.Context(), h.actor, b.ID, prompt.Edit{Text: &text}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.EditPrompt(t.Context(), h.actor, c.ID, prompt.Edit{Position: &first}); err != nil {
		t.Fatal(err)
	}
	h.touch("one")
	has("A C B2")

	// The agent kills the processes one after the other: a shell whose sleep was killed first goes no further.
	s.queue(t, row.ID, run("echo D >> log.txt; sleep 6000 && echo late >> log.txt"))
	has("A C B2 D")
	s.reaches(t, row.ID, state.Working)
	e := s.queue(t, row.ID, run("echo E >> log.txt"))
	began := time.Now()
	got, err := s.Interrupt(t.Context(), h.actor, row.ID, false)
	if err != nil || got.Outcome != sessions.Interrupted && got.Outcome != sessions.StillWorking || got.Held != 1 { // slow to say so
		t.Errorf("interrupt: %+v, %v after %v", got, err, time.Since(began))
	}
	s.reaches(t, row.ID, state.Idle)
	s.waitsFor(t, row.ID, "interrupted the agent")
	if _, err := s.EditPrompt(t.Context(), h.actor, e.ID, prompt.Edit{Release: true}); err != nil {
		t.Fatal(err)
	}
	has("A C B2 D E")

	s.queue(t, row.ID, run("echo F >> log.txt; until [ -e two ]; do sleep 0.1; done"))
	s.queue(t, row.ID, run("echo G >> log.txt"))
	has("A C B2 D E F")
	s.end()
	s = h.start()
	h.touch("two")
	has("A C B2 D E F G")
	s.reaches(t, row.ID, state.Idle)

	eventually(t, "its conversation is known", func() bool { return s.get(t, row.ID).Conversation != "" })
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	p, err := s.AddPrompt(t.Context(), h.actor, row.ID, prompt.Request{Text: run("echo H >> log.txt"), Resume: true})
	if err != nil {
		t.Fatal(err)
	}
	s.logOnFailure(t, p.SessionID)
	has("A C B2 D E F G H")
	if next := s.get(t, p.SessionID); next.Conversation != s.get(t, row.ID).Conversation {
		t.Error("it is another conversation")
	}
	eventually(t, "all was sent", func() bool {
		return !slices.ContainsFunc(s.prompts(t, p.SessionID), func(q string) bool { return !strings.HasSuffix(q, ":sent") })
	})
	if _, err := s.Stop(t.Context(), h.actor, p.SessionID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}
