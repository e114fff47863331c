package toolcmd_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/toolcmd"
	"github.com/parawork/parawork/internal/lspframe"
)

// A program that uses a language server does not notice that Parawork restarts: what it has open is opened again, and questions without an answer
// are asked again, once.
func TestALanguageClientConnectsAgain(t *testing.T) {
	sock := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", sock)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	in, program := io.Pipe()
	answers, out := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- toolcmd.ServeLanguage(context.Background(), []string{"lsp", "go"}, toolcmd.Config{In: in, Stdout: out, Stderr: io.Discard,
			Env: func(name string) string {
				return map[string]string{guest.EnvTools: sock, guest.EnvHookToken: "token"}[name]
			}})
	}()
	type host struct {
		net.Conn
		in *bufio.Reader
	}
	accept := func() host {
		conn, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		h := host{conn, bufio.NewReader(conn)}
		if hello, _ := h.in.ReadString('\n'); !strings.Contains(hello, `"lsp"`) {
			t.Fatal(hello)
		}
		_, _ = io.WriteString(conn, guest.ToolGreeting)
		if first, _ := h.in.ReadString('\n'); !strings.Contains(first, `"go"`) {
			t.Fatal(first)
		}
		return h
	}
	hears := func(h host, want ...string) {
		t.Helper()
		for _, text := range want {
			if body, err := lspframe.Read(h.in); err != nil || !strings.Contains(string(body), text) {
				t.Fatalf("%s, %v; want %s", body, err, text)
			}
		}
	}
	say := func(w io.Writer, text string) {
		t.Helper()
		if !json.Valid([]byte(text)) {
			t.Fatal(text)
		}
		if _, err := w.Write(lspframe.Encode([]byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	first := accept()
	say(program, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	hears(first, "initialize")
	say(first, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	hears(host{nil, bufio.NewReader(answers)}, `"id":1`)
	say(program, `{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"file:///a.go","languageId":"go","version":7,"text":"long"}}}`)
	say(program, `{"jsonrpc":"2.0","id":"two","method":"textDocument/hover","params":{}}`)
	hears(first, "didOpen", "hover")
	_ = first.Close()
	for range 2 {
		next := accept()
		hears(next, `"text":""`, "hover")
		_ = next.Close()
	}
	last := accept()
	hears(last, "didOpen", "hover")
	say(last, `{"jsonrpc":"2.0","id":"two","result":"found"}`)
	hears(host{nil, bufio.NewReader(answers)}, "found")
	say(program, `{"jsonrpc":"2.0","method":"exit"}`)
	hears(last, "exit")
	select {
	case code := <-done:
		if code != 0 {
			t.Errorf("it exits with %d", code)
		}
	case <-time.After(20 * time.Second):
		t.Error("it does not end")
	}
}
