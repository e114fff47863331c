// Package mcpserver offers tools by the Model Context Protocol. It translates: which tools there are, who calls, and what a call does
// are its Config's. Each connection of an agent has a server of its own, so that nothing of one agent can reach another.
//
// Goroutines: those of the SDK, which end before ServeConn returns. Locks: conn's, held while a message is written, so that a
// client that does not read its answers is not read from either; a write that takes too long cuts the connection.
package mcpserver

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parawork/parawork/tools"
)

// Config configures a server.
type Config struct {
	Specs []tools.Spec // all that can be called, listed or not
	// Listed returns the tools that tools/list shows, in order; nil = all of Specs that are not Unlisted, at most tools.MaxListed.
	Listed func(ctx context.Context) ([]tools.Spec, error)
	// Call calls a tool. ctx ends when the client cancels the call or goes away. client is the calling program's own name, such as
	// "codex 1.2".
	Call Call

	Name, Title, Version string // of the server
	Instructions         string // short: clients give it to the model
	Log                  *slog.Logger
}

// Call calls a tool by its name.
type Call func(ctx context.Context, client, name string, args json.RawMessage) (tools.Result, error)

// New returns a server for one session. It must not be shared by several.
func New(cfg Config) *mcp.Server {
	s := mcp.NewServer(&mcp.Implementation{Name: cfg.Name, Title: cfg.Title, Version: cfg.Version}, &mcp.ServerOptions{
		Instructions: cfg.Instructions,
		// No logging, and no notification of changed lists: a list is read again for each request.
		Capabilities: &mcp.ServerCapabilities{Tools: &mcp.ToolCapabilities{}},
		// What is on differs between projects and changes: nobody may keep a list.
		SetCacheable: func(_ context.Context, _ mcp.Request, c *mcp.Cacheable) { c.TTLMs, c.CacheScope = 0, "private" },
	})
	for _, spec := range cfg.Specs {
		s.AddTool(describe(spec), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			r, err := cfg.Call(ctx, clientName(req.ClientInfo()), spec.Name, req.Params.Arguments)
			if err != nil {
				return refusal(err), nil
			}
			return result(r), nil
		})
	}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			if method != "tools/list" {
				return next(ctx, method, req)
			}
			listed, err := cfg.listed(ctx)
			if err != nil {
				return nil, rejection(tools.ProblemOf(err))
			}
			r := &mcp.ListToolsResult{Tools: make([]*mcp.Tool, len(listed)), Cacheable: mcp.Cacheable{CacheScope: "private"}}
			for i, spec := range listed {
				r.Tools[i] = describe(spec)
			}
			return r, nil
		}
	})
	return s
}

func (cfg Config) listed(ctx context.Context) ([]tools.Spec, error) {
	if cfg.Listed != nil {
		return cfg.Listed(ctx)
	}
	var listed []tools.Spec
	for _, s := range cfg.Specs {
		if !s.Unlisted && len(listed) < tools.MaxListed {
			listed = append(listed, s)
		}
	}
	return listed, nil
}

// describe translates a spec.
func describe(s tools.Spec) *mcp.Tool {
	t := &mcp.Tool{Name: s.Name, Title: s.Title, Description: s.Description, InputSchema: s.Arguments,
		Annotations: &mcp.ToolAnnotations{Title: s.Title, ReadOnlyHint: !s.Needs.Writes, DestructiveHint: new(s.Needs.Writes), OpenWorldHint: new(s.Needs.Network)}}
	if len(s.Result) > 0 {
		t.OutputSchema = s.Result
	}
	return t
}

// ServeConn serves one client on a connection, one message a line, until the connection or ctx ends; it then closes the connection
// and returns when the last call has stopped.
func ServeConn(ctx context.Context, c net.Conn, cfg Config) error {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	t := newConn(c, cfg.Log)
	call := cfg.Call
	cfg.Call = func(callCtx context.Context, client, name string, args json.RawMessage) (tools.Result, error) {
		callCtx, cancel := context.WithCancelCause(callCtx) // the SDK detaches it from ours
		defer cancel(nil)
		defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
		return call(callCtx, client, name, args)
	}
	session, err := New(cfg).Connect(ctx, t, nil)
	if err != nil {
		_ = t.Close()
		return err
	}
	defer context.AfterFunc(ctx, func() { _ = t.Close() })()
	err = session.Wait()
	_ = t.Close()
	return err
}

// clientName formats the name by which a client introduced itself.
func clientName(info *mcp.Implementation) string {
	if info == nil {
		return "mcp"
	}
	name := strings.TrimSpace(info.Name + " " + info.Version)
	const most = 100
	if r := []rune(strings.Map(printable, name)); len(r) > most {
		name = string(r[:most])
	} else {
		name = string(r)
	}
	return cmp.Or(name, "mcp")
}

// printable drops control characters: the name is shown to people and written to logs.
func printable(r rune) rune {
	if r < ' ' || r == 0x7f || r == '\uFFFD' {
		return -1
	}
	return r
}
