package agents

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parawork/parawork/sessions/usagelimit"
)

// claudeWait is how long Claude lets its permission hook wait, in seconds. The hook itself waits a little less. The dialog is
// open in the terminal meanwhile.
const (
	claudeWait     = 24 * 3600
	claudeHookWait = "23h50m"
)

// claudeHooks are merged by Claude with the person's and the project's own hooks. Hooks that fire for every tool run in parallel
// with the agent.
func claudeHooks() map[string]any {
	notify := hookCommand(ClaudeCode)
	one := func(command string, seconds int, aside bool) []any {
		h := map[string]any{"type": "command", "command": command, "timeout": seconds}
		if aside {
			h["async"] = true
		}
		return []any{map[string]any{"hooks": []any{h}}}
	}
	out := map[string]any{"PermissionRequest": one(hookCommand("--wait "+claudeHookWait+" "+ClaudeCode), claudeWait, false)}
	for _, event := range []string{"SessionStart", "UserPromptSubmit", "Stop", "StopFailure", "SessionEnd"} {
		out[event] = one(notify, 10, false)
	}
	for _, event := range []string{"PreToolUse", "PostToolUse", "PostToolUseFailure", "Notification", "PreCompact"} {
		out[event] = one(notify, 10, true)
	}
	return out
}

// claudeChecks adds the hooks that have language servers check what Claude edits. Their output is for the model.
func claudeChecks(hooks map[string]any) {
	check := []any{map[string]any{"type": "command", "command": editedCommand(), "timeout": 15}}
	add := func(event string, entry map[string]any) {
		entries, _ := hooks[event].([]any)
		entry["hooks"] = check
		hooks[event] = append(entries, entry)
	}
	add("PostToolUse", map[string]any{"matcher": "Edit|Write|MultiEdit|NotebookEdit"})
	add("Stop", map[string]any{})
}

// settings returns the settings for the command line, which Claude merges with the person's and the project's own: notifications
// as OSC 9, no question about the MCP servers of a trusted project, and hooks and tools where a guest accepts them.
func (claudeCode) settings(hooks, all bool, t *Tools) string {
	s := map[string]any{"preferredNotifChannel": "iterm2", "enableAllProjectMcpServers": true}
	if all {
		s["skipDangerousModePermissionPrompt"] = true // the person has already been warned
	}
	if hooks {
		h := claudeHooks()
		if t != nil {
			claudeChecks(h)
		}
		s["hooks"] = h
	}
	if t != nil {
		s["permissions"] = claudeToolRules(t)
	}
	return jsonText(s)
}

type claudeEvent struct {
	Name        string          `json:"hook_event_name"`
	Session     string          `json:"session_id"`
	Prompt      string          `json:"prompt_id"`
	Text        string          `json:"prompt"`
	Cwd         string          `json:"cwd"`
	Tool        string          `json:"tool_name"`
	Input       json.RawMessage `json:"tool_input"`
	Suggestions []any           `json:"permission_suggestions"`
	Type        string          `json:"notification_type"`
	Message     string          `json:"message"`
	Last        string          `json:"last_assistant_message"`
	Error       string          `json:"error"`
}

type claudeQuestions struct {
	Questions []claudeQuestion  `json:"questions"`
	Answers   map[string]string `json:"answers"`
}

type claudeQuestion struct {
	Question string `json:"question"`
	Header   string `json:"header"`
	Options  []struct {
		Label       string `json:"label"`
		Description string `json:"description"`
	} `json:"options"`
	Multi bool `json:"multiSelect"`
}

const claudeAsks = "AskUserQuestion"

