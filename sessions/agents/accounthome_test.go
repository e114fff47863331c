package agents_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// Two logins of one agent lie side by side; what was said with one can be gone on with with the other.
func TestAccountsHaveFoldersOfTheirOwnAndShareConversations(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude", "codex", "opencode")
	home := filepath.Join(h.homes, "usr_1")
	plan := func(agent string, a agents.Account, resume bool) agents.Plan {
		t.Helper()
		l := h.launch()
		l.Account, l.Resume = a, resume
		p, err := h.Plan(agent, l)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	first, second := agents.Account{ID: "acc_1", InHome: true, Kind: agents.Terminal}, agents.Account{ID: "acc_2", Kind: agents.Terminal}
	one, two := plan(agents.ClaudeCode, first, false), plan(agents.ClaudeCode, second, false)
	dirs := []string{filepath.Join(home, ".claude"), filepath.Join(home, ".accounts", "acc_2", ".claude")}
	if one.Env["CLAUDE_CONFIG_DIR"] != dirs[0] || two.Env["CLAUDE_CONFIG_DIR"] != dirs[1] || two.Env["HOME"] != home {
		t.Fatalf("%q, %q", one.Env["CLAUDE_CONFIG_DIR"], two.Env["CLAUDE_CONFIG_DIR"])
	}
	if two.Env["CODEX_HOME"] != filepath.Join(home, ".codex") {
		t.Errorf("another agent started by hand finds the folder of its own: %q", two.Env["CODEX_HOME"])
	}
	// Each logs in; neither overwrites the other, and no plan removes a login typed in a terminal.
	for i, dir := range dirs {
		h.write(t, filepath.Join(dir, ".credentials.json"), `{"of":`+string(rune('1'+i))+`}`, 0o600)
	}
	plan(agents.ClaudeCode, first, false)
	plan(agents.ClaudeCode, second, false)
	for i, dir := range dirs {
		if raw, err := os.ReadFile(filepath.Join(dir, ".credentials.json")); err != nil || string(raw) != `{"of":`+string(rune('1'+i))+`}` {
			t.Errorf("login %d: %q, %v", i+1, raw, err)
		}
	}
	// A conversation held with the second account lies where every account finds it.
	h.write(t, filepath.Join(dirs[1], "projects", "-work", h.launch().Conversation+".jsonl"), "{}\n", 0o600)
	for _, a := range []agents.Account{{}, first, second, {ID: "acc_3", Kind: agents.APIKey, Secret: "sk-ant-0123456789abcdef"}} {
		if p := plan(agents.ClaudeCode, a, true); !p.Resumed {
			t.Errorf("%q does not go on with the conversation", a.ID)
		}
	}
	if _, err := os.Stat(filepath.Join(dirs[0], "projects", "-work")); err != nil {
		t.Errorf("it does not lie in the home itself: %v", err)
	}
	codex := plan(agents.Codex, second, false)
	if codex.Env["CODEX_HOME"] != filepath.Join(home, ".accounts", "acc_2", ".codex") {
		t.Errorf("codex: %q", codex.Env["CODEX_HOME"])
	}
	h.write(t, filepath.Join(codex.Env["CODEX_HOME"], "sessions", "2026", "01", "02", "rollout-x-"+h.launch().Conversation+".jsonl"), "{}\n", 0o600)
	if p := plan(agents.Codex, first, true); !p.Resumed {
		t.Error("codex does not go on with a conversation of another account")
	}

	// Keys of several accounts are approved beside each other.
	for _, key := range []string{"sk-ant-api03-first-0123456789abcdef", "sk-ant-api03-other-fedcba9876543210"} {
		plan(agents.ClaudeCode, agents.Account{Kind: agents.APIKey, Secret: key}, false)
	}
	if approved := h.doc(t, ".claude/.claude.json")["customApiKeyResponses"].(map[string]any)["approved"].([]any); len(approved) != 2 {
		t.Errorf("approved: %v", approved)
	}

	// A deleted account leaves no login, but every conversation.
	victim := filepath.Join(h.source, "victim")
	h.write(t, filepath.Join(victim, "x"), "x", 0o600)
	if err := os.Symlink(victim, filepath.Join(dirs[1], "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := h.Forget(agents.ClaudeCode, "usr_1", agents.Account{ID: "acc_1", InHome: true, Kind: agents.APIKey}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dirs[0], ".credentials.json")); err != nil {
		t.Errorf("a deleted key took a login with it: %v", err)
	}
	for _, a := range []agents.Account{first, second} {
		if err := h.Forget(agents.ClaudeCode, "usr_1", a); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(filepath.Dir(dirs[1])); !os.IsNotExist(err) {
		t.Errorf("the folder of a deleted account: %v", err)
	}
	if _, err := os.Stat(filepath.Join(dirs[0], ".credentials.json")); !os.IsNotExist(err) {
		t.Errorf("the login of a deleted account: %v", err)
	}
	if _, err := os.Stat(filepath.Join(victim, "x")); err != nil {
		t.Errorf("a link was followed: %v", err)
	}
	if p := plan(agents.ClaudeCode, agents.Account{ID: "acc_4", Kind: agents.Terminal}, true); !p.Resumed {
		t.Error("the conversation went with its account")
	}
	// A team's account is forgotten in every home.
	plan(agents.Codex, agents.Account{ID: "acc_team", Kind: agents.APIKey, Secret: "sk-0123456789abcdef"}, false)
	if err := h.Forget(agents.Codex, "", agents.Account{ID: "acc_team"}); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(home, ".accounts", "acc_team")); !os.IsNotExist(err) {
		t.Errorf("a team's account: %v", err)
	}
	for _, id := range []string{"../x", "..", "a/b"} {
		l := h.launch()
		l.Account = agents.Account{ID: id}
		if _, err := h.Plan(agents.ClaudeCode, l); fault.CodeOf(err) != "invalid_account" {
			t.Errorf("%q: %v", id, err)
		}
		if err := h.Forget(agents.ClaudeCode, "usr_1", agents.Account{ID: id}); err != nil {
			t.Errorf("%q: %v", id, err)
		}
	}
	if strings.Contains(strings.Join(two.Argv, " "), ".accounts") {
		t.Errorf("%q", two.Argv)
	}
}

func TestAccountCheck(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for agent, code := range map[string]string{agents.ClaudeCode: "", agents.Codex: "", "gemini-9": "agent_unknown", agents.Setup: "agent_unknown", agents.Shell: "agent_takes_no_account"} {
		if err := h.AccountCheck(agent); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %q", agent, err, code)
		}
	}
}
