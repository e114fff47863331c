package agents_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

// harness is a registry over programs that exist only in a folder of the test.
type harness struct {
	*agents.Registry
	bin, homes, worktrees, source string
}

func newHarness(t *testing.T, settings map[string]agents.Settings, programs ...string) *harness {
	t.Helper()
	return newHarnessWith(t, func(*agents.Config) {}, settings, programs...)
}

func newHarnessWith(t *testing.T, tune func(*agents.Config), settings map[string]agents.Settings, programs ...string) *harness {
	t.Helper()
	dir := t.TempDir()
	h := &harness{bin: filepath.Join(dir, "bin"), homes: filepath.Join(dir, "data", "homes"), worktrees: filepath.Join(dir, "data", "worktrees"), source: filepath.Join(dir, "me")}
	for _, d := range []string{h.bin, h.source} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range programs {
		h.write(t, filepath.Join(h.bin, p), "#!/bin/sh\necho \""+p+" version 1.2.3-beta (test)\"\n", 0o755)
	}
	cfg := agents.Config{Agents: settings, HomesDir: h.homes, WorktreesDir: h.worktrees, UserHome: h.source,
		LookPath: func(name string) (string, error) {
			path := name
			if !filepath.IsAbs(name) {
				path = filepath.Join(h.bin, name)
			}
			_, err := os.Stat(path)
			return path, err
		}}
	tune(&cfg)
	r, err := agents.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	h.Registry = r
	return h
}

func (h *harness) write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) launch() agents.Launch {
	return agents.Launch{UserID: "usr_1", UserName: "Ada", UserEmail: "ada@example.com", SessionID: "ses_1", WorkspaceID: "ws_1",
		Worktree: filepath.Join(h.worktrees, "ws_1", "repo"), Conversation: "0b1f6c1e-6f2b-4d61-9f0e-2f5f2c3d4e5f"}
}

func (h *harness) doc(t *testing.T, path string) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(h.homes, "usr_1", path))
	if err != nil {
		t.Fatal(err)
	}
	var doc map[string]any
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestPromptNeverBecomesAnOption(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{
		"claude-code": {Enabled: true, DefaultArgs: []string{"--permission-mode", "acceptEdits"}},
	}, "claude", "codex", "opencode")
	for _, agent := range []string{agents.ClaudeCode, agents.Codex} {
		l := h.launch()
		l.Prompt, l.Args = "--version\nand more", []string{"--model", "x"}
		p, err := h.Plan(agent, l)
		if err != nil {
			t.Fatal(err)
		}
		if n := len(p.Argv); p.Prompt != agents.PromptArgument || p.Argv[n-2] != "--" || p.Argv[n-1] != l.Prompt || !slices.Contains(p.Argv, "--model") {
			t.Errorf("%s: %q", agent, p.Argv)
		}
	}
	l := h.launch()
	l.Prompt = "--version"
	p, err := h.Plan(agents.OpenCode, l)
	if err != nil || p.Argv[len(p.Argv)-1] != "--prompt=--version" {
		t.Errorf("opencode: %q, %v", p.Argv, err)
	}
	l.Prompt = strings.Repeat("long ", 40<<10)
	for _, agent := range []string{agents.ClaudeCode, agents.Codex, agents.OpenCode} {
		if p, err := h.Plan(agent, l); err != nil || p.Prompt != agents.PromptPaste || slices.Contains(p.Argv, l.Prompt) {
			t.Errorf("%s: a prompt over the limit of an argument must be pasted: %v", agent, err)
		}
	}
}

