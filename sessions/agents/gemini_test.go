package agents_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions/agents"
)

func TestGeminiPlan(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "gemini")
	settings := filepath.Join(h.homes, "usr_1", ".gemini", "settings.json")
	h.write(t, settings, `{"ui":{"theme":"Dark"},"security":{"auth":{"selectedType":"vertex-ai"}}}`, 0o600)
	chosen := func() any {
		return h.doc(t, ".gemini/settings.json")["security"].(map[string]any)["auth"].(map[string]any)["selectedType"]
	}
	l := h.launch()
	l.Prompt = "--version"
	if _, err := h.Plan(agents.Gemini, l); err != nil || chosen() != "vertex-ai" {
		t.Errorf("what the person chose in the terminal is theirs: %v, %v", chosen(), err)
	}
	l.Account = agents.Account{Kind: agents.APIKey, Secret: "AIza-0123456789abcdefghij", BaseURL: "http://127.0.0.1:9"}
	p, err := h.Plan(agents.Gemini, l)
	if err != nil {
		t.Fatal(err)
	}
	if p.Secrets["GEMINI_API_KEY"] != l.Account.Secret || len(p.Secrets) != 1 || p.Env["GOOGLE_GEMINI_BASE_URL"] != l.Account.BaseURL || chosen() != "gemini-api-key" {
		t.Errorf("%+v, %v", p, chosen())
	}
	if n := len(p.Argv); p.Prompt != agents.PromptArgument || p.Argv[n-1] != "--prompt-interactive=--version" || !slices.Contains(p.Argv, "--session-id") || p.Resumed {
		t.Errorf("%q", p.Argv)
	}
	if doc := h.doc(t, ".gemini/settings.json"); doc["ui"].(map[string]any)["theme"] != "Dark" || doc["privacy"].(map[string]any)["usageStatisticsEnabled"] != false {
		t.Errorf("%v", doc)
	}
	l.Account = agents.Account{}
	if _, err := h.Plan(agents.Gemini, l); err != nil || chosen() != "oauth-personal" {
		t.Errorf("without the key it asks for a login: %v, %v", chosen(), err)
	}
	l.Prompt = strings.Repeat("long ", 40<<10)
	if p, err := h.Plan(agents.Gemini, l); err != nil || p.Prompt != agents.PromptPaste {
		t.Errorf("%v, %v", p.Prompt, err)
	}
	// A conversation goes on, with whichever account, once it is written down.
	l.Prompt, l.Resume = "", true
	chat := filepath.Join(h.homes, "usr_1", ".gemini", "tmp", "repo", "chats", "session-2026-11-21T22-51-"+l.Conversation[:8]+".jsonl")
	h.write(t, chat, `{"sessionId":"another"}`, 0o600)
	if p, err := h.Plan(agents.Gemini, l); err != nil || p.Resumed {
		t.Errorf("another conversation is resumed: %q, %v", p.Argv, err)
	}
	h.write(t, chat, `{"sessionId":"`+l.Conversation+`","kind":"main"}`, 0o600)
	for _, a := range []agents.Account{{}, {ID: "acc_2", Kind: agents.Terminal}} {
		l.Account = a
		p, err := h.Plan(agents.Gemini, l)
		if err != nil || !p.Resumed || !slices.Contains(p.Argv, "--resume") || slices.Contains(p.Argv, "--session-id") {
			t.Errorf("%q, %v", p.Argv, err)
		}
		if want := filepath.Join(h.homes, "usr_1"); a.ID == "" && p.Env["GEMINI_CLI_HOME"] != want || a.ID != "" && p.Env["GEMINI_CLI_HOME"] != filepath.Join(want, ".accounts", a.ID) {
			t.Errorf("%q", p.Env["GEMINI_CLI_HOME"])
		}
	}
}

func TestGeminiTitles(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	for title, want := range map[string]agents.Hint{
		"✦  Working… (repo)                  ": {Mood: agents.Busy},
		"✦  Reading the tests (repo)":          {Mood: agents.Busy, Title: "Reading the tests", HasTitle: true},
		"⏲  Working… (repo)":                   {Mood: agents.Busy},
		"✋  Action Required (repo)   ":         {Mood: agents.Asking, Vague: true, Reason: "asks for your approval"},
		"◇  Ready (repo) ":                     {Mood: agents.Ready},
		"gemini":                               {},
		"":                                     {},
	} {
		want.Source = agents.FromTitle
		if got := h.Read(agents.Gemini, agents.Signal{Kind: agents.Title, Text: title}); got != want {
			t.Errorf("%q: %+v", title, got)
		}
	}
}

func TestGeminiScreen(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	box := []string{" ? for shortcuts", "────────────────────", " Shift+Tab to accept edits", "▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄▄", " >   Type your message or @path/to/file",
		"▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀▀", " workspace (/directory)       sandbox      /model", " /repo      no sandbox       Auto"}
	denied := []string{" > hello", `✕ [API Error: {"error":{"message":"another key is`, `  needed","code":401,"status":"Unauthorized"}}]`, "ℹ This request failed. Press F12 for diagnostics."}
	for name, c := range map[string]struct {
		lines []string
		want  agents.Mood
	}{
		"a key that is refused":   {append(slices.Clone(denied), box...), agents.Asking},
		"an error":                {append([]string{" > hello", "✕ [API Error: 500 overloaded]", ""}, box...), agents.Trouble},
		"an error answered since": {append([]string{"✕ [API Error: 500 overloaded]", " > again", "✦ Done."}, box...), agents.Unsaid},
		"nothing":                 {box, agents.Unsaid},
		"the sign-in":             {[]string{"  How would you like to authenticate for this project?", " ● 1. Sign in with Google"}, agents.Asking},
	} {
		if got := h.Screen(agents.Gemini).Match(c.lines); got.Mood != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
