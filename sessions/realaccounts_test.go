package sessions_test

import (
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/accounts"
	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/question"
	"github.com/parawork/parawork/sessions/state"
	"github.com/parawork/parawork/testing/testmodel"
)

// modelFor starts a scripted model that answers one key alone.
func modelFor(t *testing.T, key string) string {
	t.Helper()
	return testmodel.Start(t, "-token", key)
}

// account adds an account of an agent to the harness; the first is found by the agent's name, as the default is.
func (h *harness) account(name, agent, key, base string, inHome bool) {
	h.accounts[name] = accounts.AgentAccount{ID: name, Agent: agent, Kind: accounts.APIKey, BaseURL: base, InHome: inHome}
	h.secrets[name] = key
}

// Two accounts of Claude Code work side by side, each against an endpoint that takes its own key alone; a conversation held
// with one goes on with the other.
func TestTwoRealAccountsSideBySide(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "claude")
	h := newHarness(t)
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path, DefaultArgs: []string{"--permission-mode", "acceptEdits"}}
	keys := map[string]string{"acc_one": "sk-ant-api03-" + strings.Repeat("one-", 10), "acc_two": "gateway-" + strings.Repeat("two-", 10)}
	for name, key := range keys {
		h.account(name, agents.ClaudeCode, key, modelFor(t, key), name == "acc_one")
	}
	s := h.start()
	ids := map[string]string{}
	for name := range keys {
		row := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode, AccountID: name, Prompt: `#write {"path":"` + name + `.txt","text":"hello\n"}`})
		if row.AccountID != name {
			t.Errorf("account %q, want %q", row.AccountID, name)
		}
		ids[name] = row.ID
	}
	for name, id := range ids {
		eventually(t, name+" does its task", func() bool { return h.file(name+".txt") == "hello\n" })
		s.reaches(t, id, state.Idle)
		if _, err := s.Stop(t.Context(), h.actor, id, 3*time.Second); err != nil {
			t.Fatal(err)
		}
		for _, key := range keys {
			if strings.Contains(s.output(t, id), key) {
				t.Error("a key is on the screen")
			}
		}
	}
	// Resumed, it has the account it had; when that is gone, the default goes on with what was said.
	next, err := s.Resume(t.Context(), h.actor, ids["acc_two"])
	if err != nil || next.AccountID != "acc_two" {
		t.Fatalf("%q, %v", next.AccountID, err)
	}
	s.reaches(t, next.ID, state.Idle)
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	h.accounts[agents.ClaudeCode], h.secrets[agents.ClaudeCode] = h.accounts["acc_one"], h.secrets["acc_one"]
	delete(h.accounts, "acc_two")
	h.mu.Unlock()
	last, err := s.Resume(t.Context(), h.actor, next.ID)
	if err != nil || last.AccountID != "acc_one" {
		t.Fatalf("%q, %v", last.AccountID, err)
	}
	s.reaches(t, last.ID, state.Idle)
	eventually(t, "what was said with the other account is shown", func() bool { return strings.Contains(s.output(t, last.ID), "acc_two.txt") })
	if last.Conversation != next.Conversation {
		t.Error("it is another conversation")
	}
	if _, err := s.Stop(t.Context(), h.actor, last.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}

