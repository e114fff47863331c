package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
)

// ClaudeCode is the name of Anthropic's Claude Code.
const ClaudeCode = "claude-code"

// claudeRecipe is what Claude Code is made of.
var claudeRecipe = Recipe{
	Program: "claude", Package: "@anthropic-ai/claude-code", Version: "2.1.197",
	Hosts:    []string{"api.anthropic.com", "claude.ai", "claude.com", "platform.claude.com", "console.anthropic.com"},
	Provider: AnthropicAPI,
	Env:      map[string]string{"DISABLE_AUTOUPDATER": "1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1"},
}

// claudeCode is Anthropic's Claude Code.
type claudeCode struct{}

func (claudeCode) facts() facts {
	return facts{agent: ClaudeCode, name: "Claude Code", recipe: claudeRecipe, accounts: true, permissions: true,
		explicit: true, version: []string{"--version"}, login: claudeLogin,
		shared: []string{".claude/projects", ".claude/file-history", ".claude/plans", ".claude/commands", ".claude/agents", ".claude/skills"}}
}

const claudeLogin = ".claude/.credentials.json"

// maxApproved bounds the keys that are remembered as approved.
const maxApproved = 50

func (c claudeCode) plan(l Launch) (Plan, error) {
	if err := l.rootRefuses(); err != nil {
		return Plan{}, err
	}
	if err := c.preset(l); err != nil {
		return Plan{}, err
	}
	if err := l.home.base().writeSkill(claudeDir+"/skills", l.Tools); err != nil {
		return Plan{}, err
	}
	plugin, err := c.plugin(l.home.base(), l.Tools)
	if err != nil {
		return Plan{}, err
	}
	if l.all() {
		l.args, l.Args = append(without(l.args, claudeFences), "--dangerously-skip-permissions"), without(l.Args, claudeFences)
	}
	p := Plan{Prompt: PromptArgument, Conversation: l.Conversation, Env: map[string]string{
		"CLAUDE_CONFIG_DIR":  l.home.claude(),
		"CLAUDE_CODE_TMPDIR": l.home.temp, // else shared by all users of one uid
	}}
	p.Secrets = c.secrets(l.Account)
	switch {
	case l.Account.Gateway != nil:
		p.Env["ANTHROPIC_BASE_URL"], p.Drops = l.Account.Gateway.base(), claudeKeys
	case l.Account.Kind == APIKey && l.Account.BaseURL != "":
		p.Env["ANTHROPIC_BASE_URL"] = l.Account.BaseURL
	}
	p.Argv = append([]string{l.program}, l.args...)
	switch {
	case l.Resume && c.begun(l.home, l.Conversation):
		p.Argv, p.Resumed = append(p.Argv, "--resume", l.Conversation), true
	case l.Conversation != "":
		// Nothing is written before the first prompt, so an id that was never used is free.
		p.Argv = append(p.Argv, "--session-id", l.Conversation)
	}
	if !slices.Contains(l.args, "--settings") && !slices.Contains(l.Args, "--settings") {
		p.Argv = append(p.Argv, "--settings", c.settings(l.Hooks, l.all(), l.Tools))
	}
	if l.Tools != nil {
		p.Argv = append(p.Argv, "--mcp-config="+jsonText(claudeTools()))
	}
	if plugin != "" {
		p.Argv = append(p.Argv, "--plugin-dir="+plugin)
	}
	if l.Brief != "" {
		p.Argv = append(p.Argv, "--append-system-prompt", l.Brief)
	}
	p.Argv = append(p.Argv, l.Args...)
	return p.withPrompt(l.Prompt), nil
}

// secrets: a key of Anthropic goes in the key's header, a long-lived login token in its own variable, anything else (a
// gateway's token) as a bearer token, for which Claude asks nothing.
func (claudeCode) secrets(a Account) map[string]string {
	switch {
	case a.Gateway != nil:
		return map[string]string{"ANTHROPIC_AUTH_TOKEN": a.Gateway.Token}
	case !a.keyed():
		return nil
	case strings.HasPrefix(a.Secret, subscriptionToken):
		return map[string]string{"CLAUDE_CODE_OAUTH_TOKEN": a.Secret}
	case strings.HasPrefix(a.Secret, "sk-ant-"):
		return map[string]string{"ANTHROPIC_API_KEY": a.Secret}
	}
	return map[string]string{"ANTHROPIC_AUTH_TOKEN": a.Secret}
}

