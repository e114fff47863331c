package lsp

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/fault"
	"github.com/parawork/parawork/internal/lspframe"
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Bounds of a client.
const (
	clientAsks   = 16                      // questions at once; others wait
	clientOpen   = 200                     // files open; problems of further ones are not sent
	clientQueued = 256                     // messages it has not taken; more end it,
	clientBytes  = 2 * protocol.MaxMessage // and so do more bytes of them
)

// forwarded are the beginnings of the methods that clients may call of the shared server. Commands are not among them: they edit files.
var forwarded = []string{"textDocument/", "workspace/symbol", "callHierarchy/", "typeHierarchy/", "completionItem/resolve", "codeAction/resolve", "inlayHint/resolve"}

// sharer is a program in the sandbox that speaks the language server protocol, such as an editor or an agent. It shares the server of its
// language: what it has open is read from the disk as for everybody, so clients cannot contradict each other.
type sharer struct {
	s     *Service
	by    tools.Caller
	allow func(context.Context) error
	lang  languages.Language
	push  bool // it wants to hear of problems
	out   chan []byte
	end   context.CancelFunc
	slots chan struct{}

	mu     sync.Mutex
	open   map[string]bool // paths in wire form
	calls  map[string]context.CancelFunc
	queued int // bytes in out
}

// message is one of the protocol's, as clients send it.
type message struct {
	Version string                  `json:"jsonrpc"`
	ID      json.RawMessage         `json:"id,omitempty"`
	Method  string                  `json:"method,omitempty"`
	Params  json.RawMessage         `json:"params,omitempty"`
	Result  json.RawMessage         `json:"result,omitempty"`
	Error   *protocol.ResponseError `json:"error,omitempty"`
}

// ServeClient serves a program in a sandbox that speaks the protocol, until it or ctx ends; the server goes on. The first line is a
// guest.LanguageClient. allow is asked before each question whether the caller may still work there.
func (s *Service) ServeClient(ctx context.Context, by tools.Caller, allow func(context.Context) error, conn io.ReadWriteCloser) error {
	in := bufio.NewReaderSize(conn, 64<<10)
	line, err := in.ReadSlice('\n')
	var hello guest.LanguageClient
	if err != nil || json.Unmarshal(line, &hello) != nil {
		return errors.New("a client of a language server did not say which one it wants")
	}
	l, ok := languages.ByID(hello.Language)
	if !ok {
		return errNoLanguage(hello.Language)
	}
	ctx, cancel := context.WithCancel(ctx)
	c := &sharer{s: s, by: by, allow: allow, lang: l, push: hello.Diagnostics, out: make(chan []byte, clientQueued), end: cancel, slots: make(chan struct{}, clientAsks), open: map[string]bool{}, calls: map[string]context.CancelFunc{}}
	var work sync.WaitGroup
	work.Go(func() { c.write(ctx, conn) })
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // wakes the reader
	k := key{by.WorkspaceID, l.ID}
	s.join(k, c)
	defer func() {
		s.leave(k, c)
		cancel()
		stop()
		_ = conn.Close()
		work.Wait()
	}()
	for {
		body, err := lspframe.Read(in)
		if err != nil {
			return err
		}
		var m message
		if json.Unmarshal(body, &m) != nil {
			return errors.New("a client of a language server sent a message that is not JSON-RPC")
		}
		if m.Method == "exit" {
			return nil
		}
		if err := c.take(ctx, m, &work); err != nil {
			return err
		}
	}
}

func (s *Service) join(k key, c *sharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[k] = append(s.clients[k], c)
}

func (s *Service) leave(k key, c *sharer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.clients[k] = slices.DeleteFunc(s.clients[k], func(o *sharer) bool { return o == c })
	if len(s.clients[k]) == 0 {
		delete(s.clients, k)
	}
}

// fanOut passes the server's report about a file to the clients that have it open.
func (sv *server) fanOut(file string, items []protocol.Diagnostic) {
	sv.s.mu.Lock()
	all := slices.Clone(sv.s.clients[key{sv.place.WorkspaceID, sv.lang.ID}])
	sv.s.mu.Unlock()
	for _, c := range all {
		c.publish(sv, file, items)
	}
}

