package agents_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions/agents"
)

func heard(t *testing.T, h *harness, agent, event string) agents.HookReport {
	t.Helper()
	return h.Hook(agent, agents.HookEvent{At: time.UnixMilli(5), Waits: strings.Contains(event, "PermissionRequest"), Raw: json.RawMessage(event)})
}

func TestClaudeHooks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	const common = `"session_id":"5de005fa-adce-4076-970c-9e677a47345f","prompt_id":"p1","cwd":"/w","hook_event_name":`
	ask := heard(t, h, agents.ClaudeCode, `{`+common+`"PermissionRequest","tool_name":"Edit","tool_input":{"file_path":"/w/a/b.go","old_string":"x\ny","new_string":"z"},
		"permission_suggestions":[{"type":"setMode","mode":"acceptEdits","destination":"localSettings"}]}`)
	if len(ask.Asks) != 1 || ask.Asks[0].Title != "Edit a/b.go?" || ask.Asks[0].Detail != "a/b.go\n-x\n-y\n+z\n" || ask.Asks[0].Options[1].Description != "every edit in the worktree" {
		t.Fatalf("asks %+v", ask.Asks)
	}
	for event, want := range map[string]string{
		`{` + common + `"PostToolUse","tool_name":"Edit","tool_input":{"new_string":"z","old_string":"x\ny","file_path":"/w/a/b.go"}}`: "over Allowed",
		`{` + common + `"PostToolUse","tool_name":"Edit","tool_input":{"file_path":"/w/a/b.go","old_string":"x","new_string":"z"}}`:    "open",
		`{` + common + `"Stop"}`:                                  "over in the terminal",
		`{` + common + `"StopFailure","error":"rate_limit"}`:      "over",
		`{` + common + `"UserPromptSubmit","prompt":"x"}`:         "open",
		`{` + common + `"SessionEnd"}`:                            "over",
		`{"prompt_id":"p2","hook_event_name":"Stop"}`:             "open",
		`{"prompt_id":"p2","hook_event_name":"UserPromptSubmit"}`: "over",
		`{` + common + `"PreToolUse","tool_name":"Bash"}`:         "open",
		`{"hook_event_name":7}`:                                   "open",
	} {
		got := "open"
		if over := heard(t, h, agents.ClaudeCode, event).Over; over != nil {
			if yes, answer := over(ask.Key); yes {
				got = strings.TrimSpace("over " + answer)
			}
		}
		if got != want {
			t.Errorf("%s: %s, want %s", event, got, want)
		}
	}
	if got := heard(t, h, agents.ClaudeCode, `{`+common+`"SessionStart"}`).Conversation; got != "5de005fa-adce-4076-970c-9e677a47345f" {
		t.Errorf("conversation %q", got)
	}
	if got := heard(t, h, agents.ClaudeCode, `{"session_id":"../../x","hook_event_name":"SessionStart"}`).Conversation; got != "" {
		t.Errorf("conversation %q", got)
	}
	reply := func(event string, answers ...agents.Answer) string {
		t.Helper()
		out, err := h.HookReply(agents.ClaudeCode, agents.HookEvent{Waits: true, Raw: json.RawMessage(event)}, answers)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	option := func(role agents.Role) agents.Answer {
		return agents.Answer{Options: []agents.Option{{ID: "1", Role: role}}}
	}
	bash := `{` + common + `"PermissionRequest","tool_name":"Bash","tool_input":{"command":"make"}}`
	if got := reply(bash, option(agents.AllowSession)); !strings.Contains(got, `"rules":[{"ruleContent":"make","toolName":"Bash"}]`) || !strings.Contains(got, `"destination":"session"`) {
		t.Errorf("replied %s", got)
	}
	if got := reply(bash, agents.Answer{Options: []agents.Option{{Role: agents.Deny}}, Text: `no "rm"`}); !strings.Contains(got, `"behavior":"deny","message":"no \"rm\""`) {
		t.Errorf("replied %s", got)
	}
	questions := `{` + common + `"PermissionRequest","tool_name":"AskUserQuestion","tool_input":{"questions":[{"question":"Which?","header":"H","options":[{"label":"A"},{"label":"B"}],"multiSelect":true}]}}`
	if got := reply(questions, agents.Answer{Options: []agents.Option{{ID: "2"}, {ID: "1"}}, Text: "C"}); !strings.Contains(got, `"answers":{"Which?":"B, A, C"}`) || !strings.Contains(got, `"header":"H"`) {
		t.Errorf("replied %s", got)
	}
	asked := heard(t, h, agents.ClaudeCode, questions)
	done := heard(t, h, agents.ClaudeCode, strings.NewReplacer("PermissionRequest", "PostToolUse", `"multiSelect":true}]`,
		`"multiSelect":true}],"answers":{"Which?":"B"},"annotations":{}`).Replace(questions))
	if over, answer := done.Over(asked.Key); !over || answer != "B" {
		t.Errorf("answered in the terminal: over %v, %q", over, answer)
	}
	if _, err := h.HookReply(agents.ClaudeCode, agents.HookEvent{Raw: json.RawMessage(bash)}, nil); err == nil {
		t.Error("no answer is a reply")
	}
}

