package toolcmd

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/lspframe"
)

// Bounds of a program's use of a language server.
const (
	languageOpen  = 200 // documents that are opened again after a cut
	languageWaits = 256 // questions without an answer; more end it
	languageWrite = time.Minute
	languageRetry = 5 * time.Second // at most, between two attempts to connect
)

// ServesLanguage reports whether arguments of `parawork` ask for a language server: `lsp LANGUAGE [--no-diagnostics]`.
func ServesLanguage(args []string) bool {
	return len(args) >= 2 && args[0] == "lsp" && slices.Contains(guest.Languages, args[1])
}

// ServeLanguage joins standard input and output with the shared language server of the workspace, and returns the exit code. When the connection
// is cut, because the server of Parawork restarts, it connects again: it opens the documents again, and repeats the questions that have no
// answer yet, which change nothing.
func ServeLanguage(ctx context.Context, args []string, cfg Config) int {
	c := &language{cfg: cfg, hello: guest.LanguageClient{Language: args[1], Diagnostics: !slices.Contains(args[2:], "--no-diagnostics")}, open: map[string][]byte{}}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	conn, err := c.connect(ctx)
	if err != nil {
		_, _ = io.WriteString(cfg.Stderr, "parawork: "+err.Message+"\n")
		return exitFailed
	}
	go func() { // ends with its reader; the program does in any case
		defer cancel()
		c.read()
	}()
	for wait := languageRetry / 50; ; {
		began := time.Now()
		c.serve(ctx, conn)
		if time.Since(began) > languageRetry {
			wait = languageRetry / 50
		}
		for conn = nil; conn == nil; wait = min(2*wait, languageRetry) {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return 0
			}
			conn, _ = c.connect(ctx)
		}
	}
}

// language is a program that uses a language server.
type language struct {
	cfg   Config
	hello guest.LanguageClient

	sending sync.Mutex // held while conn is written to
	conn    net.Conn   // nil while there is none

	mu    sync.Mutex
	open  map[string][]byte // the message that opens a document, without its text
	waits []question
}

// question is a request that has no answer yet.
type question struct {
	id   string
	body []byte
}

// connect connects with the host.
func (c *language) connect(ctx context.Context) (net.Conn, *problem) {
	sock, token := c.cfg.Env(guest.EnvTools), c.cfg.Env(guest.EnvHookToken)
	if sock == "" || token == "" {
		return nil, &errNoGuest
	}
	hello, err1 := json.Marshal(guest.ToolHello{Token: token, Use: guest.UseLSP})
	first, err2 := json.Marshal(c.hello)
	d := net.Dialer{Timeout: dialIn}
	conn, err := d.DialContext(ctx, "unix", sock)
	if err1 != nil || err2 != nil || err != nil {
		return nil, &errAway
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
	defer stop()
	_ = conn.SetDeadline(time.Now().Add(acceptIn))
	greeting := make([]byte, len(guest.ToolGreeting))
	_, err = conn.Write(append(hello, '\n'))
	if err == nil {
		_, err = io.ReadFull(conn, greeting)
	}
	if err == nil && string(greeting) == guest.ToolGreeting {
		_, err = conn.Write(append(first, '\n'))
	}
	if err != nil || string(greeting) != guest.ToolGreeting {
		_ = conn.Close()
		return nil, &errAway
	}
	_ = conn.SetDeadline(time.Time{})
	return conn, nil
}

// serve passes on what the server says, until the connection ends.
func (c *language) serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	c.sending.Lock()
	c.mu.Lock()
	var again [][]byte
	for _, body := range c.open {
		again = append(again, body)
	}
	for _, q := range c.waits {
		again = append(again, q.body)
	}
	c.mu.Unlock()
	c.conn = conn
	for _, body := range again {
		c.send(body)
	}
	c.sending.Unlock()
	defer func() {
		c.sending.Lock()
		c.conn = nil
		c.sending.Unlock()
	}()
	in := bufio.NewReaderSize(conn, 64<<10)
	for {
		body, err := lspframe.Read(in)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(body, &m) == nil && m.Method == "" {
			c.mu.Lock()
			c.waits = slices.DeleteFunc(c.waits, func(q question) bool { return q.id == string(m.ID) })
			c.mu.Unlock()
		}
		if _, err := c.cfg.Stdout.Write(lspframe.Encode(body)); err != nil {
			return
		}
	}
}

// send sends a message if there is a connection. Called with sending held.
func (c *language) send(body []byte) {
	if c.conn == nil {
		return
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(languageWrite))
	if _, err := c.conn.Write(lspframe.Encode(body)); err != nil {
		_ = c.conn.Close() // wakes who reads it
	}
}

// message is what has to be known of one.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Document struct {
			URI      string `json:"uri"`
			Language string `json:"languageId"`
		} `json:"textDocument"`
	} `json:"params"`
}

// read passes on what the program says, until it ends.
func (c *language) read() {
	in := bufio.NewReaderSize(c.cfg.In, 64<<10)
	for {
		body, err := lspframe.Read(in)
		if err != nil {
			return
		}
		var m message
		_ = json.Unmarshal(body, &m) // the server says what is wrong with it
		c.sending.Lock()             // a connection that begins meanwhile gets each message once
		ok := c.note(m, body)
		if ok {
			c.send(body)
		}
		c.sending.Unlock()
		if !ok || m.Method == "exit" {
			return
		}
	}
}

// note remembers what has to be said again after a cut; false when that is too much.
func (c *language) note(m message, body []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	doc := m.Params.Document
	switch {
	case m.Method == "":
	case len(m.ID) > 0:
		c.waits = append(c.waits, question{string(m.ID), body})
	case m.Method == "textDocument/didOpen" && c.hello.Diagnostics && len(c.open) < languageOpen:
		c.open[doc.URI], _ = json.Marshal(map[string]any{"jsonrpc": "2.0", "method": m.Method,
			"params": map[string]any{"textDocument": map[string]any{"uri": doc.URI, "languageId": doc.Language, "version": 1, "text": ""}}}) // texts always encode
	case m.Method == "textDocument/didClose":
		delete(c.open, doc.URI)
	}
	return len(c.waits) <= languageWaits
}
