package agents

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// conversationMark stands for the ID of a conversation in arguments of config.json.
const conversationMark = "{conversation}"

// custom is a program that config.json describes.
type custom struct {
	name  string
	s     Settings
	rules *ScreenRules // from config.json only
}

// customFinder is a custom that prints the ID of its conversation.
type customFinder struct {
	custom
	pattern *regexp.Regexp
}

// newCustom checks the settings of a custom agent in config.json.
func newCustom(name string, s Settings) (adapter, error) {
	bad := func(key, format string, args ...any) error {
		return fault.New(fault.Invalid, "invalid_config", "agents."+name+key+" "+format, args...)
	}
	if s.Command == "" {
		return nil, bad(".command", "is missing: name the program to run.")
	}
	rules, err := CompileScreenRules(s.Screen)
	if err != nil {
		return nil, bad(".screenRules:", "%v", err)
	}
	c := custom{name: name, s: s, rules: rules}
	if s.ConversationPattern == "" {
		return c, nil
	}
	re, err := regexp.Compile(s.ConversationPattern)
	if err != nil {
		return nil, bad(".conversation.pattern", "is not a regular expression: %v", err)
	}
	return customFinder{c, re}, nil
}

func (custom) described() {}

func (c custom) facts() facts {
	return facts{name: c.name, install: c.s.Install, accounts: c.s.AccountEnv != "", permissions: len(c.s.PermissionArgs) > 0}
}

// resumes reports whether config.json says how to continue a conversation.
func (c custom) resumes() bool { return len(c.s.ResumeArgs) > 0 }

func (c custom) plan(l Launch) (Plan, error) {
	p := Plan{Argv: append([]string{l.program}, l.args...), Prompt: PromptNone, Env: map[string]string{}}
	if l.Account.keyed() && c.s.AccountEnv != "" {
		key, base := l.Account.Secret, l.Account.BaseURL
		if g := l.Account.Gateway; g != nil {
			key, base = g.Token, g.base()
		}
		p.Secrets = map[string]string{c.s.AccountEnv: key}
		if c.s.BaseURLEnv != "" && base != "" {
			p.Env[c.s.BaseURLEnv] = base
		}
	}
	byID := slices.ContainsFunc(c.s.ResumeArgs, func(a string) bool { return strings.Contains(a, conversationMark) })
	switch {
	case l.Resume && len(c.s.ResumeArgs) > 0 && (!byID || l.Known && printable(l.Conversation)):
		p.Argv = append(p.Argv, marked(c.s.ResumeArgs, l.Conversation)...)
		p.Resumed = true
		if byID {
			p.Conversation = l.Conversation
		}
	case len(c.s.ConversationArgs) > 0:
		p.Argv = append(p.Argv, marked(c.s.ConversationArgs, l.Conversation)...)
		p.Conversation = l.Conversation
	}
	if l.all() {
		p.Argv = append(p.Argv, c.s.PermissionArgs...)
	}
	p.Argv = append(p.Argv, l.Args...)
	short := len(l.Prompt) <= maxArgument && !strings.ContainsRune(l.Prompt, 0)
	flag := c.s.PromptFlag
	switch {
	case l.Prompt == "" || c.s.Prompt == PromptNone:
	case c.s.Prompt != PromptArgument || !short:
		p.Prompt = PromptPaste
	case strings.HasSuffix(flag, "="):
		p.Argv, p.Prompt = append(p.Argv, flag+l.Prompt), PromptArgument
	case strings.HasPrefix(l.Prompt, "-"): // would be read as an option
		p.Prompt = PromptPaste
	case flag != "":
		p.Argv, p.Prompt = append(p.Argv, flag, l.Prompt), PromptArgument
	default:
		p.Argv, p.Prompt = append(p.Argv, l.Prompt), PromptArgument
	}
	return p, nil
}

func (custom) read(s Signal) Hint { return plainHint(s) }

func (c custom) keys() Keys {
	if len(c.s.Interrupt) == 0 {
		return shellKeys()
	}
	return Keys{Interrupt: c.s.Interrupt, Name: c.s.InterruptName, Submit: "\r"}
}

// marked inserts the ID of a conversation into arguments.
func marked(args []string, id string) []string {
	out := make([]string, len(args))
	for i, a := range args {
		out[i] = strings.ReplaceAll(a, conversationMark, id)
	}
	return out
}

// printable reports whether an ID printed by a program is safe on a command line: one visible word that is not an option.
func printable(id string) bool {
	return id != "" && len(id) <= 128 && id[0] != '-' && !strings.ContainsFunc(id, func(r rune) bool { return r <= ' ' || r > '~' })
}

// escapes matches terminal control sequences.
var escapes = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[PX^_][^\x1b]*\x1b\\|\x1b[ -/]*[0-~]|[\x00-\x08\x0b-\x1f\x7f]`)

// find uses the last match of the pattern in the output: its first group, or all of it.
func (c customFinder) find(_ Home, f Find) (string, error) {
	if f.Output == nil {
		return "", nil
	}
	text := escapes.ReplaceAll(f.Output(), nil)
	all := c.pattern.FindAllSubmatch(text, -1)
	for i := len(all) - 1; i >= 0; i-- {
		id := string(all[i][min(1, len(all[i])-1)])
		if printable(id) {
			return id, nil
		}
	}
	return "", nil
}

// dialog returns the options that the matching rule of config.json gives for the screen.
func (c custom) dialog(lines []string) *Dialog {
	r, text, at := c.rules.first(lines)
	if r == nil || len(r.options) == 0 {
		return nil
	}
	d := &Dialog{Ask: Ask{Kind: Choice, Title: r.words(text, at)}}
	if d.Title == "" {
		d.Title = strings.TrimSpace(text[at[0]:at[1]])
	}
	allow, deny := false, false
	labels := make([]string, len(r.options))
	for i, o := range r.options {
		role := cmp.Or(o.Role, Plain)
		allow, deny = allow || role == Allow, deny || role == Deny
		d.Options = append(d.Options, Option{ID: strconv.Itoa(i + 1), Label: o.Label, Role: role})
		d.keys, labels[i] = append(d.keys, o.Keys), o.Label
	}
	if allow && deny {
		d.Kind = Permission
	}
	d.Key = "screen/" + fingerprint(d.Title, text[at[0]:at[1]], labels)
	return d
}
