package toolcmd_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/parawork/parawork/guest"
	"github.com/parawork/parawork/guest/toolcmd"
)

// A hook has the edited file checked, or at the end of a turn what is left, and prints new errors in the agent's form.
func TestEdited(t *testing.T) {
	for name, c := range map[string]struct{ event, argv, answer, want string }{
		"an edit": {`{"hook_event_name":"PostToolUse","tool_name":"Edit","tool_input":{"file_path":"/w/a.go"}}`, "lsp after edit -- /w/a.go", "a.go:1:1: error: wrong\n",
			`{"hookSpecificOutput":{"additionalContext":"The language server found, after your edit:\na.go:1:1: error: wrong","hookEventName":"PostToolUse"}}`},
		"nothing new":  {`{"hook_event_name":"PostToolUse","tool_input":{"file_path":"/w/a.go"}}`, "lsp after edit -- /w/a.go", "\n", ""},
		"a turn's end": {`{"hook_event_name":"Stop"}`, "lsp after edit --turn", "a.go:1:1: error: wrong\n", `{"decision":"block","reason":"The language server found, after your edit:\na.go:1:1: error: wrong"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s, out := newShell(t), make(chan string, 1)
			go func() { out <- s.edited(t, c.event) }()
			conn, asked := s.accept()
			if got := strings.Join(asked.Argv, " "); got != c.argv {
				t.Errorf("asked %q, want %q", got, c.argv)
			}
			if err := json.NewEncoder(conn).Encode(guest.ToolAnswer{Stdout: c.answer}); err != nil {
				t.Fatal(err)
			}
			if got := strings.TrimSpace(<-out); got != c.want {
				t.Errorf("%s\nwant %s", got, c.want)
			}
		})
	}
	s := newShell(t)
	_ = s.l.Close() // nobody must be asked about these
	for _, event := range []string{`{"hook_event_name":"Stop","stop_hook_active":true}`, `{"hook_event_name":"PostToolUse","tool_input":{"command":"ls"}}`, `hello`, `{"hook_event_name":"Stop"}`} {
		if got := s.edited(t, event); got != "" {
			t.Errorf("%s: %s", event, got)
		}
	}
}

func (s *shell) edited(t *testing.T, event string) string {
	var out bytes.Buffer
	toolcmd.Edited(t.Context(), toolcmd.Config{Env: func(name string) string { return s.env[name] }, Dir: "/work/dir", In: strings.NewReader(event), Stdout: &out})
	return out.String()
}
