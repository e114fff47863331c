package agents

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strings"
)

// Gemini is the name of Google's Gemini CLI.
const Gemini = "gemini"

// geminiRecipe describes how the Gemini CLI is installed.
var geminiRecipe = Recipe{
	Program: "gemini", Package: "@google/gemini-cli", Version: "0.61.0",
	Hosts: []string{"generativelanguage.googleapis.com", "cloudcode-pa.googleapis.com", "oauth2.googleapis.com", "accounts.google.com"},
}

// gemini is Google's Gemini CLI. It ignores SIGHUP, and ends by the KILL that follows.
type gemini struct{}

func (gemini) facts() facts {
	return facts{agent: Gemini, name: "Gemini CLI", recipe: geminiRecipe, accounts: true, explicit: true, permissions: true,
		version: []string{"--version"}, login: geminiLogin, shared: []string{".gemini/tmp", ".gemini/history", ".gemini/commands", ".gemini/skills"}}
}

const (
	geminiLogin = ".gemini/oauth_creds.json"
	geminiBase  = "https://generativelanguage.googleapis.com"
	geminiByKey = "gemini-api-key"
	geminiByWeb = "oauth-personal"
)

func (g gemini) plan(l Launch) (Plan, error) {
	if err := g.preset(l); err != nil {
		return Plan{}, err
	}
	p := Plan{Conversation: l.Conversation, Env: map[string]string{
		"GEMINI_CLI_HOME":            l.home.state(),
		"GEMINI_CLI_TRUST_WORKSPACE": "true", // otherwise it asks whether the folder is trusted
		"GEMINI_CLI_NO_RELAUNCH":     "true", // otherwise it restarts itself for a larger heap
	}}
	if l.Account.Kind == APIKey && l.Account.Secret != "" {
		p.Secrets = map[string]string{"GEMINI_API_KEY": l.Account.Secret}
		if l.Account.BaseURL != "" {
			p.Env["GOOGLE_GEMINI_BASE_URL"] = l.Account.BaseURL
		}
	}
	if l.all() {
		l.args, l.Args = append(without(l.args, geminiFences), "--approval-mode=yolo"), without(l.Args, geminiFences)
	}
	p.Argv = append([]string{l.program}, l.args...)
	switch {
	case l.Resume && g.begun(l.home, l.Conversation):
		p.Argv, p.Resumed = append(p.Argv, "--resume", l.Conversation), true
	case l.Conversation != "":
		p.Argv = append(p.Argv, "--session-id", l.Conversation)
	}
	p.Argv = append(p.Argv, l.Args...)
	switch {
	case l.Prompt == "":
		p.Prompt = PromptNone
	case len(l.Prompt) > maxArgument || strings.ContainsRune(l.Prompt, 0):
		p.Prompt = PromptPaste
	default: // one word, so that a prompt that begins with a dash is not an option
		p.Argv, p.Prompt = append(p.Argv, "--prompt-interactive="+l.Prompt), PromptArgument
	}
	return p, nil
}

// preset answers in advance how to sign in, and turns off updates and statistics.
func (gemini) preset(l Launch) error {
	if err := l.home.makeAll(".gemini"); err != nil {
		return err
	}
	if err := l.home.login(l.Account, "Gemini CLI", geminiLogin, geminiLogin); err != nil {
		return err
	}
	if err := l.home.base().writeSkill(".gemini/skills", l.Tools); err != nil {
		return err
	}
	return l.home.editJSON(l.home.rel(".gemini/settings.json"), func(doc map[string]any) {
		if l.Tools != nil && !l.home.own { // Gemini takes servers from this file alone
			object(doc, "mcpServers")[toolServer] = geminiTools(l.Tools)
		}
		general := object(doc, "general")
		general["enableAutoUpdate"], general["enableAutoUpdateNotification"] = false, false
		object(doc, "privacy")["usageStatisticsEnabled"] = false
		auth := object(object(doc, "security"), "auth")
		switch {
		case l.Account.Kind == APIKey:
			auth["selectedType"] = geminiByKey
		case l.Account.Kind == ExistingLogin || auth["selectedType"] == geminiByKey:
			auth["selectedType"] = geminiByWeb
		}
	})
}

