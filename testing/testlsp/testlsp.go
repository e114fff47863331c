// Package testlsp runs a language server with nothing between, for comparison.
package testlsp

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/parawork/parawork/tools/lsp/protocol"
)

// projectFiles is how many files of 40 functions a Project has.
const projectFiles = 60

// Project writes a Go project in which the file of Edit can be edited.
func Project(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	edited, _ := Edit(0)
	files := map[string]string{"go.mod": "module example.com/edited\n\ngo 1.21\n", "edited.go": edited}
	for i := range projectFiles {
		var text strings.Builder
		text.WriteString("package edited\n")
		for f := range 40 {
			fmt.Fprintf(&text, "\n// F%d_%d adds.\nfunc F%d_%d(a, b int) (sum int) {\n\tfor range a {\n\t\tsum += b\n\t}\n\treturn sum\n}\n", i, f, i, f)
		}
		files[fmt.Sprintf("f%d.go", i)] = text.String()
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Edit returns the text of the edited file at a step, and whether it has a mistake.
func Edit(i int) (text string, wrong bool) {
	arg := fmt.Sprint(i)
	if wrong = i%2 == 1; wrong {
		arg = fmt.Sprintf("%q", arg)
	}
	return "package edited\n\nvar Sum = F0_0(1, " + arg + ")\n", wrong
}

// Server is gopls on a pipe, with one file open.
type Server struct {
	conn    *protocol.Conn
	cmd     *exec.Cmd
	end     context.CancelFunc
	served  chan struct{}
	uri     string
	version int
}

// Start starts gopls in a folder. file is the one that is edited.
func Start(program, dir, file string) (*Server, error) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "serve")
	cmd.Dir = dir
	in, err := cmd.StdinPipe()
	if err != nil {
		cancel()
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	s := &Server{conn: protocol.NewConn("bench", time.Now), cmd: cmd, end: cancel, served: make(chan struct{}), uri: protocol.FileURI(filepath.Join(dir, file))}
	go func() { // ends with the server
		defer close(s.served)
		_ = s.conn.Serve(ctx, out, in, handler{})
		_, _ = io.Copy(io.Discard, out)
	}()
	root := protocol.FileURI(dir)
	options := map[string]any{"pullDiagnostics": true, "semanticTokens": false}
	err = s.conn.Call(ctx, "initialize", map[string]any{"rootUri": root, "workspaceFolders": []any{map[string]string{"uri": root, "name": "bench"}}, "initializationOptions": options,
		"capabilities": map[string]any{"textDocument": map[string]any{"diagnostic": map[string]any{}}, "workspace": map[string]any{"workspaceFolders": true}}}, nil)
	if err == nil {
		err = s.conn.Notify("initialized", struct{}{})
	}
	if err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

// Problems gives the server the file's new text, and returns how many problems it finds in it.
func (s *Server) Problems(text string) (int, error) {
	s.version++
	doc := map[string]any{"uri": s.uri, "languageId": "go", "version": s.version, "text": text}
	method, params := "textDocument/didOpen", map[string]any{"textDocument": doc}
	if s.version > 1 {
		method, params = "textDocument/didChange", map[string]any{"textDocument": map[string]any{"uri": s.uri, "version": s.version}, "contentChanges": []any{map[string]string{"text": text}}}
	}
	if err := s.conn.Notify(method, params); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var r protocol.DocumentReport
	err := s.conn.Call(ctx, "textDocument/diagnostic", map[string]any{"textDocument": map[string]string{"uri": s.uri}}, &r)
	return len(r.Items), err
}

// Stop ends the server.
func (s *Server) Stop() {
	s.end()
	<-s.served
	_ = s.cmd.Wait()
}

// handler answers a server nothing but that all is well.
type handler struct{}

// Notified implements protocol.Handler.
func (handler) Notified(string, json.RawMessage) {}

// Asked implements protocol.Handler.
func (handler) Asked(string, json.RawMessage) (any, error) { return nil, nil }
