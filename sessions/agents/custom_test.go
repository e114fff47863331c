package agents_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/sessions/agents"
)

func TestAgentOfOnesOwn(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{
		"amp": {Enabled: true, Name: "Amp", Command: "amp", DefaultArgs: []string{"--no-color"}, Prompt: agents.PromptArgument, PromptFlag: "--say=", Install: "npm install -g amp",
			ConversationPattern: `Thread: (\S+)`, ResumeArgs: []string{"threads", "continue", "{conversation}"}, Interrupt: []string{"\x1b"}, InterruptName: "esc",
			AccountEnv: "AMP_API_KEY", BaseURLEnv: "AMP_URL", Screen: []agents.ScreenRule{{Pattern: `Allow (\w+)\?`, Says: "waiting", Reason: "asks to $1"}}},
		"qwen":  {Enabled: true, Command: "qwen", Prompt: agents.PromptArgument, PromptFlag: "-i", ConversationArgs: []string{"--session-id={conversation}"}, ResumeArgs: []string{"--resume={conversation}"}},
		"aider": {Enabled: true, Command: "aider", ResumeArgs: []string{"--restore-chat-history"}},
		"bare":  {Enabled: true, Command: "bare", Prompt: agents.PromptArgument},
	}, "amp", "qwen", "aider", "bare")
	plan := func(agent string, change func(*agents.Launch)) agents.Plan {
		t.Helper()
		l := h.launch()
		change(&l)
		p, err := h.Plan(agent, l)
		if err != nil {
			t.Fatal(err)
		}
		p.Argv = p.Argv[1:]
		return p
	}
	id := h.launch().Conversation
	prompt := func(text string) func(*agents.Launch) { return func(l *agents.Launch) { l.Prompt = text } }
	for name, c := range map[string]struct {
		got  agents.Plan
		argv string
		how  agents.Delivery
	}{
		"flag and prompt in one word":     {plan("amp", prompt("-do it")), "--no-color|--say=-do it", agents.PromptArgument},
		"flag and prompt":                 {plan("qwen", prompt("do it")), "--session-id=" + id + "|-i|do it", agents.PromptArgument},
		"a prompt that looks like a flag": {plan("qwen", prompt("--yolo")), "--session-id=" + id, agents.PromptPaste},
		"the same without a flag":         {plan("bare", prompt("--yolo")), "", agents.PromptPaste},
		"last argument":                   {plan("bare", prompt("do it")), "do it", agents.PromptArgument},
		"too long":                        {plan("amp", prompt(strings.Repeat("long ", 40<<10))), "--no-color", agents.PromptPaste},
		"pasted":                          {plan("aider", prompt("do it")), "", agents.PromptPaste},
		"none":                            {plan("aider", prompt("")), "", agents.PromptNone},
		"resumed":                         {plan("amp", func(l *agents.Launch) { l.Resume, l.Known, l.Conversation = true, true, "T-1" }), "--no-color|threads|continue|T-1", agents.PromptNone},
		"resumed by an id of ours":        {plan("qwen", func(l *agents.Launch) { l.Resume, l.Known = true, true }), "--resume=" + id, agents.PromptNone},
		"resumed without an id":           {plan("amp", func(l *agents.Launch) { l.Resume = true }), "--no-color", agents.PromptNone},
		"resumed with a hostile id":       {plan("amp", func(l *agents.Launch) { l.Resume, l.Known, l.Conversation = true, true, "--yolo" }), "--no-color", agents.PromptNone},
		"resumed where it needs none":     {plan("aider", func(l *agents.Launch) { l.Resume = true }), "--restore-chat-history", agents.PromptNone},
	} {
		if got := strings.Join(c.got.Argv, "|"); got != c.argv || c.got.Prompt != c.how {
			t.Errorf("%s: %q, %s", name, got, c.got.Prompt)
		}
		if resumed := strings.Contains(c.argv, "continue") || strings.Contains(c.argv, "--res"); c.got.Resumed != resumed {
			t.Errorf("%s: resumed %v", name, c.got.Resumed)
		}
	}
	p := plan("amp", func(l *agents.Launch) {
		l.Account = agents.Account{Kind: agents.APIKey, Secret: "key-0123456789", BaseURL: "http://x"}
	})
	if p.Secrets["AMP_API_KEY"] != "key-0123456789" || p.Env["AMP_URL"] != "http://x" || strings.Contains(strings.Join(p.Argv, " "), "key-") {
		t.Errorf("%+v", p)
	}
	if err := h.AccountCheck("amp"); err != nil {
		t.Error(err)
	}
	if err := h.AccountCheck("bare"); fault.CodeOf(err) != "agent_takes_no_account" {
		t.Error(err)
	}
	if info := h.Info(t.Context(), "amp"); info.Name != "Amp" || info.Install != "npm install -g amp" || !info.Accounts || !info.Installed {
		t.Errorf("%+v", info)
	}
	if k := h.Keys("amp"); !slices.Equal(k.Interrupt, []string{"\x1b"}) || k.Name != "esc" || k.Submit != "\r" {
		t.Errorf("%+v", k)
	}
	if k := h.Keys("aider"); !slices.Equal(k.Interrupt, []string{"\x03"}) {
		t.Errorf("%+v", k)
	}
	if got := h.Screen("amp").Match([]string{"", "Allow writing?"}); got.Mood != agents.Asking || got.Reason != "asks to writing" {
		t.Errorf("%+v", got)
	}
	if got, err := h.Test(t.Context(), "amp", "usr_1", agents.Account{Kind: agents.APIKey, Secret: "key-0123456789"}); err != nil || got.Result != agents.ProbeUntestable {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestConversationIsFoundInWhatIsPrinted(t *testing.T) {
	t.Parallel()
	h := newHarness(t, map[string]agents.Settings{"amp": {Enabled: true, Command: "amp", ConversationPattern: `Thread: (\S+)`},
		"all": {Enabled: true, Command: "all", ConversationPattern: `T-[0-9a-f-]{4,}`}, "none": {Enabled: true, Command: "none"}})
	if !h.Finds("amp") || h.Finds("none") {
		t.Error("who finds a conversation is wrong")
	}
	for text, want := range map[string]string{
		"":                               "",
		"Thread: T-1\r\n":                "T-1",
		"Thread: T-1\r\nThread: T-2\r\n": "T-2",
		"\x1b[1mThr\x1b[0mead: \x1b]0;x\x07T-\x1b[3m9\x1b[0m\r\n": "T-9",
		"Thread: --yolo\r\n":                         "",
		"Thread: T-1\r\nThread: --yolo\r\n":          "T-1",
		"Thread: " + strings.Repeat("x", 200) + "\n": "",
		"Thread: T\u00e9\n":                          "",
	} {
		got, err := h.FindConversation("amp", agents.Find{UserID: "usr_1", Output: func() []byte { return []byte(text) }})
		if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if got, err := h.FindConversation("all", agents.Find{UserID: "usr_1", Output: func() []byte { return []byte("see T-12ab-9 now") }}); err != nil || got != "T-12ab-9" {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := h.FindConversation("amp", agents.Find{UserID: "usr_1"}); err != nil || got != "" {
		t.Errorf("%q, %v", got, err)
	}
	for _, s := range []agents.Settings{{Enabled: true}, {Enabled: true, Command: "x", ConversationPattern: "("}, {Enabled: true, Command: "x", Screen: []agents.ScreenRule{{Pattern: "x", Says: "hm"}}}} {
		_, err := agents.New(agents.Config{HomesDir: "/x", WorktreesDir: "/y", Agents: map[string]agents.Settings{"mine": s}})
		if fault.CodeOf(err) != "invalid_config" || !strings.Contains(err.Error(), "agents.mine.") {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
