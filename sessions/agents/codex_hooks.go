package agents

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
)

// codexEvents are the hooks set for Codex: the name in the settings, the name in the keys of trust, and the timeout in seconds,
// which Codex shortens for the last two. Codex waits for tool hooks to end before it runs the tool, so none is set for tools: the
// terminal reports the work as well.
var codexEvents = []struct {
	name, key string
	seconds   int
}{
	{"SessionStart", "session_start", 10}, {"UserPromptSubmit", "user_prompt_submit", 10}, {"PermissionRequest", "permission_request", 10},
	{"PreCompact", "pre_compact", 10},
	{"Stop", "stop", 10}, {"Interrupt", "interrupt", 3}, {"SessionEnd", "session_end", 3},
}

// hookOverrides sets the hooks for this session, in addition to the person's and the project's own, and marks them as trusted by
// the hash Codex itself writes after a person has reviewed them. Other hooks that nobody has reviewed stay untrusted.
func (codex) hookOverrides() []string {
	command := hookCommand(Codex)
	var out, trust []string
	for _, e := range codexEvents {
		out = append(out, fmt.Sprintf(`hooks.%s=[{hooks=[{type="command",command=%s,timeout=%d}]}]`, e.name, tomlString(command), e.seconds))
		trust = append(trust, fmt.Sprintf(`"/<session-flags>/config.toml:%s:0:0"={trusted_hash="sha256:%s"}`, e.key, codexHookHash(e.key, command, e.seconds)))
	}
	return append(out, "hooks.state={"+strings.Join(trust, ",")+"}")
}

// codexHookHash is the hash that identifies a hook to Codex: of its settings as JSON with sorted keys.
func codexHookHash(event, command string, seconds int) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(map[string]any{"event_name": event,
		"hooks": []any{map[string]any{"type": "command", "command": command, "timeout": seconds, "async": false}}})
	if err != nil {
		panic(err) // our own values always encode
	}
	sum := sha256.Sum256(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return hex.EncodeToString(sum[:])
}

type codexEvent struct {
	Name    string          `json:"hook_event_name"`
	Session string          `json:"session_id"`
	Cwd     string          `json:"cwd"`
	Prompt  string          `json:"prompt"`
	Tool    string          `json:"tool_name"`
	Input   json.RawMessage `json:"tool_input"`
}

// hook: Codex runs its PermissionRequest hook before it opens its dialog, so a waiting hook would hide the dialog from the person
// at the terminal. The hook therefore returns no decision; its question is attached to the dialog that opens next, and keys
// answer that.
func (codex) hook(e HookEvent) HookReport {
	var ev codexEvent
	if json.Unmarshal(e.Raw, &ev) != nil {
		return HookReport{}
	}
	all := func(string) (bool, string) { return true, "" }
	switch ev.Name {
	case "SessionStart":
		if !uuidLike(ev.Session) || len(ev.Session) > 64 {
			return HookReport{}
		}
		return HookReport{Conversation: ev.Session}
	case "UserPromptSubmit":
		return HookReport{Hint: Hint{Mood: Busy, Reason: "is working on a prompt"}, Prompt: ev.Prompt, Over: all}
	case "PreCompact":
		return HookReport{Compacting: true}
	case "PermissionRequest":
		a := toolAsk(ev.Tool, ev.Input, ev.Cwd)
		return HookReport{Coming: &a}
	case "Stop":
		return HookReport{Hint: Hint{Mood: Ready}, Over: all}
	case "Interrupt":
		return HookReport{Hint: Hint{Mood: Ready, Reason: "was interrupted"}, Over: all}
	case "SessionEnd":
		return HookReport{Over: all}
	}
	return HookReport{}
}

func (codex) reply(HookEvent, []Answer) (json.RawMessage, error) { return nil, nil }

var codexKeyHint = regexp.MustCompile(`\s*\((\w|esc)\)$`)

// dialog expects the question, its subject, and a numbered list that names a key for each choice.
func (codex) dialog(lines []string) *Dialog {
	d := readDialog(lines, "›", func(string) bool { return false })
	if d == nil || !strings.Contains(d.Foot, "enter to") && !strings.Contains(d.Foot, "esc to") {
		return nil
	}
	// The conversation is above the question.
	for i := len(lines) - 1; i >= 0; i-- {
		if strings.TrimSpace(lines[i]) == d.Title {
			d.Detail = dedent(codexAbout(lines[i+1:]))
			break
		}
	}
	for i := range d.Options {
		o := &d.Options[i]
		d.keys[i] = o.ID
		if m := codexKeyHint.FindStringSubmatch(o.Label); m != nil {
			o.Label = strings.TrimSuffix(o.Label, m[0])
			if d.keys[i] = m[1]; m[1] == "esc" {
				d.keys[i] = "\x1b"
			}
		}
	}
	d.Key = "screen/" + fingerprint(d.Title, d.Detail, len(d.Options))
	return d
}

// codexAbout returns the lines between the question and the list.
func codexAbout(lines []string) []string {
	for i, l := range lines {
		if dialogOption.MatchString(l) {
			return lines[:i]
		}
	}
	return lines
}
