package guest

// An agent's MCP relay (`parawork-guest mcp`) and the command line in a sandbox (`parawork`) connect to a unix socket of the guest. The first
// line names the process by its token and says what the connection is for; the guest replaces it by a line for its host, and passes all
// other bytes on as they are. The host requests a connection ahead of time, with a POST of ToolsPath that is answered once a program
// has connected; the bodies of the request and of its answer are then the two directions. The first byte of the request confirms
// that the host is still there, as with GatewayPath; the guest then sends the program ToolGreeting before the host's bytes. Nothing
// of a program that has not received it has reached a host.

// ToolsPath is the path at which a host requests the next connection to its tools.
const ToolsPath = "/v1/tools"

// EnvTools is the path of the socket, as seen inside. The token is that of hooks, EnvHookToken.
const EnvTools = "PARAWORK_TOOLS"

// ToolGreeting tells a program that a host has accepted its connection: an empty line.
const ToolGreeting = "\n"

// Limits of connections to the tools.
const (
	MaxToolConns  = 64       // of one sandbox, open at once, including those that wait for a host
	MaxToolHello  = 4 << 10  // bytes of the first line
	MaxToolInput  = 1 << 20  // bytes of the standard input of a command
	MaxToolOutput = 16 << 20 // bytes of the answer to a command, as JSON
)

// ToolUse is what a connection to the tools is for.
type ToolUse string

// The uses.
const (
	UseMCP     ToolUse = "mcp"     // JSON-RPC messages of the Model Context Protocol, one a line, until either side closes
	UseCommand ToolUse = "command" // one ToolCommand on a line, then one ToolAnswer on a line
	UseLSP     ToolUse = "lsp"     // a LanguageClient on a line, then messages of the language server protocol, until either side closes
	UseAgent   ToolUse = "agent"   // the terminal of the server's own agent: see AgentInput
)

// Languages are those of which a program in the sandbox may share the language server.
var Languages = []string{"typescript", "python", "go", "rust"}

// LanguageClient is what a program says that wants to share a language server.
type LanguageClient struct {
	Language    string `json:"language"`
	Diagnostics bool   `json:"diagnostics"` // it wants to hear of problems in the files that it opens
}

// Known reports whether the use is one of this build's.
func (u ToolUse) Known() bool { return u == UseMCP || u == UseCommand || u == UseLSP || u == UseAgent }

// ToolHello is the first line of a program.
type ToolHello struct {
	Token string  `json:"token"`
	Use   ToolUse `json:"use"`
}

// ToolOpening is the first line that the host reads.
type ToolOpening struct {
	Process string  `json:"process"` // the process whose token the program presented
	Use     ToolUse `json:"use"`
}

// ToolCommand is a command line as a program in the sandbox was given it: the host parses it, so that both ends always fit.
type ToolCommand struct {
	Argv  []string `json:"argv"`            // without the program's own name
	Dir   string   `json:"dir"`             // the folder it was started in, absolute
	Stdin []byte   `json:"stdin,omitempty"` // read only when an argument is "-"
}

// ToolAnswer is what the program prints and how it exits.
type ToolAnswer struct {
	Exit   int    `json:"exit"` // 0; 1: refused or failed; 2: wrong usage
	Stdout string `json:"stdout"`
	Stderr string `json:"stderr"`
}
