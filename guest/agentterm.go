package guest

// The terminal of Parawork's own agent (`parawork-guest agent`) connects as UseAgent. Each side then sends JSON objects, one a line: the
// program an AgentInput, the server an AgentOutput.

// Types of AgentInput.
const (
	AgentOpen      = "open"      // the first one
	AgentPrompt    = "prompt"    // Text was entered
	AgentInterrupt = "interrupt" // the agent is to stop what it does
)

// MaxAgentLine bounds a line of either side, bytes.
const MaxAgentLine = 8 << 20

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
