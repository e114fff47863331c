package config

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Agent is one CLI program that works. What follows Env is for agents of one's own: Parawork knows it of the others.
type Agent struct {
	Enabled      bool              `json:"enabled"`
	Name         string            `json:"name"`
	Command      string            `json:"command"`
	DefaultArgs  []string          `json:"defaultArgs"`
	Permissions  string            `json:"permissions"`
	Env          map[string]string `json:"env" secret:"values"`
	ScreenRules  []ScreenRule      `json:"screenRules"`
	Install      string            `json:"install"`
	Prompt       AgentPrompt       `json:"prompt"`
	Conversation AgentConversation `json:"conversation"`
	Resume       AgentResume       `json:"resume"`
	Interrupt    string            `json:"interrupt"`
	PermitArgs   []string          `json:"permissionArgs"`
	Account      AgentAccount      `json:"account"`
}

// ScreenRule tells from what the screen shows what the agent does.
type ScreenRule struct {
	Pattern string `json:"pattern"`
	Says    string `json:"says"`
	Reason  string `json:"reason"`
	Lines   int    `json:"lines"`

	Options []ScreenOption `json:"options"` // what a person may answer, where it waits for one
}

// ScreenOption is one answer to what the screen asks, and the keys that give it.
type ScreenOption struct {
	Label string `json:"label"`
	Keys  string `json:"keys"`
	Role  string `json:"role"`
}

// AgentPrompt says how the first prompt is given. In the file it may be the delivery alone, as a text.
type AgentPrompt struct {
	Delivery string `json:"delivery"`
	Flag     string `json:"flag"`
}

// AgentConversation says how the agent's own id of a conversation is known.
type AgentConversation struct {
	Args    []string `json:"args"`
	Pattern string   `json:"pattern"`
}

// AgentResume says how the agent goes on with a conversation.
type AgentResume struct {
	Args []string `json:"args"`
}

// AgentAccount says in which environment variables the agent takes an account's key and address. With an address, and an API the model
// gateway knows, it goes through the gateway.
type AgentAccount struct {
	Env        string `json:"env"`
	BaseURLEnv string `json:"baseUrlEnv"`
	API        string `json:"api"` // anthropic, openai; "" = another
}

// newAgent is what a custom agent begins with.
func newAgent() Agent {
	return Agent{Enabled: true, Permissions: "ask", DefaultArgs: []string{}, Env: map[string]string{}}
}

// ConversationMark stands for the id of a conversation in arguments.
const ConversationMark = "{conversation}"

// keyBytes are what a terminal sends for the keys an agent may be interrupted with.
var keyBytes = map[string]string{"esc": "\x1b", "enter": "\r", "space": " ", "tab": "\t", "ctrl+c": "\x03", "ctrl+d": "\x04", "ctrl+g": "\x07", "ctrl+x": "\x18", "ctrl+z": "\x1a",
	"ctrl+\\": "\x1c", "up": "\x1b[A", "down": "\x1b[B"}

// InterruptKeys returns what to press to interrupt the agent, nothing when config.json does not say.
func (a Agent) InterruptKeys() []string {
	keys, err := keysIn(a.Interrupt)
	if err != nil {
		return nil // checked by Load
	}
	return keys
}

// Bytes returns what to type for the option.
func (o ScreenOption) Bytes() string {
	keys, err := keysIn(o.Keys)
	if err != nil {
		return "" // checked by Load
	}
	return strings.Join(keys, "")
}

// keysIn reads names of keys, and single characters that stand for themselves.
func keysIn(words string) ([]string, error) {
	var out []string
	for name := range strings.FieldsSeq(words) {
		b, ok := keyBytes[strings.ToLower(name)]
		if !ok && len(name) == 1 && name[0] > ' ' && name[0] < 0x7f {
			b, ok = name, true
		}
		if !ok {
			return nil, fmt.Errorf("%q is not a known key; use single characters and %s", name, strings.Join(slices.Sorted(maps.Keys(keyBytes)), ", "))
		}
		out = append(out, b)
	}
	if len(out) > 5 {
		return nil, fmt.Errorf("more than 5 keys")
	}
	return out, nil
}

