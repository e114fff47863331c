package mcpserver

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/parawork/parawork/tools"
)

// Bounds of a connection.
const (
	MaxMessage  = tools.MaxArguments + 64<<10 // bytes of one message of a client
	maxInFlight = 64                          // requests that were not answered yet
	writeWithin = 30 * time.Second            // for a client to take an answer
)

// conn is a Transport and its Connection: one JSON-RPC message a line. The SDK's own ends at the first line it cannot read. This one
// answers such a line with an error and reads on, takes batches apart, and bounds what a client may have in flight.
type conn struct {
	net  net.Conn
	in   *bufio.Reader
	log  *slog.Logger
	rest []json.RawMessage // of a batch

	writing sync.Mutex // held while a message is written

	mu     sync.Mutex
	flying map[jsonrpc.ID]bool // requests that were not answered yet
}

func newConn(c net.Conn, log *slog.Logger) *conn {
	return &conn{net: c, in: bufio.NewReaderSize(c, 32<<10), log: log, flying: map[jsonrpc.ID]bool{}}
}

// Connect implements mcp.Transport.
func (c *conn) Connect(context.Context) (mcp.Connection, error) { return c, nil }

// SessionID implements mcp.Connection. A connection is one session, so it needs no id.
func (c *conn) SessionID() string { return "" }

// Close implements mcp.Connection.
func (c *conn) Close() error { return c.net.Close() }

// Read returns the next message that the SDK can work with. It ends when the connection is closed.
func (c *conn) Read(context.Context) (jsonrpc.Message, error) {
	for {
		raw, err := c.next()
		if err != nil {
			return nil, err
		}
		if len(raw) == 0 {
			continue
		}
		msg, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			err = c.reject(idOf(raw), jsonrpc.CodeInvalidRequest, "This is not a message of JSON-RPC 2.0: "+err.Error())
		} else if req, ok := msg.(*jsonrpc.Request); ok && req.IsCall() {
			if refused := c.takeOff(req.ID); refused != "" {
				msg, err = nil, c.reject(idOf(raw), jsonrpc.CodeInvalidRequest, refused)
			}
		}
		if err != nil {
			return nil, err
		}
		if msg != nil {
			return msg, nil
		}
	}
}

// next returns the next message as it came, or nothing where one was answered with an error.
func (c *conn) next() (json.RawMessage, error) {
	if len(c.rest) > 0 {
		raw := c.rest[0]
		c.rest = c.rest[1:]
		return raw, nil
	}
	line, id, err := readLine(c.in)
	if err != nil {
		return nil, err
	}
	c.writing.Lock()   // a client that does not take its answers is not read from
	c.writing.Unlock() //nolint:staticcheck // only waits
	switch {
	case line == nil:
		return nil, c.reject(id, jsonrpc.CodeInvalidRequest, fmt.Sprintf("The message is larger than %d bytes. The arguments of a tool may have %d.", MaxMessage, tools.MaxArguments))
	case len(line) == 0:
		return nil, nil
	case !json.Valid(line):
		return nil, c.reject(nil, jsonrpc.CodeParseError, "The line is not JSON.")
	case line[0] != '[':
		return line, nil
	}
	if err := json.Unmarshal(line, &c.rest); err != nil {
		return nil, c.reject(nil, jsonrpc.CodeParseError, "The batch cannot be read.")
	}
	if len(c.rest) == 0 {
		return nil, c.reject(nil, jsonrpc.CodeInvalidRequest, "The batch is empty.")
	}
	return nil, nil
}

// takeOff counts a request in, or says why it is refused.
func (c *conn) takeOff(id jsonrpc.ID) (refused string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.flying[id]:
		return "A request with this id is not answered yet."
	case len(c.flying) >= maxInFlight:
		return fmt.Sprintf("%d requests are not answered yet. Wait until one is.", maxInFlight)
	}
	c.flying[id] = true
	return ""
}

// Write implements mcp.Connection.
func (c *conn) Write(_ context.Context, msg jsonrpc.Message) error {
	line, err := jsonrpc.EncodeMessage(msg)
	if err != nil {
		return fmt.Errorf("encoding a message: %w", err)
	}
	if r, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		delete(c.flying, r.ID)
		c.mu.Unlock()
	}
	return c.write(line)
}

func (c *conn) write(line []byte) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	late := time.AfterFunc(writeWithin, func() {
		c.log.Info("an MCP client does not take its answers: its connection is cut")
		_ = c.net.Close()
	})
	defer late.Stop()
	_, err := c.net.Write(append(line, '\n'))
	return err
}

// reject answers a message that the SDK does not get to see. The id is as it came; nil when it is unknown.
func (c *conn) reject(id json.RawMessage, code int64, message string) error {
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": code, "message": message}})
	if err != nil {
		return err
	}
	return c.write(line)
}

// idOf returns the id of a request that may be wrong otherwise; nil when it has none.
func idOf(raw []byte) json.RawMessage {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if err := json.Unmarshal(raw, &m); err != nil || len(m.ID) == 0 || m.ID[0] == '{' || m.ID[0] == '[' {
		return nil
	}
	return m.ID
}

// readLine returns the next line without its end. Of a line that is too long it returns nil, and the id of the request if it finds
// one: a client waits for the answer to its request and not for one without an id.
func readLine(in *bufio.Reader) (line []byte, id json.RawMessage, err error) {
	line = []byte{}
	var long *idScanner
	for {
		part, err := in.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) {
				err = io.EOF
			}
			return nil, nil, err
		}
		switch {
		case long != nil:
			long.feed(part)
		case len(line)+len(part) > MaxMessage:
			long = &idScanner{}
			long.feed(line)
			long.feed(part)
			line = nil
		default:
			line = append(line, part...)
		}
		if err == nil {
			break
		}
	}
	if long != nil {
		return nil, long.id(), nil
	}
	return bytes.TrimSpace(line), nil, nil
}

var (
	_ mcp.Transport  = (*conn)(nil)
	_ mcp.Connection = (*conn)(nil)
)
