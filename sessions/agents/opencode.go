package agents

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"
	"regexp"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/homedir"
)

// OpenCode is the name of sst's OpenCode.
const OpenCode = "opencode"

// openCodeRecipe describes how OpenCode is installed.
var openCodeRecipe = Recipe{
	Program: "opencode", Package: "opencode-ai", Version: "1.18.33",
	Hosts: []string{"opencode.ai", "models.dev", "api.anthropic.com", "api.openai.com"},
	Env:   map[string]string{"OPENCODE_DISABLE_AUTOUPDATE": "1"},
}

// openCode is sst's OpenCode.
type openCode struct{}

func (openCode) facts() facts {
	return facts{agent: OpenCode, name: "OpenCode", recipe: openCodeRecipe, accounts: true, permissions: true, version: []string{"--version"}, login: openCodeLogin,
		shared: []string{openCodeData + "/storage", openCodeData + "/snapshot"}}
}

const (
	openCodeData  = ".local/share/opencode"
	openCodeDB    = "opencode.db"
	openCodeLogin = openCodeData + "/auth.json"
)

func (o openCode) plan(l Launch) (Plan, error) {
	if err := l.home.base().makeAll(openCodeData); err != nil {
		return Plan{}, err
	}
	if err := l.home.login(l.Account, "OpenCode", openCodeLogin, openCodeLogin); err != nil {
		return Plan{}, err
	}
	if err := l.home.base().writeSkill(".config/opencode/skills", l.Tools); err != nil {
		return Plan{}, err
	}
	p := Plan{Env: map[string]string{
		"XDG_DATA_HOME":   l.home.abs(".local/share"),
		"XDG_CONFIG_HOME": path.Join(l.home.Dir, ".config"),
		"OPENCODE_DB":     path.Join(l.home.Dir, openCodeData, openCodeDB), // shared by all accounts
	}}
	doc := map[string]any{"autoupdate": false}
	if l.Tools != nil {
		doc["mcp"] = openCodeTools()
	}
	if l.all() {
		doc["permission"] = map[string]any{"edit": "allow", "bash": "allow", "webfetch": "allow", "external_directory": "allow", "doom_loop": "allow"}
	} else if l.Tools != nil && len(l.Tools.Ask) > 0 {
		doc["permission"] = openCodeRules(l.Tools)
	}
	if l.Account.keyed() {
		provider, name := "openai", "OPENAI_API_KEY"
		key, base := l.Account.Secret, l.Account.BaseURL
		g := l.Account.Gateway
		if strings.HasPrefix(key, "sk-ant-") || g != nil && g.API == AnthropicAPI {
			provider, name = "anthropic", "ANTHROPIC_API_KEY"
		}
		if g != nil {
			if key, base = g.Token, g.base(); g.API == AnthropicAPI {
				base += "/v1" // the form its libraries expect
			}
		}
		p.Secrets = map[string]string{name: key}
		if base != "" {
			doc["provider"] = map[string]any{provider: map[string]any{"options": map[string]any{"baseURL": base}}}
		}
	}
	config, err := json.Marshal(doc)
	if err != nil {
		return Plan{}, err
	}
	p.Env["OPENCODE_CONFIG_CONTENT"] = string(config)
	p.Argv = append([]string{l.program}, l.args...)
	if l.Resume && o.begun(l.home, l.Conversation) {
		p.Argv, p.Resumed, p.Conversation = append(p.Argv, "--session", l.Conversation), true, l.Conversation
	}
	p.Argv = append(p.Argv, l.Args...)
	switch {
	case l.Prompt == "":
		p.Prompt = PromptNone
	case len(l.Prompt) > maxArgument || strings.ContainsRune(l.Prompt, 0):
		p.Prompt = PromptPaste
	default: // one word, so that a prompt that begins with a dash is not an option
		p.Argv, p.Prompt = append(p.Argv, "--prompt="+l.Prompt), PromptArgument
	}
	return p, nil
}

func (openCode) read(s Signal) Hint { return plainHint(s) }

// openCodeID matches the ID of a conversation: 48 bits of time in hex, newest first, then letters and digits.
var openCodeID = regexp.MustCompile(`ses_[0-9a-f]{12}[0-9A-Za-z]{14}`)

// notInRow reports whether r cannot be between the ID and the folder in a conversation's row: its project and a name of letters,
// digits and dashes are there.
func notInRow(r rune) bool {
	return !(r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '-' || r == '_')
}

const (
	openCodeNear = 256     // bytes between a conversation's id and its folder, in one row
	openCodeMost = 1 << 30 // bytes of the database to search
	openCodeStep = 1 << 20
)