func (d *decoder) checkAgent(key, name string, a Agent) {
	_, builtin := d.agents[name]
	if !agentName.MatchString(name) {
		d.problem(key, "the name of an agent has 1 to 64 lower-case letters, digits, dots, dashes and underscores")
	}
	if name == "setup" {
		d.problem(key, "this name is taken by the setup scripts of projects: choose another one")
	}
	if !builtin && a.Command == "" {
		d.problem(key+".command", "an agent of your own needs the program to run")
	}
	if builtin {
		d.checkBuiltin(key, name, a)
	}
	d.checkOneOf(key+".permissions", a.Permissions, "ask", "all")
	if a.Prompt.Delivery != "" {
		d.checkOneOf(key+".prompt.delivery", a.Prompt.Delivery, "argument", "paste", "none")
	}
	if a.Prompt.Flag != "" && a.Prompt.Delivery != "argument" {
		d.problem(key+".prompt.flag", `is for the delivery "argument" only`)
	}
	for k, v := range a.Env {
		if !envName(k) || strings.Contains(v, "\x00") {
			d.problem(key+".env", "%q must be the name of an environment variable, and its value free of zero bytes", k)
		}
	}
	for k, v := range map[string]string{".account.env": a.Account.Env, ".account.baseUrlEnv": a.Account.BaseURLEnv} {
		if v != "" && !envName(v) {
			d.problem(key+k, "%q must be the name of an environment variable", v)
		}
	}
	if a.Account.API != "" {
		d.checkOneOf(key+".account.api", a.Account.API, "anthropic", "openai")
		if a.Account.BaseURLEnv == "" {
			d.problem(key+".account.baseUrlEnv", "is required with api: the agent needs the address of the model gateway")
		}
	}
	if a.Account.BaseURLEnv != "" && a.Account.Env == "" {
		d.problem(key+".account.env", "is required with baseUrlEnv: an account needs a key")
	}
	for _, arg := range slices.Concat([]string{a.Command, a.Prompt.Flag, a.Install}, a.DefaultArgs, a.Conversation.Args, a.Resume.Args, a.PermitArgs) {
		if strings.Contains(arg, "\x00") {
			d.problem(key, "the command and its arguments must be free of zero bytes")
		}
	}
	if len(a.Conversation.Args) > 0 && !marked(a.Conversation.Args) {
		d.problem(key+".conversation.args", "must contain %s, which is replaced by the id of a new conversation", ConversationMark)
	}
	if p := a.Conversation.Pattern; p != "" {
		if re, err := regexp.Compile(p); err != nil {
			d.problem(key+".conversation.pattern", "is not a regular expression: %v", err)
		} else if re.MatchString("") || len(p) > 1000 {
			d.problem(key+".conversation.pattern", "matches an empty text, or has more than 1000 bytes")
		}
	}
	if marked(a.Resume.Args) && len(a.Conversation.Args) == 0 && a.Conversation.Pattern == "" {
		d.problem(key+".resume.args", "contain %s, but the conversation id is unknown: set conversation.args or conversation.pattern", ConversationMark)
	}
	if _, err := keysIn(a.Interrupt); err != nil {
		d.problem(key+".interrupt", "%v", err)
	}
	d.checkScreenRules(key, a.ScreenRules)
}

// checkBuiltin refuses what Parawork knows itself of its own agents.
func (d *decoder) checkBuiltin(key, name string, a Agent) {
	for i, r := range a.ScreenRules {
		if len(r.Options) > 0 {
			d.problem(fmt.Sprintf("%s.screenRules[%d].options", key, i), "can be set only for your own agents: for %s it is built in", name)
		}
	}
	for k, given := range map[string]bool{".prompt": a.Prompt != AgentPrompt{}, ".install": a.Install != "", ".interrupt": a.Interrupt != "", ".permissionArgs": len(a.PermitArgs) > 0, ".account": a.Account != AgentAccount{},
		".conversation": len(a.Conversation.Args) > 0 || a.Conversation.Pattern != "", ".resume": len(a.Resume.Args) > 0} {
		if given {
			d.problem(key+k, "can be set only for your own agents: for %s it is built in", name)
		}
	}
}

// checkScreenRules checks what can be seen without the engine that uses them.
func (d *decoder) checkScreenRules(key string, rules []ScreenRule) {
	for i, r := range rules {
		at := fmt.Sprintf("%s.screenRules[%d]", key, i)
		d.checkOneOf(at+".says", r.Says, "working", "waiting", "idle", "failed")
		if _, err := regexp.Compile(r.Pattern); err != nil {
			d.problem(at+".pattern", "is not a regular expression: %v", err)
		} else if r.Pattern == "" {
			d.problem(at+".pattern", "is required: it must match what the screen shows")
		}
		if r.Lines < 0 || r.Lines > 60 {
			d.problem(at+".lines", "must be a number from 1 to 60")
		}
		if len(r.Options) > 0 && (r.Says != "waiting" || len(r.Options) > 9) {
			d.problem(at+".options", `can have at most 9 entries, only in rules with the state "waiting"`)
		}
		for j, o := range r.Options {
			at := fmt.Sprintf("%s.options[%d]", at, j)
			if o.Label == "" {
				d.problem(at+".label", "is required: it is the text of the answer")
			}
			if keys, err := keysIn(o.Keys); err != nil {
				d.problem(at+".keys", "%v", err)
			} else if len(keys) == 0 {
				d.problem(at+".keys", `is required: the keys that give the answer, such as "y" or "down enter"`)
			}
			if o.Role != "" {
				d.checkOneOf(at+".role", o.Role, "allow", "allow_session", "deny", "option")
			}
		}
	}
}

func marked(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, ConversationMark) })
}
