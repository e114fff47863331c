package agents

import (
	"cmp"
	"context"
	"net/http"
	"strings"

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

// Hosted reports whether an agent works in the server. Its program in the sandbox is only its terminal.
func (r *Registry) Hosted(name string) bool {
	a, ok := r.adapters[name]
	return ok && a.facts().hosted
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
	// The first Escape only empties the line when somebody has typed something.
	return Keys{Interrupt: []string{"\x1b", "\x1b"}, Name: "Esc", Submit: "\r", Commands: "/"}
}

// probe lists the models, as the server's model gateway would ask for them.
func (parawork) probe(ctx context.Context, a Account) (*http.Request, error) {
	if !strings.HasPrefix(a.Secret, "sk-ant-") {
		return bearerProbe(ctx, cmp.Or(a.BaseURL, openAIBase), a.Secret)
	}
	if strings.HasPrefix(a.Secret, "sk-ant-oat") { // a login may not do that
		return nil, nil
	}
	base := strings.TrimSuffix(strings.TrimRight(cmp.Or(a.BaseURL, "https://api.anthropic.com"), "/"), "/v1")
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/v1/models?limit=1", nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("anthropic-version", "2023-06-01")
	req.Header.Set("X-Api-Key", a.Secret)
	return req, nil
}
