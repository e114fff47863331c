package protocol_test

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/parawork/parawork/internal/jsonlist"
	"github.com/parawork/parawork/internal/lspframe"
	"github.com/parawork/parawork/tools/lsp/protocol"
)

func TestHoverText(t *testing.T) {
	for raw, want := range map[string]string{
		``: "", `null`: "", `7`: "", `"text"`: "text", `{"kind": "markdown", "value": "v"}`: "v",
		`["a", {"language": "go", "value": "b"}]`: "a\n\n```go\nb\n```", `[["a"]]`: "",
		strings.Repeat("[", 5000) + strings.Repeat("]", 5000): "",
		`["a"` + strings.Repeat(`,"a"`, 100) + `]`:            strings.TrimSuffix(strings.Repeat("a\n\n", 20), "\n\n"),
	} {
		if got := protocol.HoverText(json.RawMessage(raw)); got != want {
			t.Errorf("%.80s: %q", raw, got)
		}
	}
}

// Of a list without end, the beginning is read.
func TestLongAnswers(t *testing.T) {
	raw := json.RawMessage("[{}" + strings.Repeat(",{}", 2*jsonlist.Max) + "]")
	if list, err := protocol.Completions(raw); err != nil || len(list) != jsonlist.Max {
		t.Errorf("%d completions, %v", len(list), err)
	}
	if list, err := protocol.Completions(json.RawMessage(`{"items": ` + string(raw) + `}`)); err != nil || len(list) != jsonlist.Max {
		t.Errorf("%d completions, %v", len(list), err)
	}
	if list, err := protocol.Locations(raw); err != nil || len(list) != jsonlist.Max {
		t.Errorf("%d locations, %v", len(list), err)
	}
	var p protocol.PublishDiagnostics
	if err := json.Unmarshal([]byte(`{"diagnostics": `+string(raw)+`}`), &p); err != nil || len(p.Diagnostics) != jsonlist.Max {
		t.Errorf("%d diagnostics, %v", len(p.Diagnostics), err)
	}
}

// Reading may begin in the middle of a message, also of one that looks like a beginning.
func TestReadingBeginsInTheMiddle(t *testing.T) {
	whole := string(lspframe.Encode([]byte(`{"jsonrpc":"2.0","method":"first","params":"Content-Length: 3\\r\\n\\r\\n{}\\n"}`)))
	next := string(lspframe.Encode([]byte(`{"jsonrpc":"2.0","method":"second"}`))) + string(lspframe.Encode([]byte(`{"jsonrpc":"2.0","method":"third"}`)))
	for from := range len(whole) + 1 {
		conn, heard := protocol.NewConn("x", time.Now), methods{}
		conn.Resume()
		if err := conn.Serve(t.Context(), strings.NewReader(whole[from:]+next), io.Discard, &heard); !errors.Is(err, protocol.ErrClosed) {
			t.Fatalf("from %d: %v", from, err)
		}
		if got := strings.TrimPrefix(heard.all, "first "); got != "second third " {
			t.Errorf("from %d: %q", from, heard.all)
		}
	}
}

type methods struct{ all string }

func (m *methods) Notified(method string, _ json.RawMessage)  { m.all += method + " " }
func (m *methods) Asked(string, json.RawMessage) (any, error) { return nil, nil }
