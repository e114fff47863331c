package guest

// The terminal of Parawork's own agent (`parawork-guest agent`) connects as UseAgent. Each side then sends JSON objects, one a line: the
// program an AgentInput, the server an AgentOutput.

// Types of AgentInput.
const (
	AgentOpen      = "open"      // the first one
	AgentPrompt    = "prompt"    // Text was entered
	AgentInterrupt = "interrupt" // the agent is to stop what it does
)

// Bounds of what each side says, bytes. The server trusts no program of the sandbox: it ends a connection that says more.
const (
	MaxAgentLine   = 8 << 20   // of a line of the server
	MaxAgentInput  = 2 << 20   // of a line of the program
	MaxAgentPrompt = 256 << 10 // of the text of a prompt
)

// AgentInput is what the program says.
type AgentInput struct {
	Type    string `json:"type"`
	Text    string `json:"text,omitempty"`
	Version int64  `json:"version,omitempty"` // with AgentOpen: all until this one was printed already
}

// AgentOutput is what the server says.
type AgentOutput struct {
	Text    string `json:"text,omitempty"`    // whole lines to print, without control characters but line feeds and colours
	Version int64  `json:"version,omitempty"` // everything up to it has been printed with Text
	State   string `json:"state,omitempty"`   // what the agent does now: one line to show beside the input
}