// preset answers beforehand what Claude would ask: theme and welcome, trust of the folder, use of the key.
func (c claudeCode) preset(l Launch) error {
	if err := l.home.login(l.Account, "Claude Code", claudeLogin, claudeLogin); err != nil {
		return err
	}
	var account any
	if l.Account.Kind == ExistingLogin && !l.home.own {
		account = c.oauthAccount(l.home)
	}
	return l.home.editJSON(l.home.rel(claudeDir+"/.claude.json"), func(doc map[string]any) {
		doc["hasCompletedOnboarding"] = true
		doc["resumeReturnDismissed"] = true
		if _, chosen := doc["theme"]; !chosen {
			doc["theme"] = "auto" // light or dark as its terminal says, also when somebody else looks at it
		}
		doc["bypassPermissionsModeAccepted"] = true // asked only when config passes that mode
		projects := object(doc, "projects")
		for _, dir := range append(l.home.trusted, l.Worktree) {
			object(projects, dir)["hasTrustDialogAccepted"] = true
		}
		if key := c.secrets(l.Account)["ANTHROPIC_API_KEY"]; key != "" {
			// Claude itself keeps the last 20 characters of a key that was approved. Others may be in use beside it.
			answers, tail := object(doc, "customApiKeyResponses"), any(key[max(0, len(key)-20):])
			approved, _ := answers["approved"].([]any)
			if !slices.Contains(approved, tail) {
				answers["approved"] = append(approved[max(0, len(approved)-maxApproved):], tail)
			}
		}
		if account != nil {
			doc["oauthAccount"] = account
		}
	})
}

// oauthAccount reads who the existing login belongs to, nil when that is not known.
func (claudeCode) oauthAccount(h Home) any {
	raw, _, err := readOwn(filepath.Join(h.source, ".claude.json"))
	if err != nil {
		return nil
	}
	var doc struct {
		Account any `json:"oauthAccount"`
	}
	if json.Unmarshal(raw, &doc) != nil {
		return nil
	}
	return doc.Account
}

// begun reports whether Claude has written the conversation's transcript.
func (claudeCode) begun(h Home, id string) bool {
	if id == "" || strings.ContainsAny(id, `/\*?[`) {
		return false
	}
	found, err := h.files.Glob(claudeDir + "/projects/*/" + id + ".jsonl")
	return err == nil && len(found) > 0 && there(h.files, found[0])
}

// read: the title begins with a braille spinner while Claude works and with ✳ while it waits for anything; a permission or a
// question comes as a notification some seconds after it opened.
func (claudeCode) read(s Signal) Hint {
	switch s.Kind {
	case Title:
		if rest, ok := spinner(s.Text); ok {
			return Hint{Mood: Busy, Title: rest, HasTitle: true}
		}
		if rest, ok := strings.CutPrefix(s.Text, "✳"); ok {
			return Hint{Mood: Ready, Weak: true, Title: strings.TrimSpace(rest), HasTitle: true}
		}
		if s.Text == "" {
			return Hint{Mood: Closing}
		}
		return Hint{Title: s.Text, HasTitle: true}
	case Notify:
		if strings.Contains(s.Text, "needs your") {
			return Hint{Mood: Asking, Vague: true, Reason: s.Text}
		}
	case Progress:
		switch {
		case strings.HasPrefix(s.Text, "3"), strings.HasPrefix(s.Text, "1"):
			return Hint{Mood: Busy}
		case strings.HasPrefix(s.Text, "0"):
			return Hint{Mood: Ready}
		}
	}
	return Hint{}
}

// spinner cuts a leading braille character, which both CLIs use as their spinner.
func spinner(title string) (rest string, ok bool) {
	for i, r := range title {
		if i == 0 && (r < 0x2800 || r > 0x28ff) {
			return title, false
		}
		if i > 0 {
			return strings.TrimSpace(title[i:]), true
		}
	}
	return "", title != ""
}

// withPrompt puts the prompt at the end of the command line, after -- so that one that begins with a dash is no option. One
// too long for an argument is pasted.
func (p Plan) withPrompt(prompt string) Plan {
	switch {
	case prompt == "":
		p.Prompt = PromptNone
	case len(prompt) > maxArgument || strings.ContainsRune(prompt, 0):
		p.Prompt = PromptPaste
	default:
		p.Argv = append(p.Argv, "--", prompt)
		p.Prompt = PromptArgument
	}
	return p
}

// probe lists the models, which costs nothing. A long-lived login token may not do that.
func (c claudeCode) probe(ctx context.Context, a Account) (*http.Request, error) {
	for name, key := range c.secrets(a) {
		if name == "CLAUDE_CODE_OAUTH_TOKEN" {
			return nil, nil
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cmp.Or(a.BaseURL, "https://api.anthropic.com"), "/")+"/v1/models?limit=1", nil)
		if err != nil {
			return nil, err
		}
		req.Header.Set("anthropic-version", "2023-06-01")
		if name == "ANTHROPIC_API_KEY" {
			req.Header.Set("X-Api-Key", key)
		} else {
			req.Header.Set("Authorization", "Bearer "+key)
		}
		return req, nil
	}
	return nil, nil
}
