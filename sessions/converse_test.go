package sessions_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/conversation"
	"github.com/parawork/parawork/sessions/state"
)

// scripted is a prompt that makes the scripted model answer step by step.
func scripted(t *testing.T, words string, steps ...map[string]any) string {
	t.Helper()
	raw, err := json.Marshal(steps)
	if err != nil {
		t.Fatal(err)
	}
	return words + " #script " + string(raw)
}

type (
	step = map[string]any
	call = map[string]any
)

func tool(name string, input any) []call { return []call{{"name": name, "input": input}} }

// reported is the conversation of a session in short: a line an item.
func (s *server) reported(t testing.TB, id string) []string {
	t.Helper()
	c, err := s.Conversation(t.Context(), id, conversation.Query{Limit: 500})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, it := range c.Items {
		words, _, _ := strings.Cut(it.Text, " #script")
		line := string(it.Kind)
		for _, part := range []string{it.Tool, it.Path, it.Status, it.Topic, words} {
			if part != "" {
				line += " " + part
			}
		}
		if it.Added+it.Removed > 0 {
			line += fmt.Sprintf(" +%d -%d", it.Added, it.Removed)
		}
		if it.Usage != nil {
			line += fmt.Sprintf(" in %d out %d read %d written %d reasoning %d", it.Usage.Input, it.Usage.Output, it.Usage.CacheRead, it.Usage.CacheWrite, it.Usage.Reasoning)
		}
		if it.Parent != "" {
			line = "  " + line
		}
		out = append(out, line)
	}
	return out
}

// converses waits until the session's conversation is this, line by line.
func (s *server) converses(t *testing.T, id string, want ...string) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		got := s.reported(t, id)
		if slices.Equal(got, want) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the conversation is\n%s\nbut the model's script was\n%s\nscreen:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"), s.output(t, id))
		}
	}
}

