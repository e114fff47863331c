package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/mcpserver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 30 * time.Second

// fake is a tool made of functions.
type fake struct {
	spec tools.Spec
	call func(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error)
}

func (f fake) Spec() tools.Spec { return f.spec }
func (f fake) Call(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
	return f.call(ctx, c, args)
}

func tool(name, group string, call func(ctx context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error)) fake {
	return fake{tools.Spec{Name: name, Title: "Title of " + name, Description: "Does " + name + ".", Group: group, Permission: tools.Allow,
		Arguments: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"text":{"type":"string","description":"A text."}}}`)}, call}
}

// world is a set of tools and what was seen of the calls.
type world struct {
	cfg     mcpserver.Config
	groups  tools.Selection
	clients chan string
	began   chan struct{}
	stopped chan error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{clients: make(chan string, 100), began: make(chan struct{}, 100), stopped: make(chan error, 100)}
	echo := tool("task_echo", "tasks", func(_ context.Context, c tools.Caller, args json.RawMessage) (tools.Result, error) {
		w.clients <- c.Client
		return tools.Result{Content: tools.Text("echo"), Structured: args}, nil
	})
	echo.spec.Result = json.RawMessage(`{"type":"object"}`)
	write := tool("artifact_save", "artifacts", func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		return tools.Result{IsError: true, Content: []tools.Content{{Text: "t"}, {MIME: "image/png", Data: []byte("png")}, {MIME: "application/pdf", Data: []byte("pdf")}}}, nil
	})
	write.spec.Needs.Writes = true
	hidden := tool("task_rare", "tasks", func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		return tools.Result{Structured: json.RawMessage(`{"rare":true}`)}, nil
	})
	hidden.spec.Unlisted = true
	refused := tool("task_refused", "tasks", func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		return tools.Result{}, fault.New(fault.Conflict, "task_busy", "The task is taken.").With("by", "PW-1")
	})
	secret := tool("task_broken", "tasks", func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		return tools.Result{}, fmt.Errorf("dial 10.0.0.1: no route")
	})
	slow := tool("task_slow", "tasks", func(ctx context.Context, _ tools.Caller, _ json.RawMessage) (tools.Result, error) {
		w.began <- struct{}{}
		<-ctx.Done()
		w.stopped <- ctx.Err()
		return tools.Result{}, ctx.Err()
	})
	run := tool("run_it", "commands", func(context.Context, tools.Caller, json.RawMessage) (tools.Result, error) {
		return tools.Result{Content: tools.Text("ran")}, nil
	})
	set, err := tools.New(tools.Config{Tools: []tools.Tool{echo, write, hidden, refused, secret, slow, run}})
	if err != nil {
		t.Fatal(err)
	}
	w.cfg = mcpserver.Config{Specs: set.Specs(), Name: "parawork", Version: "1.0", Instructions: "Be brief.",
		Listed: func(context.Context) ([]tools.Spec, error) { return tools.Listed(set.Specs(), w.groups), nil },
		Call: func(ctx context.Context, client, name string, args json.RawMessage) (tools.Result, error) {
			return set.Call(ctx, tools.Caller{TeamID: "team", UserID: "user", SessionID: "ses", Client: client, Groups: w.groups}, name, args)
		}}
	return w
}

// wire is a client that writes and reads lines.
type wire struct {
	t      *testing.T
	conn   net.Conn
	in     *bufio.Reader
	ended  chan struct{}
	cancel context.CancelFunc
}

func (w *world) serve(t *testing.T) *wire {
	t.Helper()
	near, away := net.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	c := &wire{t: t, conn: near, in: bufio.NewReader(near), ended: make(chan struct{}), cancel: cancel}
	go func() {
		defer close(c.ended)
		_ = mcpserver.ServeConn(ctx, away, w.cfg)
	}()
	_ = near.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() {
		_ = near.Close()
		c.waitEnd()
		cancel()
	})
	return c
}

func (c *wire) waitEnd() {
	c.t.Helper()
	select {
	case <-c.ended:
	case <-time.After(patience):
		c.t.Fatal("the server did not end")
	}
}

func (c *wire) send(line string) {
	c.t.Helper()
	if _, err := c.conn.Write([]byte(line + "\n")); err != nil {
		c.t.Fatalf("writing: %v", err)
	}
}

// answer is what a server says.
type answer struct {
	ID     any `json:"id"`
	Result struct {
		ProtocolVersion   string         `json:"protocolVersion"`
		SupportedVersions []string       `json:"supportedVersions"`
		Instructions      string         `json:"instructions"`
		Capabilities      map[string]any `json:"capabilities"`
		Tools             []struct {
			Name         string          `json:"name"`
			InputSchema  json.RawMessage `json:"inputSchema"`
			OutputSchema json.RawMessage `json:"outputSchema"`
			Annotations  map[string]any  `json:"annotations"`
		} `json:"tools"`
		Content []struct {
			Type, Text, MimeType string
			Data                 []byte
			Resource             struct {
				MimeType string
				Blob     []byte
			}
		} `json:"content"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		IsError           bool            `json:"isError"`
	} `json:"result"`
	Error *struct {
		Code    int             `json:"code"`
		Message string          `json:"message"`
		Data    json.RawMessage `json:"data"`
	} `json:"error"`
}

