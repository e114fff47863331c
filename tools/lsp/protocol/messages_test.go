package protocol_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/internal/jsonlist"
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
