package agents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/parawork/parawork/guest"
)

// Codex is the name of OpenAI's Codex.
const Codex = "codex"

// codexRecipe describes how Codex is installed.
var codexRecipe = Recipe{
	Program: "codex", Package: "@openai/codex", Version: "0.169.0",
	Hosts:    []string{"api.openai.com", "chatgpt.com", "auth.openai.com"},
	Provider: OpenAIAPI,
}

// codex is OpenAI's Codex.
//
// Its presets go on the command line, where they apply to this session only: config.toml belongs to the person and to Codex.
type codex struct{}

func (codex) facts() facts {
	return facts{agent: Codex, name: "Codex", recipe: codexRecipe, accounts: true, explicit: true, permissions: true,
		version: []string{"--version"}, login: codexLogin, shared: []string{".codex/sessions", ".codex/prompts", ".codex/skills"}}
}

const (
	codexLogin = ".codex/auth.json"
	codexKey   = "OPENAI_API_KEY"
	openAIBase = "https://api.openai.com/v1"
)

func (c codex) plan(l Launch) (Plan, error) {
	if err := l.home.login(l.Account, "Codex", codexLogin, codexLogin); err != nil {
		return Plan{}, err
	}
	if err := l.home.base().writeSkill(codexDir+"/skills", l.Tools); err != nil {
		return Plan{}, err
	}
	p := Plan{Env: map[string]string{"CODEX_HOME": l.home.codex()}}
	p.Argv = []string{l.program}
	if l.Resume && l.Conversation != "" && c.begun(l.home, l.Conversation) {
		p.Argv, p.Resumed, p.Conversation = append(p.Argv, "resume"), true, l.Conversation
	}
	// Without --no-daemon Codex leaves a background server that runs the agent outside the terminal and outlives the session.
	p.Argv = append(p.Argv, "--no-daemon")
	overrides := c.overrides(l)
	if l.Hooks {
		overrides = append(overrides, c.hookOverrides()...)
	}
	if l.Tools != nil {
		overrides = append(overrides, codexTools(l.Tools)...)
	}
	for _, v := range overrides {
		p.Argv = append(p.Argv, "-c", v)
	}
	switch {
	case l.all():
		l.args, l.Args = append(without(l.args, codexFences), "--dangerously-bypass-approvals-and-sandbox"), without(l.Args, codexFences)
	case l.fenced():
		l.args, l.Args = without(l.args, codexFences), without(l.Args, codexFences)
		for _, v := range codexUnfenced {
			l.args = append(l.args, "-c", v)
		}
	}
	if l.Account.Gateway == nil && l.Account.keyed() {
		p.Secrets = map[string]string{codexKey: l.Account.Secret}
	}
	p.Argv = append(p.Argv, l.args...)
	p.Argv = append(p.Argv, l.Args...)
	if !p.Resumed {
		return p.withPrompt(l.Prompt), nil
	}
	with := p.withPrompt(l.Prompt)
	if with.Prompt == PromptArgument { // ... -- id prompt
		with.Argv = slices.Insert(with.Argv, len(with.Argv)-1, l.Conversation)
	} else {
		with.Argv = append(with.Argv, "--", l.Conversation)
	}
	return with, nil
}

// overrides are TOML settings that answer in advance what Codex would ask (updates, trust of the folder, a newer model, the
// sign-in) and that make it report its state.
func (codex) overrides(l Launch) []string {
	out := []string{
		"check_for_update_on_startup=false",
		"features.daemon_auto_start=false",
		"tui.notifications=true",
		`tui.notification_method="osc9"`,
		`tui.notification_condition="always"`,
		// Codex offers a newer model once for each of these, and its default answer is to switch.
		`notice.model_migrations={"gpt-5.5"="gpt-6-sol","gpt-5.6-sol"="gpt-6-sol","gpt-5.6-terra"="gpt-6-sol","gpt-5.6-luna"="gpt-6-luna"}`,
		"projects={" + tomlString(l.Worktree) + `={trust_level="trusted"}}`,
	}
	if l.Brief != "" {
		out = append(out, "developer_instructions="+tomlString(l.Brief))
	}
	if l.Account.keyed() {
		// A custom provider with env_key asks for no sign-in and writes the key nowhere.
		base, key := cmp.Or(l.Account.BaseURL, openAIBase), codexKey
		if g := l.Account.Gateway; g != nil {
			base, key = g.base(), guest.EnvGatewayToken // any other OPENAI_API_KEY remains the project's own
		}
		out = append(out, `model_provider="parawork"`,
			`model_providers.parawork={name="OpenAI",base_url=`+tomlString(base)+`,env_key="`+key+`",wire_api="responses"}`)
	}
	return out
}

// tomlString quotes s as a TOML basic string.
func tomlString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			b.WriteString(`\u` + strings.Repeat("0", 4-len(strconv.FormatInt(int64(r), 16))) + strconv.FormatInt(int64(r), 16))
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// begun reports whether the conversation's rollout exists.
func (codex) begun(h Home, id string) bool {
	if id == "" || strings.ContainsAny(id, `/\*?[`) {
		return false
	}
	found, err := h.files.Glob(codexDir + "/sessions/*/*/*/rollout-*-" + id + ".jsonl")
	return err == nil && len(found) > 0
}

