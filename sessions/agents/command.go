package agents

import (
	"slices"
	"strings"

	"github.com/parawork/parawork/internal/fault"
)

// command is any program: one a session names, or one config.json describes.
type command struct {
	custom   bool // described in config.json
	delivery Delivery
	label    string
}

func (c command) facts() facts {
	if c.custom {
		return facts{name: c.label}
	}
	return facts{name: "Command"}
}

func (c command) plan(l Launch) (Plan, error) {
	if !c.custom {
		if len(l.Args) == 0 || l.Args[0] == "" {
			return Plan{}, fault.New(fault.Invalid, "invalid_command", "Say what to run: argv must name a program.")
		}
		p := Plan{Argv: slices.Clone(l.Args), Prompt: PromptNone}
		if l.Prompt != "" {
			p.Prompt = PromptPaste
		}
		return p, nil
	}
	p := Plan{Argv: append(append([]string{l.program}, l.args...), l.Args...), Prompt: PromptNone}
	switch {
	case l.Prompt == "" || c.delivery == PromptNone:
	case c.delivery == PromptArgument && len(l.Prompt) <= maxArgument && !strings.ContainsRune(l.Prompt, 0):
		p.Argv, p.Prompt = append(p.Argv, l.Prompt), PromptArgument
	default:
		p.Prompt = PromptPaste
	}
	return p, nil
}

func (command) read(s Signal) Hint { return plainHint(s) }
