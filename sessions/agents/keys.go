package agents

import "strings"

// Keys are the keys a person presses to steer an agent.
type Keys struct {
	Interrupt []string // keys that stop its current work, pressed one after the other
	Name      string   // display name of Interrupt
	Submit    string   // submits a prompt
	Commands  string   // first characters of the agent's own commands, which may cause no work
}

// steered is an adapter whose agent uses other keys than a shell.
type steered interface{ keys() Keys }

func (claudeCode) keys() Keys {
	return Keys{Interrupt: []string{"\x1b"}, Name: "Esc", Submit: "\r", Commands: "/!#"}
}

func (codex) keys() Keys {
	return Keys{Interrupt: []string{"\x1b"}, Name: "Esc", Submit: "\r", Commands: "/!"}
}

// OpenCode asks for a second Esc.
func (openCode) keys() Keys {
	return Keys{Interrupt: []string{"\x1b", "\x1b"}, Name: "Esc Esc", Submit: "\r", Commands: "/!"}
}

// Keys returns the keys that steer an agent. An unknown program is interrupted like a shell.
func (r *Registry) Keys(name string) Keys {
	if a, ok := r.adapters[name].(steered); ok {
		return a.keys()
	}
	return shellKeys()
}

func shellKeys() Keys { return Keys{Interrupt: []string{"\x03"}, Name: "Ctrl+C", Submit: "\r"} }

// Converses reports whether the program has an input field for prompts, which a question may replace.
func (r *Registry) Converses(name string) bool {
	return name != Shell && name != Command && name != Setup
}

// Asks reports whether lines, the screen of an agent, end in a choice: the last line with a cursor is a numbered option. This is
// the last check before text is pasted; agents report a question some seconds late.
func Asks(lines []string) bool {
	for i := len(lines) - 1; i >= 0; i-- {
		l := strings.TrimLeft(lines[i], " \t│┃|")
		rest, ok := cutAny(l, "❯", "›", "▶")
		if !ok {
			continue
		}
		rest = strings.TrimLeft(rest, " \u00a0")
		n := 0
		for n < len(rest) && rest[n] >= '0' && rest[n] <= '9' {
			n++
		}
		return n > 0 && n < 3 && n < len(rest) && (rest[n] == '.' || rest[n] == ')')
	}
	return false
}

func cutAny(s string, prefixes ...string) (string, bool) {
	for _, p := range prefixes {
		if rest, ok := strings.CutPrefix(s, p); ok {
			return rest, true
		}
	}
	return s, false
}