// The hash is Codex's own, as it wrote it for hooks that a person had looked at: without it Codex asks before it starts.
func TestCodexTrustsOurHooks(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil, "codex")
	l := h.launch()
	l.Hooks = true
	p, err := h.Plan(agents.Codex, l)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(p.Argv, "\n")
	for _, want := range []string{"hooks.PermissionRequest=[{hooks=[{type=\"command\"", `"/<session-flags>/config.toml:stop:0:0"={trusted_hash="sha256:`} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in\n%s", want, all)
		}
	}
	if strings.Contains(all, "bypass-hook-trust") {
		t.Error("every hook is trusted")
	}
	if got := agents.CodexHookHash("pre_tool_use", "/root/qx/hookc.sh", 600); got != "cfbb10c3bd38e9669fc5627495c52598ed3068fe66471e1d9636074615a4ba46" {
		t.Errorf("hash %s", got)
	}
}

func TestDialogs(t *testing.T) {
	t.Parallel()
	h := newHarness(t, nil)
	claude := `● Bash(touch a)

────────────────────────────────────────
 Bash command

   touch a
   Make a file

 Do you want to proceed?
 ❯ 1. Yes
   2. Yes, and don't ask again for touch commands
      in /w
   3. No

 Esc to cancel · Tab to amend`
	d := h.Dialog(agents.ClaudeCode, strings.Split(claude, "\n"))
	if d == nil || d.Title != "Do you want to proceed?" || d.Kind != agents.Permission || !strings.Contains(d.Detail, "touch a\n  Make a file") || len(d.Options) != 3 ||
		d.Options[1].Role != agents.AllowSession || d.Options[1].Label != "Yes, and don't ask again for touch commands in /w" || d.Press("3") != "3" || d.Options[2].Role != agents.Deny {
		t.Fatalf("dialog %+v", d)
	}
	if moved := h.Dialog(agents.ClaudeCode, strings.Split(strings.NewReplacer("❯ 1", "  1", "  3. No", "❯ 3. No").Replace(claude), "\n")); moved == nil || moved.Key != d.Key {
		t.Errorf("with the cursor elsewhere it is another dialog: %+v", moved)
	}
	codex := `• Running touch a
1. not a choice

  Would you like to run the following command?

  Reason: Because

  $ touch a

› 1. Yes, proceed (y)
  2. Yes, and don't ask again for commands that start with %s (p)
  3. No, and tell Codex what to do differently (esc)

  Press enter to confirm or esc to cancel

`
	c := h.Dialog(agents.Codex, strings.Split(fmt.Sprintf(codex, "`touch a`"), "\n"))
	if c == nil || c.Title != "Would you like to run the following command?" || c.Detail != "Reason: Because\n\n$ touch a" || c.Press("1") != "y" || c.Press("2") != "p" ||
		c.Press("3") != "\x1b" || c.Options[0].Label != "Yes, proceed" || c.Options[2].Role != agents.Deny {
		t.Fatalf("dialog %+v", c)
	}
	edit := heard(t, h, agents.Codex, `{"hook_event_name":"PermissionRequest","tool_name":"apply_patch","tool_input":{"command":"*** Begin Patch\n*** Add File: n.txt\n+x\n*** Delete File: m.txt\n*** End Patch"}}`)
	if edit.Coming == nil || edit.Coming.Title != "Change n.txt and 1 more?" || len(edit.Asks) != 0 {
		t.Errorf("heard %+v", edit)
	}
	for name, screen := range map[string]string{
		"nothing":   "",
		"a prompt":  "❯ 1. do this\n\n? for shortcuts",
		"a list":    "  1. one\n  2. two\n\n Esc to cancel",
		"no foot":   strings.TrimSuffix(claude, "\n\n Esc to cancel · Tab to amend"),
		"long gone": claude + strings.Repeat("\nmore", 20),
	} {
		if d := h.Dialog(agents.ClaudeCode, strings.Split(screen, "\n")); d != nil {
			t.Errorf("%s is a dialog: %+v", name, d)
		}
	}
}
