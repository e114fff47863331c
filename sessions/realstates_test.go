package sessions_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/parawork/parawork/sessions"
	"github.com/parawork/parawork/sessions/agents"
	"github.com/parawork/parawork/sessions/state"
)

// The state of real agents is right within five seconds, and still so after the server was restarted.
func TestRealStates(t *testing.T) {
	t.Parallel()
	realAgent(t, "claude")
	realAgent(t, "codex")
	address := model(t)
	for _, agent := range []string{agents.ClaudeCode, agents.Codex} {
		all := claudeConditions
		if agent == agents.Codex {
			all = codexConditions
		}
		for _, c := range all {
			switch c.name {
			case "works", "permission-yes", "permission-escape", "question", "interrupt", "error-400", "error-401", "no-login":
				t.Run(agent+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					perform(t, address, agent, c, true)
				})
			}
		}
	}
}

// An agent that is killed has failed, and says by what.
func TestRealAgentKilled(t *testing.T) {
	t.Parallel()
	realAgent(t, "claude")
	perform(t, model(t), agents.ClaudeCode, condition{prompt: script(`[{"delay_ms":600000,"text":"Never."}]`), play: func(r *recorder) {
		r.wait(`esc to interrupt`, 30*time.Second)
		r.is("working", "")
		row := r.s.get(t, r.id)
		killed := false
		for _, file := range must(filepath.Glob("/proc/[0-9]*/cmdline")) {
			raw, err := os.ReadFile(file)
			if err != nil || !bytes.Contains(raw, []byte("--session-id\x00"+row.Conversation+"\x00")) {
				continue
			}
			pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			if err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed = true
			}
		}
		if !killed {
			t.Fatal("its process was not found")
		}
		got := r.s.ended(t, r.id)
		if why, _, _ := sessions.Attention(got); got.State != state.Exited || got.StateReason != "killed by SIGKILL" || why != "failed" {
			t.Errorf("%s (%s), asks for a look as %q", got.State, got.StateReason, why)
		}
	}}, true)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
