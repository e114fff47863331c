package mcpserver

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parawork/parawork/tools"
)

// result translates the answer to a call.
func result(r tools.Result) *mcp.CallToolResult {
	out := &mcp.CallToolResult{IsError: r.IsError, Content: make([]mcp.Content, 0, len(r.Content))}
	for i, c := range r.Content {
		switch {
		case c.MIME == "":
			out.Content = append(out.Content, &mcp.TextContent{Text: c.Text})
		case strings.HasPrefix(c.MIME, "image/"):
			out.Content = append(out.Content, &mcp.ImageContent{MIMEType: c.MIME, Data: c.Data})
		case strings.HasPrefix(c.MIME, "audio/"):
			out.Content = append(out.Content, &mcp.AudioContent{MIMEType: c.MIME, Data: c.Data})
		default:
			out.Content = append(out.Content, &mcp.EmbeddedResource{Resource: &mcp.ResourceContents{URI: fmt.Sprintf("parawork:result/%d", i), MIMEType: c.MIME, Blob: c.Data}})
		}
	}
	if len(r.Structured) > 0 {
		out.StructuredContent = r.Structured
		if len(out.Content) == 0 { // for clients that know no structured results
			out.Content = append(out.Content, &mcp.TextContent{Text: string(r.Structured)})
		}
	}
	return out
}

// refusal is the answer to a call that was rejected or could not be made: a result and not an error of the protocol, because clients
// show only results to the model, which can then do better.
func refusal(err error) *mcp.CallToolResult {
	p := tools.ProblemOf(err)
	text := p.Code + ": " + p.Message
	if len(p.Details) > 0 {
		if details, err := json.Marshal(p.Details); err == nil {
			text += "\ndetails: " + string(details)
		}
	}
	return &mcp.CallToolResult{IsError: true, Content: []mcp.Content{&mcp.TextContent{Text: text}}}
}

// rejection is an error of the protocol, for requests that are not calls of tools.
func rejection(p tools.Problem) *jsonrpc.Error {
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: p.Message}
	if data, err := json.Marshal(p); err == nil {
		e.Data = data
	}
	return e
}
