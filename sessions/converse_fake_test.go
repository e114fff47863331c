package sessions_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
)

// scribe is an agent that writes into its record whatever line is typed. "leave WORDS" is written once the server has gone,
// which the file "gone" in the worktree tells; then it ends.
const scribe = `#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && id=$2; shift; done
[ -n "$id" ] || exit 0
d=$CLAUDE_CONFIG_DIR/projects/p; mkdir -p "$d"
stty -echo 2>/dev/null
echo ready
while read -r line; do
	case $line in
	"leave "*) while [ ! -e gone ]; do sleep 0.02; done; printf '%s\n' "${line#leave }" >> "$d/$id.jsonl"; : > left; exit 0 ;;
	*) printf '%s\n' "$line" >> "$d/$id.jsonl"; echo took ;;
	esac
done
`

func (s *server) typesLine(t *testing.T, h *harness, id, line string) {
	t.Helper()
	if err := s.Input(t.Context(), h.actor, id, line+"\r"); err != nil {
		t.Fatal(err)
	}
}

// A record is followed while it grows; what was written while no server ran is read when the next one starts, also when the
// agent has ended meanwhile; a tool nobody heard the end of has stopped then.
func TestRecordAcrossServers(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	path := filepath.Join(h.dir, "scribe")
	if err := os.WriteFile(path, []byte(scribe), 0o700); err != nil {
		t.Fatal(err)
	}
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode})
	eventually(t, "it is ready", func() bool { return strings.Contains(s.output(t, row.ID), "ready") })
	line := func(uuid, kind, message string) string {
		return fmt.Sprintf(`{"type":"%s","uuid":"%s","timestamp":"2099-01-02T03:04:05Z","message":%s}`, kind, uuid, message)
	}
	s.typesLine(t, h, row.ID, line("a", "user", `{"role":"user","content":"Hello."}`))
	s.converses(t, row.ID, "prompt Hello.")
	s.typesLine(t, h, row.ID, line("b", "assistant", `{"id":"m","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{"command":"make"}}]}`))
	s.converses(t, row.ID, "prompt Hello.", "tool Bash running")
	s.bus.mu.Lock()
	var versions []int64
	for _, e := range s.bus.all {
		if e.Type == "session.conversation" && e.ID == row.ID && e.WorkspaceID == h.ws.ID {
			versions = append(versions, e.Version)
		}
	}
	s.bus.mu.Unlock()
	if len(versions) != 2 || versions[0] != 1 || versions[1] != 2 {
		t.Errorf("events with versions %v", versions)
	}

	s.typesLine(t, h, row.ID, "leave "+line("c", "assistant", `{"id":"n","content":[{"type":"text","text":"Bye."}]}`))
	s.end()
	if err := os.WriteFile(filepath.Join(h.ws.Path, "gone"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has left", func() bool { _, err := os.Stat(filepath.Join(h.ws.Path, "left")); return err == nil })
	s = h.start()
	s.ended(t, row.ID)
	s.converses(t, row.ID, "prompt Hello.", "tool Bash stopped", "text Bye.")
}

// A record that is no plain file, or that is replaced again and again, holds nothing up and is kept once.
func TestHostileRecord(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	path := filepath.Join(h.dir, "hostile")
	secret := filepath.Join(h.dir, "secret.jsonl")
	const said = `{"type":"user","uuid":"%s","timestamp":"2099-01-02T03:04:05Z","message":{"role":"user","content":"%s"}}`
	if err := os.WriteFile(secret, []byte(fmt.Sprintf(said, "s", "secret")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" = --session-id ] && id=$2; shift; done
[ -n "$id" ] || exit 0
d=$CLAUDE_CONFIG_DIR/projects/p; mkdir -p "$d"
ln -s `+secret+` "$d/$id.jsonl"; echo linked; read -r line
rm "$d/$id.jsonl"; mkfifo "$d/$id.jsonl"; echo piped; read -r line
rm "$d/$id.jsonl"
i=0; while [ $i -lt 20 ]; do
	printf '%s\n' '`+fmt.Sprintf(said, "a", "Again.")+`' > "$d/new"; mv "$d/new" "$d/$id.jsonl"; echo replaced; sleep 0.1; i=$((i+1))
done
printf '%s\n' '`+fmt.Sprintf(said, "b", "Last.")+`' >> "$d/$id.jsonl"
`), 0o700); err != nil {
		t.Fatal(err)
	}
	h.settings[agents.ClaudeCode] = agents.Settings{Enabled: true, Command: path}
	s := h.start()
	row := s.begin(t, sessions.StartRequest{Agent: agents.ClaudeCode})
	for _, word := range []string{"linked", "piped"} {
		eventually(t, word, func() bool { return strings.Contains(s.output(t, row.ID), word) })
		s.typesLine(t, h, row.ID, "on")
	}
	s.ended(t, row.ID)
	s.converses(t, row.ID, "prompt Again.", "prompt Last.")
	kept, err := os.ReadFile(filepath.Join(h.dir, "sessions", row.ID, "conversation.jsonl"))
	if err != nil || strings.Count(string(kept), "Again.") != 1 || strings.Contains(string(kept), "secret") {
		t.Errorf("kept %q, %v", kept, err)
	}
}