func (c *wire) read() answer {
	c.t.Helper()
	line, err := c.in.ReadBytes('\n')
	if err != nil {
		c.t.Fatalf("reading: %v", err)
	}
	var a answer
	if err := json.Unmarshal(line, &a); err != nil {
		c.t.Fatalf("%v: %s", err, line)
	}
	return a
}

func (c *wire) ask(line string) answer {
	c.t.Helper()
	c.send(line)
	return c.read()
}

const initialize = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"codex","version":"1.2"}}}`

func (c *wire) start() *wire {
	c.t.Helper()
	if a := c.ask(initialize); a.Error != nil {
		c.t.Fatalf("%+v", a.Error)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return c
}

func (c *wire) names() string {
	c.t.Helper()
	a := c.ask(`{"jsonrpc":"2.0","id":"list","method":"tools/list"}`)
	names := make([]string, len(a.Result.Tools))
	for i, tool := range a.Result.Tools {
		names[i] = tool.Name
	}
	return strings.Join(names, " ")
}

// Agents of all ages must be able to list and call.
func TestEachVersionOfTheProtocol(t *testing.T) {
	t.Parallel()
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"} {
		w := newWorld(t)
		c := w.serve(t)
		a := c.ask(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"` + version + `","capabilities":{},"clientInfo":{"name":"codex","version":"1.2"}}}`)
		if a.Error != nil || a.Result.ProtocolVersion != version || a.Result.Instructions != "Be brief." {
			t.Fatalf("%s: %+v", version, a)
		}
		if len(a.Result.Capabilities) != 1 || a.Result.Capabilities["tools"] == nil {
			t.Errorf("%s: the server claims %v, want tools alone", version, a.Result.Capabilities)
		}
		c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if a = c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{}}`); a.Error != nil || len(a.Result.Tools) == 0 {
			t.Errorf("%s: %+v", version, a)
		}
		a = c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"task_echo","arguments":{"text":"hello"}}}`)
		if a.Error != nil || len(a.Result.Content) != 1 || a.Result.Content[0].Text != "echo" || string(a.Result.StructuredContent) != `{"text":"hello"}` {
			t.Errorf("%s: %+v", version, a)
		}
		if client := <-w.clients; client != "codex 1.2" {
			t.Errorf("%s: the client is %q", version, client)
		}
	}
}

// Since 2026-07-28 there is no handshake: each request says who asks.
func TestTheVersionWithoutHandshake(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve(t)
	const meta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"new","version":"9"},"io.modelcontextprotocol/clientCapabilities":{}}`
	if a := c.ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + meta + `}}`); a.Error != nil || len(a.Result.SupportedVersions) != 5 {
		t.Errorf("%+v", a)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/list","params":{` + meta + `}}`); a.Error != nil || len(a.Result.Tools) == 0 {
		t.Errorf("%+v", a)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"task_echo","arguments":{},` + meta + `}}`); a.Error != nil || a.Result.Content[0].Text != "echo" {
		t.Errorf("%+v", a)
	}
	if client := <-w.clients; client != "new 9" {
		t.Errorf("the client is %q", client)
	}
}

// An agent is shown the listed tools of the groups that are on, in order; it may call the others of those groups as well. A change
// counts from the next request on.
func TestWhatIsListedAndCallable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve(t).start()
	if got, want := c.names(), "task_echo task_refused task_broken task_slow artifact_save"; got != want {
		t.Errorf("listed: %s, want %s", got, want)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"task_rare"}}`); a.Error != nil || a.Result.Content[0].Text != `{"rare":true}` {
		t.Errorf("an unlisted tool: %+v", a)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":{"name":"run_it"}}`); !a.Result.IsError || !strings.HasPrefix(a.Result.Content[0].Text, "tool_group_off: ") {
		t.Errorf("a tool of a group that is off: %+v", a)
	}
	w.groups = tools.Selection{On: []string{"commands"}, Off: []string{"tasks"}}
	if got, want := c.names(), "artifact_save run_it"; got != want {
		t.Errorf("listed after a change: %s, want %s", got, want)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"run_it"}}`); a.Result.IsError || a.Result.Content[0].Text != "ran" {
		t.Errorf("%+v", a)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"nothing"}}`); a.Error == nil || a.Error.Code != -32602 {
		t.Errorf("an unknown tool: %+v", a)
	}
}

