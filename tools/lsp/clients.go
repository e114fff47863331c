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
	"github.com/parawork/parawork/tools"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// Bounds of a client.
const (
	clientAsks   = 16  // questions at once; others wait
	clientOpen   = 200 // files open; problems of further ones are not sent
	clientQueued = 256 // messages it has not taken; more end it
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

	mu    sync.Mutex
	open  map[string]bool // paths in wire form
	calls map[string]context.CancelFunc
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
		body, err := protocol.ReadMessage(in)
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
	select {
	case c.out <- protocol.Encode(body):
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
			c.document(asking, m)
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

// document notes that a client opened, changed, saved or closed a file, and sends it the problems of the file on the disk.
func (c *sharer) document(ctx context.Context, m message) {
	file, err := c.of(m)
	if err != nil || file == "" {
		return
	}
	c.mu.Lock()
	switch {
	case m.Method == "textDocument/didClose":
		delete(c.open, file)
	case len(c.open) < clientOpen:
		c.open[file] = true
	}
	wants := c.push && c.open[file]
	c.mu.Unlock()
	if !wants || c.allow(ctx) != nil {
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
	if m.Method != "initialize" && !slices.ContainsFunc(forwarded, func(begin string) bool { return strings.HasPrefix(m.Method, begin) }) {
		return nil, &protocol.ResponseError{Code: -32601, Message: "not supported"}
	}
	file, err := c.of(m)
	if err != nil {
		return nil, err
	}
	var a *asked
	if file != "" {
		if a, err = c.s.ask(ctx, c.by.TeamID, c.by.WorkspaceID, At{Path: file}); err != nil {
			return nil, err
		}
		if a.sv.lang.ID != c.lang.ID {
			a.end()
			return nil, fault.New(fault.Invalid, "language_unknown", "This is the language server for %s, which does not know %s.", c.lang.Title, file)
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
	err = a.sv.conn.Call(within, m.Method, m.Params, &result)
	return result, err
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