// maxRollouts bounds how many of the newest rollouts are searched for a conversation.
const maxRollouts = 500

// find looks for the conversation among the rollouts: Codex chooses the ID itself and writes it with the first prompt. It returns
// the oldest one begun in this worktree since the session's start that no other session has.
func (codex) find(h Home, f Find) (string, error) {
	type rollout struct {
		id string
		at int64
	}
	var all []rollout
	// Rollouts are in one folder per day and begin with the local time of day: the last ones are the newest.
	names, err := h.files.Glob(codexDir + "/sessions/[0-9]*/[0-9]*/[0-9]*/rollout-*.jsonl")
	if err != nil {
		return "", err
	}
	const day = int64(26 * time.Hour / time.Millisecond)
	for _, name := range slices.Backward(names[max(0, len(names)-maxRollouts):]) {
		id, cwd, at := rolloutMeta(h.files, name)
		if at != 0 && at < f.Since-day {
			break // and so are all before it
		}
		if _, taken := f.Taken[id]; id == "" || taken || cwd != f.Worktree || at < f.Since {
			continue
		}
		all = append(all, rollout{id, at})
	}
	if len(all) == 0 {
		return "", nil
	}
	first := slices.MinFunc(all, func(a, b rollout) int { return cmp.Compare(a.at, b.at) })
	return first.id, nil
}

// rolloutMeta reads the head of a rollout: its first line, which may be long.
func rolloutMeta(files Files, name string) (id, cwd string, at int64) {
	line, err := readHead(files, name, 64<<10)
	end := bytes.IndexByte(line, '\n')
	if err == nil && end < 0 && len(line) == 64<<10 {
		line, err = readHead(files, name, 1<<20)
		end = bytes.IndexByte(line, '\n')
	}
	if err != nil || end < 0 {
		return "", "", 0
	}
	line = line[:end]
	var meta struct {
		Type    string `json:"type"`
		Payload struct {
			ID        string    `json:"id"`
			Timestamp time.Time `json:"timestamp"`
			Cwd       string    `json:"cwd"`
		} `json:"payload"`
	}
	if json.Unmarshal(line, &meta) != nil || meta.Type != "session_meta" || len(meta.Payload.ID) > 64 || !uuidLike(meta.Payload.ID) {
		return "", "", 0
	}
	return meta.Payload.ID, meta.Payload.Cwd, meta.Payload.Timestamp.UnixMilli()
}

// uuidLike reports whether id consists of hex digits and dashes and is therefore safe on a command line.
func uuidLike(id string) bool {
	if id == "" || id[0] == '-' {
		return false
	}
	return strings.Trim(id, "0123456789abcdefABCDEF-") == ""
}

// read: OSC 7501 reports the state in words; the title has a spinner while Codex works and blinks "Action Required" while a
// question is open.
func (codex) read(s Signal) Hint {
	switch s.Kind {
	case Report:
		return codexReport(s.Text)
	case Title:
		if rest, ok := spinner(s.Text); ok {
			return Hint{Mood: Busy, Title: rest, HasTitle: true}
		}
		if mark, rest, ok := strings.Cut(s.Text, "]"); ok && strings.HasPrefix(mark, "[ ") && strings.Contains(rest, "Action Required") {
			_, title, _ := strings.Cut(rest, "|")
			return Hint{Mood: Asking, Vague: true, Reason: "asks for your approval", Title: strings.TrimSpace(title), HasTitle: true}
		}
		if s.Text == "" {
			return Hint{Mood: Closing}
		}
		// The spinner is gone: it may turn briefly at the start without a report.
		return Hint{Mood: Ready, Weak: true, Title: s.Text, HasTitle: true}
	case Notify:
		for _, p := range []string{"Approval requested", "Question requested", "Questions requested", "Codex wants to", "Plan mode prompt"} {
			if strings.HasPrefix(s.Text, p) {
				return Hint{Mood: Asking, Reason: s.Text}
			}
		}
	}
	return Hint{}
}

func codexReport(text string) Hint {
	fields := map[string]string{}
	for f := range strings.SplitSeq(text, ":") {
		if k, v, ok := strings.Cut(f, "="); ok {
			fields[k] = v
		}
	}
	switch fields["state"] {
	case "working":
		return Hint{Mood: Busy}
	case "idle", "done":
		return Hint{Mood: Ready}
	case "blocked":
		if fields["kind"] == "permission" {
			return Hint{Mood: Asking, Vague: true, Reason: "asks for your approval"}
		}
		return Hint{Mood: Asking, Vague: true}
	case "error":
		return Hint{Mood: Trouble, Reason: "the last turn ended with an error"}
	case "clear":
		return Hint{Mood: Closing}
	}
	return Hint{}
}

// probe lists the models, which is free.
func (codex) probe(ctx context.Context, a Account) (*http.Request, error) {
	return bearerProbe(ctx, cmp.Or(a.BaseURL, openAIBase), a.Secret)
}

// bearerProbe lists the models of an OpenAI-compatible API.
func bearerProbe(ctx context.Context, base, key string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(base, "/")+"/models", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	return req, nil
}