func TestWhatAToolIsDescribedAs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve(t).start()
	a := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
	reads, writes := a.Result.Tools[0], a.Result.Tools[4]
	if string(reads.InputSchema) != string(w.cfg.Specs[0].Arguments) || string(reads.OutputSchema) != `{"type":"object"}` {
		t.Errorf("the schemas are not passed on as they are: %s, %s", reads.InputSchema, reads.OutputSchema)
	}
	if reads.Annotations["readOnlyHint"] != true || writes.Annotations["readOnlyHint"] != false || writes.Annotations["destructiveHint"] != true || writes.Annotations["openWorldHint"] != false {
		t.Errorf("%v, %v", reads.Annotations, writes.Annotations)
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	c := newWorld(t).serve(t).start()
	a := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"artifact_save"}}`)
	if parts := a.Result.Content; !a.Result.IsError || len(parts) != 3 || parts[0].Type != "text" || parts[1].Type != "image" || string(parts[1].Data) != "png" ||
		parts[2].Type != "resource" || string(parts[2].Resource.Blob) != "pdf" {
		t.Errorf("%+v", a)
	}
	a = c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"task_refused"}}`)
	if text := a.Result.Content[0].Text; !a.Result.IsError || text != "task_busy: The task is taken.\ndetails: {\"by\":\"PW-1\"}" {
		t.Errorf("%+v", a)
	}
	a = c.ask(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"task_broken"}}`)
	if text := a.Result.Content[0].Text; !a.Result.IsError || !strings.HasPrefix(text, "internal: ") || strings.Contains(text, "10.0.0.1") {
		t.Errorf("%+v", a)
	}
	a = c.ask(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"task_echo","arguments":{"other":1}}}`)
	if text := a.Result.Content[0].Text; !a.Result.IsError || !strings.HasPrefix(text, "tool_arguments_invalid: ") || !strings.Contains(text, `{"field":"other"}`) {
		t.Errorf("%+v", a)
	}
}