func (c *sharer) publish(sv *server, file string, items []protocol.Diagnostic) {
	c.mu.Lock()
	wants := c.push && c.open[file]
	c.mu.Unlock()
	if !wants {
		return
	}
	params, err := json.Marshal(map[string]any{"uri": sv.uri(file), "diagnostics": append([]protocol.Diagnostic{}, items...)})
	if err == nil {
		c.send(message{Method: "textDocument/publishDiagnostics", Params: params})
	}
}

// send queues a message. A client that does not take its messages is ended.
func (c *sharer) send(m message) {
	m.Version = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		c.end()
		return
	}
	b := lspframe.Encode(body)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.queued+len(b) > clientBytes {
		c.end()
		return
	}
	select {
	case c.out <- b:
		c.queued += len(b)
	default:
		c.end()
	}
}

func (c *sharer) write(ctx context.Context, w io.Writer) {
	for {
		select {
		case b := <-c.out:
			if _, err := w.Write(b); err != nil {
				c.end()
				return
			}
			c.mu.Lock()
			c.queued -= len(b)
			c.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

func (c *sharer) reply(id json.RawMessage, result json.RawMessage, err error) {
	m := message{ID: id, Result: result}
	if len(result) == 0 {
		m.Result = json.RawMessage("null")
	}
	if err != nil {
		m.Result, m.Error = nil, &protocol.ResponseError{Code: -32803, Message: fault.Words(err, "It could not be found out.")}
		if answered := new(protocol.ResponseError); errors.As(err, &answered) {
			m.Error = answered
		}
	}
	c.send(m)
}

// take serves one message; questions in goroutines of their own.
func (c *sharer) take(ctx context.Context, m message, work *sync.WaitGroup) error {
	switch {
	case m.Method == "$/cancelRequest":
		var p struct {
			ID json.RawMessage `json:"id"`
		}
		if json.Unmarshal(m.Params, &p) == nil {
			c.mu.Lock()
			if cancel := c.calls[string(p.ID)]; cancel != nil {
				cancel()
			}
			c.mu.Unlock()
		}
		return nil
	case m.Method == "" || len(m.ID) > 128:
		return nil // answers: it is asked nothing
	case m.Method == "shutdown":
		c.reply(m.ID, nil, nil)
		return nil
	case len(m.ID) == 0 && !strings.HasPrefix(m.Method, "textDocument/did"):
		return nil
	}
	select {
	case c.slots <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var file string // of a notification
	if len(m.ID) == 0 {
		file = c.opens(m) // in the order of the client's messages
	}
	asking, cancel := context.WithTimeout(ctx, startWithin+askWithin)
	if len(m.ID) > 0 {
		c.mu.Lock()
		c.calls[string(m.ID)] = cancel
		c.mu.Unlock()
	}
	work.Go(func() {
		defer func() {
			c.mu.Lock()
			delete(c.calls, string(m.ID))
			c.mu.Unlock()
			cancel()
			<-c.slots
		}()
		if len(m.ID) == 0 {
			c.problems(asking, file)
			return
		}
		result, err := c.ask(asking, m)
		c.reply(m.ID, result, err)
	})
	return nil
}

// of returns the file that a message is about, in wire form.
func (c *sharer) of(m message) (string, error) {
	var p struct {
		Document struct {
			URI string `json:"uri"`
		} `json:"textDocument"`
	}
	if json.Unmarshal(m.Params, &p) != nil || p.Document.URI == "" {
		return "", nil
	}
	place, awake := c.s.cfg.Places.LiveAwake(c.by.WorkspaceID)
	if !awake {
		return "", fault.New(fault.Unavailable, "language_server_not_ready", "The sandbox does not run.")
	}
	return inside(place, guest.EncodePath(protocol.FilePath(p.Document.URI)))
}

// opens notes that a client opened, changed, saved or closed a file, and returns that of which it wants to hear the problems; "" for none.
func (c *sharer) opens(m message) string {
	file, err := c.of(m)
	if err != nil || file == "" || !c.knows(file) {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case m.Method == "textDocument/didClose":
		delete(c.open, file)
	case len(c.open) < clientOpen:
		c.open[file] = true
	}
	if !c.push || !c.open[file] {
		return ""
	}
	return file
}

// knows reports whether a file is of the client's language.
func (c *sharer) knows(file string) bool {
	l, ok := languages.Of(file)
	return ok && l.ID == c.lang.ID
}

// problems sends a client the problems of a file as it is on the disk.
func (c *sharer) problems(ctx context.Context, file string) {
	if file == "" || c.allow(ctx) != nil {
		return
	}
	a, err := c.s.ask(ctx, c.by.TeamID, c.by.WorkspaceID, At{Path: file})
	if err != nil {
		return // its next question says why
	}
	defer a.end()
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	if items, err := a.sv.findings(within, a.t); err == nil {
		c.publish(a.sv, file, items)
	}
}

// ask answers a question of a client.
func (c *sharer) ask(ctx context.Context, m message) (json.RawMessage, error) {
	if err := c.allow(ctx); err != nil {
		return nil, err
	}
	if m.Method != "initialize" && !mayForward(m.Method) {
		return nil, &protocol.ResponseError{Code: -32601, Message: "not supported"}
	}
	file, err := c.of(m)
	if err != nil {
		return nil, err
	}
	var a *asked
	if file != "" {
		if !c.knows(file) {
			return nil, fault.New(fault.Invalid, "language_unknown", "This is the language server for %s, which does not know %s.", c.lang.Title, file)
		}
		if a, err = c.s.ask(ctx, c.by.TeamID, c.by.WorkspaceID, At{Path: file}); err != nil {
			return nil, err
		}
	} else {
		p, err := c.s.admit(ctx, c.by.TeamID, c.by.WorkspaceID)
		if err != nil {
			return nil, err
		}
		sv, err := c.s.server(ctx, p, c.lang)
		if err != nil {
			return nil, err
		}
		a = &asked{sv: sv, end: sv.use()}
	}
	defer a.end()
	if m.Method == "initialize" {
		return a.sv.greeting()
	}
	within, cancel := context.WithTimeout(ctx, askWithin)
	defer cancel()
	var result json.RawMessage
	err = a.sv.conn.Call(within, m.Method, withoutTokens(m.Params), &result)
	return result, err
}

// mayForward reports whether the shared server is asked what a client asks. What opens and changes documents is not forwarded in the form of
// a question either: some servers would take it, and then answer everybody about a text that is not on the disk.
func mayForward(method string) bool {
	return !strings.HasPrefix(method, "textDocument/did") && !strings.HasPrefix(method, "textDocument/will") &&
		slices.ContainsFunc(forwarded, func(begin string) bool { return strings.HasPrefix(method, begin) })
}

// withoutTokens removes the tokens for progress, under which a server would send parts of its answer that no client gets.
func withoutTokens(params json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(params, &all) != nil {
		return params
	}
	delete(all, "partialResultToken")
	delete(all, "workDoneToken")
	out, err := json.Marshal(all)
	if err != nil {
		return params
	}
	return out
}

// greeting is the answer to a client's initialize: the shared server's abilities, without those that are not for clients.
func (sv *server) greeting() (json.RawMessage, error) {
	able := map[string]any{}
	if err := json.Unmarshal(sv.abilities, &able); err != nil {
		return nil, fmt.Errorf("reading the abilities of a language server: %w", err)
	}
	for _, name := range []string{"executeCommandProvider", "diagnosticProvider", "workspace", "notebookDocumentSync"} {
		delete(able, name)
	}
	able["textDocumentSync"] = map[string]any{"openClose": true, "change": 1, "save": true}
	return json.Marshal(map[string]any{"capabilities": able, "serverInfo": map[string]string{"name": "parawork", "version": sv.found.Version}})
}