// openCodeAt is when a conversation began, ms UTC. The ID holds it without its highest bits, which are taken from about.
func openCodeAt(id string, about int64) int64 {
	bits, err := strconv.ParseUint(id[4:16], 16, 64)
	if err != nil {
		return 0
	}
	const span = 1 << 36 // ms after which the time in an ID wraps around
	at := int64((^bits & (1<<48 - 1)) >> 12)
	at += about / span * span
	switch {
	case at > about+span/2:
		at -= span
	case at < about-span/2:
		at += span
	}
	return at
}

// find looks for the conversation in OpenCode's database: OpenCode chooses the ID itself. The agent writes the file, so find does
// not open it as a database but searches its bytes: a row holds the ID and, shortly after it, the folder. It returns the oldest
// one in this worktree since the session's start that no other session has.
func (o openCode) find(h Home, f Find) (string, error) {
	first, at := "", int64(0)
	err := o.scan(h, []byte(f.Worktree), func(before []byte) bool {
		ids := openCodeID.FindAllIndex(before, -1)
		if len(ids) == 0 {
			return true
		}
		last := ids[len(ids)-1]
		id := string(before[last[0]:last[1]])
		if strings.ContainsFunc(string(before[last[1]:]), notInRow) {
			return true
		}
		if _, taken := f.Taken[id]; taken {
			return true
		}
		if t := openCodeAt(id, f.Since); t >= f.Since && (first == "" || t < at) {
			first, at = id, t
		}
		return true
	})
	return first, err
}

// begun reports whether the database contains the conversation.
func (o openCode) begun(h Home, id string) bool {
	if openCodeID.FindString(id) != id || id == "" {
		return false
	}
	known := false
	err := o.scan(h, []byte(id), func([]byte) bool { known = true; return false })
	return err == nil && known
}

// scan calls fn for every occurrence of want in the database or its write-ahead log, with the bytes before it, until fn returns
// false.
func (openCode) scan(h Home, want []byte, fn func(before []byte) bool) error {
	if len(want) == 0 || len(want) > openCodeStep/2 {
		return nil
	}
	for _, name := range []string{openCodeDB + "-wal", openCodeDB} { // the write-ahead log first: it is small
		f, err := h.files.Open(path.Join(openCodeData, name))
		if err != nil {
			continue // missing, or not a regular file
		}
		more, err := scanFile(f, want, fn)
		f.Close()
		if err != nil || !more {
			return err
		}
	}
	return nil
}

func scanFile(f homedir.File, want []byte, fn func(before []byte) bool) (more bool, err error) {
	size, _, err := f.Stat()
	if err != nil {
		return true, err
	}
	r := io.NewSectionReader(f, 0, min(size, openCodeMost))
	buf := make([]byte, 0, openCodeStep+openCodeNear+len(want))
	from := 0 // the bytes before it have been searched
	for {
		n, err := io.ReadFull(r, buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		for {
			i := bytes.Index(buf[from:], want)
			if i < 0 {
				break
			}
			at := from + i
			if !fn(buf[max(0, at-openCodeNear):at]) {
				return false, nil
			}
			from = at + len(want)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return true, nil
		}
		if err != nil {
			return false, err
		}
		// Retain what a match across the border needs: the bytes before it, and its own beginning.
		keep := min(len(buf), openCodeNear+len(want)-1)
		from = max(from-(len(buf)-keep), keep-len(want)+1, 0)
		copy(buf, buf[len(buf)-keep:])
		buf = buf[:keep]
	}
}

// openCodeScreen: OpenCode does not report its state, but its last line names the keys that currently do something. Only colour
// shows which answer of a permission is selected, so Parawork presses no key there.
var openCodeScreen = mustRules(
	ScreenRule{Says: "waiting", Lines: 30, Reason: "asks for your permission: $1", Pattern: `(?s)△ Permission required\n[ ┃]*([^\n]*[^\n ])[^\n]*\n.*⇆ select +enter confirm`},
	ScreenRule{Says: "waiting", Lines: 3, Reason: "asks a question", Pattern: `⇆ select +enter (?:confirm|submit)`},
	ScreenRule{Says: "working", Lines: 1, Pattern: `\besc (?:again to )?interrupt\b`},
	ScreenRule{Says: "idle", Lines: 1, Pattern: `\bctrl\+p commands *$`},
)

func (openCode) screen() *ScreenRules { return openCodeScreen }

// plainHint interprets signals of an unknown program: a notification asks for a person.
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

// probe lists the models of the provider the key is for, which is free.
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
