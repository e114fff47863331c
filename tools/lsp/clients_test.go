package lsp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/internal/lspframe"
	"github.com/parawork/parawork/tools/lsp/languages"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

// editor is a program in the sandbox that shares a language server.
type editor struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	end  chan error
}

func (b *bench) editor(allow func(context.Context) error) *editor {
	near, far := net.Pipe()
	e := &editor{b.t, near, bufio.NewReader(near), make(chan error, 1)}
	go func() { e.end <- b.s.ServeClient(b.t.Context(), b.caller, allow, far) }()
	_ = near.SetDeadline(time.Now().Add(15 * time.Second))
	b.t.Cleanup(func() { _ = near.Close() })
	fmt.Fprintln(near, `{"language":"go","diagnostics":true}`)
	return e
}

func (e *editor) say(text string) {
	e.t.Helper()
	_, err := e.conn.Write(lspframe.Encode([]byte(text)))
	must(e.t, err)
}

// hears returns the next message with a text in it.
func (e *editor) hears(text string) string {
	e.t.Helper()
	for {
		body, err := lspframe.Read(e.in)
		must(e.t, err)
		if strings.Contains(string(body), text) {
			return string(body)
		}
	}
}

// Programs in the sandbox share one server: each has its own ids, hears of problems in the files it opened, and ends alone.
func TestClientsShareAServer(t *testing.T) {
	b := withScript(t, "good")
	yes := func(context.Context) error { return nil }
	one, two := b.editor(yes), b.editor(yes)
	for _, e := range []*editor{one, two} {
		e.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
		var answer struct {
			ID     int `json:"id"`
			Result struct {
				Capabilities map[string]json.RawMessage `json:"capabilities"`
			} `json:"result"`
		}
		must(t, json.Unmarshal([]byte(e.hears(`"id":1`)), &answer))
		if string(answer.Result.Capabilities["textDocumentSync"]) == "" || answer.Result.Capabilities["executeCommandProvider"] != nil {
			t.Errorf("%+v", answer)
		}
		e.say(`{"jsonrpc":"2.0","method":"initialized","params":{}}`)
	}
	uri := protocol.FileURI(b.root + "/a.go")
	one.say(`{"jsonrpc":"2.0","method":"textDocument/didOpen","params":{"textDocument":{"uri":"` + uri + `","languageId":"go","version":1,"text":"not what is on the disk"}}}`)
	if got := one.hears("publishDiagnostics"); !strings.Contains(got, "wröng") || !strings.Contains(got, uri) {
		t.Error(got)
	}
	two.say(`{"jsonrpc":"2.0","id":"x","method":"textDocument/completion","params":{"textDocument":{"uri":"` + uri + `"},"position":{"line":0,"character":0}}}`)
	if got := two.hears(`"id":"x"`); !strings.Contains(got, "first()") {
		t.Error(got)
	}
	for method, want := range map[string]string{"workspace/executeCommand": "not supported", "textDocument/hover": "error", "textDocument/didOpen": "not supported"} {
		two.say(`{"jsonrpc":"2.0","id":7,"method":"` + method + `","params":{"textDocument":{"uri":"file:///etc/passwd"}}}`)
		if got := two.hears(`"id":7`); !strings.Contains(got, want) {
			t.Errorf("%s: %s", method, got)
		}
	}
	if now := b.processes(); len(now) != 1 {
		t.Errorf("%d servers: %v", len(now), now)
	}
	one.say(`{"jsonrpc":"2.0","id":2,"method":"shutdown"}`)
	one.hears(`"id":2`)
	one.say(`{"jsonrpc":"2.0","method":"exit"}`)
	if err := <-one.end; err != nil {
		t.Error(err)
	}
	two.say(`{"jsonrpc":"2.0","id":3,"method":"textDocument/completion","params":{"textDocument":{"uri":"` + uri + `"},"position":{"line":0,"character":0}}}`)
	if got := two.hears(`"id":3`); !strings.Contains(got, "first()") {
		t.Errorf("after the other has ended: %s", got)
	}
}

// A client gets no answer any more when its person may not work there any more.
func TestClientsAreAskedForPermissionEachTime(t *testing.T) {
	b := withScript(t, "good")
	var gone atomic.Bool
	e := b.editor(func(context.Context) error {
		if gone.Load() {
			return errors.New("no longer a member")
		}
		return nil
	})
	e.say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`)
	e.hears(`"result"`)
	gone.Store(true)
	e.say(`{"jsonrpc":"2.0","id":2,"method":"workspace/symbol","params":{"query":"a"}}`)
	e.hears(`"error"`)
}

// The guest knows the same languages.
func TestTheGuestKnowsTheLanguages(t *testing.T) {
	var ids []string
	for _, l := range languages.All() {
		ids = append(ids, l.ID)
	}
	if !slices.Equal(ids, guest.Languages) {
		t.Errorf("%v, and in the guest %v", ids, guest.Languages)
	}
}