// says types a prompt into a running agent once it is idle and its screen quiet.
func (s *server) says(t *testing.T, h *harness, id, prompt string) {
	t.Helper()
	s.reaches(t, id, state.Idle)
	for before := -1; ; time.Sleep(700 * time.Millisecond) {
		now := len(s.output(t, id))
		if now == before {
			break
		}
		before = now
	}
	if err := s.Input(t.Context(), h.actor, id, "\x1b[200~"+prompt+"\x1b[201~"); err != nil {
		t.Fatal(err)
	}
	// The agent takes an Enter glued to a paste for a part of it, and one that comes while it begins for nothing.
	words, _, _ := strings.Cut(prompt, " #script")
	for range 10 {
		time.Sleep(300 * time.Millisecond)
		if err := s.Input(t.Context(), h.actor, id, "\r"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(5 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
			if slices.Contains(s.reported(t, id), "prompt "+words) {
				return
			}
		}
	}
}

func TestConversationOfClaudeCode(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "claude")
	h := newHarness(t)
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path,
		DefaultArgs: []string{"--permission-mode", "acceptEdits", "--allowedTools", "Bash,Read,Edit,Write,Task"}}
	h.accounts[agents.ClaudeCode] = accounts.AgentAccount{Agent: agents.ClaudeCode, Kind: accounts.APIKey, BaseURL: model(t)}
	key := "sk-ant-api03-" + strings.Repeat("abcdefghij", 5)
	h.secrets[agents.ClaudeCode] = key
	if err := os.WriteFile(filepath.Join(h.ws.Path, "main.go"), []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(h.ws.Path, "main.go")
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode, Prompt: scripted(t, "Change two.",
		step{"thinking": "Two it is.", "text": "I look.", "tools": tool("Read", call{"file_path": file}), "usage": step{"in": 100, "out": 20, "cache_read": 1000, "cache_write": 50}},
		step{"tools": []call{{"name": "Edit", "input": call{"file_path": file, "old_string": "two", "new_string": "zwei"}},
			{"name": "Bash", "input": call{"command": "ls nowhere"}}}, "usage": step{"in": 10, "out": 30}},
		step{"tools": tool("Bash", call{"command": "echo $ANTHROPIC_API_KEY"}), "usage": step{"in": 10, "out": 5}},
		step{"tools": tool("Task", call{"description": "Look around", "subagent_type": "general-purpose", "prompt": scripted(t, "Look.",
			step{"tools": tool("Bash", call{"command": "echo sub"}), "usage": step{"in": 3, "out": 4}}, step{"text": "Seen.", "usage": step{"in": 5, "out": 6}})}),
			"usage": step{"in": 1, "out": 1}},
		step{"text": "**Done.**", "usage": step{"in": 130, "out": 50}})})
	first := []string{
		"prompt Change two.",
		"thinking Two it is.",
		"text I look.",
		"tool Read ok",
		"edit Edit main.go ok +1 -1",
		"tool Bash failed",
		"tool Bash ok",
		"tool Task ok",
		"  prompt Look.",
		"  tool Bash ok",
		"  text Seen.",
		"  usage in 8 out 10 read 0 written 0 reasoning 0",
		"text **Done.**",
		"usage in 251 out 106 read 1000 written 50 reasoning 0",
	}
	s.converses(t, row.ID, first...)
	c, err := s.Conversation(t.Context(), row.ID, conversation.Query{Limit: 200})
	if err != nil {
		t.Fatal(err)
	}
	for _, it := range c.Items {
		raw, err := json.Marshal(it)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(raw), "abcdefghij") {
			t.Errorf("a secret is kept: %s", raw)
		}
		if it.Kind == conversation.Edit && !strings.Contains(it.Diff, "-two\n+zwei\n") {
			t.Errorf("diff %q", it.Diff)
		}
		if it.Offset < 0 {
			t.Errorf("%s has no offset in the terminal", it.ID)
		}
	}

	// An error of the model, then a tool that is interrupted, with a restart of the server in the middle.
	s.says(t, h, row.ID, scripted(t, "Fail.", step{"error": step{"status": 400, "type": "invalid_request_error", "message": "the model said no"}}))
	first = append(first, "prompt Fail.", "error failed API Error: 400 the model said no")
	s.converses(t, row.ID, first...)
	s.says(t, h, row.ID, scripted(t, "Wait.", step{"text": "Slowly.", "tools": tool("Bash", call{"command": "sleep 6000"}), "usage": step{"in": 7, "out": 8}}))
	s.converses(t, row.ID, append(slices.Clone(first), "prompt Wait.", "text Slowly.", "tool Bash running", "usage in 7 out 8 read 0 written 0 reasoning 0")...)
	s.end()
	s = h.start()
	eventually(t, "it is taken up", func() bool { return s.get(t, row.ID).State == state.Working })
	if err := s.Input(t.Context(), h.actor, row.ID, "\x1b"); err != nil {
		t.Fatal(err)
	}
	first = append(first, "prompt Wait.", "text Slowly.", "tool Bash denied", "usage in 7 out 8 read 0 written 0 reasoning 0", "note interrupt Interrupted.")
	s.converses(t, row.ID, first...)
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}

	// The next session goes on with the conversation and shows only what is its own.
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.says(t, h, next.ID, scripted(t, "More.", step{"text": "Gladly.", "usage": step{"in": 2, "out": 3}}))
	s.converses(t, next.ID, "prompt More.", "text Gladly.", "usage in 2 out 3 read 0 written 0 reasoning 0")
	c, err = s.Conversation(t.Context(), next.ID, conversation.Query{Limit: 1})
	if err != nil || c.Earlier != row.ID || c.Later != "" {
		t.Errorf("goes on from %q, later %q, %v", c.Earlier, c.Later, err)
	}
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}

	// What was kept stays when the agent's home is gone, and is found by its words.
	if err := os.RemoveAll(filepath.Join(h.dir, "homes")); err != nil {
		t.Fatal(err)
	}
	s.end()
	s = h.start()
	s.converses(t, row.ID, first...)
	summaries, _, err := s.Conversations(t.Context(), h.ws.ID, "ZWEI", "", 10)
	if err != nil || len(summaries) != 1 || summaries[0].Session.ID != row.ID || len(summaries[0].Matches) == 0 || !strings.Contains(summaries[0].Matches[0].Snippet, "zwei") {
		t.Errorf("found %+v, %v", summaries, err)
	}
}