// A call stops when the client cancels it, when the client goes and when the server ends; nothing else does.
func TestACallStops(t *testing.T) {
	t.Parallel()
	const call = `{"jsonrpc":"2.0","id":"slow","method":"tools/call","params":{"name":"task_slow"}}`
	for name, stop := range map[string]func(c *wire){
		"cancelled": func(c *wire) {
			c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"slow"}}`)
		},
		"client gone":  func(c *wire) { _ = c.conn.Close() },
		"server ended": func(c *wire) { c.cancel() },
	} {
		w := newWorld(t)
		c := w.serve(t).start()
		c.send(call)
		select {
		case <-w.began:
		case <-time.After(patience):
			t.Fatalf("%s: the call did not begin", name)
		}
		if a := c.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.Error != nil { // others go on
			t.Errorf("%s: %+v", name, a)
		}
		stop(c)
		select {
		case <-w.stopped:
		case <-time.After(patience):
			t.Fatalf("%s: the call did not stop", name)
		}
		if name != "cancelled" {
			c.waitEnd()
		} else if a := c.read(); a.ID != "slow" {
			t.Errorf("%+v", a)
		}
	}
}

// Whatever a client sends, the answer says what is wrong, and the next request is served.
func TestHostileMessages(t *testing.T) {
	t.Parallel()
	c := newWorld(t).serve(t).start()
	long := strings.Repeat("x", 10<<20)
	deep := strings.Repeat("[", 500_000)
	for name, m := range map[string]struct {
		line string
		id   any
	}{
		"no JSON":             {`{"jsonrpc":`, nil},
		"a number":            {`5`, nil},
		"an empty batch":      {`[]`, nil},
		"another version":     {`{"jsonrpc":"1.0","id":7,"method":"tools/list"}`, 7.0},
		"no method":           {`{"jsonrpc":"2.0","id":8}`, nil},
		"an object as id":     {`{"jsonrpc":"2.0","id":{},"method":"tools/list"}`, nil},
		"deep":                {deep, nil},
		"deep arguments":      {`{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"task_echo","arguments":{"text":` + deep[:9_000] + strings.Repeat("]", 9_000) + `}}}`, 9.0},
		"10 MB":               {`{"jsonrpc":"2.0","id":"big","method":"tools/call","params":{"id":3,"name":"task_echo","arguments":{"text":"` + long + `"}}}`, "big"},
		"10 MB, id at end":    {`{"method":"tools/call","params":{"name":"task_echo","arguments":{"text":"\"id\":4` + long + `"}},"jsonrpc":"2.0","id":11}`, 11.0},
		"10 MB without an id": {long, nil},
		"no params":           {`{"jsonrpc":"2.0","id":12,"method":"tools/call"}`, 12.0},
		"arguments no object": {`{"jsonrpc":"2.0","id":13,"method":"tools/call","params":{"name":"task_echo","arguments":[1]}}`, 13.0},
		"unknown method":      {`{"jsonrpc":"2.0","id":14,"method":"no/such"}`, 14.0},
		"large arguments":     {`{"jsonrpc":"2.0","id":15,"method":"tools/call","params":{"name":"task_echo","arguments":{"text":"` + long[:tools.MaxArguments] + `"}}}`, 15.0},
	} {
		if name == "no method" {
			c.send(m.line) // an answer to nothing: nobody waits
			continue
		}
		a := c.ask(m.line)
		if (a.Error == nil) == !a.Result.IsError || a.ID != m.id {
			t.Errorf("%s: id %v, %+v, %+v", name, a.ID, a.Error, a.Result)
		}
	}
	c.send(`[{"jsonrpc":"2.0","id":20,"method":"ping"},{"jsonrpc":"2.0","id":21,"method":"ping"}]`)
	if a, b := c.read(), c.read(); a.Error != nil || b.Error != nil || a.ID == b.ID {
		t.Errorf("a batch: %+v, %+v", a, b)
	}
	if got := c.names(); !strings.HasPrefix(got, "task_echo ") {
		t.Errorf("afterwards: %s", got)
	}
}

// Requests that nobody answers yet are bounded, and each above the bound is answered with an error.
func TestTooManyInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.cfg.Call = func(ctx context.Context, _, _ string, _ json.RawMessage) (tools.Result, error) {
		<-ctx.Done()
		return tools.Result{}, ctx.Err()
	}
	c := w.serve(t).start()
	for i := range 64 {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"task_slow"}}`, 100+i))
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":1,"method":"ping"}`); a.Error == nil || a.ID != 1.0 || !strings.Contains(a.Error.Message, "64 requests") {
		t.Errorf("%+v", a)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":100,"method":"ping"}`); a.Error == nil || a.ID != 100.0 {
		t.Errorf("an id in use: %+v", a)
	}
	c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":100}}`)
	if a := c.read(); a.ID != 100.0 {
		t.Errorf("%+v", a)
	}
	if a := c.ask(`{"jsonrpc":"2.0","id":2,"method":"ping"}`); a.Error != nil {
		t.Errorf("after one was answered: %+v", a)
	}
}

// The SDK's own client works with the server.
func TestAnSDKClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.serve(t)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "sdk", Version: "1"}, nil).Connect(t.Context(), &mcp.IOTransport{Reader: c.conn, Writer: c.conn}, nil)
	if err != nil {
		t.Fatal(err)
	}
	listed, err := client.ListTools(t.Context(), nil)
	if err != nil || len(listed.Tools) != 5 {
		t.Fatalf("%v, %v", listed, err)
	}
	r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "task_echo", Arguments: map[string]any{"text": "a"}})
	if err != nil || r.IsError {
		t.Errorf("%+v, %v", r, err)
	}
	_ = client.Close()
	c.waitEnd()
}
