package agents

import (
	"slices"

	"github.com/parawork/parawork/internal/fault"
)

// Command is the name of the agent that runs any program a session names.
const Command = "command"

// command is any program a session names.
type command struct{}

func (command) facts() facts { return facts{agent: Command, name: "Command"} }

func (command) plan(l Launch) (Plan, error) {
	if len(l.Args) == 0 || l.Args[0] == "" {
		return Plan{}, fault.New(fault.Invalid, "invalid_command", "The request names no program. Put it into argv.")
	}
	p := Plan{Argv: slices.Clone(l.Args), Prompt: PromptNone}
	if l.Prompt != "" {
		p.Prompt = PromptPaste
	}
	return p, nil
}

func (command) read(s Signal) Hint { return plainHint(s) }