// Codex with an account that has a folder of its own: its conversation is found, and goes on with the other account.
func TestRealCodexChangesItsAccount(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "codex")
	h := newHarness(t)
	h.settings[agents.Codex] = agents.Settings{Enabled: true, Command: path, DefaultArgs: []string{"-m", "gpt-5.5", "-s", "danger-full-access"}}
	for name, key := range map[string]string{"acc_one": "sk-proj-" + strings.Repeat("one-", 10), "acc_two": "sk-proj-" + strings.Repeat("two-", 10)} {
		h.account(name, agents.Codex, key, modelFor(t, key)+"/v1", name == "acc_one")
	}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Codex, AccountID: "acc_two", Prompt: `#write {"path":"notes.txt","text":"hello\n"}`})
	eventually(t, "the file is written", func() bool { return h.file("notes.txt") == "hello\n" })
	s.reaches(t, row.ID, state.Idle)
	eventually(t, "its conversation is known", func() bool { return s.get(t, row.ID).Conversation != "" })
	if _, err := s.Stop(t.Context(), h.actor, row.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	delete(h.accounts, "acc_two")
	h.accounts[agents.Codex], h.secrets[agents.Codex] = h.accounts["acc_one"], h.secrets["acc_one"]
	h.mu.Unlock()
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil || next.AccountID != "acc_one" {
		t.Fatalf("%q, %v", next.AccountID, err)
	}
	s.reaches(t, next.ID, state.Idle)
	eventually(t, "the conversation is shown again", func() bool { return strings.Contains(s.output(t, next.ID), "notes.txt") })
	if _, err := s.Stop(t.Context(), h.actor, next.ID, 3*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestRealGemini(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "gemini")
	h := newHarness(t)
	h.settings[agents.Gemini] = agents.Settings{Enabled: true, Command: path}
	key := "AIza" + strings.Repeat("0123456789", 3)
	h.account("acc_one", agents.Gemini, key, modelFor(t, key), true)
	h.account("acc_two", agents.Gemini, key, h.accounts["acc_one"].BaseURL, false)
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.Gemini, AccountID: "acc_two", Prompt: `-write #write {"path":"notes.txt","text":"hello\n"}`})
	s.reaches(t, row.ID, state.Waiting) // for permission to write
	eventually(t, "its question can be answered", func() bool { return s.get(t, row.ID).Question != nil })
	q := s.get(t, row.ID).Question
	if q.Kind != agents.Permission || q.Title != "Apply this change?" || !strings.Contains(q.Detail, "notes.txt") {
		t.Errorf("%+v", q)
	}
	if _, err := s.Answer(t.Context(), h.actor, row.ID, question.AnswerRequest{QuestionID: q.ID, OptionIDs: []string{"1"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the file is written", func() bool { return h.file("notes.txt") == "hello\n" })
	s.reaches(t, row.ID, state.Idle)
	if _, err := s.Stop(t.Context(), h.actor, row.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	h.mu.Lock()
	delete(h.accounts, "acc_two")
	h.accounts[agents.Gemini], h.secrets[agents.Gemini] = h.accounts["acc_one"], key
	h.mu.Unlock()
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the conversation is shown again", func() bool { return strings.Contains(s.output(t, next.ID), "notes.txt") })
	s.reaches(t, next.ID, state.Idle)
	if next.Conversation != row.Conversation {
		t.Error("it is another conversation")
	}
	if _, err := s.Stop(t.Context(), h.actor, next.ID, time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestRealOpenCode(t *testing.T) {
	t.Parallel()
	path := realAgent(t, "opencode")
	h := newHarness(t)
	h.settings[agents.OpenCode] = agents.Settings{Enabled: true, Command: path, Env: map[string]string{
		"OPENCODE_DISABLE_MODELS_FETCH": "1", "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1", "OPENCODE_DISABLE_LSP_DOWNLOAD": "1"}}
	key := "sk-ant-api03-" + strings.Repeat("0123456789", 3)
	h.account("acc_one", agents.OpenCode, key, modelFor(t, key)+"/v1", true)
	h.account("acc_two", agents.OpenCode, key, h.accounts["acc_one"].BaseURL, false)
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.OpenCode, AccountID: "acc_two", Prompt: "say that you understood the marmalade"})
	shows := func(id, want string) { // its first start takes long
		t.Helper()
		for deadline := time.Now().Add(4 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			shown, _, err := s.Screen(t.Context(), id, 0)
			if err != nil {
				t.Fatal(err)
			}
			if text := strings.Join(shown.Lines, "\n"); strings.Contains(text, want) {
				return
			} else if time.Now().After(deadline) {
				t.Fatalf("%q is not on the screen:\n%s", want, text)
			}
		}
	}
	shows(row.ID, "Understood.")
	s.reaches(t, row.ID, state.Idle)
	eventually(t, "its conversation is known", func() bool { return s.get(t, row.ID).Conversation != "" })
	if _, err := s.Stop(t.Context(), h.actor, row.ID, time.Second); err != nil {
		t.Fatal(err)
	}
	next, err := s.Resume(t.Context(), h.actor, row.ID)
	if err != nil {
		t.Fatal(err)
	}
	shows(next.ID, "marmalade")
	if next.Conversation != s.get(t, row.ID).Conversation {
		t.Error("it is another conversation")
	}
	if _, err := s.Stop(t.Context(), h.actor, next.ID, time.Second); err != nil {
		t.Fatal(err)
	}
}