func TestConversationOfCodex(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "codex")
	h := newHarness(t)
	// The test's folder lies below the temp folder, where Codex' sandbox does not work.
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: path, DefaultArgs: []string{"-m", "gpt-5.5", "-s", "danger-full-access",
		"-c", "model_providers.parawork.request_max_retries=0", "-c", "model_providers.parawork.stream_max_retries=0"}}
	h.accounts[agents.Codex] = accounts.AgentAccount{Agent: agents.Codex, Kind: accounts.APIKey, BaseURL: model(t) + "/v1"}
	h.secrets[agents.Codex] = "sk-proj-" + strings.Repeat("abcdefghij", 5)
	if err := os.WriteFile(filepath.Join(h.ws.Path, "main.go"), []byte("one\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex, Prompt: scripted(t, "Change two.",
		step{"thinking": "Two it is.", "text": "I look.", "tools": tool("exec_command", call{"cmd": "cat main.go"}), "usage": step{"in": 100, "out": 20, "cache_read": 1000}},
		step{"tools": tool("apply_patch", "*** Begin Patch\n*** Update File: main.go\n@@\n one\n-two\n+zwei\n three\n*** Add File: new.txt\n+new\n*** End Patch"),
			"usage": step{"in": 10, "out": 30}},
		step{"tools": tool("exec_command", call{"cmd": "ls nowhere"}), "usage": step{"in": 10, "out": 5}},
		step{"text": "**Done.**", "usage": step{"in": 130, "out": 50, "reasoning": 5}})})
	first := []string{
		"prompt Change two.",
		"thinking Two it is.",
		"text I look.",
		"tool exec_command ok",
		"edit apply_patch main.go ok +1 -1",
		"edit apply_patch new.txt ok +1 -0",
		"tool exec_command failed",
		"text **Done.**",
		"usage in 250 out 105 read 1000 written 0 reasoning 5",
	}
	s.converses(t, row.ID, first...)
	s.says(t, h, row.ID, scripted(t, "Fail.", step{"error": step{"status": 400, "type": "invalid_request_error", "message": "the model said no"}}))
	first = append(first, "prompt Fail.", "error failed the model said no")
	s.converses(t, row.ID, first...)
	s.says(t, h, row.ID, scripted(t, "Wait.", step{"text": "Slowly.", "tools": tool("exec_command", call{"cmd": "sleep 6000"}), "usage": step{"in": 7, "out": 8}}))
	s.converses(t, row.ID, append(slices.Clone(first), "prompt Wait.", "text Slowly.", "tool exec_command running", "usage in 7 out 8 read 0 written 0 reasoning 0")...)
	s.end()
	s = h.start()
	eventually(t, "it is taken up", func() bool { return s.get(t, row.ID).State == state.Working })
	if err := s.Input(t.Context(), h.actor, row.ID, "\x1b"); err != nil {
		t.Fatal(err)
	}
	first = append(first, "prompt Wait.", "text Slowly.", "tool exec_command stopped", "usage in 7 out 8 read 0 written 0 reasoning 0", "note interrupt Interrupted.")
	s.converses(t, row.ID, first...)
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.says(t, h, next.ID, scripted(t, "More.", step{"text": "Gladly.", "usage": step{"in": 2, "out": 3}}))
	s.converses(t, next.ID, "prompt More.", "text Gladly.", "usage in 2 out 3 read 0 written 0 reasoning 0")
	s.converses(t, row.ID, first...)
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}
