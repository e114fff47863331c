package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
)

// openCode is sst's OpenCode.
type openCode struct{}

func (openCode) facts() facts {
	return facts{name: "OpenCode", command: "opencode", install: "npm install -g opencode-ai", accounts: true, version: []string{"--version"}, login: openCodeLogin}
}

const openCodeLogin = ".local/share/opencode/auth.json"

func (o openCode) plan(l Launch) (Plan, error) {
	if err := l.home.login(l.Account, "OpenCode", openCodeLogin, openCodeLogin); err != nil {
		return Plan{}, err
	}
	p := Plan{Env: map[string]string{
		"OPENCODE_DISABLE_AUTOUPDATE": "1",
		"XDG_DATA_HOME":               filepath.Join(l.home.state(), ".local", "share"),
		"XDG_CONFIG_HOME":             filepath.Join(l.home.Dir, ".config"),
	}}
	doc := map[string]any{"autoupdate": false}
	if l.Account.Kind == APIKey && l.Account.Secret != "" {
		provider, name := "openai", "OPENAI_API_KEY"
		if strings.HasPrefix(l.Account.Secret, "sk-ant-") {
			provider, name = "anthropic", "ANTHROPIC_API_KEY"
		}
		p.Secrets = map[string]string{name: l.Account.Secret}
		if l.Account.BaseURL != "" {
			doc["provider"] = map[string]any{provider: map[string]any{"options": map[string]any{"baseURL": l.Account.BaseURL}}}
		}
	}
	config, err := json.Marshal(doc)
	if err != nil {
		return Plan{}, err
	}
	p.Env["OPENCODE_CONFIG_CONTENT"] = string(config)
	p.Argv = append(append([]string{l.program}, l.args...), l.Args...)
	switch {
	case l.Prompt == "":
		p.Prompt = PromptNone
	case len(l.Prompt) > maxArgument || strings.ContainsRune(l.Prompt, 0):
		p.Prompt = PromptPaste
	default: // one word, so that a prompt that begins with a dash is no option
		p.Argv, p.Prompt = append(p.Argv, "--prompt="+l.Prompt), PromptArgument
	}
	return p, nil
}

func (openCode) read(s Signal) Hint { return plainHint(s) }

// plainHint is what signals mean of a program nobody described: a notification asks for a person.
func plainHint(s Signal) Hint {
	switch s.Kind {
	case Title:
		return Hint{Title: s.Text, HasTitle: true}
	case Notify:
		return Hint{Mood: Asking, Reason: s.Text}
	case Progress:
		if strings.HasPrefix(s.Text, "1") || strings.HasPrefix(s.Text, "3") {
			return Hint{Mood: Busy}
		}
	}
	return Hint{}
}

// probe lists the models of the provider the key is for, which costs nothing.
func (openCode) probe(ctx context.Context, a Account) (*http.Request, error) {
	if !strings.HasPrefix(a.Secret, "sk-ant-") {
		return bearerProbe(ctx, cmp.Or(a.BaseURL, openAIBase), a.Secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cmp.Or(a.BaseURL, "https://api.anthropic.com/v1"), "/")+"/models?limit=1", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("anthropic-version", "2023-06-01")
	req.Header.Set("X-Api-Key", a.Secret)
	return req, nil
}