// hook: PermissionRequest announces a permission or a question. It names neither the tool use nor the dialog, so the tool's input
// identifies it. When somebody answers in the terminal the dialog closes without an event; the tool's end and the turn's end show
// that it closed, and Claude ends the hook when the turn is interrupted.
func (c claudeCode) hook(e HookEvent) HookReport {
	var ev claudeEvent
	if json.Unmarshal(e.Raw, &ev) != nil {
		return HookReport{}
	}
	turn := ev.Prompt + "/"
	switch ev.Name {
	case "SessionStart": // also after /clear, with another ID
		if !uuidLike(ev.Session) || len(ev.Session) > 64 {
			return HookReport{}
		}
		return HookReport{Conversation: ev.Session}
	case "UserPromptSubmit":
		return HookReport{Hint: Hint{Mood: Busy, Reason: "is working on a prompt"}, Prompt: ev.Text, Over: func(key string) (bool, string) { return !strings.HasPrefix(key, turn), "" }}
	case "PreCompact":
		return HookReport{Compacting: true}
	case "PreToolUse":
		if ev.Tool == claudeAsks {
			return HookReport{}
		}
		return HookReport{Hint: Hint{Mood: Busy, Reason: "uses " + toolName(ev.Tool)}}
	case "PostToolUse", "PostToolUseFailure":
		key, answer := c.key(ev), "Allowed"
		if ev.Tool == claudeAsks {
			answer = c.answers(ev.Input)
		}
		return HookReport{Hint: Hint{Mood: Busy, Reason: "works"}, Over: func(k string) (bool, string) { return k == key, answer }}
	case "PermissionRequest":
		return HookReport{Asks: c.asks(ev), Key: c.key(ev)}
	case "Notification":
		switch ev.Type {
		case "permission_prompt", "elicitation_dialog":
			return HookReport{Hint: Hint{Mood: Asking, Vague: true, Reason: cmp.Or(ev.Message, "needs your permission")}}
		case "idle_prompt":
			return HookReport{Hint: Hint{Mood: Ready, Weak: true}}
		}
	case "Stop":
		// A turn does not end while a dialog is open: a question nobody answered in Parawork was answered in the terminal.
		// Answering No there does not end the turn this way.
		return HookReport{Hint: Hint{Mood: Ready}, Over: func(key string) (bool, string) { return strings.HasPrefix(key, turn), "in the terminal" }, OverSoon: true}
	case "StopFailure":
		return HookReport{Hint: Hint{Mood: Trouble, Reason: cmp.Or(ev.Last, ev.Error, "the last turn ended with an error"), Limit: usagelimit.OfClaude(ev.Error, ev.Last, e.At)},
			Over: func(key string) (bool, string) { return strings.HasPrefix(key, turn), "" }}
	case "SessionEnd":
		return HookReport{Over: func(string) (bool, string) { return true, "" }}
	}
	return HookReport{}
}

// key identifies a tool use within a turn.
func (claudeCode) key(ev claudeEvent) string {
	var input any
	_ = json.Unmarshal(ev.Input, &input)
	if m, ok := input.(map[string]any); ok && ev.Tool == claudeAsks {
		input = m["questions"] // the other fields exist once they are answered
	}
	return ev.Prompt + "/" + fingerprint(ev.Tool, input)
}

// answers returns the answers to questions as text.
func (claudeCode) answers(input json.RawMessage) string {
	var q claudeQuestions
	if json.Unmarshal(input, &q) != nil {
		return ""
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(q.Answers)) {
		out = append(out, q.Answers[k])
	}
	return strings.Join(out, "; ")
}

func (c claudeCode) asks(ev claudeEvent) []Ask {
	if ev.Tool != claudeAsks {
		a := toolAsk(ev.Tool, ev.Input, ev.Cwd)
		a.Options = []Option{{ID: "allow", Label: "Allow", Role: Allow}, {ID: "allow_session", Label: "For this session", Description: c.suggested(ev), Role: AllowSession},
			{ID: "deny", Label: "Deny", Role: Deny}}
		if ev.Tool == "ExitPlanMode" {
			a.Options = []Option{{ID: "allow", Label: "Go ahead", Role: Allow}, {ID: "deny", Label: "Keep planning", Role: Deny}}
		}
		return []Ask{a}
	}
	var q claudeQuestions
	if json.Unmarshal(ev.Input, &q) != nil {
		return nil
	}
	var out []Ask
	for _, one := range q.Questions {
		a := Ask{Kind: Choice, Title: one.Question, Detail: one.Header, Multi: one.Multi, FreeText: true}
		if len(one.Options) == 0 {
			a.Kind = Text
		}
		for i, o := range one.Options {
			a.Options = append(a.Options, Option{ID: fmt.Sprint(i + 1), Label: o.Label, Description: o.Description, Role: Plain})
		}
		out = append(out, a)
	}
	return out
}

