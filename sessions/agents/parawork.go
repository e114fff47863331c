package agents

import (
	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
)

// Parawork is the name of Parawork's own agent.
const Parawork = "parawork"

// parawork works in the server: its program in the sandbox is only its terminal, and its account's key never leaves the server.
type parawork struct{}

func (parawork) facts() facts {
	return facts{agent: Parawork, name: "Parawork", accounts: true, explicit: true, permissions: true, hosted: true}
}

func (parawork) plan(l Launch) (Plan, error) {
	if !l.Account.keyed() {
		return Plan{}, fault.New(fault.Conflict, "agent_needs_key", "Parawork's own agent asks a model with an API key, and none is chosen. Add an account with a key under Settings, Agents.")
	}
	if !l.Hooks || l.Tools == nil {
		return Plan{}, fault.New(fault.Conflict, "agent_needs_tools", "The sandbox was created by an older version and offers no tools. Destroy the sandbox: the next one does.")
	}
	p := Plan{Argv: append(append([]string{"/bin/sh", "-c", `exec "$` + guest.EnvGuest + `" agent "$@"`, "parawork"}, l.args...), l.Args...),
		Conversation: l.Conversation, Resumed: l.Resume && l.Known, Prompt: PromptNone}
	if l.Prompt != "" {
		p.Prompt = PromptArgument // the server has it
	}
	return p, nil
}

func (parawork) read(s Signal) Hint { return plainHint(s) }

func (parawork) keys() Keys {
	return Keys{Interrupt: []string{"\x1b"}, Name: "Esc", Submit: "\r", Commands: "/"}
}