func TestKeysGoIntoTheEnvironmentOnly(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude", "codex", "opencode")
	cases := []struct{ agent, key, variable string }{
		{agents.ClaudeCode, "sk-ant-api03-0123456789abcdefghijklmnop", "ANTHROPIC_API_KEY"},
		{agents.ClaudeCode, "sk-ant-oat01-0123456789abcdefghijklmnop", "CLAUDE_CODE_OAUTH_TOKEN"},
		{agents.ClaudeCode, "gateway-token-0123456789abcdefghijklmnop", "ANTHROPIC_AUTH_TOKEN"},
		{agents.Codex, "sk-proj-0123456789abcdefghijklmnop", "OPENAI_API_KEY"},
		{agents.OpenCode, "sk-ant-api03-zyxwvutsrq0123456789abcdefgh", "ANTHROPIC_API_KEY"},
		{agents.OpenCode, "sk-proj-0123456789abcdefghijklmnop", "OPENAI_API_KEY"},
	}
	for _, c := range cases {
		l := h.launch()
		l.Account = agents.Account{Kind: agents.APIKey, Secret: c.key, BaseURL: "http://127.0.0.1:9/v1"}
		p, err := h.Plan(c.agent, l)
		if err != nil {
			t.Fatal(err)
		}
		if len(p.Secrets) != 1 || p.Secrets[c.variable] != c.key {
			t.Errorf("%s: secrets %v", c.agent, p.Secrets)
		}
		if strings.Contains(strings.Join(p.Argv, " "), c.key) {
			t.Errorf("%s: the key is in the command line", c.agent)
		}
		for k, v := range p.Env {
			if strings.Contains(v, c.key) {
				t.Errorf("%s: the key is in %s, which is not masked", c.agent, k)
			}
		}
		err = filepath.WalkDir(h.homes, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			raw, err := os.ReadFile(path)
			if strings.Contains(string(raw), c.key) {
				t.Errorf("%s: the key is written to %s", c.agent, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestClaudePresetsAreMerged(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude")
	file := filepath.Join(h.homes, "usr_1", ".claude", ".claude.json")
	h.write(t, file, `{"theme":"light","big":12345678901234567890,"projects":{"/elsewhere":{"x":1}},"hasCompletedOnboarding":false}`, 0o600)
	if _, err := h.Plan(agents.ClaudeCode, h.launch()); err != nil {
		t.Fatal(err)
	}
	doc := h.doc(t, ".claude/.claude.json")
	projects := doc["projects"].(map[string]any)
	trusted := projects[h.worktrees].(map[string]any)
	if doc["theme"] != "light" || doc["hasCompletedOnboarding"] != true || projects["/elsewhere"] == nil || trusted["hasTrustDialogAccepted"] != true {
		t.Fatalf("got %v", doc)
	}
	if raw, _ := os.ReadFile(file); !strings.Contains(string(raw), "12345678901234567890") {
		t.Error("a large number was rounded")
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	h.write(t, file, "{ not json", 0o600)
	if _, err := h.Plan(agents.ClaudeCode, h.launch()); err != nil {
		t.Fatal(err)
	}
	if raw, _ := os.ReadFile(file + ".unreadable"); string(raw) != "{ not json" {
		t.Errorf("what could not be read was not kept: %q", raw)
	}
}

func TestConcurrentPresetsLoseNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			l := h.launch()
			l.Worktree = filepath.Join(h.worktrees, "ws", string(rune('a'+i)))
			if _, err := h.Plan(agents.ClaudeCode, l); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if projects := h.doc(t, ".claude/.claude.json")["projects"].(map[string]any); len(projects) != 9 {
		t.Fatalf("%d projects are trusted, want 9", len(projects))
	}
}

func TestHostileHomeIsNotFollowed(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude")
	victim := filepath.Join(h.source, "victim")
	h.write(t, victim, "{}", 0o600)
	dir := filepath.Join(h.homes, "usr_1", ".claude")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	presets := filepath.Join(dir, ".claude.json")
	if err := os.Symlink(victim, presets); err != nil {
		t.Fatal(err)
	}
	light := h.launch()
	light.Light = true
	p, err := h.Plan(agents.ClaudeCode, light)
	if err != nil {
		t.Error(err)
	}
	if doc := h.doc(t, ".claude/.claude.json"); doc["hasCompletedOnboarding"] != true || doc["theme"] != "auto" {
		t.Errorf("the presets were not written: %v", doc)
	}
	if p.Env["COLORFGBG"] != "0;15" {
		t.Errorf("a light terminal is COLORFGBG=%q", p.Env["COLORFGBG"])
	}
	if err := errors.Join(os.Remove(presets), syscall.Mkfifo(presets, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Plan(agents.ClaudeCode, h.launch()); err != nil {
		t.Error(err)
	}
	if raw, _ := os.ReadFile(victim); string(raw) != "{}" {
		t.Errorf("the link was followed: %q", raw)
	}
}

func TestExistingLoginIsCopiedAndDropped(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "claude", "codex")
	l := h.launch()
	l.Account.Kind = agents.ExistingLogin
	if _, err := h.Plan(agents.ClaudeCode, l); fault.CodeOf(err) != "existing_login_missing" {
		t.Fatalf("got %v", err)
	}
	original := filepath.Join(h.source, ".claude", ".credentials.json")
	h.write(t, original, `{"token":"one"}`, 0o600)
	h.write(t, filepath.Join(h.source, ".claude.json"), `{"oauthAccount":{"emailAddress":"me@example.com"}}`, 0o600)
	if _, err := h.Plan(agents.ClaudeCode, l); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(h.homes, "usr_1", ".claude", ".credentials.json")
	read := func() string { raw, _ := os.ReadFile(copied); return string(raw) }
	if st, err := os.Stat(copied); err != nil || st.Mode().Perm() != 0o600 || read() != `{"token":"one"}` {
		t.Fatalf("%v %q", err, read())
	}
	if h.doc(t, ".claude/.claude.json")["oauthAccount"] == nil {
		t.Error("whose login it is was not copied")
	}
	// The agent renews its copy; an older original must not undo that.
	h.write(t, copied, `{"token":"renewed"}`, 0o600)
	if _, err := h.Plan(agents.ClaudeCode, l); err != nil || read() != `{"token":"renewed"}` {
		t.Fatalf("%v %q", err, read())
	}
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(original, later, later); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Plan(agents.ClaudeCode, l); err != nil || read() != `{"token":"one"}` {
		t.Fatalf("a newer login was not copied: %v %q", err, read())
	}
	l.Account.Kind = agents.Terminal
	if _, err := h.Plan(agents.ClaudeCode, l); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(copied); err == nil {
		t.Error("the copy outlived the consent")
	}
	if raw, _ := os.ReadFile(original); string(raw) != `{"token":"one"}` {
		t.Error("the person's own login was changed")
	}
	// A login made in the terminal is nobody's to remove.
	h.write(t, copied, `{"token":"typed"}`, 0o600)
	if _, err := h.Plan(agents.ClaudeCode, l); err != nil || read() != `{"token":"typed"}` {
		t.Errorf("%v %q", err, read())
	}
}

func TestMissingDisabledAndUnknown(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{"codex": {Enabled: false}, "aider": {Enabled: true, Command: "aider", Prompt: agents.PromptArgument}}, "codex")
	for agent, code := range map[string]string{agents.ClaudeCode: "agent_not_installed", agents.Codex: "agent_disabled", "gemini-9": "agent_unknown",
		agents.Setup: "agent_unknown", "aider": "agent_not_installed"} {
		if err := h.Check(agent, nil); fault.CodeOf(err) != code {
			t.Errorf("%s: got %v, want %s", agent, err, code)
		}
	}
	if err := h.Check(agents.ClaudeCode, nil); !strings.Contains(err.Error(), "npm install -g @anthropic-ai/claude-code") {
		t.Errorf("it does not say how to install it: %v", err)
	}
	if _, err := h.Plan(agents.Command, h.launch()); fault.CodeOf(err) != "invalid_command" {
		t.Errorf("got %v", err)
	}
	if _, err := agents.New(agents.Config{HomesDir: "/x", WorktreesDir: "/y", Agents: map[string]agents.Settings{"mine": {Enabled: true}}}); fault.CodeOf(err) != "invalid_config" {
		t.Errorf("got %v", err)
	}
	if _, err := h.Plan(agents.Shell, agents.Launch{UserID: "../../etc"}); err == nil {
		t.Error("a user's id must not leave the homes")
	}
}

func TestListTellsVersionsAndHowToInstall(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{"aider": {Enabled: true, Command: "aider", Name: "Aider"}}, "claude", "aider")
	var names []string
	for _, i := range h.List(t.Context()) {
		names = append(names, i.Name)
		switch i.Agent {
		case agents.ClaudeCode:
			if !i.Installed || i.Version != "1.2.3-beta" || i.Path != filepath.Join(h.bin, "claude") || !i.Accounts {
				t.Errorf("%+v", i)
			}
		case agents.Codex:
			if i.Installed || i.Install == "" || !i.Enabled {
				t.Errorf("%+v", i)
			}
		}
	}
	if got := strings.Join(names, ","); got != "Parawork,Claude Code,Codex,Gemini CLI,OpenCode,Shell,Command,Aider" {
		t.Errorf("got %s", got)
	}
	h.write(t, filepath.Join(h.bin, "claude"), "#!/bin/sh\necho 2.0.0, new\n", 0o755)
	if got := h.Info(t.Context(), agents.ClaudeCode).Version; got != "2.0.0" {
		t.Errorf("an updated program is still called %s", got)
	}
}

func TestCodexConversationIsFound(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "codex")
	l := h.launch()
	start := time.Now().Add(-time.Minute)
	rollout := func(id, cwd string, at time.Time, pad int) {
		line, _ := json.Marshal(map[string]any{"type": "session_meta", "payload": map[string]any{"id": id, "cwd": cwd,
			"timestamp": at.UTC().Format(time.RFC3339Nano), "base_instructions": strings.Repeat("x", pad)}})
		h.write(t, filepath.Join(h.homes, "usr_1", ".codex", "sessions", "2026", "01", "02", "rollout-2026-01-02T03-04-05-"+id+".jsonl"), string(line)+"\n{}\n", 0o600)
	}
	a, b := "01a1fd2b-0000-7923-8d3f-000000000001", "01a1fd2b-0000-7923-8d3f-000000000002"
	rollout("01a1fd2b-0000-7923-8d3f-000000000009", l.Worktree, start.Add(-time.Hour), 10) // before the session
	rollout("01a1fd2b-0000-7923-8d3f-000000000008", "/elsewhere", start.Add(time.Second), 10)
	rollout("-evil-id", l.Worktree, start.Add(time.Millisecond), 10)
	rollout(b, l.Worktree, start.Add(20*time.Second), 50<<10)
	rollout(a, l.Worktree, start.Add(10*time.Second), 10)
	f := agents.Find{UserID: "usr_1", Worktree: l.Worktree, Since: start.UnixMilli()}
	if id, err := h.FindConversation(agents.Codex, f); err != nil || id != a {
		t.Errorf("got %q, %v", id, err)
	}
	f.Taken = map[string]struct{}{a: {}}
	if id, err := h.FindConversation(agents.Codex, f); err != nil || id != b {
		t.Errorf("got %q, %v", id, err)
	}
	l.Conversation, l.Resume, l.Prompt = a, true, "go on"
	p, err := h.Plan(agents.Codex, l)
	if err != nil || !p.Resumed || p.Argv[1] != "resume" || strings.Join(p.Argv[len(p.Argv)-3:], " ") != "-- "+a+" go on" {
		t.Errorf("%v %q", err, p.Argv)
	}
	l.Conversation = "01a1fd2b-0000-7923-8d3f-00000000000f"
	if p, err := h.Plan(agents.Codex, l); err != nil || p.Resumed || p.Argv[1] == "resume" {
		t.Errorf("a conversation that is gone: %v %q", err, p.Argv)
	}
}

func TestSignals(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	cases := []struct {
		agent string
		kind  agents.SignalKind
		text  string
		mood  agents.Mood
		title string
	}{
		{agents.ClaudeCode, agents.Title, "⠂ Fix the login", agents.Busy, "Fix the login"},
		{agents.ClaudeCode, agents.Title, "✳ Fix the login", agents.Ready, "Fix the login"},
		{agents.ClaudeCode, agents.Title, "", agents.Closing, ""},
		{agents.ClaudeCode, agents.Notify, "Claude needs your permission", agents.Asking, ""},
		{agents.ClaudeCode, agents.Notify, "Claude is waiting for your input", agents.Unsaid, ""},
		{agents.ClaudeCode, agents.Progress, "3;", agents.Busy, ""},
		{agents.Codex, agents.Title, "⠋ repo", agents.Busy, "repo"},
		{agents.Codex, agents.Title, "repo", agents.Ready, "repo"},
		{agents.Codex, agents.Title, "[ ! ] Action Required | repo", agents.Asking, "repo"},
		{agents.Codex, agents.Title, "[ . ] Action Required | repo", agents.Asking, "repo"},
		{agents.Codex, agents.Report, "state=working:app=codex", agents.Busy, ""},
		{agents.Codex, agents.Report, "state=blocked:app=codex:kind=permission", agents.Asking, ""},
		{agents.Codex, agents.Report, "state=done:app=codex", agents.Ready, ""},
		{agents.Codex, agents.Report, "state=error:app=codex", agents.Trouble, ""},
		{agents.Codex, agents.Notify, "Approval requested: rm -rf x", agents.Asking, ""},
		{agents.Codex, agents.Notify, "Done.", agents.Unsaid, ""},
		{agents.Shell, agents.Notify, "make finished", agents.Unsaid, ""},
		{agents.Command, agents.Notify, "come here", agents.Asking, ""},
	}
	for _, c := range cases {
		got := h.Read(c.agent, agents.Signal{Kind: c.kind, Text: c.text})
		if got.Mood != c.mood || got.Title != c.title {
			t.Errorf("%s %d %q: got %+v", c.agent, c.kind, c.text, got)
		}
	}
}