// forSession returns the rules that allow this for the rest of the session: those Claude itself suggests, or else this very use.
func (claudeCode) forSession(ev claudeEvent) []any {
	var out []any
	for _, s := range ev.Suggestions {
		if rule, ok := s.(map[string]any); ok {
			rule = maps.Clone(rule)
			rule["destination"] = "session" // never written into a file of the project
			out = append(out, rule)
		}
	}
	if len(out) > 0 {
		return out
	}
	rule := map[string]any{"toolName": ev.Tool}
	var in struct {
		Command string `json:"command"`
	}
	if json.Unmarshal(ev.Input, &in) == nil && in.Command != "" {
		rule["ruleContent"] = in.Command
	}
	return []any{map[string]any{"type": "addRules", "rules": []any{rule}, "behavior": "allow", "destination": "session"}}
}

// suggested describes what "for this session" allows.
func (c claudeCode) suggested(ev claudeEvent) string {
	var out []string
	for _, s := range c.forSession(ev) {
		m, _ := s.(map[string]any)
		switch m["type"] {
		case "addRules":
			rules, _ := m["rules"].([]any)
			for _, r := range rules {
				rule, _ := r.(map[string]any)
				name, _ := rule["toolName"].(string)
				if content, _ := rule["ruleContent"].(string); content != "" {
					out = append(out, toolName(name)+": "+content)
				} else if name != "" {
					out = append(out, "every use of "+toolName(name))
				}
			}
		case "setMode":
			if m["mode"] == "acceptEdits" {
				out = append(out, "every edit in the worktree")
			}
		case "addDirectories":
			dirs, _ := m["directories"].([]any)
			for _, d := range dirs {
				if dir, ok := d.(string); ok {
					out = append(out, "work in "+filepath.Base(dir))
				}
			}
		}
	}
	return strings.Join(out, "; ")
}

const claudeDenied = "The user denied this. Go on without it, or stop and say what you need it for."

// reply puts a decision into the hook's output; answers to questions go back as part of the tool's input.
func (c claudeCode) reply(e HookEvent, answers []Answer) (json.RawMessage, error) {
	var ev claudeEvent
	if err := json.Unmarshal(e.Raw, &ev); err != nil {
		return nil, fmt.Errorf("reading the hook's question: %w", err)
	}
	decision := map[string]any{"behavior": "allow"}
	if ev.Tool == claudeAsks {
		var input map[string]any
		var q claudeQuestions
		if err := json.Unmarshal(ev.Input, &input); err != nil {
			return nil, fmt.Errorf("reading the hook's question: %w", err)
		}
		if err := json.Unmarshal(ev.Input, &q); err != nil {
			return nil, fmt.Errorf("reading the hook's question: %w", err)
		}
		given := map[string]string{}
		for i, a := range answers[:min(len(answers), len(q.Questions))] {
			var words []string
			for _, o := range a.Options {
				words = append(words, q.Questions[i].label(o))
			}
			if a.Text != "" {
				words = append(words, a.Text)
			}
			given[q.Questions[i].Question] = strings.Join(words, ", ")
		}
		input["answers"] = given
		decision["updatedInput"] = input
	} else if len(answers) == 1 && len(answers[0].Options) == 1 {
		switch answers[0].Options[0].Role {
		case Allow:
		case AllowSession:
			decision["updatedPermissions"] = c.forSession(ev)
		default:
			decision = map[string]any{"behavior": "deny", "message": cmp.Or(answers[0].Text, claudeDenied)}
		}
	} else {
		return nil, fmt.Errorf("%d answers to one question", len(answers))
	}
	return json.Marshal(map[string]any{"hookSpecificOutput": map[string]any{"hookEventName": "PermissionRequest", "decision": decision}})
}

// label returns the option's label as Claude wrote it: people may have been shown it without unprintable characters.
func (q claudeQuestion) label(o Option) string {
	for i := range q.Options {
		if fmt.Sprint(i+1) == o.ID {
			return q.Options[i].Label
		}
	}
	return o.Label
}

// dialog expects, below a line across the screen, the subject, the question, and a numbered list whose digits act at once.
func (claudeCode) dialog(lines []string) *Dialog {
	d := readDialog(lines, "❯", func(line string) bool { return strings.HasPrefix(line, "────") })
	if d == nil || !strings.Contains(d.Foot, "Esc to cancel") {
		return nil
	}
	for i := range d.keys {
		d.keys[i] = fmt.Sprint(i + 1)
	}
	return d
}