// begun reports whether the conversation exists on disk: in a file whose name ends with the beginning of its ID.
func (gemini) begun(h Home, id string) bool {
	if !uuidLike(id) || len(id) < 8 {
		return false
	}
	found, err := h.files.Glob(".gemini/tmp/*/chats/session-*-" + id[:8] + ".json*")
	if err != nil {
		return false
	}
	for _, name := range found {
		if head, err := readHead(h.files, name, 4<<10); err == nil && bytes.Contains(head, []byte(`"`+id+`"`)) {
			return true
		}
	}
	return false
}

// read: the title begins with a symbol for the state and ends with the folder's name in brackets.
func (gemini) read(s Signal) Hint {
	if s.Kind != Title {
		return plainHint(s)
	}
	text := strings.TrimSpace(s.Text)
	said := func(mark string) (string, bool) {
		rest, ok := strings.CutPrefix(text, mark)
		if at := strings.LastIndex(rest, "("); at >= 0 {
			rest = rest[:at]
		}
		return strings.TrimSpace(strings.TrimPrefix(rest, "\ufe0f")), ok
	}
	if what, ok := said("✦"); ok {
		h := Hint{Mood: Busy}
		if what != "" && !strings.HasPrefix(what, "Working") {
			h.Title, h.HasTitle = what, true
		}
		return h
	}
	if _, ok := said("⏲"); ok { // a command that prints nothing
		return Hint{Mood: Busy}
	}
	if _, ok := said("✋"); ok {
		return Hint{Mood: Asking, Vague: true, Reason: "asks for your approval"}
	}
	if _, ok := said("◇"); ok {
		return Hint{Mood: Ready}
	}
	return Hint{}
}

func (gemini) keys() Keys {
	return Keys{Interrupt: []string{"\x1b"}, Name: "Esc", Submit: "\r", Commands: "/!"}
}

// probe lists the models, which is free.
func (gemini) probe(ctx context.Context, a Account) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(cmp.Or(a.BaseURL, geminiBase), "/")+"/v1beta/models?pageSize=1", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("X-Goog-Api-Key", a.Secret)
	return req, nil
}

// geminiScreen covers what the title does not report. An error is shown above the input field for the next prompt, with no answer
// (✦) between.
var geminiScreen = mustRules(
	ScreenRule{Says: "waiting", Lines: 40, Reason: "asks you to log in: " + loginCure, Pattern: `(?i)how would you like to authenticate|enter the authorization code`},
	ScreenRule{Says: "waiting", Lines: 24, Reason: "its login is not accepted: " + loginCure, Pattern: `(?:^|\n)✕ [^\n]*(?:\n[^\n✦▄]*)*"code":40[13]\b` + aboveGeminiBox},
	ScreenRule{Says: "failed", Lines: 24, Reason: "$1", Pattern: `(?:^|\n)✕ ([^\n]+)` + aboveGeminiBox},
)

const aboveGeminiBox = `(?:[^\n✦▄]*\n)+▄{10,}\n ?[>!*] `

func (gemini) screen() *ScreenRules { return geminiScreen }

// dialog reads a question: a numbered list in a frame at the end of the screen, of which a digit chooses at once.
func (gemini) dialog(lines []string) *Dialog {
	plain := make([]string, len(lines))
	for i, line := range lines {
		text := strings.TrimRight(line, " ")
		for range 2 { // the frame, and one inside it around the proposed change
			inner, ok := strings.CutPrefix(strings.TrimLeft(text, " "), "│")
			if !ok {
				break
			}
			text = strings.TrimRight(strings.TrimSuffix(inner, "│"), " ")
			if t := strings.TrimLeft(text, " "); strings.HasPrefix(t, "╭") || strings.HasPrefix(t, "╰") {
				text = ""
			}
		}
		plain[i] = strings.Replace(text, "● ", "❯ ", 1)
	}
	d := readDialog(plain, "❯", func(line string) bool { return strings.HasPrefix(line, "╭") })
	if d == nil || !strings.Contains(d.Foot, "╰") {
		return nil
	}
	for i := range d.keys {
		d.keys[i] = d.Options[i].ID
	}
	return d
}
