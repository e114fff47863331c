// Package tools defines what an agent may call, and the Set that every call goes through, whoever makes it: the HTTP API, an MCP
// client, the command line in a sandbox, or Parawork's own agent. A tool is a folder below this one; it declares its arguments
// and results, and does one piece of work. The Set finds it, checks the arguments, bounds time and size, and records the call.
// The package knows no protocol, no server and no storage.
//
// It starts no goroutine: a call runs in its caller's, and ends when the caller's context does.
package tools

import (
	"context"
	"encoding/json"
	"strings"
	"time"
)

// Tool is something an agent may call. Implementations are safe for concurrent use.
type Tool interface {
	// Spec describes the tool. It is the same at every call.
	Spec() Spec
	// Call does the work. The arguments fit the spec's schema. The tool stops when ctx ends, limits its result to
	// c.Limits.ResultBytes, and rejects a workspace that is not of the caller's team. An error means that the call was rejected
	// or could not be made; work that was done and failed is a Result with IsError, which the agent reads.
	Call(ctx context.Context, c Caller, args json.RawMessage) (Result, error)
}

// Spec describes a tool to agents, people and protocols before they call it.
type Spec struct {
	Name        string          // of lower-case words with underscores, such as run_command: unique in a Set
	Title       string          // display name
	Description string          // for agents: what it does, when to use it, what it answers
	Group       string          // one of Groups: tools that are switched on and off together
	Arguments   json.RawMessage // JSON Schema of an object that takes no other properties than those it names
	Result      json.RawMessage // JSON Schema of Result.Structured; empty: it answers with content alone
	Command     Command         // its form on the command line
	Unlisted    bool            // callable, but not in the list an MCP client is shown: agents use it by the command line
	Needs       Needs
	Permission  Permission    // unless the project or the user says otherwise
	Timeout     time.Duration // the longest a call may take; 0 = DefaultTimeout
}

// Command is how a tool looks on the command line. The verb is the tool's name with spaces instead of underscores: task_create is
// `parawork task create`. Each argument is an option of its name with dashes (--blocked-by); the ones named here may be given
// without it.
type Command struct {
	Positional []string // arguments by position; the last one takes all further words when it is an array
	Stdin      string   // the argument that standard input fills when a lone "-" stands in its place
	Paths      []string // arguments that are paths of the sandbox: relative ones are made absolute by the caller's folder
}

// Needs are a tool's requirements.
type Needs struct {
	Workspace  bool     // it works in the caller's workspace
	Writes     bool     // it changes something
	Network    bool     // it reaches beyond the sandbox and the server
	ImageParts []string // programs that must be in the sandbox's image, such as chromium
}

// Permission is whether agents are configured to ask a person before they call a tool. The server does not check it: a program in a
// sandbox can call any tool that is on.
type Permission string

// The permissions.
const (
	Allow Permission = "allow"
	Ask   Permission = "ask"
)

// Caller identifies the caller. The code that creates a Caller has verified it: the API by its policy, a sandbox's relay by the
// process's token.
type Caller struct {
	TeamID      string
	WorkspaceID string // "" outside a workspace
	SessionID   string // the session whose agent calls; "" when it is none
	UserID      string // the person on whose behalf: the caller, or who started the session
	Agent       string // kind of agent, such as claude-code; "" when a person or a script calls
	Client      string // the calling program's own name, such as "codex 1.2"
	Groups      Selection
	Limits      Limits
}

// Limits bound one call. Zero fields have the defaults.
type Limits struct {
	Timeout     time.Duration // never more than the tool's own
	ResultBytes int           // of all content and the structured result together
	ImageBytes  int           // of images beside that; 0 = they count as the rest
}

// Image is how large an image may be in a result that has so many other bytes.
func (l Limits) Image(others int) int {
	if l.ImageBytes > 0 {
		return l.ImageBytes
	}
	return l.ResultBytes - others
}

// fits reports whether a result is within the limits.
func (l Limits) fits(r Result) bool {
	images := 0
	for _, c := range r.Content {
		if strings.HasPrefix(c.MIME, "image/") {
			images += len(c.Data)
		}
	}
	if l.ImageBytes > 0 {
		return r.Bytes()-images <= l.ResultBytes && images <= l.ImageBytes
	}
	return r.Bytes() <= l.ResultBytes
}

// Result is the answer to a call.
type Result struct {
	Content    []Content       // for the agent to read
	Structured json.RawMessage // fits the spec's result schema
	IsError    bool            // the work was done and failed
	Truncated  bool            // something was left out because of the limit
}

// Content is one part of a result: a text, or data of some MIME type such as an image.
type Content struct {
	Text string
	MIME string // of Data; "" for a text
	Data []byte
}

// Text returns the content of a result that is one text.
func Text(s string) []Content { return []Content{{Text: s}} }

// Bytes is the size of the result.
func (r Result) Bytes() int {
	n := len(r.Structured)
	for _, c := range r.Content {
		n += len(c.Text) + len(c.Data)
	}
	return n
}
