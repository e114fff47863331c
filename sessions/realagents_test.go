package sessions_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/testing/testmodel"
)

// realAgent returns the path of an agent's real program.
func realAgent(t *testing.T, name string) string { return testmodel.Agent(t, name) }

// model starts the scripted model server and returns its address.
func model(t *testing.T) string { return testmodel.Start(t) }

func (h *harness) file(name string) string {
	raw, _ := os.ReadFile(filepath.Join(h.ws.Path, name))
	return string(raw)
}

// touch makes an empty file in the worktree.
func (h *harness) touch(name string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.ws.Path, name), nil, 0o600); err != nil {
		h.t.Fatal(err)
	}
}

func (s *server) reaches(t *testing.T, id string, want state.State) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := s.get(t, id)
		if got.State == want {
			return
		}
		if time.Now().After(deadline) || got.State.Ended() {
			t.Fatalf("%s (%s), want %s; evidence: %+v; it ends with %.600q", got.State, got.StateReason, want, got.Basis, tailOf(s.output(t, id), 600))
		}
	}
}

func TestRealClaudeCode(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "claude")
	h := newHarness(t)
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path}
	h.accounts[agents.ClaudeCode] = accounts.AgentAccount{Agent: agents.ClaudeCode, Kind: accounts.APIKey, BaseURL: model(t)}
	h.secrets[agents.ClaudeCode] = "sk-ant-api03-" + strings.Repeat("abcdefghij", 5)
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode, Prompt: `#write {"path":"notes.txt","text":"hello\n"}`})
	s.reaches(t, row.ID, state.Waiting) // for permission to write
	if err := s.Input(t.Context(), h.actor, row.ID, "1"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is written", func() bool { return h.file("notes.txt") == "hello\n" })
	s.reaches(t, row.ID, state.Idle)
	if got := s.get(t, row.ID); got.Title == "" || strings.ContainsAny(got.Title, "✳⠂") {
		t.Errorf("title %q", got.Title)
	}
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.reaches(t, next.ID, state.Idle)
	eventually(t, "the conversation is shown again", func() bool { return strings.Contains(s.output(t, next.ID), "notes.txt") })
	if next.Conversation != row.Conversation {
		t.Error("it is another conversation")
	}
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestRealCodex(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "codex")
	h := newHarness(t)
	// The test's folder lies below the temp folder, where Codex' sandbox does not work.
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: path, DefaultArgs: []string{"-m", "gpt-5.5", "-s", "danger-full-access"}}
	h.accounts[agents.Codex] = accounts.AgentAccount{Agent: agents.Codex, Kind: accounts.APIKey, BaseURL: model(t) + "/v1"}
	h.secrets[agents.Codex] = "sk-proj-" + strings.Repeat("abcdefghij", 5)
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex, Prompt: `-write #write {"path":"notes.txt","text":"hello\n"}`})
	eventually(t, "the file is written", func() bool { return h.file("notes.txt") == "hello\n" })
	s.reaches(t, row.ID, state.Idle)
	eventually(t, "its conversation is known", func() bool { return s.get(t, row.ID).Conversation != "" })
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	s.reaches(t, next.ID, state.Idle)
	eventually(t, "the conversation is shown again", func() bool { return strings.Contains(s.output(t, next.ID), "notes.txt") })
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}

func tailOf(s string, n int) string { return s[max(0, len(s)-n):] }

// has reports whether a file is in the worktree.
func (h *harness) has(name string) bool {
	_, err := os.Stat(filepath.Join(h.ws.Path, name))
	return err == nil
}
